#include "config.h"

#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sf_test.h"
#include "store/http.h"
#include "store/source.h"
#include "tests/lib/http_server.h"

#define BYTES 300000u

struct world {
	struct sf_io io;
	struct sf_http_server server;
	struct sf_http_object object[2];
	struct sf_store *store;
	/* what becomes of requests of ranges: these, one after the other, then nothing */
	struct sf_http_fault plan[32];
	unsigned nplan, at;
	bool of_heads; /* of HEAD instead */
	uint8_t bytes[BYTES], got[BYTES];
};

static struct sf_http_fault next_fault(void *arg, const struct sf_http_seen *seen)
{
	struct world *w = arg;
	bool head = strcmp(seen->method, "HEAD") == 0;

	if (head != w->of_heads || w->at == w->nplan)
		return (struct sf_http_fault){ 0 };
	return w->plan[w->at++];
}

static struct world *begin(unsigned timeout_ms)
{
	struct world *w = calloc(1, sizeof(*w));
	uint64_t seed = 7;
	char url[128];

	ck_assert_ptr_nonnull(w);
	for (size_t i = 0; i < BYTES; i++)
		w->bytes[i] = (uint8_t)sf_test_rand(&seed);
	w->object[0] = (struct sf_http_object){
		.path = "/d/a", .at = w->bytes, .len = BYTES, .etag = "\"v1\""
	};
	w->object[1] = (struct sf_http_object){ .path = "/d/sub/with%20blank%25%3F%23.bin",
		                                .at = w->bytes,
		                                .len = 10 };
	w->server.object = w->object;
	w->server.nobjects = 2;
	w->server.fault = next_fault;
	w->server.arg = w;
	ck_assert_int_eq(sf_http_server_start(&w->server), 0);
	ck_assert_int_eq(sf_io_init(&w->io, 2, NULL), 0);
	w->io.timeout_ms = timeout_ms;
	snprintf(url, sizeof(url), "%s/d/", w->server.url);
	ck_assert_int_eq(sf_store_open(&w->io, url, NULL, &w->store, NULL), 0);
	return w;
}

static void finish(struct world *w)
{
	sf_store_free(w->store);
	sf_io_release(&w->io);
	sf_http_server_stop(&w->server);
	free(w);
}

/* What may be a password is not shown, but tells places apart; a slash at the end does not. */
START_TEST(what_is_not_shown_tells_places_apart)
{
	static const char *const url[] = { "http://h:1/a@b/x",  "http://h:2/a@b/x",
		                           "http://h:1/a@b/y",  "http://h:1/a@b/x?q",
		                           "http://h:1/a@b/x/", "https://h:1/a@b/x" };
	struct sf_store *s[SF_ARRAY_LEN(url)];
	struct sf_io io;

	ck_assert_int_eq(sf_io_init(&io, 1, NULL), 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(url); i++) {
		ck_assert_int_eq(sf_store_open(&io, url[i], NULL, &s[i], NULL), 0);
		ck_assert_ptr_null(strstr(s[i]->at, "a@b"));
		for (size_t k = 0; k < i; k++)
			ck_assert_int_eq(strcmp(s[i]->at, s[k]->at) == 0, i == 4 && k == 0);
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(url); i++)
		sf_store_free(s[i]);
	sf_io_release(&io);
}
END_TEST

