#include "config.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/wipe.h"
#include "store/http_range.h"
#include "store/remote_trip.h"

/* An object store answers a request after 10 to 50 ms and sends 90 MB/s: a gap of 1 MiB costs less
 * than a request, and 8 MiB are what its makers' own clients ask for at once. */
static const struct sf_source_hints remote_hints = {
	.range_max = UINT64_C(8) << 20,
	.gap_max = UINT64_C(1) << 20,
	.head_guess = 4096,
	.ahead = UINT64_C(128) << 20, /* 16 connections' worth of such requests */
	.inflight = 16,
};

#define STALL_MS 10000u /* without a byte */
#define SECOND_ROUND 2  /* times that a store may mend something of a request */
#define WRONG_MOST 3    /* answers that are not what was asked for: most servers stay that way */

void sf_remote_call_release(struct sf_remote_call *call)
{
	free(call->url);
	for (char **h = call->headers; h && *h; h++)
		sf_wipe_free(*h);
	free(call->headers);
	*call = (struct sf_remote_call){ 0 };
}

/* ---- the answer ---- */

/* From now on nothing is read of it. */
static int changed(struct sf_remote *src, struct sf_error *err, const char *how)
{
	struct sf_error why;
	int r = sf_fail(&why, -ESTALE, "'%s' changed on the server since it was opened: %s",
	                src->s.name, how);

	pthread_mutex_lock(&src->locked.m);
	if (!src->changed)
		src->locked.why = why;
	src->changed = true;
	pthread_mutex_unlock(&src->locked.m);
	return sf_fail(err, r, "%s", why.msg);
}

static bool same_text(const char *want, const char *at, size_t len)
{
	return strlen(want) == len && memcmp(want, at, len) == 0;
}

/* An ETag is quoted, and may be weak: then the server does not match by it, but we can. */
static bool is_tag(const char *v)
{
	return v[0] == '"' || strncmp(v, "W/\"", 3) == 0;
}

static int check_version(struct sf_trip *t, const struct sf_http_head *head)
{
	const char *want = t->src->s.version.etag, *v = t->src->store->ops->version_header;
	char how[512];
	size_t len;

	if (!want)
		return 0;
	v = sf_http_header(head, v ? v : is_tag(want) ? "ETag" : "Last-Modified", &len);
	if (!v || same_text(want, v, len))
		return 0;
	snprintf(how, sizeof(how), "it was %.200s, now %.*s", want, (int)SF_MIN(len, (size_t)200),
	         v);
	return changed(t->src, &t->http.err, how);
}

/* A 206: is it what was asked for? */
static int check_part(struct sf_trip *t, const struct sf_http_head *head)
{
	const struct sf_io_req *req = t->req;
	uint64_t from = req->off + t->done, to = req->off + req->len - 1, first, last, total;
	char how[128];
	size_t len = 0;
	const char *v = sf_http_header(head, "Content-Range", &len);

	if (!v || sf_content_range(v, len, &first, &last, &total) < 0)
		return sf_fail(&t->http.err, -EBADMSG,
		               "'%s': the server answers a range without saying which",
		               t->src->s.name);
	if (total != UINT64_MAX && total != t->src->s.size) {
		snprintf(how, sizeof(how), "it had %" PRIu64 " bytes, now %" PRIu64, t->src->s.size,
		         total);
		return changed(t->src, &t->http.err, how);
	}
	if (first != from || last != to)
		return sf_fail(&t->http.err, -EBADMSG,
		               "'%s': bytes %" PRIu64 "-%" PRIu64
		               " were asked for, the server sends %" PRIu64 "-%" PRIu64,
		               t->src->s.name, from, to, first, last);
	return 0;
}

