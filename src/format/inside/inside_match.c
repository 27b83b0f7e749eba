#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/inside/inside_priv.h"

/* Names with numbers in them: ep0-ba2-rank{rank}.tar. Source: mosaicml/composer utils/file_helpers.py
 * (what a load fills in; all other placeholders are filled in when it is saved). */
enum { RANK, NODE, LOCAL, NPLACES };
static const char *const places[NPLACES] = { "{rank}", "{node_rank}", "{local_rank}" };

#define RANKS_MAX 1000000  /* a number in a name that is no rank */
#define LOOKED_AT_ONCE 16u /* names, in a store that cannot list; then twice as many */
#define LOOKED_MAX 65536u
#define SHOWN 4

struct found {
	struct sf_objinfo info;
	uint32_t n[NPLACES];
};
SF_VEC(founds, struct found);

struct matching {
	struct sf_store *store;
	const char *pattern;
	struct sf_arena *arena;
	struct founds found;
	bool has[NPLACES];
	unsigned levels; /* directories in it */
	uint64_t listed; /* files that are something else */
	char other[128]; /* one of them */
};

static size_t place_at(const char *s, int *ret)
{
	for (int i = 0; i < NPLACES; i++)
		if (strncmp(s, places[i], strlen(places[i])) == 0) {
			*ret = i;
			return strlen(places[i]);
		}
	return 0;
}

bool inside_is_template(const char *source, size_t *ret_dir)
{
	size_t dir = 0, i = 0;
	int place;

	for (; source[i] && !place_at(source + i, &place); i++)
		if (source[i] == '/')
			dir = i;
	*ret_dir = dir;
	return source[i] != '\0';
}

static bool matches(const char *pattern, const char *name, uint32_t n[NPLACES])
{
	bool known[NPLACES] = { false };

	while (*pattern) {
		int place;
		const size_t len = place_at(pattern, &place);
		if (!len) {
			if (*pattern++ != *name++)
				return false;
			continue;
		}
		uint32_t v = 0;
		if (*name < '0' || *name > '9')
			return false;
		for (; *name >= '0' && *name <= '9'; name++) {
			v = v * 10 + (uint32_t)(*name - '0');
			if (v >= RANKS_MAX)
				return false;
		}
		if (known[place] && n[place] != v)
			return false;
		known[place] = true;
		n[place] = v;
		pattern += len;
	}
	return !*name;
}

static int add(void *arg, const struct sf_objinfo *info)
{
	struct matching *m = arg;
	struct found f = { .info = *info };

	if (info->size == UINT64_MAX)
		return m->levels ? 0 : SF_LIST_SKIP;
	if (!matches(m->pattern, info->name, f.n)) {
		if (!m->listed++)
			snprintf(m->other, sizeof(m->other), "%.100s", info->name);
		return 0;
	}
	f.info.name = sf_arena_strdup(m->arena, info->name, strlen(info->name));
	if (info->version.etag)
		f.info.version.etag =
			sf_arena_strdup(m->arena, info->version.etag, strlen(info->version.etag));
	if (!f.info.name || (info->version.etag && !f.info.version.etag) ||
	    founds_push(&m->found, f) < 0)
		return -ENOMEM;
	return 0;
}

/* The name that rank @n has. */
static char *name_of(const struct matching *m, const uint32_t n[NPLACES])
{
	struct sf_buf out = { .limit = 8192 };

	for (const char *p = m->pattern; *p;) {
		int place;
		const size_t len = place_at(p, &place);
		if (len)
			sf_buf_printf(&out, "%u", n[place]);
		else
			sf_buf_byte(&out, (uint8_t)*p);
		p += len ? len : 1;
	}
	(void)sf_buf_cstr(&out);
	if (sf_buf_check(&out) < 0) {
		sf_buf_release(&out);
		return NULL;
	}
	return (char *)out.at;
}

