#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "store/bucket_store.h"

char *sf_bucket_key(const struct sf_bucket_store *b, const char *name)
{
	char *key;

	return asprintf(&key, "%s%s", b->prefix, name) < 0 ? NULL : key;
}

int sf_bucket_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                   struct sf_source **ret, struct sf_error *err)
{
	struct sf_bucket_store *b = (struct sf_bucket_store *)s;
	struct sf_objinfo info = { .size = 0 };
	SF_FREE char *key = NULL, *etag = NULL;
	int r = sf_path_check(name, strlen(name), err);

	if (r < 0)
		return r;
	if (want && want->size == UINT64_MAX)
		return sf_fail(err, -EBADMSG, "'%s' is a prefix of keys, not an object", name);
	if (want) /* what the listing said: the first range says whether it still holds */
		return sf_remote_source(&b->r, name, want->size, &want->version, ret, err);
	key = sf_bucket_key(b, name);
	r = key ? b->kind->see(b, key, &info, &etag, err)
	        : sf_fail(err, -ENOMEM, "no memory for a request");
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s'", name);
	info.version.etag = etag;
	return sf_remote_source(&b->r, name, info.size, &info.version, ret, err);
}

/* ---- listing ---- */

static int page(struct sf_store *s, struct sf_bucket_pager *p, sf_bucket_each *each, void *arg,
                struct sf_error *err)
{
	struct sf_bucket_store *b = (struct sf_bucket_store *)s;
	struct sf_buf query = { .limit = 65536 };
	struct sf_http_answer a = { 0 };
	int r;

	b->kind->query(p, &query);
	r = sf_buf_check(&query);
	r = r < 0 ? sf_fail(err, r, "listing: no memory")
	          : b->kind->ask(b, sf_buf_cstr(&query), &a, err);
	if (r >= 0)
		r = b->kind->take(p, a.body, a.len, each, arg, err);
	sf_http_answer_release(&a);
	sf_buf_release(&query);
	return r;
}

static bool has(struct sf_store *s, const char *key)
{
	struct sf_bucket_store *b = (struct sf_bucket_store *)s;
	struct sf_objinfo info = { .size = 0 };
	SF_FREE char *etag = NULL;

	return b->kind->see(b, key, &info, &etag, NULL) >= 0;
}

static const struct sf_bucket_ops pages = { .page = page, .has = has };

int sf_bucket_store_list(struct sf_store *s, const char *dir, unsigned depth,
                         int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                         struct sf_error *err)
{
	return sf_bucket_list(s, &pages, ((struct sf_bucket_store *)s)->prefix, dir, depth, each,
	                      arg, err);
}

/* ---- opening ---- */

int sf_bucket_store_init(struct sf_bucket_store *b, const struct sf_bucket_kind *kind,
                         const struct sf_store_ops *ops, const struct sf_remote_ops *remote,
                         struct sf_io *io, const struct sf_url *u, struct sf_error *err)
{
	const char *home = getenv("HOME");
	int r = sf_http_get(io, &b->r.http, err);

	b->r.s.ops = ops;
	b->r.s.far = true;
	b->r.s.io = io;
	b->r.ops = remote;
	b->kind = kind;
	b->pages = &pages;
	if (r < 0)
		return r;
	b->home = strdup(home ? home : "");
	b->r.s.source = strdup(u->shown);
	if (asprintf(&b->prefix, "%s%s", u->path, *u->path ? "/" : "") < 0)
		b->prefix = NULL;
	if (!b->home || !b->r.s.source || !b->prefix)
		return sf_fail(err, -ENOMEM, "no memory");
	sf_cloud_env_of(&b->r, b->home, &b->env);
	return 0;
}

void sf_bucket_store_release(struct sf_bucket_store *b)
{
	free(b->prefix);
	free(b->home);
	free(b->r.ca_bundle);
	free(b->r.s.source);
	free(b->r.s.at);
}
