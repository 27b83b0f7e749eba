#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "store/gs_list.h"
#include "store/gs_store.h"
#include "store/http_range.h"
#include "store/url.h"

#define BEARER "Authorization: Bearer "
#define STALL_MS 60000 /* a body of which nothing goes on for so long is sent anew */
#define RENEW_S 5      /* a request made before a token was renewed may be refused after that */

/* ---- a request ---- */

static int make_url(const struct sf_gs_store *s, const struct sf_gs_what *what, char **ret,
                    struct sf_error *err)
{
	struct sf_buf url = { .limit = 65536 }, all = { .limit = 32768 };
	int r;

	sf_buf_str(&all, what->query);
	if (s->project) {
		sf_buf_str(&all, "&userProject=");
		sf_url_encode(&all, s->project, strlen(s->project), false);
	}
	sf_gs_place_url_for(&s->place, what->upload, what->key, what->verb ? what->verb : "",
	                    sf_buf_cstr(&all), &url);
	sf_buf_fail(&url, sf_buf_check(&all));
	sf_buf_cstr(&url);
	sf_buf_release(&all);
	r = sf_buf_check(&url);
	if (r < 0) {
		sf_buf_release(&url);
		return sf_fail(err, r, "a URL is longer than 65536 bytes or memory is out");
	}
	*ret = (char *)url.at;
	return 0;
}

/* 0: @ret, whose token is NULL where nobody is signed in. -EAGAIN: it would have to wait. */
static int whom(struct sf_gs_store *s, bool may_wait, bool writes, struct sf_gs_token *ret,
                struct sf_error *err)
{
	int r;

	*ret = (struct sf_gs_token){ .token = NULL };
	if (!s->provider)
		return 0;
	r = may_wait ? sf_gs_provider_get(s->provider, ret, err)
	             : sf_gs_provider_try(s->provider, ret, err);
	/* the first that is written: one that was being fetched then may still be for reading */
	for (int n = 0; r >= 0 && writes && !ret->writes && n < 3; n++) {
		sf_gs_token_release(ret);
		sf_gs_provider_write(s->provider);
		r = sf_gs_provider_get(s->provider, ret, err);
	}
	if (r < 0)
		return r;
	pthread_mutex_lock(&s->locked.m);
	snprintf(s->locked.from, sizeof(s->locked.from), "%s", ret->from);
	pthread_mutex_unlock(&s->locked.m);
	return 0;
}

static int make_headers(const struct sf_gs_store *s, const struct sf_gs_what *what,
                        const struct sf_gs_token *t, struct sf_remote_call *call)
{
	/* else the server unpacks what is stored packed, and tells neither places nor lengths */
	const char *const value[] = { "gzip", t->token, s->project ? NULL : t->project,
		                      what->type };
	static const char *const name[] = { "Accept-Encoding: ", BEARER,
		                            "x-goog-user-project: ", "Content-Type: " };
	size_t n = 0;

	call->headers = calloc(SF_ARRAY_LEN(value) + 1, sizeof(*call->headers));
	for (size_t i = 0; call->headers && i < SF_ARRAY_LEN(value); i++) {
		if (!value[i])
			continue;
		if (asprintf(&call->headers[n], "%s%s", name[i], value[i]) < 0) {
			call->headers[n] = NULL;
			return -ENOMEM;
		}
		n++;
	}
	return call->headers ? 0 : -ENOMEM;
}

/* -EAGAIN (no message): it would have to wait for a token, and @may_wait is false. */
static int gs_call(struct sf_gs_store *s, const struct sf_gs_what *what, bool may_wait,
                   struct sf_remote_call *ret, struct sf_error *err)
{
	struct sf_remote_call call = { .url = NULL };
	struct sf_gs_token t;
	int r = whom(s, may_wait, what->writes, &t, err);

	if (r < 0)
		return r;
	r = make_url(s, what, &call.url, err);
	if (r == 0 && make_headers(s, what, &t, &call) < 0)
		r = sf_fail(err, -ENOMEM, "no memory for a request");
	sf_gs_token_release(&t);
	if (r < 0)
		sf_remote_call_release(&call);
	else
		*ret = call;
	return r;
}