static struct sf_source *open_a(struct world *w)
{
	struct sf_source *src = NULL;
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(w->store->ops->open(w->store, "a", NULL, &src, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(src->size, BYTES);
	return src;
}

static _Atomic int ended; /* requests */

static void note_end(struct sf_io_req *req, int r)
{
	(void)req;
	(void)r;
	ended++;
}

START_TEST(ranges_are_the_bytes_and_connections_are_kept)
{
	struct world *w = begin(20000);
	struct sf_source *src = open_a(w);
	uint64_t seed = sf_test_seed("ranges");

	for (int i = 0; i < 50; i++) {
		uint64_t off = sf_test_below(&seed, BYTES), len = sf_test_below(&seed, BYTES - off);
		memset(w->got, 0, sizeof(w->got));
		ck_assert_int_eq(sf_source_read(src, off, w->got, len, SF_FETCH_TENSOR, NULL), 0);
		ck_assert_mem_eq(w->got, w->bytes + off, len);
	}
	ck_assert_uint_eq(w->server.connections, 1);
	ck_assert_uint_eq(w->server.heads, 1);
	ck_assert_uint_eq(sf_http_connections(w->io.http), 1);
	sf_source_unref(src);
	finish(w);
}
END_TEST

START_TEST(bytes_go_to_their_places)
{
	struct world *w = begin(20000);
	struct sf_source *src = open_a(w);
	struct iovec iov[300];
	struct sf_io_req req = { .off = 1000, .iov = iov, .niov = 300, .kind = SF_FETCH_TENSOR };
	size_t at = 0;

	for (int i = 0; i < 300; i++) {
		iov[i] = (struct iovec){ w->got + at, (size_t)i * 3 };
		at += iov[i].iov_len + 1;
		req.len += iov[i].iov_len;
	}
	/* by the way that parks: submit, and the end on a thread of the pool */
	ended = 0;
	req.done = note_end;
	if (!sf_source_submit(src, &req))
		while (!ended)
			usleep(1000);
	ck_assert_int_eq(req.r, 0);
	at = 1000;
	for (int i = 0; i < 300; i++) {
		ck_assert_mem_eq(iov[i].iov_base, w->bytes + at, iov[i].iov_len);
		at += iov[i].iov_len;
	}
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* A fault that is over after a while costs tries, never bytes. */
START_TEST(what_passes_is_tried_again)
{
	static const struct sf_http_fault faults[] = {
		{ SF_HTTP_STATUS, 503, "Retry-After: 0\r\n" },
		{ SF_HTTP_STATUS, 500, NULL },
		{ SF_HTTP_STATUS, 429, NULL },
		{ SF_HTTP_CLOSE, 0, NULL },
		{ SF_HTTP_RESET, 0, NULL },
		{ SF_HTTP_CUT, 100000, NULL },
		{ SF_HTTP_CUT, 0, NULL },
		{ SF_HTTP_WRONG_RANGE, 1, NULL },
		{ SF_HTTP_LONG, 10, NULL },
		{ SF_HTTP_LONG_HIDDEN, 10, NULL },
	};
	struct world *w = begin(20000);
	struct sf_source *src = open_a(w);

	w->plan[0] = w->plan[1] = faults[_i];
	w->nplan = 2;
	struct sf_error err = SF_ERROR_INIT;
	int r = sf_source_read(src, 5, w->got, BYTES - 10, SF_FETCH_TENSOR, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_mem_eq(w->got, w->bytes + 5, BYTES - 10);
	ck_assert_uint_eq(w->at, 2);
	/* what had come of a cut body is not asked for again */
	if (faults[_i].kind == SF_HTTP_CUT)
		ck_assert_uint_eq(w->server.body_bytes, BYTES - 10);
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* An answer that is not what was asked for, the third one too where it may be an accident, ends the
 * read: no byte of it counts. */
START_TEST(what_is_wrong_is_said)
{
	static const struct {
		struct sf_http_fault fault;
		int r;
		const char *says;
	} wrong[] = {
		{ { SF_HTTP_WRONG_RANGE, 1, NULL }, -EBADMSG, "asked for, the server sends 1006-" },
		{ { SF_HTTP_NO_RANGE, 0, NULL }, -EBADMSG, "without saying which" },
		{ { SF_HTTP_WHOLE, 0, NULL }, -ENOTSUP, "whole files only (it ignores Range)" },
		{ { SF_HTTP_LONG, 10, NULL },
		  -EBADMSG,
		  "2000 bytes were asked for, the server sends 2010" },
		{ { SF_HTTP_LONG_HIDDEN, 10, NULL }, -EBADMSG, "more than the 2000 bytes" },
		{ { SF_HTTP_HUGE, 0, NULL }, -EBADMSG, "the server sends 18446744073709551615" },
		{ { SF_HTTP_ENCODED, 0, NULL }, -ENOTSUP, "encoded (gzip)" },
		{ { SF_HTTP_PAGE, 0, NULL }, -ENOTSUP, "whole files only" },
		{ { SF_HTTP_OTHER_TAG, 0, NULL }, -ESTALE, "it was \"v1\", now \"other\"" },
		{ { SF_HTTP_STATUS, 403, NULL }, -EACCES, "refuses the request (403)" },
		{ { SF_HTTP_STATUS, 404, NULL }, -ESTALE, "it is gone" },
		{ { SF_HTTP_STATUS, 412, NULL }, -ESTALE, "another version" },
		{ { SF_HTTP_STATUS, 416, NULL }, -ESTALE, "fewer bytes" },
		{ { SF_HTTP_STATUS, 204, NULL }, -EIO, "answers 204" },
		{ { SF_HTTP_GARBAGE, 0, NULL }, -EPROTO, "http://127.0.0.1" },
		{ { SF_HTTP_HEADERS, 0, NULL }, -EPROTO, "headers" },
		{ { SF_HTTP_STATUS, 302, "Location: file:///etc/passwd\r\n" },
		  -EPROTO,
		  "protocol" },
		{ { SF_HTTP_STATUS, 302, "Location: ftp://127.0.0.1/x\r\n" }, -EPROTO, "protocol" },
	};
	struct world *w = begin(20000);
	struct sf_source *src = open_a(w);
	struct sf_error err = SF_ERROR_INIT;

	w->plan[0] = w->plan[1] = w->plan[2] = wrong[_i].fault;
	w->nplan = wrong[_i].r == -EBADMSG ? 3 : 1;
	int r = sf_source_read(src, 1005, w->got, 2000, SF_FETCH_TENSOR, &err);
	ck_assert_msg(r == wrong[_i].r, "%d %s", r, err.msg);
	ck_assert_msg(strstr(err.msg, wrong[_i].says) != NULL, "%s", err.msg);
	ck_assert_msg(strstr(err.msg, "'a'") != NULL, "%s", err.msg);
	ck_assert_uint_eq(w->at, w->nplan);
	/* and of what was never asked for nothing is there */
	for (size_t i = 0; i < BYTES; i++)
		ck_assert(i < 2000 || w->got[i] == 0);
	/* what changed stays so, for all that comes; else the next read is as good as any */
	memset(w->got, 0, 100);
	r = sf_source_read(src, 0, w->got, 100, SF_FETCH_TENSOR, &err);
	ck_assert_int_eq(r, wrong[_i].r == -ESTALE ? -ESTALE : 0);
	ck_assert_int_eq(sf_source_check(src, &err), wrong[_i].r == -ESTALE ? -ESTALE : 0);
	if (r == 0)
		ck_assert_mem_eq(w->got, w->bytes, 100);
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* A server that does not answer, or not to the end, costs the deadline and no more. */
START_TEST(the_deadline_ends_it)
{
	static const struct sf_http_fault faults[] = {
		{ SF_HTTP_SILENT, 0, NULL },   { SF_HTTP_STALL, 1000, NULL },
		{ SF_HTTP_DRIP, 5, NULL },     { SF_HTTP_STATUS, 503, "Retry-After: 3600\r\n" },
		{ SF_HTTP_STATUS, 503, NULL }, { SF_HTTP_CLOSE, 0, NULL },
	};
	struct world *w = begin(1500);
	struct sf_source *src = open_a(w);
	struct sf_error err = SF_ERROR_INIT;
	int64_t start = sf_now_ms();

	for (unsigned i = 0; i < SF_ARRAY_LEN(w->plan); i++)
		w->plan[i] = faults[_i];
	w->nplan = SF_ARRAY_LEN(w->plan);
	int r = sf_source_read(src, 0, w->got, BYTES, SF_FETCH_TENSOR, &err);
	ck_assert_msg(r == -ETIMEDOUT || (r == -EIO && _i >= 3), "%d %s", r, err.msg);
	ck_assert_msg(strstr(err.msg, "'a'") != NULL, "%s", err.msg);
	/* of a crowded machine too, and far from the 60 s of a default */
	ck_assert_int_lt(sf_now_ms() - start, 15000);
	sf_source_unref(src);
	finish(w);
}
END_TEST

START_TEST(a_request_is_cancelled)
{
	struct world *w = begin(0); /* no deadline */
	struct sf_source *src = open_a(w);
	struct iovec iov = { w->got, BYTES };
	struct sf_io_req req = {
		.len = BYTES, .iov = &iov, .niov = 1, .kind = SF_FETCH_TENSOR, .wakes = true
	};
	ended = 0;
	w->plan[0] = (struct sf_http_fault){ _i ? SF_HTTP_SILENT : SF_HTTP_STALL, 1000, NULL };
	w->nplan = 1;
	req.done = note_end;
	ck_assert_int_eq(sf_source_submit(src, &req), 0);
	while (w->server.now == 0)
		usleep(1000);
	src->ops->cancel(src, &req);
	while (!ended)
		usleep(1000);
	ck_assert_int_eq(req.r, -ECANCELED);
	sf_source_unref(src);
	finish(w);
}
END_TEST

START_TEST(many_requests_are_under_way_at_once)
{
	enum { N = 40 };
	struct world *w = begin(20000);
	struct sf_source *src = open_a(w);
	struct iovec iov[N];
	struct sf_io_req req[N];
	ended = 0;
	for (int i = 0; i < N; i++) {
		iov[i] = (struct iovec){ w->got + i * 7000, 7000 };
		req[i] = (struct sf_io_req){ .off = (uint64_t)i * 7000,
			                     .len = 7000,
			                     .iov = &iov[i],
			                     .niov = 1,
			                     .done = note_end };
		if (i < (int)SF_ARRAY_LEN(w->plan))
			w->plan[i] = (struct sf_http_fault){ SF_HTTP_DELAY, 100, NULL };
	}
	w->nplan = SF_ARRAY_LEN(w->plan);
	for (int i = 0; i < N; i++)
		ck_assert_int_eq(sf_source_submit(src, &req[i]), 0);
	while (ended < N)
		usleep(1000);
	for (int i = 0; i < N; i++)
		ck_assert_int_eq(req[i].r, 0);
	ck_assert_mem_eq(w->got, w->bytes, N * 7000);
	ck_assert_uint_gt(w->server.most, 8);
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* ---- the store ---- */

START_TEST(names_are_encoded_and_what_is_not_there_is_said)
{
	struct world *w = begin(20000);
	struct sf_source *src;
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(w->store->ops->open(w->store, "sub/with blank%?#.bin", NULL, &src, &err) == 0,
	              "%s", err.msg);
	ck_assert_uint_eq(src->size, 10);
	sf_source_unref(src);
	ck_assert_int_eq(w->store->ops->open(w->store, "b", NULL, &src, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "'b'"));
	ck_assert_int_eq(w->store->ops->open(w->store, "../d/a", NULL, &src, &err), -EBADMSG);
	ck_assert_int_eq(w->store->ops->list(w->store, "", 1, NULL, NULL, &err), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err.msg, "does not list"));
	finish(w);
}
END_TEST

/* HEAD is refused, or does not say how long it is, or lies that there is nothing. */
START_TEST(a_server_without_head_is_asked_for_a_byte)
{
	static const unsigned status[] = { 405, 501, 403, 400 };
	struct world *w = begin(20000);
	struct sf_source *src;

	w->of_heads = true;
	w->plan[0] = (struct sf_http_fault){ SF_HTTP_STATUS, status[_i], NULL };
	w->nplan = 1;
	src = open_a(w);
	ck_assert_int_eq(sf_source_read(src, 9, w->got, 100, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_mem_eq(w->got, w->bytes + 9, 100);
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* What a server asks us to wait is waited, also by small requests; not beyond the deadline. */
START_TEST(a_server_says_when_it_may_be_asked_again)
{
	struct world *w = begin(20000);
	struct sf_error err = SF_ERROR_INIT;
	struct sf_source *src;
	int64_t start = sf_now_ms();

	w->of_heads = true;
	w->plan[0] = (struct sf_http_fault){ SF_HTTP_STATUS, 503, "Retry-After: 1\r\n" };
	w->plan[1] = (struct sf_http_fault){ SF_HTTP_STATUS, 503, "Retry-After: 3600\r\n" };
	w->nplan = 1;
	src = open_a(w);
	ck_assert_int_ge(sf_now_ms() - start, 1000);
	ck_assert_uint_eq(w->server.heads, 2);
	sf_source_unref(src);
	w->nplan = 2;
	ck_assert_int_eq(w->store->ops->open(w->store, "sub/b", NULL, &src, &err), -EIO);
	ck_assert_ptr_nonnull(strstr(err.msg, "503"));
	ck_assert_uint_eq(w->server.heads, 3);
	finish(w);
}
END_TEST

START_TEST(a_page_is_no_file)
{
	struct world *w = begin(20000);
	struct sf_source *src;
	struct sf_error err = SF_ERROR_INIT;

	w->of_heads = true;
	w->plan[0] = (struct sf_http_fault){ SF_HTTP_PAGE, 0, NULL };
	w->nplan = 1;
	ck_assert_int_eq(w->store->ops->open(w->store, "a", NULL, &src, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "web page"));
	finish(w);
}
END_TEST

/* What was seen of an object first is its version, for every source of it. */
START_TEST(a_version_is_pinned)
{
	struct world *w = begin(20000);
	struct sf_source *one = open_a(w), *two;
	struct sf_error err = SF_ERROR_INIT;
	const bool matches = _i == 0;

	w->object[0].etag = "\"v2\"";
	w->server.ignores_match = !matches;
	two = open_a(w); /* not asked for again */
	ck_assert_uint_eq(w->server.heads, 1);
	ck_assert_int_eq(sf_source_read(two, 0, w->got, 10, SF_FETCH_TENSOR, &err), -ESTALE);
	ck_assert_int_eq(sf_source_read(one, 0, w->got, 10, SF_FETCH_TENSOR, &err), -ESTALE);
	sf_source_unref(one);
	sf_source_unref(two);
	finish(w);
}
END_TEST

START_TEST(a_server_without_tags_is_pinned_by_its_date)
{
	struct world *w = begin(20000);
	struct sf_source *src;
	struct sf_error err = SF_ERROR_INIT;

	w->object[0].etag = NULL;
	w->object[0].modified = "Wed, 21 Oct 2015 07:28:00 GMT";
	src = open_a(w);
	ck_assert_int_eq(src->version.mtime_ns, INT64_C(1445412480) * 1000000000);
	ck_assert_int_eq(sf_source_read(src, 0, w->got, 10, SF_FETCH_TENSOR, &err), 0);
	w->object[0].modified = "Wed, 21 Oct 2015 07:28:01 GMT";
	w->server.ignores_match = _i != 0;
	ck_assert_int_eq(sf_source_read(src, 0, w->got, 10, SF_FETCH_TENSOR, &err), -ESTALE);
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* ---- small requests ---- */

START_TEST(an_answer_has_what_was_wanted_of_it)
{
	static const char *const want[] = { "content-length", "etag", "x-not-there", NULL };
	static const char *const headers[] = { "X-Mine: 1", "Authorization: Basic c2VjcmV0", NULL };
	struct world *w = begin(20000);
	struct sf_http_answer a;
	struct sf_error err = SF_ERROR_INIT;
	char url[256];

	snprintf(url, sizeof(url), "%s/d/sub/with%%20blank%%25%%3F%%23.bin", w->server.url);
	struct sf_http_ask ask = {
		.method = "GET", .url = url, .headers = headers, .limit = 10, .want_headers = want
	};
	ck_assert_msg(sf_http_ask(&w->io, &ask, &a, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(a.status, 200);
	ck_assert_uint_eq(a.len, 10);
	ck_assert_mem_eq(a.body, w->bytes, 10);
	ck_assert_str_eq(a.kept[0], "10");
	ck_assert_ptr_null(a.kept[1]);
	ck_assert_ptr_null(a.kept[2]);
	sf_http_answer_release(&a);
	ask.limit = 9;
	ck_assert_int_eq(sf_http_ask(&w->io, &ask, &a, &err), -E2BIG);
	ask.method = "HEAD";
	ck_assert_int_eq(sf_http_ask(&w->io, &ask, &a, &err), 0);
	ck_assert_uint_eq(a.len, 0);
	ck_assert_str_eq(a.body, "");
	sf_http_answer_release(&a);
	ask.url = "http://127.0.0.1:1/x?secret=1";
	ck_assert_int_eq(sf_http_ask(&w->io, &ask, &a, &err), -ECONNREFUSED);
	ck_assert_ptr_nonnull(strstr(err.msg, "http://127.0.0.1:1"));
	ck_assert_ptr_null(strstr(err.msg, "secret"));
	ask.url = "gopher://127.0.0.1/x";
	ck_assert_int_eq(sf_http_ask(&w->io, &ask, &a, &err), -EPROTO);
	finish(w);
}
END_TEST

/* Redirects in a circle end. */
START_TEST(redirects_end)
{
	struct world *w = begin(20000);
	struct sf_http_answer a;
	char url[256];
	const struct sf_http_ask ask = { .method = "GET", .url = url, .limit = 10, .follow = true };

	snprintf(url, sizeof(url), "%s/d/a", w->server.url);
	for (unsigned i = 0; i < SF_ARRAY_LEN(w->plan); i++)
		w->plan[i] = (struct sf_http_fault){ SF_HTTP_STATUS, 302, "Location: /d/a\r\n" };
	w->nplan = SF_ARRAY_LEN(w->plan);
	ck_assert_int_eq(sf_http_ask(&w->io, &ask, &a, NULL), -ELOOP);
	ck_assert_uint_lt(w->at, 10);
	finish(w);
}
END_TEST

/* ---- what is fetched ahead gives way ---- */

#define AHEAD 400 /* more than there are connections */

static _Atomic bool held;

/* What is fetched ahead, the object's first half, is not answered until it is let go. */
static struct sf_http_fault hold_first_half(void *arg, const struct sf_http_seen *seen)
{
	const char *range = strstr(seen->head, "ange: bytes=");
	bool ahead = range && strtoull(range + 12, NULL, 10) < BYTES / 2;

	(void)arg;
	return (struct sf_http_fault){ ahead && held ? SF_HTTP_SILENT : SF_HTTP_FINE, 0, NULL,
		                       NULL };
}

START_TEST(what_somebody_waits_for_goes_before_what_is_fetched_ahead)
{
	static struct sf_io_req req[AHEAD];
	static struct iovec iov[AHEAD];
	static uint8_t room[AHEAD];
	struct world *w = begin(600000);
	struct sf_source *src = open_a(w);
	struct sf_error err = SF_ERROR_INIT;

	held = true;
	w->server.fault = hold_first_half;
	ended = 0;
	for (int i = 0; i < AHEAD; i++) {
		iov[i] = (struct iovec){ &room[i], 1 };
		req[i] = (struct sf_io_req){ .off = (uint64_t)i,
			                     .len = 1,
			                     .iov = &iov[i],
			                     .niov = 1,
			                     .kind = SF_FETCH_TENSOR,
			                     .done = note_end,
			                     .yields = true };
		ck_assert_int_eq(sf_source_submit(src, &req[i]), 0);
	}
	/* as many as may be under way are, none is answered, and the rest is queued */
	for (int i = 0; i < 20; i++) {
		int r = sf_source_read(src, BYTES / 2 + (uint64_t)i, w->got, 100, SF_FETCH_TENSOR,
		                       &err);
		ck_assert_msg(r == 0, "%d %s", r, err.msg);
		ck_assert_mem_eq(w->got, w->bytes + BYTES / 2 + i, 100);
	}
	ck_assert_int_eq(ended, 0);
	held = false;
	for (int i = 0; i < AHEAD; i++)
		src->ops->cancel(src, &req[i]);
	while (ended < AHEAD)
		usleep(1000);
	sf_source_unref(src);
	finish(w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("remote");
	TCase *c = tcase_create("remote");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, ranges_are_the_bytes_and_connections_are_kept);
	tcase_add_test(c, what_somebody_waits_for_goes_before_what_is_fetched_ahead);
	tcase_add_test(c, bytes_go_to_their_places);
	tcase_add_loop_test(c, what_passes_is_tried_again, 0, 10);
	tcase_add_loop_test(c, what_is_wrong_is_said, 0, 18);
	tcase_add_loop_test(c, the_deadline_ends_it, 0, 6);
	tcase_add_loop_test(c, a_request_is_cancelled, 0, 2);
	tcase_add_test(c, many_requests_are_under_way_at_once);
	tcase_add_test(c, names_are_encoded_and_what_is_not_there_is_said);
	tcase_add_loop_test(c, a_server_without_head_is_asked_for_a_byte, 0, 4);
	tcase_add_test(c, a_server_says_when_it_may_be_asked_again);
	tcase_add_test(c, what_is_not_shown_tells_places_apart);
	tcase_add_test(c, a_page_is_no_file);
	tcase_add_loop_test(c, a_version_is_pinned, 0, 2);
	tcase_add_loop_test(c, a_server_without_tags_is_pinned_by_its_date, 0, 2);
	tcase_add_test(c, an_answer_has_what_was_wanted_of_it);
	tcase_add_test(c, redirects_end);
	suite_add_tcase(s, c);
	return sf_test_main(s);
}