/* A 200: the server gives all of it, which is what was asked for only if all was. */
static int check_whole(struct sf_trip *t)
{
	const struct sf_io_req *req = t->req;

	if (req->off == 0 && t->done == 0 && req->len == t->src->s.size)
		return 0;
	return sf_fail(&t->http.err, -ENOTSUP,
	               "'%s': the server sends whole files only (it ignores Range): %" PRIu64
	               " bytes for each read",
	               t->src->s.name, t->src->s.size);
}

/* Are its bytes those that are stored? Some servers unpack what is stored packed. */
static int check_coding(struct sf_trip *t, const struct sf_http_head *head)
{
	size_t len = 0;
	const char *v = sf_http_header(head, "Content-Encoding", &len);

	if (!v)
		v = sf_http_header(head, "x-goog-stored-content-encoding", &len);
	if (v && !same_text("identity", v, len))
		return sf_fail(&t->http.err, -ENOTSUP,
		               "'%s': the server sends it encoded (%.*s): byte ranges of it "
		               "cannot be read",
		               t->src->s.name, (int)SF_MIN(len, (size_t)40), v);
	return 0;
}

static int check_length(struct sf_trip *t, const struct sf_http_head *head)
{
	const uint64_t want = t->req->len - t->done;
	uint64_t have;
	size_t len = 0;
	const char *v = sf_http_header(head, "Content-Length", &len);

	if (v && (!sf_http_number(&v, v + len, &have) || have != want))
		return sf_fail(&t->http.err, -EBADMSG,
		               "'%s': %" PRIu64 " bytes were asked for, the server sends %.*s",
		               t->src->s.name, want, (int)SF_MIN(len, (size_t)24),
		               sf_http_header(head, "Content-Length", &len));
	return 0;
}

static int on_answer(struct sf_http_req *http, const struct sf_http_head *head)
{
	struct sf_trip *t = sf_container_of(http, struct sf_trip, http);
	size_t len = 0;
	const char *v;
	int r;

	t->status = head->status;
	if (head->status != 206 && head->status != 200) {
		v = sf_http_header(head, "Retry-After", &len);
		t->after_ms = v ? sf_http_retry_after_ms(v, len, time(NULL)) : -1;
		t->refusal.status = head->status;
		sf_buf_reset(&t->refusal.text);
		sf_buf_add(&t->refusal.text, head->text.at, head->text.len);
		return 0;
	}
	r = check_version(t, head);
	if (r >= 0)
		r = check_coding(t, head);
	if (r >= 0)
		r = head->status == 206 ? check_part(t, head) : check_whole(t);
	return r < 0 ? r : check_length(t, head);
}

static int on_bytes(struct sf_http_req *http, const void *at, size_t len)
{
	struct sf_trip *t = sf_container_of(http, struct sf_trip, http);
	const uint8_t *from = at;

	if (t->status != 206 && t->status != 200) {
		size_t n = SF_MIN(len, SF_REFUSAL_MAX - t->refused_len);
		memcpy(t->refused + t->refused_len, at, n);
		t->refused_len += n;
		return 0;
	}
	if (len > t->req->len - t->done)
		return sf_fail(&http->err, -EBADMSG,
		               "'%s': the server sends more than the %" PRIu64
		               " bytes that were asked for",
		               t->src->s.name, t->req->len);
	for (size_t left = len; left;) {
		const struct iovec *v = &t->req->iov[t->at_iov];
		size_t n = SF_MIN(left, v->iov_len - t->at_byte);
		memcpy((char *)v->iov_base + t->at_byte, from, n);
		from += n;
		left -= n;
		t->at_byte += n;
		if (t->at_byte == v->iov_len) {
			t->at_iov++;
			t->at_byte = 0;
		}
	}
	t->done += len;
	return 0;
}

/* ---- how it ends ---- */

