#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "format/inside/inside_priv.h"
#include "store/source_slice.h"

/* A store of few things that are known: files of another store, or parts of those. */
struct inside_store {
	struct sf_store s;
	struct inside_build b; /* entries in order of their names */
};

void inside_build_release(struct inside_build *b)
{
	for (size_t i = 0; i < b->from.n; i++)
		sf_source_unref(b->from.at[i].held);
	inside_froms_release(&b->from);
	inside_entries_release(&b->entry);
	sf_map_release(&b->by_name);
	sf_arena_release(&b->arena);
	sf_store_free(b->inner);
	b->inner = NULL;
}

int inside_no_memory(const struct inside_build *b)
{
	return sf_fail(b->err, -ENOMEM, "'%s': no memory for %zu names", b->inner->source,
	               b->entry.n);
}

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct inside_build *b = arg;
	const char *name = b->entry.at[value].info.name;

	return strlen(name) == len && memcmp(name, key, len) == 0;
}

int inside_add(struct inside_build *b, const char *name, uint32_t from, uint64_t off, uint64_t size)
{
	struct inside_entry e = { .from = from, .off = off };
	int failed = 0;

	if (sf_map_get(&b->by_name, name, strlen(name), same_name, b) != SF_MAP_NONE)
		return 0;
	e.info = b->from.at[from].info;
	e.info.name = sf_arena_strdup(&b->arena, name, strlen(name));
	e.info.size = size;
	if (!e.info.name || inside_entries_push(&b->entry, e) < 0)
		return inside_no_memory(b);
	sf_map_add(&b->by_name, e.info.name, strlen(e.info.name), (uint32_t)b->entry.n - 1,
	           same_name, b, &failed);
	return failed ? inside_no_memory(b) : 0;
}

/* ---- the store ---- */

static int by_name(const void *a, const void *b)
{
	return strcmp(((const struct inside_entry *)a)->info.name,
	              ((const struct inside_entry *)b)->info.name);
}

static const struct inside_entry *find(const struct inside_store *s, const char *name)
{
	const struct inside_entry key = { .info.name = name };

	return bsearch(&key, s->b.entry.at, s->b.entry.n, sizeof(key), by_name);
}

/* All of a file, under its own name? */
static bool is_file(const struct inside_entry *e, const struct inside_from *f)
{
	return !f->held && !e->off && e->info.size == f->info.size &&
	       strcmp(e->info.name, f->info.name) == 0;
}

static int inside_open(struct sf_store *store, const char *name, const struct sf_objinfo *want,
                       struct sf_source **ret, struct sf_error *err)
{
	struct inside_store *s = (struct inside_store *)store;
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	const struct inside_entry *e = find(s, name);
	const struct inside_from *f;
	int r = 0;

	if (!e)
		return sf_fail(err, -ENOENT, "'%s': no such file", name);
	f = &s->b.from.at[e->from];
	if (want)
		r = sf_version_check(name, want->size, &want->version, e->info.size,
		                     &e->info.version, err);
	if (r >= 0 && f->held)
		src = sf_source_ref(f->held);
	else if (r >= 0)
		r = s->b.inner->ops->open(s->b.inner, f->info.name, &f->info, &src, err);
	if (r < 0)
		return r;
	if (is_file(e, f)) {
		*ret = SF_STEAL(src);
		return 0;
	}
	return sf_source_slice(src, e->off, &e->info, ret, err);
}

/* The first entry behind all that begin with @dir and "/", or at it. */
static size_t first_in(const struct inside_store *s, const char *dir, size_t len)
{
	size_t lo = 0, end = s->b.entry.n;

	while (lo < end) {
		const size_t mid = lo + (end - lo) / 2;
		const char *name = s->b.entry.at[mid].info.name;
		const int c = strncmp(name, dir, len);
		if (c < 0 || (c == 0 && (unsigned char)name[len] < '/'))
			lo = mid + 1;
		else
			end = mid;
	}
	return lo;
}

