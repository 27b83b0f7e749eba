#include "config.h"

#include <stdlib.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "store/bucket_dirs.h"
#include "store/gs_list.h"
#include "store/gs_store.h"
#include "store/store_gs.h"
#include "store/store_s3.h"
#include "store/url.h"

#define OBJECT_MAX 65536 /* bytes of an object's description */

/* ---- objects ---- */

/* @key as it is now. */
static int describe(struct sf_gs_store *s, const char *key, struct sf_gs_object *ret,
                    struct sf_error *err)
{
	struct sf_http_answer a = { 0 };
	int r = sf_gs_ask(s, key, SF_GS_OBJECT_QUERY, OBJECT_MAX, &a, err);

	if (r == 0)
		r = sf_gs_object_parse(a.body, a.len, ret, err);
	sf_http_answer_release(&a);
	return r;
}

static int gs_open(struct sf_store *store, const char *name, const struct sf_objinfo *want,
                   struct sf_source **ret, struct sf_error *err)
{
	struct sf_gs_store *s = (struct sf_gs_store *)store;
	struct sf_gs_object o;
	SF_FREE char *key = NULL;
	int r = sf_path_check(name, strlen(name), err);

	if (r < 0)
		return r;
	if (want && want->size == UINT64_MAX)
		return sf_fail(err, -EBADMSG, "'%s' is a prefix of keys, not an object", name);
	if (want) /* what the listing said: the first range says whether it still holds */
		return sf_remote_source(&s->r, name, want->size, &want->version, ret, err);
	if (asprintf(&key, "%s%s", s->prefix, name) < 0)
		key = NULL;
	r = key ? describe(s, key, &o, err) : sf_fail(err, -ENOMEM, "no memory for a request");
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s'", name);
	const struct sf_version version = { .mtime_ns = o.mtime_ns, .etag = o.generation };
	return sf_remote_source(&s->r, name, o.size, &version, ret, err);
}

/* ---- listing ---- */

static int page(struct sf_store *s, struct sf_bucket_pager *p, sf_bucket_each *each, void *arg,
                struct sf_error *err)
{
	struct sf_buf query = { .limit = 32768 };
	struct sf_http_answer a = { 0 };
	int r;

	sf_gs_pager_query(p, &query);
	r = sf_buf_check(&query);
	r = r < 0 ? sf_fail(err, r, "listing: no memory")
	          : sf_gs_ask((struct sf_gs_store *)s, NULL, sf_buf_cstr(&query),
	                      SF_BUCKET_PAGE_MAX, &a, err);
	if (r >= 0)
		r = sf_gs_pager_take(p, a.body, a.len, each, arg, err);
	sf_http_answer_release(&a);
	sf_buf_release(&query);
	return r;
}

static bool has(struct sf_store *s, const char *key)
{
	struct sf_gs_object o;

	return describe((struct sf_gs_store *)s, key, &o, NULL) == 0;
}

static const struct sf_bucket_ops bucket_ops = { .page = page, .has = has };

static int gs_list(struct sf_store *s, const char *dir, unsigned depth,
                   int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                   struct sf_error *err)
{
	return sf_bucket_list(s, &bucket_ops, ((struct sf_gs_store *)s)->prefix, dir, depth, each,
	                      arg, err);
}

static void gs_free(struct sf_store *store)
{
	struct sf_gs_store *s = (struct sf_gs_store *)store;

	sf_gs_provider_free(s->provider);
	sf_gs_place_release(&s->place);
	pthread_mutex_destroy(&s->locked.m);
	free(s->home);
	free(s->prefix);
	free(s->project);
	free(store->source);
	free(store->at);
	free(s);
}

static const struct sf_store_ops ops = {
	.open = gs_open, .list = gs_list, .probe = sf_gs_probe, .free = gs_free
};

/* ---- opening ---- */

static int fill(struct sf_gs_store *s, const struct sf_url *u, const struct sf_store_options *opt,
                struct sf_error *err)
{
	SF_FREE char *emulator = NULL;
	const char *home = getenv("HOME"), *endpoint = opt ? opt->endpoint_url : NULL;
	bool nobody = opt && opt->no_sign_request;
	int r;

	s->home = strdup(home ? home : "");
	if (!s->home)
		return sf_fail(err, -ENOMEM, "no memory");
	sf_cloud_env_of(&s->r, s->home, &s->env);
	if (!endpoint && (emulator = sf_cloud_var(&s->env, "STORAGE_EMULATOR_HOST"))) {
		endpoint = emulator;
		s->emulated = true;
		nobody = true; /* what is said to an emulator is not for others to hear */
	}
	endpoint = endpoint ? endpoint : "";

	s->r.s.source = strdup(u->shown);
	if (asprintf(&s->prefix, "%s%s", u->path, *u->path ? "/" : "") < 0)
		s->prefix = NULL;
	if (opt && opt->user_project && !(s->project = strdup(opt->user_project)))
		return sf_fail(err, -ENOMEM, "no memory");
	if (!s->r.s.source || !s->prefix)
		return sf_fail(err, -ENOMEM, "no memory");
	r = sf_gs_place_init(&s->place, u->host, endpoint, err);
	if (r >= 0 && *endpoint && !(s->r.s.at = strdup(s->place.base)))
		r = sf_fail(err, -ENOMEM, "no memory");
	if (r < 0 || nobody)
		return r;
	if (!s->place.safe)
		return sf_fail(
			err, -EINVAL,
			"%s is asked by http://, over which no credentials are sent: give an "
			"https:// URL, or --no-sign-request",
			s->place.shown);
	return sf_gs_provider_new(&s->env, &s->provider, err);
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
	struct sf_http *http;
	int r = sf_url_parse(source, &u, err);

	if (r >= 0 && has_hmac(opt))
		return open_by_hmac(io, source, opt, ret, err);
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
	s->r.ops = &sf_gs_remote_ops;
	s->bucket = &bucket_ops;
	s->r.http = http;
	r = fill(s, &u, opt, err);
	if (r < 0) {
		gs_free(&s->r.s);
		return sf_fail_ctx(err, r, "'%s'", u.shown);
	}
	*ret = &s->r.s;
	return 0;
}
