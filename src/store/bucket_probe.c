#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/near.h"
#include "base/path.h"
#include "store/bucket_probe.h"
#include "store/source.h"

#define NEAR_MOST 5 /* names that are shown of those near */

bool sf_probe_word(const struct sf_probe *to, const struct sf_probe_word *words, const char *code,
                   const struct sf_error *err)
{
	for (; words->code; words++)
		if (strcmp(words->code, code) == 0) {
			sf_probe_say(to, SF_PROBE_BAD, words->what, words->remedy, "%s", err->msg);
			return true;
		}
	return false;
}

static void say_refused(const struct sf_bucket_probe *p, const char *doing, const char *permission,
                        int r, const struct sf_error *err)
{
	SF_FREE char *remedy = NULL;

	if (sf_probe_transport(p->to, p->url, r, err) || p->refused(p, doing, err))
		return;
	if (r == -ESTALE) {
		sf_probe_say(p->to, SF_PROBE_BAD, doing,
		             "somebody writes or deletes there just now: run it again", "%s",
		             err->msg);
		return;
	}
	if (r != -EACCES) {
		sf_probe_say(p->to, SF_PROBE_BAD, "server", p->server, "%s", err->msg);
		return;
	}
	if (asprintf(&remedy, "whom the request is made as needs %s there (%s", permission,
	             p->denied) < 0)
		remedy = NULL;
	sf_probe_say(p->to, SF_PROBE_BAD, doing, remedy, "%s", err->msg);
}

/* ---- the first that is there ---- */

struct first {
	size_t base_len;
	char key[SF_BUCKET_KEY_MAX + 1]; /* an object with bytes below the prefix */
	char etag[256];
	uint64_t size;
	bool any; /* object or directory below it */
};

static int see_first(void *arg, const struct sf_bucket_entry *e)
{
	struct first *f = arg;

	f->any = true;
	if (!e->is_prefix && e->size && !*f->key &&
	    sf_path_check(e->key + f->base_len, e->key_len - f->base_len, NULL) == 0) {
		snprintf(f->key, sizeof(f->key), "%s", e->key);
		snprintf(f->etag, sizeof(f->etag), "%s", e->etag ? e->etag : "");
		f->size = e->size;
	}
	return 0;
}

/* ---- names near one that is not there ---- */

struct near {
	const char *name; /* the part of the prefix that is not there */
	size_t len, base_len;
	struct sf_buf found;
	unsigned n, all;
};

static int see_near(void *arg, const struct sf_bucket_entry *e)
{
	struct near *near = arg;
	const char *name = e->key + near->base_len;
	size_t len = e->key_len - near->base_len - (e->is_prefix ? 1 : 0);

	near->all++;
	/* step900 for step9000, and what was misspelt */
	if (near->n < NEAR_MOST && sf_is_near(near->name, near->len, name, len)) {
		sf_buf_printf(&near->found, "%s%.*s%s", near->n++ ? ", " : "",
		              (int)SF_MIN(len, (size_t)200), name, e->is_prefix ? "/" : "");
	}
	return 0;
}

/* Is the prefix, without its '/', an object's name? Then that is told. */
static bool say_object(const struct sf_bucket_probe *p)
{
	size_t len = strlen(p->prefix), dir = len ? len - 1 : 0;
	SF_FREE char *key = strndup(p->prefix, dir), *remedy = NULL;

	if (!key || !*key || !p->ops->has(p->s, key))
		return false;
	while (dir && key[dir - 1] != '/')
		dir--;
	while (dir && key[dir - 1] == '/')
		dir--;
	/* @source ends in that name, as it was given */
	size_t given = strlen(p->s->source);
	while (given && p->s->source[given - 1] == '/')
		given--;
	if (asprintf(&remedy, "SOURCE is the directory that it lies in: %.*s",
	             (int)(given - (len - 1) + dir), p->s->source) < 0)
		remedy = NULL;
	sf_probe_say(p->to, SF_PROBE_BAD, "prefix", remedy,
	             "'%.300s' is an object of the bucket, not a directory", key);
	return true;
}

/* The longest beginning of the prefix that has something below it, and what is there. */
static void say_missing(const struct sf_bucket_probe *p)
{
	SF_FREE char *at = strdup(p->prefix), *look = NULL;
	size_t len = at ? strlen(at) : 0;

	if (asprintf(&look, "%s shows what is there", p->look) < 0)
		look = NULL;
	while (len) {
		struct near near = { .found = { .limit = 4096 } };
		struct sf_bucket_pager pager = { .delimiter = "/", .max_keys = 1000 };
		SF_FREE char *name = NULL, *remedy = NULL;
		size_t end = len - 1; /* without its '/' */
		int r;

		for (len = end; len && at[len - 1] != '/'; len--)
			;
		name = strndup(at + len, end - len);
		at[len] = '\0';
		if (!name)
			return;
		near.name = name;
		near.len = end - len;
		near.base_len = len;
		pager.prefix = at;
		r = p->ops->page(p->s, &pager, see_near, &near, NULL);
		sf_bucket_pager_release(&pager);
		const char *where = len ? at : "the bucket";
		if (r >= 0 && (near.all || !len)) {
			if (near.n && asprintf(&remedy, "near in %s: %s", where,
			                       sf_buf_cstr(&near.found)) < 0)
				remedy = NULL;
			sf_probe_say(p->to, SF_PROBE_BAD, "prefix", remedy ? remedy : look,
			             near.all ? "nothing is called '%.300s' in %.300s"
			                      : "there is nothing: neither '%.300s' nor anything "
			                        "else in %.300s",
			             name, where);
			sf_buf_release(&near.found);
			return;
		}
		sf_buf_release(&near.found);
		if (r < 0)
			break;
	}
	sf_probe_say(p->to, SF_PROBE_BAD, "prefix", look, "there is nothing below '%.300s'",
	             p->prefix);
}

/* ---- a byte of an object ---- */

static bool say_read(const struct sf_bucket_probe *p, const struct first *f)
{
	const char *name = f->key + f->base_len;
	/* nothing is asked of it, whose refusal may not say why: as the listing tells it */
	const struct sf_objinfo want = { .size = f->size,
		                         .version.etag = *f->etag ? f->etag : NULL };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_source *src = NULL;
	uint8_t byte;
	int r = p->s->ops->open(p->s, name, &want, &src, &err);

	if (r >= 0)
		r = sf_source_read(src, 0, &byte, 1, SF_FETCH_METADATA, &err);
	sf_source_unref(src);
	if (r < 0) {
		say_refused(p, "reading", p->may_read, r, &err);
		return false;
	}
	sf_probe_say(p->to, SF_PROBE_OK, "reading", NULL, "a byte of '%.300s'", name);
	return true;
}

bool sf_bucket_probe(const struct sf_bucket_probe *p)
{
	struct sf_bucket_pager pager = { .prefix = p->prefix, .delimiter = "/", .max_keys = 100 };
	struct sf_error err = SF_ERROR_INIT;
	struct first first = { .base_len = strlen(p->prefix) };
	int r = 1;

	while (r == 1 && !first.any) /* a page may have nothing but the promise of another */
		r = p->ops->page(p->s, &pager, see_first, &first, &err);
	sf_bucket_pager_release(&pager);
	if (p->asked)
		p->asked(p);
	if (r < 0) {
		say_refused(p, "listing", p->may_list, r, &err);
		return false;
	}
	sf_probe_say(p->to, SF_PROBE_OK, "listing", NULL, "the bucket may be listed");
	if (!first.any) {
		if (!say_object(p))
			say_missing(p);
		return false;
	}
	return !*first.key || say_read(p, &first);
}