/* Entries are in order of their names, so what a directory holds stands together. */
static int inside_list(struct sf_store *store, const char *dir, unsigned depth,
                       int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                       struct sf_error *err)
{
	struct inside_store *s = (struct inside_store *)store;
	const size_t len = strlen(dir), skip = len ? len + 1 : 0;
	size_t i = len ? first_in(s, dir, len) : 0, seen = 0;
	const char *below = NULL; /* the directory that entries are in, @below_len bytes of it */
	size_t below_len = 0;
	bool skipped = false;
	int r = 0;

	for (; i < s->b.entry.n && r >= 0; i++) {
		const struct inside_entry *e = &s->b.entry.at[i];
		const char *name = e->info.name, *slash, *p;
		unsigned levels = 0;
		if (len && (strncmp(name, dir, len) != 0 || name[len] != '/'))
			break;
		seen++;
		slash = strchr(name + skip, '/');
		if (slash && (!below || below_len != (size_t)(slash - name) ||
		              memcmp(below, name, below_len) != 0)) {
			SF_FREE char *sub = strndup(name, (size_t)(slash - name));
			if (!sub)
				return sf_fail(err, -ENOMEM, "listing: no memory");
			below = name;
			below_len = (size_t)(slash - name);
			r = each(arg, &(struct sf_objinfo){ .name = sub, .size = UINT64_MAX });
			skipped = r == SF_LIST_SKIP;
		}
		for (p = slash; p; p = strchr(p + 1, '/'))
			levels++;
		if (r >= 0 && levels <= depth && !(slash && skipped))
			r = each(arg, &e->info);
	}
	if (r >= 0 && len && !seen)
		return sf_fail(err, -ENOENT, "listing '%s': no such directory", dir);
	return SF_MIN(r, 0);
}

static int inside_fd(struct sf_store *store, const char *name, const struct sf_objinfo *want,
                     struct sf_error *err)
{
	struct inside_store *s = (struct inside_store *)store;
	struct sf_store *inner = s->b.inner;
	const struct inside_entry *e = find(s, name);

	(void)want; /* the version is that which was listed */
	if (!e || !inner->ops->fd || !is_file(e, &s->b.from.at[e->from]))
		return sf_fail(err, -ENOTSUP, "'%s' is no whole file", name);
	return inner->ops->fd(inner, name, &e->info, err);
}

static int inside_below(struct sf_store *store, const char *dir, struct sf_store **ret,
                        struct sf_error *err)
{
	(void)ret;
	return sf_fail(err, -ENOTSUP,
	               "'%s': '%s' is a directory inside a file: not opened by itself",
	               store->source, dir);
}

static void inside_free(struct sf_store *store)
{
	struct inside_store *s = (struct inside_store *)store;

	inside_build_release(&s->b);
	free(store->source);
	free(store->at);
	free(s);
}

static const struct sf_store_ops ops = { .open = inside_open,
	                                 .list = inside_list,
	                                 .fd = inside_fd,
	                                 .below = inside_below,
	                                 .free = inside_free };

int inside_store_new(struct inside_build *b, const char *shown, struct sf_store **ret)
{
	struct inside_store *s = calloc(1, sizeof(*s));
	char *source = strdup(shown), *at = b->inner->at ? strdup(b->inner->at) : NULL;
	bool far = false;

	if (!s || !source || (b->inner->at && !at)) {
		free(s);
		free(source);
		free(at);
		return inside_no_memory(b);
	}
	if (b->entry.n)
		qsort(b->entry.at, b->entry.n, sizeof(*b->entry.at), by_name);
	sf_map_release(&b->by_name);
	for (size_t i = 0; i < b->from.n; i++)
		far = far || (!b->from.at[i].held && b->inner->far);
	s->s = (struct sf_store){ .ops = &ops,
		                  .io = b->inner->io,
		                  .far = far,
		                  .source = source,
		                  .at = at,
		                  .opt = b->inner->opt };
	s->b = *b;
	s->b.err = NULL;
	*b = (struct inside_build){ .err = b->err };
	*ret = &s->s;
	return 0;
}
