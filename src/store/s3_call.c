#include "config.h"

#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "store/http_range.h"
#include "store/s3_list.h"
#include "store/s3_store.h"

#define ROUNDS 4        /* of a request: the region, the clock, the credentials may all be wrong */
#define RENEW_S 5       /* a request signed before credentials were renewed may fail after that */
#define SKEW_LEAST_S 60 /* a smaller one is not what the server complains of */
#define BODY_MAX 65536
#define HEADERS_MAX 8  /* of a caller's */
#define STALL_MS 60000 /* a body of which nothing goes on for so long is sent anew */
#define REGION_CHARS "abcdefghijklmnopqrstuvwxyz0123456789-"

/* ---- a request ---- */

static char **copy_headers(const char *const *headers)
{
	size_t n = 0, i = 0;
	char **to;

	while (headers[n])
		n++;
	to = calloc(n + 1, sizeof(*to));
	for (; to && i < n; i++) {
		to[i] = strdup(headers[i]);
		if (!to[i]) {
			sf_s3_headers_free(to);
			return NULL;
		}
	}
	return to;
}

/* The payer's, and the caller's. */
static int own_headers(const struct sf_s3_store *s, const struct sf_s3_what *what,
                       const char *ret[HEADERS_MAX + 2])
{
	size_t n = 0;

	if (s->payer)
		ret[n++] = "x-amz-request-payer: requester";
	for (size_t i = 0; what->headers && what->headers[i]; i++) {
		if (i == HEADERS_MAX)
			return -E2BIG;
		ret[n++] = what->headers[i];
	}
	ret[n] = NULL;
	return 0;
}

int sf_s3_call(struct sf_s3_store *s, const struct sf_s3_what *what, const char *payload,
               bool may_wait, struct sf_remote_call *ret, struct sf_error *err)
{
	struct sf_buf host = { .limit = 4096 }, path = { .limit = 65536 }, url = { .limit = 65536 };
	const char *headers[HEADERS_MAX + 2];
	struct sf_aws_credentials cred = { .expires = 0 };
	struct sf_remote_call call = { .url = NULL };
	char region[sizeof(s->locked.region)];
	int64_t skew_s;
	int r = may_wait ? sf_aws_provider_get(s->provider, &cred, err)
	                 : sf_aws_provider_try(s->provider, &cred, err);

	if (r < 0)
		return r;
	bool anonymous = r == 1;
	r = own_headers(s, what, headers);
	if (r < 0) {
		sf_aws_credentials_release(&cred);
		return sf_fail(err, r, "a request with more than %d headers", HEADERS_MAX);
	}
	pthread_mutex_lock(&s->locked.m);
	if (s->locked.guessed && !anonymous && cred.region &&
	    strspn(cred.region, REGION_CHARS) == strlen(cred.region)) {
		snprintf(s->locked.region, sizeof(s->locked.region), "%s", cred.region);
		s->locked.guessed = false;
	}
	memcpy(region, s->locked.region, sizeof(region));
	skew_s = s->locked.skew_s;
	call.as = s->locked.mends;
	snprintf(s->locked.key_id, sizeof(s->locked.key_id), "%s", anonymous ? "" : cred.key_id);
	snprintf(s->locked.from, sizeof(s->locked.from), "%s", anonymous ? "" : cred.from);
	pthread_mutex_unlock(&s->locked.m);
	sf_s3_place_request(&s->place, region, what->key, what->query, &host, &path, &url);
	r = sf_buf_check(&url);
	if (r < 0) {
		sf_fail(err, r, "a URL is longer than 65536 bytes or memory is out");
	} else if (anonymous) {
		call.headers = copy_headers(headers);
		r = call.headers ? 0 : sf_fail(err, -ENOMEM, "no memory for a request");
	} else {
		const struct sf_s3_request req = {
			.method = what->method,
			.host = sf_buf_cstr(&host),
			.path = sf_buf_cstr(&path),
			.query = what->query,
			.region = region,
			.service = "s3",
			.headers = headers,
			.payload = payload,
			.now = s->b.env.now(s->b.env.arg) + skew_s,
			.keys = s->keys,
		};
		r = sf_s3_sign(&req, &cred, &call.headers, err);
	}
	sf_aws_credentials_release(&cred);
	if (r == 0) {
		sf_buf_cstr(&url);
		call.url = (char *)SF_STEAL(url.at);
		*ret = call;
	}
	sf_buf_release(&host);
	sf_buf_release(&path);
	sf_buf_release(&url);
	return r;
}