static int remote_call(struct sf_remote_store *r, const char *name, struct sf_remote_call *ret,
                       struct sf_error *err)
{
	struct sf_gs_store *s = (struct sf_gs_store *)r;
	SF_FREE char *key = sf_bucket_key(&s->b, name);
	const struct sf_gs_what what = { .method = "GET", .key = key, .query = "alt=media" };

	if (!key)
		return sf_fail(err, -ENOMEM, "'%s': no memory for a request", name);
	return gs_call(s, &what, false, ret, err);
}

static struct sf_renew *remote_waits_for(struct sf_remote_store *r)
{
	return sf_gs_provider_renew(((struct sf_gs_store *)r)->provider);
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

/* The token that @call showed; NULL: none. */
static const char *token_of(const struct sf_remote_call *call)
{
	for (char **h = call->headers; h && *h; h++)
		if (strncmp(*h, BEARER, strlen(BEARER)) == 0)
			return *h + strlen(BEARER);
	return NULL;
}

/* A server does not know a token that should be good still: once in a while another is fetched. */
static void renew(struct sf_gs_store *s, const char *token)
{
	int64_t now = s->b.env.now(s->b.env.arg);
	bool just;

	pthread_mutex_lock(&s->locked.m);
	just = s->locked.renewed && now >= s->locked.renewed && now - s->locked.renewed < RENEW_S;
	if (!just)
		s->locked.renewed = now;
	pthread_mutex_unlock(&s->locked.m);
	if (!just)
		sf_gs_provider_expired(s->provider, token);
}

static void note(struct sf_gs_store *s, unsigned status, const char *reason)
{
	pthread_mutex_lock(&s->locked.m);
	s->locked.status = status;
	snprintf(s->locked.said, sizeof(s->locked.said), "%s", reason);
	pthread_mutex_unlock(&s->locked.m);
}

static int tell(struct sf_gs_store *s, unsigned status, const char *body, size_t len,
                struct sf_error *err)
{
	char from[sizeof(s->locked.from) + 32] = "nobody is signed in";
	const char *host = s->place.shown, *said;
	struct sf_gs_error e;
	bool known = sf_gs_error_parse(body, len, &e);
	bool payer = strcasecmp(e.reason, "userProjectMissing") == 0 ||
	             strstr(e.message, "requester pays");

