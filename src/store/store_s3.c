#include "config.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "store/bucket_dirs.h"
#include "store/http_range.h"
#include "store/s3_list.h"
#include "store/s3_store.h"
#include "store/store_s3.h"
#include "store/url.h"

/* ---- objects ---- */

enum { REGION, DATE, TAG, LENGTH, MODIFIED }; /* the first two are sf_s3_ask's */

/* @name as it is now. */
static int see(struct sf_s3_store *s, const char *name, struct sf_objinfo *ret, char **ret_etag,
               struct sf_error *err)
{
	static const char *const want[] = { "etag", "content-length", "last-modified", NULL };
	struct sf_http_answer a = { 0 };
	SF_FREE char *key = NULL;
	int64_t modified;
	int r;

	if (asprintf(&key, "%s%s", s->prefix, name) < 0)
		key = NULL;
	r = key ? sf_s3_ask(s, "HEAD", key, "", want, 65536, &a, err)
	        : sf_fail(err, -ENOMEM, "no memory for a request");
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s'", name);
	const char *len = a.kept[LENGTH];
	if (!len || !sf_http_number_text(len, &ret->size) || ret->size > INT64_MAX)
		r = sf_fail(err, -EBADMSG, "'%s': the server does not say how long it is", name);
	if (r == 0 && a.kept[TAG] && !(*ret_etag = strdup(a.kept[TAG])))
		r = sf_fail(err, -ENOMEM, "'%s': no memory", name);
	if (a.kept[MODIFIED] && sf_http_date(a.kept[MODIFIED], &modified))
		ret->version.mtime_ns = modified * 1000000000;
	ret->version.etag = *ret_etag;
	sf_http_answer_release(&a);
	return r;
}

static int s3_open(struct sf_store *store, const char *name, const struct sf_objinfo *want,
                   struct sf_source **ret, struct sf_error *err)
{
	struct sf_s3_store *s = (struct sf_s3_store *)store;
	struct sf_objinfo info = { .size = 0 };
	SF_FREE char *etag = NULL;
	int r = sf_path_check(name, strlen(name), err);

	if (r < 0)
		return r;
	if (want && want->size == UINT64_MAX)
		return sf_fail(err, -EBADMSG, "'%s' is a prefix of keys, not an object", name);
	if (want) /* what the listing said: the first range says whether it still holds */
		return sf_remote_source(&s->r, name, want->size, &want->version, ret, err);
	r = see(s, name, &info, &etag, err);
	return r < 0 ? r : sf_remote_source(&s->r, name, info.size, &info.version, ret, err);
}

static int page(struct sf_store *s, struct sf_bucket_pager *p, sf_bucket_each *each, void *arg,
                struct sf_error *err)
{
	struct sf_buf query = { .limit = 65536 };
	struct sf_http_answer a = { 0 };
	int r;

	sf_s3_pager_query(p, &query);
	r = sf_buf_check(&query);
	r = r < 0 ? sf_fail(err, r, "listing: no memory")
	          : sf_s3_ask((struct sf_s3_store *)s, "GET", NULL, sf_buf_cstr(&query), NULL,
	                      SF_BUCKET_PAGE_MAX, &a, err);
	if (r >= 0)
		r = sf_s3_pager_take(p, a.body, a.len, each, arg, err);
	sf_http_answer_release(&a);
	sf_buf_release(&query);
	return r;
}

static bool has(struct sf_store *s, const char *key)
{
	struct sf_http_answer a = { 0 };
	int r = sf_s3_ask((struct sf_s3_store *)s, "HEAD", key, "", NULL, 65536, &a, NULL);

	sf_http_answer_release(&a);
	return r == 0;
}

static const struct sf_bucket_ops bucket_ops = { .page = page, .has = has };

static int s3_list(struct sf_store *s, const char *dir, unsigned depth,
                   int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                   struct sf_error *err)
{
	return sf_bucket_list(s, &bucket_ops, ((struct sf_s3_store *)s)->prefix, dir, depth, each,
	                      arg, err);
}

static void s3_free(struct sf_store *store)
{
	struct sf_s3_store *s = (struct sf_s3_store *)store;

	sf_aws_provider_free(s->provider);
	sf_s3_keys_free(s->keys);
	sf_s3_place_release(&s->place);
	pthread_mutex_destroy(&s->locked.m);
	free(s->prefix);
	free(s->home);
	free(s->r.ca_bundle);
	free(store->source);
	free(store->at);
	free(s);
}

static const struct sf_store_ops ops = {
	.open = s3_open, .list = s3_list, .probe = sf_s3_probe, .free = s3_free
};

/* ---- opening ---- */

