#include "config.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/http_range.h"
#include "store/s3_list.h"
#include "store/s3_store.h"
#include "store/store_s3.h"

/* ---- objects ---- */

enum { REGION, DATE, TAG, LENGTH, MODIFIED }; /* the first two are sf_s3_ask's */

static int see(struct sf_bucket_store *b, const char *key, struct sf_objinfo *ret, char **ret_etag,
               struct sf_error *err)
{
	static const char *const want[] = { "etag", "content-length", "last-modified", NULL };
	struct sf_http_answer a = { 0 };
	int64_t modified;
	int r = sf_s3_ask((struct sf_s3_store *)b, "HEAD", key, "", want, 65536, &a, err);

	if (r < 0)
		return r;
	const char *len = a.kept[LENGTH];
	if (!len || !sf_http_number_text(len, &ret->size) || ret->size > INT64_MAX)
		r = sf_fail(err, -EBADMSG, "the server does not say how long it is");
	if (r == 0 && a.kept[TAG] && !(*ret_etag = strdup(a.kept[TAG])))
		r = sf_fail(err, -ENOMEM, "no memory");
	if (a.kept[MODIFIED] && sf_http_date(a.kept[MODIFIED], &modified))
		ret->version.mtime_ns = modified * 1000000000;
	sf_http_answer_release(&a);
	return r;
}

static int ask(struct sf_bucket_store *b, const char *query, struct sf_http_answer *ret,
               struct sf_error *err)
{
	return sf_s3_ask((struct sf_s3_store *)b, "GET", NULL, query, NULL, SF_BUCKET_PAGE_MAX, ret,
	                 err);
}

static const struct sf_bucket_kind kind = {
	.query = sf_s3_pager_query, .ask = ask, .take = sf_s3_pager_take, .see = see
};

static void s3_free(struct sf_store *store)
{
	struct sf_s3_store *s = (struct sf_s3_store *)store;

	sf_aws_provider_free(s->provider);
	sf_s3_keys_free(s->keys);
	sf_s3_place_release(&s->place);
	pthread_mutex_destroy(&s->locked.m);
	sf_bucket_store_release(&s->b);
	free(s);
}

static const struct sf_store_ops ops = { .open = sf_bucket_open,
	                                 .list = sf_bucket_store_list,
	                                 .probe = sf_s3_probe,
	                                 .put = &sf_s3_put_ops,
	                                 .free = s3_free };

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
	s->b.r.ca_bundle = sf_cloud_var(&s->b.env, "AWS_CA_BUNDLE");
	if (!s->b.r.ca_bundle && of_profile && !(s->b.r.ca_bundle = strdup(of_profile)))
		return sf_fail(err, -ENOMEM, "no memory");
	return 0;
}

static int fill(struct sf_s3_store *s, struct sf_io *io, const struct sf_url *u,
                const struct sf_store_options *opt, sf_s3_get_variable *get, struct sf_error *err)
{
	struct sf_aws_setup setup = { .profile = NULL };
	SF_FREE char *endpoint = NULL, *region = NULL;
	const char *addressing = opt ? opt->addressing : NULL;
	int r = sf_bucket_store_init(&s->b, &kind, &ops, &sf_s3_remote_ops, io, u, err);

	if (r < 0)
		return r;
	s->keys = sf_s3_keys_new();
	if (!s->keys)
		return sf_fail(err, -ENOMEM, "no memory");
	if (get) { /* nor are there files */
		s->b.env.get = get;
		*s->b.home = '\0';
	}
	r = sf_aws_setup_read(opt, &s->b.env, &setup, err);
	if (r < 0)
		return r;
	endpoint = endpoint_of(opt, &s->b.env, &setup);
	region = sf_aws_region(opt, &s->b.env, &setup);
	if (!addressing)
		addressing = sf_aws_setup_get(&setup, "s3.addressing_style");
	r = endpoint && region ? sf_s3_place_init(&s->place, u->host, endpoint, addressing, err)
	                       : sf_fail(err, -ENOMEM, "no memory");
	if (r >= 0 && snprintf(s->locked.region, sizeof(s->locked.region), "%s",
	                       *region ? region : "us-east-1") >= (int)sizeof(s->locked.region))
		r = sf_fail(err, -EINVAL, "'%.100s' is not the name of a region", region);
	if (r >= 0) {
		s->locked.guessed = !*region;
		s->b.env.wants_region = !*region && !*endpoint;
		r = trust(s, opt, &setup, err);
	}
	if (r >= 0 && *endpoint && !(s->b.r.s.at = strdup(endpoint)))
		r = sf_fail(err, -ENOMEM, "no memory");
	sf_aws_setup_release(&setup);
	return r < 0 ? r : sf_aws_provider_new(opt, &s->b.env, &s->provider, err);
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
	int r = sf_url_parse(source, &u, err);

	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return sf_fail(err, -ENOMEM, "'%s': no memory", u.shown);
	pthread_mutex_init(&s->locked.m, NULL);
	s->payer = opt && opt->request_payer;
	r = fill(s, io, &u, opt, get, err);
	if (r < 0) {
		s3_free(&s->b.r.s);
		return sf_fail_ctx(err, r, "'%s'", u.shown);
	}
	*ret = &s->b.r.s;
	return 0;
}