/* A web server does not list: ranks are looked for, until some are not there. */
static int look(struct matching *m, struct sf_error *err)
{
	uint32_t from = 0, count = LOOKED_AT_ONCE;
	int r = 0;

	if (m->has[NODE] || m->has[LOCAL])
		return sf_fail(err, -ENOTSUP,
		               "'%s': a web server does not list: only names with {rank} alone can "
		               "be looked for",
		               m->pattern);
	for (; r >= 0 && from < LOOKED_MAX && m->found.n == from; from += count, count *= 2) {
		SF_FREE char **name = calloc(count, sizeof(*name));
		for (uint32_t i = 0; name && i < count && r >= 0; i++) {
			name[i] = name_of(m, (const uint32_t[NPLACES]){ [RANK] = from + i });
			r = name[i] ? 0 : -ENOMEM;
		}
		if (!name || r < 0)
			r = sf_fail(err, -ENOMEM, "'%s': no memory", m->pattern);
		else
			r = m->store->ops->look(m->store, (const char *const *)name, count, add, m,
			                        err);
		for (uint32_t i = 0; name && i < count; i++)
			free(name[i]);
		if (m->found.n < from + count)
			break;
	}
	return r;
}

static int by_rank(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	for (int i = 0; i < NPLACES; i++)
		if (x->n[i] != y->n[i])
			return x->n[i] < y->n[i] ? -1 : 1;
	return strcmp(x->info.name, y->info.name);
}

static int none(const struct matching *m, struct sf_error *err)
{
	SF_FREE char *zero = name_of(m, (const uint32_t[NPLACES]){ 0 }),
		     *one = name_of(m, (const uint32_t[NPLACES]){ 1, 1, 1 });
	SF_CLEANUP(sf_buf_release) struct sf_buf other = { .limit = 512 };

	if (m->listed) {
		sf_buf_printf(&other, ": there are %" PRIu64 " other files (", m->listed);
		sf_escape_text(&other, m->other, strlen(m->other));
		sf_buf_str(&other, " …)");
	}
	return sf_fail(err, -ENOENT,
	               "'%.300s/%.200s' matches nothing: no '%.100s', no '%.100s' …%s",
	               m->store->source, m->pattern, zero ? zero : "", one ? one : "",
	               sf_buf_cstr(&other));
}

/* One of @want is not there, but one behind it is. */
static int missing(const struct matching *m, const uint32_t want[NPLACES], const struct found *next,
                   struct sf_error *err)
{
	SF_FREE char *name = name_of(m, want);

	return sf_fail(err, -ENOENT, "'%.300s/%.200s': '%.200s' is missing, '%.200s' is there",
	               m->store->source, m->pattern, name ? name : "", next->info.name);
}

/* Numbers begin with 0 and go on without a gap: ranks, nodes, ranks of each node. */
static int check_all(const struct matching *m, struct sf_error *err)
{
	uint32_t next[NPLACES] = { 0 };

	for (size_t i = 0; i < m->found.n; i++) {
		const struct found *f = &m->found.at[i];
		if (m->has[RANK]) { /* it says it all */
			memcpy(next, f->n, sizeof(next));
			next[RANK] = (uint32_t)i;
			if (i && f->n[RANK] == f[-1].n[RANK])
				return sf_fail(err, -EBADMSG, "'%s': '%s' and '%s' are of one rank",
				               m->pattern, f[-1].info.name, f->info.name);
			if (f->n[RANK] != (uint32_t)i)
				return missing(m, next, f, err);
			continue;
		}
		if (i && f->n[NODE] != f[-1].n[NODE]) {
			next[NODE]++;
			next[LOCAL] = 0;
		}
		if (f->n[NODE] != next[NODE] || (m->has[LOCAL] && f->n[LOCAL] != next[LOCAL]))
			return missing(m, next, f, err);
		next[LOCAL]++;
	}
	return 0;
}

int inside_match(struct sf_store *store, const char *pattern, struct sf_arena *arena,
                 struct sf_objinfos *ret, struct sf_error *err)
{
	struct matching m = { .store = store, .pattern = pattern, .arena = arena };
	int r, place;

	for (const char *p = pattern; *p; p++) {
		if (place_at(p, &place))
			m.has[place] = true;
		m.levels += *p == '/';
	}
	r = store->ops->look ? look(&m, err) : store->ops->list(store, "", m.levels, add, &m, err);
	if (r == -ENOMEM && err && !err->msg[0])
		sf_fail(err, r, "'%s': no memory", pattern);
	if (r >= 0 && m.found.n)
		qsort(m.found.at, m.found.n, sizeof(*m.found.at), by_rank);
	if (r >= 0)
		r = m.found.n ? check_all(&m, err) : none(&m, err);
	for (size_t i = 0; i < m.found.n && r >= 0; i++)
		if (sf_objinfos_push(ret, m.found.at[i].info) < 0)
			r = sf_fail(err, -ENOMEM, "'%s': no memory", pattern);
	founds_release(&m.found);
	return r;
}