static void end(struct sf_trip *t, int r)
{
	struct sf_remote *src = t->src;
	struct sf_io_req *req = t->req;

	sf_trip_leave(t);
	pthread_mutex_lock(&src->locked.m);
	if (t->prev)
		t->prev->next = t->next;
	else
		src->locked.first = t->next;
	if (t->next)
		t->next->prev = t->prev;
	pthread_mutex_unlock(&src->locked.m);
	if (r < 0)
		sf_fail(&req->err, r, "%s", t->http.err.msg);
	sf_remote_call_release(&t->call);
	sf_buf_release(&t->refusal.text);
	free(t->match);
	free(t->headers);
	free(t);
	sf_io_req_end(req, r);
}

static const char *host(const struct sf_trip *t, int *len)
{
	const char *at = strstr(t->call.url, "://");

	at = at ? at + 3 : t->call.url;
	*len = (int)SF_MIN(strcspn(at, "/?"), (size_t)200);
	return at;
}

static void fly(struct sf_trip *t);

/* An answer that gave nothing. */
static void refused(struct sf_trip *t)
{
	struct sf_remote *src = t->src;
	const struct sf_remote_ops *ops = src->store->ops;
	struct sf_error why = SF_ERROR_INIT;
	unsigned status = t->status;
	int len, r = 0;
	const char *at = host(t, &len);

	if (ops->refused)
		r = ops->refused(src->store, &t->call, status, &t->refusal, t->refused,
		                 t->refused_len, &why);
	if (!sf_http_status_again(status))
		sf_remote_answered(src->store);
	if (r == SF_REMOTE_AGAIN && t->mended < SECOND_ROUND) {
		t->mended++;
		atomic_fetch_add_explicit(&src->s.io->counters.retried, 1, memory_order_relaxed);
		t->http.not_before_ns = 0;
		fly(t);
		return;
	}
	if (r == SF_REMOTE_AGAIN && why.msg[0]) /* what was mended did not help */
		r = -EACCES;
	if (r < 0) {
		end(t, sf_fail(&t->http.err, r, "'%s': %s", src->s.name, why.msg));
	} else if (status == 412) {
		end(t, changed(src, &t->http.err, "the server has another version (412)"));
	} else if (status == 404 || status == 410) {
		end(t, changed(src, &t->http.err, "it is gone (404)"));
	} else if (status == 416) {
		end(t, changed(src, &t->http.err, "it has fewer bytes now (416)"));
	} else if (status == 401 || status == 403) {
		end(t, sf_fail(&t->http.err, -EACCES, "'%s': %.*s refuses the request (%u)",
		               src->s.name, len, at, status));
	} else {
		r = sf_fail(&t->http.err, -EIO, "'%s': %.*s answers %u", src->s.name, len, at,
		            status);
		if (sf_http_status_again(status))
			sf_trip_again(t, r, t->after_ms);
		else
			end(t, r);
	}
}

static void on_done(struct sf_http_req *http, int r)
{
	struct sf_trip *t = sf_container_of(http, struct sf_trip, http);
	struct sf_remote *src = t->src;
	bool cancelled;

	pthread_mutex_lock(&src->locked.m);
	t->flying = false;
	cancelled = t->cancelled;
	pthread_mutex_unlock(&src->locked.m);

	if (r == 0 && (t->status == 206 || t->status == 200)) {
		if (t->done == t->req->len) {
			sf_http_tokens_give(&src->store->tokens, t->paid + 1);
			sf_remote_answered(src->store);
			end(t, 0);
			return;
		}
		r = sf_fail(&http->err, -ECONNRESET, "the answer ends after %" PRIu64 " bytes",
		            t->done);
	}
	if (r == -ECANCELED && !cancelled && atomic_load(&src->store->outage))
		sf_outage_end(src->store->outage); /* the transport ends */
	if (cancelled && r < 0)
		sf_trip_given_up(t);
	if (cancelled || r == -ECANCELED) {
		end(t, sf_fail(&http->err, -ECANCELED, "'%s': canceled", src->s.name));
	} else if (r == 0) {
		refused(t);
	} else if (sf_http_error_again(r)) {
		sf_fail_ctx(&http->err, r, "'%s'", src->s.name);
		t->http.fresh = true; /* what failed is left alone */
		sf_trip_again(t, r == -ETIMEDOUT ? r : -EIO, -1);
	} else if (r == -EBADMSG && ++t->wrong < WRONG_MOST) {
		t->http.fresh = true;
		t->done = 0; /* none of it counts: it may be of another answer */
		t->at_iov = 0;
		t->at_byte = 0;
		sf_trip_again(t, r, -1);
	} else {
		if (http->err.msg[0] != '\'')
			sf_fail_ctx(&http->err, r, "'%s'", src->s.name);
		end(t, r);
	}
}

