#include "config.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/gs_list.h"
#include "store/gs_store.h"
#include "store/store_gs.h"
#include "store/store_s3.h"

#define OBJECT_MAX 65536 /* bytes of an object's description */

/* ---- objects ---- */

static int see(struct sf_bucket_store *b, const char *key, struct sf_objinfo *ret, char **ret_etag,
               struct sf_error *err)
{
	struct sf_http_answer a = { 0 };
	struct sf_gs_object o;
	int r = sf_gs_ask((struct sf_gs_store *)b, key, SF_GS_OBJECT_QUERY, OBJECT_MAX, &a, err);

	if (r == 0)
		r = sf_gs_object_parse(a.body, a.len, &o, err);
	sf_http_answer_release(&a);
	if (r < 0)
		return r;
	*ret_etag = strdup(o.generation);
	if (!*ret_etag)
		return sf_fail(err, -ENOMEM, "no memory");
	ret->size = o.size;
	ret->version.mtime_ns = o.mtime_ns;
	return 0;
}

static int ask(struct sf_bucket_store *b, const char *query, struct sf_http_answer *ret,
               struct sf_error *err)
{
	return sf_gs_ask((struct sf_gs_store *)b, NULL, query, SF_BUCKET_PAGE_MAX, ret, err);
}

static const struct sf_bucket_kind kind = {
	.query = sf_gs_pager_query, .ask = ask, .take = sf_gs_pager_take, .see = see
};

static void gs_free(struct sf_store *store)
{
	struct sf_gs_store *s = (struct sf_gs_store *)store;

	sf_gs_provider_free(s->provider);
	sf_gs_place_release(&s->place);
	pthread_mutex_destroy(&s->locked.m);
	free(s->project);
	sf_bucket_store_release(&s->b);
	free(s);
}

static const struct sf_store_ops ops = { .open = sf_bucket_open,
	                                 .list = sf_bucket_store_list,
	                                 .probe = sf_gs_probe,
	                                 .put = &sf_gs_put_ops,
	                                 .free = gs_free };

/* ---- opening ---- */

static int fill(struct sf_gs_store *s, struct sf_io *io, const struct sf_url *u,
                const struct sf_store_options *opt, struct sf_error *err)
{
	SF_FREE char *emulator = NULL;
	const char *endpoint = opt ? opt->endpoint_url : NULL;
	bool nobody = opt && opt->no_sign_request;
	int r = sf_bucket_store_init(&s->b, &kind, &ops, &sf_gs_remote_ops, io, u, err);

	if (r < 0)
		return r;
	if (!endpoint && (emulator = sf_cloud_var(&s->b.env, "STORAGE_EMULATOR_HOST"))) {
		endpoint = emulator;
		s->emulated = true;
		nobody = true; /* what is said to an emulator is not for others to hear */
	}
	endpoint = endpoint ? endpoint : "";

	if (opt && opt->user_project && !(s->project = strdup(opt->user_project)))
		return sf_fail(err, -ENOMEM, "no memory");
	r = sf_gs_place_init(&s->place, u->host, endpoint, err);
	if (r >= 0 && *endpoint && !(s->b.r.s.at = strdup(s->place.base)))
		r = sf_fail(err, -ENOMEM, "no memory");
	if (r < 0 || nobody)
		return r;
	if (!s->place.safe)
		return sf_fail(
			err, -EINVAL,
			"%s is asked by http://, over which no credentials are sent: give an "
			"https:// URL, or --no-sign-request",
			s->place.shown);
	return sf_gs_provider_new(&s->b.env, &s->provider, err);
}

/* Google speaks S3's language too, to whoever has a pair of its HMAC keys: variables as that wants
 * them, named as GDAL has them. */
static char *hmac_variable(void *arg, const char *name)
{
	static const struct {
		const char *name, *ours, *value;
	} known[] = {
		{ "AWS_ACCESS_KEY_ID", "GS_ACCESS_KEY_ID", NULL },
		{ "AWS_SECRET_ACCESS_KEY", "GS_SECRET_ACCESS_KEY", NULL },
		{ "AWS_REGION", NULL, "auto" },
		{ "AWS_ENDPOINT_URL_S3", NULL, "https://" SF_GS_HOST },
		{ "AWS_EC2_METADATA_DISABLED", NULL, "true" },
	};

	(void)arg;
	for (size_t i = 0; i < SF_ARRAY_LEN(known); i++) {
		if (strcmp(known[i].name, name) != 0)
			continue;
		const char *v = known[i].ours ? getenv(known[i].ours) : known[i].value;
		return v ? strdup(v) : NULL;
	}
	return NULL;
}

static bool is_set(const char *name)
{
	const char *v = getenv(name);

	return v && *v;
}

static bool has_hmac(const struct sf_store_options *opt)
{
	if ((opt && opt->no_sign_request) || !is_set("GS_ACCESS_KEY_ID"))
		return false;
	return (opt && opt->endpoint_url) || !is_set("STORAGE_EMULATOR_HOST");
}

static int open_by_hmac(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                        struct sf_store **ret, struct sf_error *err)
{
	/* what is for Amazon's users does not count */
	struct sf_store_options ours = opt ? *opt : (struct sf_store_options){ .region = NULL };

	ours.profile = ours.region = NULL;
	ours.request_payer = false;
	if (ours.user_project)
		return sf_fail(err, -ENOTSUP,
		               "GS_ACCESS_KEY_ID is set, and by such keys no project can be named "
		               "that pays: unset it");
	if (!is_set("GS_SECRET_ACCESS_KEY"))
		return sf_fail(err, -EBADMSG,
		               "GS_ACCESS_KEY_ID is set and GS_SECRET_ACCESS_KEY is not");
	return sf_store_s3_by(io, source, &ours, hmac_variable, ret, err);
}

int sf_store_gs(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                struct sf_store **ret, struct sf_error *err)
{
	SF_CLEANUP(sf_url_release) struct sf_url u = { 0 };
	struct sf_gs_store *s;
	int r = sf_url_parse(source, &u, err);

	if (r >= 0 && has_hmac(opt))
		return open_by_hmac(io, source, opt, ret, err);
	if (r < 0)
		return r;
	s = calloc(1, sizeof(*s));
	if (!s)
		return sf_fail(err, -ENOMEM, "'%s': no memory", u.shown);
	pthread_mutex_init(&s->locked.m, NULL);
	r = fill(s, io, &u, opt, err);
	if (r < 0) {
		gs_free(&s->b.r.s);
		return sf_fail_ctx(err, r, "'%s'", u.shown);
	}
	*ret = &s->b.r.s;
	return 0;
}