static int remote_call(struct sf_remote_store *r, const char *name, struct sf_remote_call *ret,
                       struct sf_error *err)
{
	struct sf_s3_store *s = (struct sf_s3_store *)r;
	SF_FREE char *key = sf_bucket_key(&s->b, name);
	const struct sf_s3_what what = { .method = "GET", .key = key, .query = "" };

	if (!key)
		return sf_fail(err, -ENOMEM, "'%s': no memory for a request", name);
	return sf_s3_call(s, &what, SF_S3_EMPTY, false, ret, err);
}

/* ---- an answer that refuses ---- */

struct refusal {
	unsigned status, as;       /* as: of the request, the store's mends then */
	const char *region, *date; /* headers, NULL: not sent */
	const char *body;
	size_t len;
};

static bool is_one_of(const char *code, const char *const *list)
{
	for (; *list; list++)
		if (strcmp(code, *list) == 0)
			return true;
	return false;
}

/* Is the bucket in another region than we asked? From then on that is asked. */
static bool moved(struct sf_s3_store *s, const char *region)
{
	size_t n = region ? strlen(region) : 0;
	bool moved;

	if (!n || n >= sizeof(s->locked.region) || strspn(region, REGION_CHARS) != n)
		return false;
	pthread_mutex_lock(&s->locked.m);
	moved = strcmp(s->locked.region, region) != 0;
	s->locked.mends += moved;
	s->locked.guessed = false;
	memcpy(s->locked.region, region, n + 1);
	pthread_mutex_unlock(&s->locked.m);
	return moved;
}

static bool clock_mended(struct sf_s3_store *s, const struct refusal *why,
                         const struct sf_s3_error *e)
{
	int64_t now = s->b.env.now(s->b.env.arg), theirs = e->server_time;
	bool mended;

	if (!theirs && (!why->date || !sf_http_date(why->date, &theirs)))
		return false;
	pthread_mutex_lock(&s->locked.m);
	int64_t more = theirs - now - s->locked.skew_s;
	mended = more > SKEW_LEAST_S || more < -SKEW_LEAST_S;
	if (mended) {
		s->locked.skew_s += more;
		s->locked.mends++;
	}
	pthread_mutex_unlock(&s->locked.m);
	return mended;
}

static void renew(struct sf_s3_store *s)
{
	int64_t now = s->b.env.now(s->b.env.arg);
	char key_id[sizeof(s->locked.key_id)];
	bool just;

	pthread_mutex_lock(&s->locked.m);
	just = s->locked.renewed && now - s->locked.renewed < RENEW_S;
	if (!just)
		s->locked.renewed = now;
	memcpy(key_id, s->locked.key_id, sizeof(key_id));
	pthread_mutex_unlock(&s->locked.m);
	if (!just)
		sf_aws_provider_expired(s->provider, key_id);
}

static int tell(struct sf_s3_store *s, const struct refusal *why, const struct sf_s3_error *e,
                struct sf_error *err)
{
	static const char *const refused[] = { "AccessDenied",   "AllAccessDisabled",
		                               "AccountProblem", "InvalidToken",
		                               "ExpiredToken",   "TokenRefreshRequired",
		                               "InvalidTokenId", "RequestTimeTooSkewed",
		                               "NotSignedUp",    NULL };
	char from[sizeof(s->locked.from) + 32] = "nothing is signed", region[64];