/* ---- a try ---- */

static int make_headers(struct sf_trip *t)
{
	const struct sf_remote_ops *ops = t->src->store->ops;
	const char *tag = t->src->s.version.etag;
	uint64_t from = t->req->off + t->done, to = t->req->off + t->req->len - 1;
	size_t n = 0, k = 0;

	snprintf(t->range, sizeof(t->range), "Range: bytes=%" PRIu64 "-%" PRIu64, from, to);
	free(t->match);
	t->match = NULL;
	if (tag && ops->pin) {
		if (ops->pin(&t->src->s.version, &t->call) < 0)
			return -ENOMEM;
	} else if (tag && strncmp(tag, "W/", 2) != 0 &&
	           asprintf(&t->match, "%s: %s", is_tag(tag) ? "If-Match" : "If-Unmodified-Since",
	                    tag) < 0)
		t->match = NULL;
	for (char **h = t->call.headers; h && *h; h++)
		n++;
	free(t->headers);
	t->headers = sf_alloc_array(n + 3, sizeof(*t->headers));
	if (!t->headers)
		return -ENOMEM;
	for (; k < n; k++)
		t->headers[k] = t->call.headers[k];
	t->headers[k++] = t->range;
	if (t->match)
		t->headers[k++] = t->match;
	t->headers[k] = NULL;
	return 0;
}

static unsigned timeout_of(const struct sf_trip *t)
{
	uint64_t ms = 10000 + (t->req->len - t->done) / 1000; /* 1 MB/s */

	if (t->end_ns)
		ms = SF_MIN(ms, (uint64_t)SF_MAX((t->end_ns - sf_now_ns()) / 1000000, 1));
	return (unsigned)SF_MIN(ms, (uint64_t)UINT32_MAX / 2);
}

static void fly(struct sf_trip *t)
{
	struct sf_remote_store *store = t->src->store;
	bool cancelled;
	int r;

	sf_remote_call_release(&t->call);
	r = store->ops->call(store, t->src->s.name, &t->call, &t->http.err);
	if (r == -EAGAIN) {
		sf_trip_park(t);
		return;
	}
	if (r >= 0 && make_headers(t) < 0)
		r = sf_fail(&t->http.err, -ENOMEM, "'%s': no memory for a request", t->src->s.name);
	if (r < 0) {
		end(t, r);
		return;
	}
	t->tries++;
	t->sent_ns = SF_MAX(sf_now_ns(), t->http.not_before_ns);
	t->status = 0;
	t->after_ms = -1;
	t->refused_len = 0;
	t->http.method = "GET";
	t->http.url = t->call.url;
	t->http.headers = t->headers;
	t->http.ca_bundle = sf_remote_ca_bundle(store);
	t->http.timeout_ms = timeout_of(t);
	t->http.stall_ms = STALL_MS;
	t->http.yields = t->req->yields;
	t->http.follow = store->follow;
	t->http.answer = on_answer;
	t->http.bytes = on_bytes;
	t->http.done = on_done;
	pthread_mutex_lock(&t->src->locked.m);
	cancelled = t->cancelled;
	t->parked = t->waits = false;
	t->flying = !cancelled;
	if (!cancelled) /* under the lock: whoever cancels it must find it there */
		sf_http_submit(store->http, &t->http);
	pthread_mutex_unlock(&t->src->locked.m);
	if (cancelled)
		end(t, sf_fail(&t->http.err, -ECANCELED, "'%s': canceled", t->src->s.name));
}