	note(s, status, payer ? "userProjectMissing" : e.reason);
	pthread_mutex_lock(&s->locked.m);
	if (*s->locked.from)
		snprintf(from, sizeof(from), "credentials: %s", s->locked.from);
	pthread_mutex_unlock(&s->locked.m);
	said = *e.message ? e.message : "no reason is told";
	if (payer)
		return sf_fail(err, -EACCES,
		               "who reads bucket '%s' pays for it: name your project by "
		               "--user-project (%u: %s)",
		               s->place.bucket, status, said);
	if (status == 401)
		return sf_fail(err, -EACCES, "%s does not know who asks: 401: %s (%s)", host, said,
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

/* SF_REMOTE_AGAIN: the token is fetched anew; what is to be told where that does not help is in @err
 * then too. */
static int understand(struct sf_gs_store *s, const struct sf_remote_call *call, unsigned status,
                      const char *body, size_t len, struct sf_error *err)
{
	const char *token = status == 401 ? token_of(call) : NULL;
	int r = tell(s, status, body, len, err);

	if (!token)
		return r;
	renew(s, token);
	return SF_REMOTE_AGAIN;
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

	(void)head;
	return status_decides(status) ? 0 : understand(s, call, status, body, len, err);
}

const struct sf_remote_ops sf_gs_remote_ops = {
	.call = remote_call,
	.waits_for = remote_waits_for,
	.refused = remote_refused,
	.pin = remote_pin,
	.version_header = "x-goog-generation",
};

/* ---- small requests ---- */

static void see_clock(struct sf_gs_store *s, const char *date)
{
	int64_t theirs;

	if (!date || !sf_http_date(date, &theirs))
		return;
	pthread_mutex_lock(&s->locked.m);
	s->locked.skew_s = theirs - s->b.env.now(s->b.env.arg);
	pthread_mutex_unlock(&s->locked.m);
}

/* Through all of its tries. */
struct doing {
	struct sf_gs_store *s;
	const struct sf_gs_what *what;
	bool nobody;
	struct sf_remote_call call; /* the last */
};

static int make(void *arg, struct sf_http_ask *ask, struct sf_error *err)
{
	struct doing *d = arg;
	int r;

	sf_remote_call_release(&d->call);
	r = d->nobody ? make_url(d->s, d->what, &d->call.url, err)
	              : gs_call(d->s, d->what, true, &d->call, err);
	ask->url = d->call.url;
	ask->headers = (const char *const *)d->call.headers;
	return r;
}

/* 0: there was an answer, whatever its status. */
static int send_call(struct doing *d, struct sf_http_answer *ret, struct sf_error *err)
{
	static const char *const date[] = { "date", NULL };
	const struct sf_gs_what *what = d->what;
	const struct sf_http_ask ask = {
		.method = what->method,
		.body = what->body,
		.body_len = what->body_len,
		.ca_bundle = sf_remote_ca_bundle(&d->s->b.r),
		.limit = what->limit,
		.timeout_ms = what->timeout_ms,
		.stall_ms = what->body_len && !what->timeout_ms ? STALL_MS : 0,
		.stop = what->stop,
		.want_headers = date,
	};
	int r = sf_remote_ask_made(&d->s->b.r, &ask, make, d, ret, err);

	if (r == 0)
		see_clock(d->s, ret->kept[0]);
	return r;
}

static bool is_understood(const struct sf_gs_what *what, unsigned status)
{
	if (status == 200 || (what->writes && status / 100 == 2))
		return true;
	for (const unsigned *also = what->also; also && *also; also++)
		if (*also == status)
			return true;
	return false;
}

static int ask_once(struct sf_gs_store *s, const struct sf_gs_what *what,
                    struct sf_http_answer *ret, struct sf_error *err)
{
	struct doing d = { .s = s, .what = what };
	struct sf_http_answer a = { 0 };
	int r = send_call(&d, &a, err);

	if (r == 0 && is_understood(what, a.status)) {
		note(s, 0, "");
	} else if (r == 0 && a.status == 404 && !what->key) {
		note(s, 404, "notFound");
		r = sf_fail(err, -ENOENT, "there is no bucket '%s' at %s", s->place.bucket,
		            s->place.shown);
	} else if (r == 0) {
		r = understand(s, &d.call, a.status, a.body, a.len, err);
	}
	sf_remote_call_release(&d.call);
	if (r == 0)
		*ret = a;
	else
		sf_http_answer_release(&a);
	return r;
}

int sf_gs_do(struct sf_gs_store *s, const struct sf_gs_what *what, struct sf_http_answer *ret,
             struct sf_error *err)
{
	struct sf_error said = SF_ERROR_INIT;
	int r = ask_once(s, what, ret, &said);

	if (r == SF_REMOTE_AGAIN)
		r = ask_once(s, what, ret, &said);
	if (r == SF_REMOTE_AGAIN)
		r = -EACCES;
	return r < 0 ? sf_fail(err, r, "%s", said.msg) : 0;
}

int sf_gs_ask(struct sf_gs_store *s, const char *key, const char *query, uint64_t limit,
              struct sf_http_answer *ret, struct sf_error *err)
{
	const struct sf_gs_what what = {
		.method = "GET", .key = key, .query = query, .limit = limit
	};

	return sf_gs_do(s, &what, ret, err);
}

int sf_gs_ask_nobody(struct sf_gs_store *s, struct sf_http_answer *ret, struct sf_error *err)
{
	const struct sf_gs_what what = { .method = "GET",
		                         .query = "maxResults=1",
		                         .limit = SF_BUCKET_PAGE_MAX };
	struct doing d = { .s = s, .what = &what, .nobody = true };
	int r = send_call(&d, ret, err);

	sf_remote_call_release(&d.call);
	return r;
}