	pthread_mutex_lock(&s->locked.m);
	if (*s->locked.from)
		snprintf(from, sizeof(from), "credentials: %s", s->locked.from);
	memcpy(region, s->locked.region, sizeof(region));
	pthread_mutex_unlock(&s->locked.m);
	const char *host = s->place.host ? s->place.host : "Amazon S3";

	if (strcmp(e->code, "NoSuchBucket") == 0)
		return sf_fail(err, -ENOENT, "there is no bucket '%s' at %s", s->place.bucket,
		               host);
	if (strcmp(e->code, "InvalidAccessKeyId") == 0)
		return sf_fail(err, -EACCES, "%s does not know the access key id (%s): %s", host,
		               from, e->code);
	if (strcmp(e->code, "SignatureDoesNotMatch") == 0)
		return sf_fail(err, -EACCES,
		               "%s says that the secret access key does not match the key id (%s): "
		               "%s",
		               host, from, e->code);
	if (strcmp(e->code, "InvalidObjectState") == 0)
		return sf_fail(err, -EACCES, "it is archived and must be restored first: %s: %s",
		               e->code, e->message);
	if (is_one_of(e->code, refused) || why->status == 401 || why->status == 403)
		return sf_fail(err, -EACCES, "%s refuses the request: %u %s%s%s (%s)", host,
		               why->status, e->code, *e->message ? ": " : "", e->message, from);
	if (*e->code)
		return sf_fail(err, why->status == 404 ? -ENOENT : -EIO, "%s answers %u %s: %s%s%s",
		               host, why->status, e->code, e->message,
		               *e->request_id ? ", request " : "", e->request_id);
	return sf_fail(err, why->status == 404 ? -ENOENT : -EIO,
	               "%s answers %u without an S3 error document (region %s; %s): is the "
	               "endpoint one of S3?",
	               host, why->status, region, from);
}

/* SF_REMOTE_AGAIN: what was wrong is mended. Else what is to be told of it. */
static int understand(struct sf_s3_store *s, const struct refusal *why, struct sf_error *err)
{
	static const char *const expired[] = { "ExpiredToken",   "ExpiredTokenException",
		                               "InvalidToken",   "TokenRefreshRequired",
		                               "RequestExpired", NULL };
	struct sf_s3_error e;
	bool stale;

	/* another request's refusal told what to mend: this one was signed before */
	pthread_mutex_lock(&s->locked.m);
	stale = s->locked.mends != why->as;
	pthread_mutex_unlock(&s->locked.m);
	if (stale)
		return SF_REMOTE_AGAIN;
	sf_s3_error_parse(why->body, why->len, &e);
	pthread_mutex_lock(&s->locked.m);
	memcpy(s->locked.said, e.code, sizeof(s->locked.said));
	pthread_mutex_unlock(&s->locked.m);
	if (moved(s, *e.region ? e.region : why->region))
		return SF_REMOTE_AGAIN;
	if (strcmp(e.code, "RequestTimeTooSkewed") == 0 && clock_mended(s, why, &e))
		return SF_REMOTE_AGAIN;
	int r = tell(s, why, &e, err);
	if (is_one_of(e.code, expired)) {
		renew(s);
		return SF_REMOTE_AGAIN;
	}
	return r;
}

static bool is_server_trouble(unsigned status)
{
	return status >= 500 || status == 429 || status == 408;
}

static int remote_refused(struct sf_remote_store *r, const struct sf_remote_call *call,
                          unsigned status, const struct sf_http_head *head, const char *body,
                          size_t len, struct sf_error *err)
{
	struct refusal why = { .status = status, .as = call->as, .body = body, .len = len };
	char region[64], date[64];
	const char *v;
	size_t n;

	/* another version, gone, shorter; trouble that passes: known by its status */
	if (status == 412 || status == 404 || status == 416 || is_server_trouble(status))
		return 0;
	v = sf_http_header(head, "x-amz-bucket-region", &n);
	if (v && n < sizeof(region)) {
		snprintf(region, sizeof(region), "%.*s", (int)n, v);
		why.region = region;
	}
	v = sf_http_header(head, "date", &n);
	if (v && n < sizeof(date)) {
		snprintf(date, sizeof(date), "%.*s", (int)n, v);
		why.date = date;
	}
	return understand((struct sf_s3_store *)r, &why, err);
}

