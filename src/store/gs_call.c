#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/gs_list.h"
#include "store/gs_store.h"
#include "store/url.h"

/* ---- a request ---- */

static int add_header(struct sf_remote_call *call, size_t *n, char *header)
{
	call->headers[*n] = header;
	return call->headers[(*n)++] ? 0 : -ENOMEM;
}

static int gs_call(struct sf_gs_store *s, const char *key, const char *query,
                   struct sf_remote_call *ret, struct sf_error *err)
{
	struct sf_buf url = { .limit = 65536 }, all = { .limit = 32768 };
	struct sf_remote_call call = { .headers = calloc(3, sizeof(*call.headers)) };
	size_t n = 0;
	int r;

	sf_buf_str(&all, query);
	if (s->project) {
		sf_buf_printf(&all, "%suserProject=", *query ? "&" : "");
		sf_url_encode(&all, s->project, strlen(s->project), false);
	}
	sf_gs_place_url(&s->place, key, sf_buf_cstr(&all), &url);
	sf_buf_fail(&url, sf_buf_check(&all));
	sf_buf_cstr(&url);
	r = sf_buf_check(&url);
	/* else the server unpacks what is stored packed, and tells neither places nor lengths */
	if (!call.headers || r == -ENOMEM || add_header(&call, &n, strdup("Accept-Encoding: gzip")))
		r = sf_fail(err, -ENOMEM, "no memory for a request");
	else if (r < 0)
		r = sf_fail(err, r, "a URL is longer than %zu bytes", url.limit);
	sf_buf_release(&all);
	if (r < 0) {
		sf_buf_release(&url);
		sf_remote_call_release(&call);
		return r;
	}
	call.url = (char *)url.at;
	*ret = call;
	return 0;
}

static int remote_call(struct sf_remote_store *r, const char *name, struct sf_remote_call *ret,
                       struct sf_error *err)
{
	struct sf_gs_store *s = (struct sf_gs_store *)r;
	SF_FREE char *key = NULL;

	if (asprintf(&key, "%s%s", s->prefix, name) < 0)
		key = NULL;
	if (!key)
		return sf_fail(err, -ENOMEM, "'%s': no memory for a request", name);
	return gs_call(s, key, "alt=media", ret, err);
}

/* The version that is meant, even where it is not the newest; and no other, whoever answers. */
static int remote_pin(const struct sf_version *version, struct sf_remote_call *call)
{
	char *url;

	if (asprintf(&url, "%s&generation=%s&ifGenerationMatch=%s", call->url, version->etag,
	             version->etag) < 0)
		return -ENOMEM;
	free(call->url);
	call->url = url;
	return 0;
}

/* ---- an answer that refuses ---- */

static int tell(const struct sf_gs_store *s, unsigned status, const char *body, size_t len,
                struct sf_error *err)
{
	const char *host = s->place.shown, *from = "nobody is signed in";
	struct sf_gs_error e;

	bool known = sf_gs_error_parse(body, len, &e);
	const char *said = *e.message ? e.message : "no reason is told";

	if (strcasecmp(e.reason, "userProjectMissing") == 0 || strstr(e.message, "requester pays"))
		return sf_fail(err, -EACCES,
		               "who reads bucket '%s' pays for it: name your project by "
		               "--user-project (%u: %s)",
		               s->place.bucket, status, said);
	if (status == 401)
		return sf_fail(err, -EACCES, "%s wants to know who asks: 401: %s (%s)", host, said,
		               from);
	if (status == 403)
		return sf_fail(err, -EACCES, "%s refuses it: 403 %s: %s (%s)", host, e.reason, said,
		               from);
	if (known || status == 404)
		return sf_fail(err, status == 404 ? -ENOENT : -EIO, "%s answers %u %s: %s", host,
		               status, e.reason, said);
	return sf_fail(err, -EIO,
	               "%s answers %u with no words of GCS (%s): is the endpoint that of GCS?",
	               host, status, said);
}

/* What the status alone tells: the object's version is gone, or the server is in trouble. */
static bool status_decides(unsigned status)
{
	return status == 404 || status == 410 || status == 412 || status == 416 ||
	       sf_http_status_again(status);
}

static int remote_refused(struct sf_remote_store *r, const struct sf_remote_call *call,
                          unsigned status, const struct sf_http_head *head, const char *body,
                          size_t len, struct sf_error *err)
{
	struct sf_gs_store *s = (struct sf_gs_store *)r;

	(void)call;
	(void)head;
	return status_decides(status) ? 0 : tell(s, status, body, len, err);
}

const struct sf_remote_ops sf_gs_remote_ops = {
	.call = remote_call,
	.refused = remote_refused,
	.pin = remote_pin,
	.version_header = "x-goog-generation",
};

/* ---- small requests ---- */

int sf_gs_ask(struct sf_gs_store *s, const char *key, const char *query, uint64_t limit,
              struct sf_http_answer *ret, struct sf_error *err)
{
	struct sf_remote_call call = { .url = NULL };
	struct sf_http_answer a = { 0 };
	int r = gs_call(s, key, query, &call, err);

	if (r < 0)
		return r;
	const struct sf_http_ask what = {
		.method = "GET",
		.url = call.url,
		.headers = (const char *const *)call.headers,
		.ca_bundle = sf_remote_ca_bundle(&s->r),
		.limit = limit,
	};
	r = sf_remote_ask(&s->r, &what, &a, err);
	sf_remote_call_release(&call);
	if (r < 0)
		return r;
	if (a.status == 200) {
		*ret = a;
		return 0;
	}
	if (a.status == 404 && !key)
		r = sf_fail(err, -ENOENT, "there is no bucket '%s' at %s", s->place.bucket,
		            s->place.shown);
	else
		r = tell(s, a.status, a.body, a.len, err);
	sf_http_answer_release(&a);
	return r;
}