/* "": Amazon's. NULL: no memory. */
static char *endpoint_of(const struct sf_store_options *opt, const struct sf_cloud_env *env,
                         const struct sf_aws_setup *setup)
{
	char *e, *other;

	if (opt && opt->endpoint_url)
		return strdup(opt->endpoint_url);
	e = sf_aws_endpoint(env, setup, "s3");
	if (!e || *e)
		return e;
	other = sf_cloud_var(env, "S3_ENDPOINT_URL"); /* as s5cmd and tools of PyTorch have it */
	if (!other)
		return e;
	free(e);
	return other;
}

/* Whom Amazon's programs would trust, unless an option says it. */
static int trust(struct sf_s3_store *s, const struct sf_store_options *opt,
                 const struct sf_aws_setup *setup, struct sf_error *err)
{
	const char *of_profile = sf_aws_setup_get(setup, "ca_bundle");

	if (opt && opt->ca_bundle)
		return 0;
	s->r.ca_bundle = sf_cloud_var(&s->env, "AWS_CA_BUNDLE");
	if (!s->r.ca_bundle && of_profile && !(s->r.ca_bundle = strdup(of_profile)))
		return sf_fail(err, -ENOMEM, "no memory");
	return 0;
}

static int fill(struct sf_s3_store *s, const struct sf_url *u, const struct sf_store_options *opt,
                sf_s3_get_variable *get, struct sf_error *err)
{
	struct sf_aws_setup setup = { .profile = NULL };
	SF_FREE char *endpoint = NULL, *region = NULL;
	const char *addressing = opt ? opt->addressing : NULL, *home = getenv("HOME");
	int r;

	s->home = strdup(home && !get ? home : "");
	s->r.s.source = strdup(u->shown);
	if (asprintf(&s->prefix, "%s%s", u->path, *u->path ? "/" : "") < 0)
		s->prefix = NULL;
	s->keys = sf_s3_keys_new();
	if (!s->home || !s->r.s.source || !s->prefix || !s->keys)
		return sf_fail(err, -ENOMEM, "no memory");
	sf_cloud_env_of(&s->r, s->home, &s->env);
	if (get)
		s->env.get = get;
	r = sf_aws_setup_read(opt, &s->env, &setup, err);
	if (r < 0)
		return r;
	endpoint = endpoint_of(opt, &s->env, &setup);
	region = sf_aws_region(opt, &s->env, &setup);
	if (!addressing)
		addressing = sf_aws_setup_get(&setup, "s3.addressing_style");
	r = endpoint && region ? sf_s3_place_init(&s->place, u->host, endpoint, addressing, err)
	                       : sf_fail(err, -ENOMEM, "no memory");
	if (r >= 0 && snprintf(s->locked.region, sizeof(s->locked.region), "%s",
	                       *region ? region : "us-east-1") >= (int)sizeof(s->locked.region))
		r = sf_fail(err, -EINVAL, "'%.100s' is not the name of a region", region);
	if (r >= 0) {
		s->locked.guessed = !*region;
		s->env.wants_region = !*region && !*endpoint;
		r = trust(s, opt, &setup, err);
	}
	if (r >= 0 && *endpoint && !(s->r.s.at = strdup(endpoint)))
		r = sf_fail(err, -ENOMEM, "no memory");
	sf_aws_setup_release(&setup);
	return r < 0 ? r : sf_aws_provider_new(opt, &s->env, &s->provider, err);
}

int sf_store_s3(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                struct sf_store **ret, struct sf_error *err)
{
	return sf_store_s3_by(io, source, opt, NULL, ret, err);
}

int sf_store_s3_by(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                   sf_s3_get_variable *get, struct sf_store **ret, struct sf_error *err)
{
	SF_CLEANUP(sf_url_release) struct sf_url u = { 0 };
	struct sf_s3_store *s;
	struct sf_http *http;
	int r = sf_url_parse(source, &u, err);

	if (r >= 0)
		r = sf_http_get(io, &http, err);
	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return sf_fail(err, -ENOMEM, "'%s': no memory", u.shown);
	pthread_mutex_init(&s->locked.m, NULL);
	s->r.s.ops = &ops;
	s->r.s.far = true;
	s->r.s.io = io;
	s->r.ops = &sf_s3_remote_ops;
	s->bucket = &bucket_ops;
	s->r.http = http;
	s->payer = opt && opt->request_payer;
	r = fill(s, &u, opt, get, err);
	if (r < 0) {
		s3_free(&s->r.s);
		return sf_fail_ctx(err, r, "'%s'", u.shown);
	}
	*ret = &s->r.s;
	return 0;
}