static struct sf_renew *remote_waits_for(struct sf_remote_store *r)
{
	return sf_aws_provider_renew(((struct sf_s3_store *)r)->provider);
}

const struct sf_remote_ops sf_s3_remote_ops = { .call = remote_call,
	                                        .waits_for = remote_waits_for,
	                                        .refused = remote_refused };

/* ---- requests that are waited for ---- */

#define WANT_MAX 8

/* Through all of its tries, which are signed one by one. */
struct doing {
	struct sf_s3_store *s;
	const struct sf_s3_what *what;
	struct sf_remote_call call; /* the last */
	char payload[65];
	int last; /* what the last refusal means, should it not pass */
};

static int make(void *arg, struct sf_http_ask *ask, struct sf_error *err)
{
	struct doing *d = arg;

	sf_remote_call_release(&d->call);
	int r = sf_s3_call(d->s, d->what, d->payload, true, &d->call, err);
	ask->url = d->call.url;
	ask->headers = (const char *const *)d->call.headers;
	return r;
}

static int ask_once(struct doing *d, unsigned *ret_as, struct sf_http_answer *ret,
                    struct sf_error *err)
{
	const char *names[SF_S3_WANT + WANT_MAX + 1] = { "x-amz-bucket-region", "date" };
	const struct sf_s3_what *what = d->what;
	int r;

	for (size_t i = 0; what->want && what->want[i] && i < WANT_MAX; i++)
		names[SF_S3_WANT + i] = what->want[i];
	const struct sf_http_ask ask = {
		.method = what->method,
		.body = what->body,
		.body_len = what->body_len,
		.ca_bundle = sf_remote_ca_bundle(&d->s->b.r),
		.limit = what->limit,
		.timeout_ms = what->timeout_ms,
		.stall_ms = what->body_len && !what->timeout_ms ? STALL_MS : 0,
		.stop = what->stop,
		.want_headers = names,
	};
	*ret = (struct sf_http_answer){ 0 };
	r = sf_remote_ask_made(&d->s->b.r, &ask, make, d, ret, err);
	*ret_as = d->call.as;
	sf_remote_call_release(&d->call);
	return r;
}

/* What is true of a body depends on whether anybody on the way could change it: over TLS nobody can, and the hash
 * would cost more than all the rest. */
static int hash_body(struct doing *d, struct sf_error *err)
{
	const struct sf_s3_what *what = d->what;
	int r = 0;

	if (!what->body_len)
		memcpy(d->payload, SF_S3_EMPTY, sizeof(d->payload));
	else if (!d->s->place.host || d->s->place.https)
		snprintf(d->payload, sizeof(d->payload), "UNSIGNED-PAYLOAD");
	else
		r = sf_s3_payload(what->body, what->body_len, d->payload);
	return r < 0 ? sf_fail(err, r, "no memory for a request") : 0;
}

static bool is_understood(const struct sf_s3_what *what, unsigned status)
{
	const bool reads = strcmp(what->method, "GET") == 0 || strcmp(what->method, "HEAD") == 0;

	if (status == 200 || (!reads && status / 100 == 2))
		return true;
	for (const unsigned *also = what->also; also && *also; also++)
		if (*also == status)
			return true;
	return false;
}

/* Trouble that passes although its status does not say so. */
static bool passes(const struct sf_http_answer *a)
{
	static const char *const codes[] = { "RequestTimeout",
		                             "BadDigest",
		                             "IncompleteBody",
		                             "OperationAborted",
		                             "SlowDown",
		                             "Throttling",
		                             "ThrottlingException",
		                             "RequestLimitExceeded",
		                             "BandwidthLimitExceeded",
		                             NULL };
	struct sf_s3_error e;

	return (a->status == 400 || a->status == 409) && sf_s3_error_parse(a->body, a->len, &e) &&
	       is_one_of(e.code, codes);
}