static const struct sf_trip_ops trip_ops = { .fly = fly, .end = end };

/* ---- the source ---- */

static int remote_check(struct sf_source *s, struct sf_error *err)
{
	struct sf_remote *src = (struct sf_remote *)s;
	struct sf_error why;

	if (!atomic_load_explicit(&src->changed, memory_order_relaxed))
		return 0;
	pthread_mutex_lock(&src->locked.m);
	why = src->locked.why;
	pthread_mutex_unlock(&src->locked.m);
	return sf_fail(err, -ESTALE, "%s", why.msg);
}

static int remote_try(struct sf_source *s, uint64_t off, const struct iovec *iov, int niov,
                      uint64_t len, struct sf_error *err)
{
	return len ? -EAGAIN : 0;
}

static void remote_submit(struct sf_source *s, struct sf_io_req *req)
{
	struct sf_remote *src = (struct sf_remote *)s;
	int r = remote_check(s, &req->err);
	struct sf_trip *t = r < 0 ? NULL : calloc(1, sizeof(*t));

	if (r >= 0 && !req->len) {
		free(t);
		sf_io_req_end(req, 0);
		return;
	}
	if (r >= 0 && !t)
		r = sf_fail(&req->err, -ENOMEM, "'%s': no memory for a request", s->name);
	if (r < 0) {
		sf_io_req_end(req, r);
		return;
	}
	t->ops = &trip_ops;
	t->src = src;
	t->req = req;
	t->refusal.text.limit = 64 << 10;
	if (s->io->timeout_ms)
		t->end_ns = sf_now_ns() + (int64_t)s->io->timeout_ms * 1000000;
	pthread_mutex_lock(&src->locked.m);
	t->next = src->locked.first;
	if (t->next)
		t->next->prev = t;
	src->locked.first = t;
	pthread_mutex_unlock(&src->locked.m);
	sf_trip_begin(t);
}

static void remote_cancel(struct sf_source *s, struct sf_io_req *req)
{
	struct sf_remote *src = (struct sf_remote *)s;

	pthread_mutex_lock(&src->locked.m);
	for (struct sf_trip *t = src->locked.first; t; t = t->next) {
		if (t->req != req)
			continue;
		t->cancelled = true;
		if (t->flying)
			sf_http_cancel(&t->http);
		else
			sf_trip_wake(t);
	}
	pthread_mutex_unlock(&src->locked.m);
}

static void remote_free(struct sf_source *s)
{
	struct sf_remote *src = (struct sf_remote *)s;

	pthread_mutex_destroy(&src->locked.m);
	free(src);
}

static const struct sf_source_ops source_ops = {
	.try_read = remote_try,
	.submit = remote_submit,
	.cancel = remote_cancel,
	.check = remote_check,
	.free = remote_free,
};

int sf_remote_source(struct sf_remote_store *s, const char *name, uint64_t size,
                     const struct sf_version *version, struct sf_source **ret, struct sf_error *err)
{
	size_t n = strlen(name) + 1, m = version->etag ? strlen(version->etag) + 1 : 0;
	struct sf_remote *src = calloc(1, sizeof(*src) + n + m);

	if (!src)
		return sf_fail(err, -ENOMEM, "'%s': no memory", name);
	pthread_mutex_init(&src->locked.m, NULL);
	memcpy(src->name, name, n);
	if (m)
		memcpy(src->name + n, version->etag, m);
	src->store = s;
	src->s = (struct sf_source){ .ops = &source_ops,
		                     .hints = &remote_hints,
		                     .refs = 1,
		                     .io = s->s.io,
		                     .name = src->name,
		                     .size = size,
		                     .version = *version };
	src->s.version.etag = m ? src->name + n : NULL;
	*ret = &src->s;
	return 0;
}