/* Without a body a refusal does not say why: the same as a GET has one, of which one byte is enough. 1: it is the
 * object alone that is refused. */
static int look_why(struct sf_s3_store *s, const _Atomic bool *stop, unsigned *as,
                    struct sf_http_answer *a, struct sf_error *err)
{
	static const struct sf_s3_what list = { .method = "GET",
		                                .query = "list-type=2&max-keys=0",
		                                .limit = BODY_MAX };
	struct sf_s3_what what = list;
	struct doing d = { .s = s, .what = &what, .payload = SF_S3_EMPTY };
	int r;

	what.stop = stop;
	sf_http_answer_release(a);
	r = ask_once(&d, as, a, err);
	if (r < 0 || a->status != 200)
		return r;
	sf_http_answer_release(a);
	return 1;
}

/* One round: 0 it is answered; SF_REMOTE_AGAIN what was wrong is mended, and @said; negative, with @err. */
static int ask_round(struct doing *d, unsigned round, struct sf_http_answer *ret,
                     struct sf_error *said, struct sf_error *err)
{
	const bool head = strcmp(d->what->method, "HEAD") == 0;
	struct sf_http_answer a;
	unsigned as;
	int r = ask_once(d, &as, &a, err);

	if (r < 0)
		return r;
	if (is_understood(d->what, a.status)) {
		*ret = a;
		return 0;
	}
	if (head && a.status == 404) { /* without a body: which of both, nobody says */
		sf_http_answer_release(&a);
		return sf_fail(err, -ENOENT, "there is no such object, or no such bucket (404)");
	}
	if (head && (a.status == 400 || a.status == 403) && !a.kept[0]) {
		r = look_why(d->s, d->what->stop, &as, &a, err);
		if (r == 1) /* the bucket may be listed: it is the object */
			return sf_fail(err, -EACCES, "reading it is refused (403)");
		if (r < 0)
			return r;
	}
	const struct refusal why = { a.status, as, a.kept[0], a.kept[1], a.body, a.len };
	bool again = passes(&a);
	said->msg[0] = '\0';
	r = understand(d->s, &why, said);
	sf_http_answer_release(&a);
	d->last = r < 0 ? r : -EACCES;
	if (r < 0 && again && sf_remote_pause(&d->s->b.r, round + 1, d->what->stop))
		return SF_REMOTE_AGAIN;
	return r < 0 ? sf_fail(err, r, "%s", said->msg) : r;
}

int sf_s3_do(struct sf_s3_store *s, const struct sf_s3_what *what, struct sf_http_answer *ret,
             struct sf_error *err)
{
	struct doing d = { .s = s, .what = what, .last = -EACCES };
	struct sf_error said = SF_ERROR_INIT;
	int r = hash_body(&d, err);

	if (r < 0)
		return r;
	r = SF_REMOTE_AGAIN;
	for (unsigned round = 0; round < ROUNDS && r == SF_REMOTE_AGAIN; round++)
		r = ask_round(&d, round, ret, &said, err);
	if (r != SF_REMOTE_AGAIN)
		return r;
	/* mended as often as can be: the last refusal is what is told */
	return said.msg[0] ? sf_fail(err, d.last, "%s", said.msg)
	                   : sf_fail(err, -EIO, "each region redirects to another");
}

int sf_s3_ask(struct sf_s3_store *s, const char *method, const char *key, const char *query,
              const char *const *want, uint64_t limit, struct sf_http_answer *ret,
              struct sf_error *err)
{
	const struct sf_s3_what what = {
		.method = method, .key = key, .query = query, .want = want, .limit = limit
	};

	return sf_s3_do(s, &what, ret, err);
}
