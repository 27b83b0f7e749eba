#include "config.h"

#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sf_test.h"
#include "store/http.h"
#include "store/outage.h"
#include "store/source.h"
#include "tests/lib/http_server.h"

#define BYTES 100000u
#define MANY 64

/* A server that is there, or not: by the number of the request that is asked. */
struct world {
	struct sf_io io;
	struct sf_http_server server;
	struct sf_http_object object[2];
	struct sf_store *store;
	struct sf_http_fault fault;
	_Atomic unsigned left; /* requests that meet it */
	_Atomic uint64_t met;
	const char *bad;        /* the one object that meets it; NULL: all */
	_Atomic int away, back; /* lines of the log */
	struct sf_log log;
	uint8_t bytes[BYTES], got[MANY][1000];
};

static struct sf_http_fault next_fault(void *arg, const struct sf_http_seen *seen)
{
	struct world *w = arg;

	if (strcmp(seen->method, "HEAD") == 0 || (w->bad && strcmp(w->bad, seen->path) != 0) ||
	    !w->left)
		return (struct sf_http_fault){ 0 };
	w->left--;
	w->met++;
	return w->fault;
}

static void note(void *arg, enum sf_log_level level, const char *line)
{
	struct world *w = arg;

	(void)level;
	if (strstr(line, "does not answer, waiting for it"))
		w->away++;
	else if (strstr(line, "answers again"))
		w->back++;
}

static struct world *begin(unsigned timeout_ms, unsigned retry_ms)
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
	w->object[1] = w->object[0];
	w->object[1].path = "/d/b";
	w->server.object = w->object;
	w->server.nobjects = 2;
	w->server.fault = next_fault;
	w->server.arg = w;
	ck_assert_int_eq(sf_http_server_start(&w->server), 0);
	ck_assert_int_eq(sf_io_init(&w->io, 2, NULL), 0);
	w->log = (struct sf_log){ .write = note, .arg = w, .level = SF_LOG_WARN };
	w->io.log = &w->log;
	w->io.timeout_ms = timeout_ms;
	w->io.retry_ms = retry_ms;
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

static struct sf_source *open_one(struct world *w, const char *name)
{
	struct sf_source *src = NULL;
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(w->store->ops->open(w->store, name, NULL, &src, &err) == 0, "%s", err.msg);
	return src;
}

static int read_one(struct world *w, struct sf_source *src, struct sf_error *err)
{
	int r;

	memset(w->got[0], 0, sizeof(w->got[0]));
	r = sf_source_read(src, 5000, w->got[0], sizeof(w->got[0]), SF_FETCH_TENSOR, err);
	if (r == 0)
		ck_assert_mem_eq(w->got[0], w->bytes + 5000, sizeof(w->got[0]));
	return r;
}

/* A server that is away is waited for until the deadline, however many tries that takes; more than
 * ten and more than a store may spend on them, here. */
START_TEST(an_outage_is_ridden_out)
{
	static const struct sf_http_fault faults[] = {
		{ SF_HTTP_CLOSE, 0, NULL, NULL },
		{ SF_HTTP_STATUS, 503, NULL, NULL },
		{ SF_HTTP_RESET, 0, NULL, NULL },
	};
	struct world *w = begin(120000, 1);
	struct sf_source *src = open_one(w, "a");
	struct sf_error err = SF_ERROR_INIT;

	w->fault = faults[_i];
	w->left = 110;
	ck_assert_msg(read_one(w, src, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(w->met, 110);
	/* a kept connection that was closed before anything came is libcurl's to try again */
	ck_assert_uint_ge(w->io.counters.retried, 100);
	ck_assert_uint_le(w->io.counters.retried, 110);
	/* said once each */
	ck_assert_int_eq(w->away, 1);
	ck_assert_int_eq(w->back, 1);
	sf_source_unref(src);
	finish(w);
}
END_TEST

static _Atomic int ended;

static void note_end(struct sf_io_req *req, int r)
{
	(void)req;
	(void)r;
	ended++;
}

struct reads {
	struct sf_io_req req[MANY];
	struct iovec iov[MANY];
};

static void submit(struct world *w, struct sf_source *src, struct reads *v, unsigned n)
{
	ended = 0;
	for (unsigned i = 0; i < n; i++) {
		v->iov[i] = (struct iovec){ w->got[i], sizeof(w->got[i]) };
		v->req[i] = (struct sf_io_req){ .off = i * 1000,
			                        .len = 1000,
			                        .iov = &v->iov[i],
			                        .niov = 1,
			                        .kind = SF_FETCH_TENSOR,
			                        .done = note_end,
			                        .wakes = true };
		if (sf_source_submit(src, &v->req[i]))
			ended++;
	}
}

static void wait_for(unsigned n)
{
	while (ended < (int)n)
		usleep(1000);
}

/* Many that wait do not ask the more often: what a store may spend, then one at a time. All of them
 * end with their bytes. */
START_TEST(a_server_that_fails_is_not_overrun)
{
	struct world *w = begin(120000, 1);
	struct sf_source *src = open_one(w, "a");
	struct reads *v = calloc(1, sizeof(*v));

	w->fault = (struct sf_http_fault){ SF_HTTP_STATUS, 503, NULL, NULL };
	/* each of them once, what may be spent, and probes */
	w->left = MANY + 100 + 20;
	submit(w, src, v, MANY);
	wait_for(MANY);
	for (unsigned i = 0; i < MANY; i++) {
		ck_assert_msg(v->req[i].r == 0, "%s", v->req[i].err.msg);
		ck_assert_mem_eq(w->got[i], w->bytes + i * 1000, 1000);
	}
	ck_assert_uint_eq(w->met, MANY + 120);
	ck_assert_int_eq(w->away, 1);
	free(v);
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* While it is away only one asks at a time. */
START_TEST(one_asks_whether_it_is_back)
{
	struct world *w = begin(120000, 1);
	struct sf_source *src = open_one(w, "a");
	struct reads *v = calloc(1, sizeof(*v));
	struct sf_outage_look look = { 0 };

	w->fault = (struct sf_http_fault){ SF_HTTP_STATUS, 503, NULL, NULL };
	w->left = 1000000;
	submit(w, src, v, MANY);
	while (w->met < MANY + 100 + 20) /* all are parked by then, but those in between */
		usleep(1000);
	w->server.most = 0;
	uint64_t before = w->met;
	while (w->met < before + 20)
		usleep(1000);
	ck_assert_uint_eq(w->server.most, 1);
	sf_outage_look(sf_outage_first(&w->io.counters), &look);
	ck_assert(look.away);
	ck_assert_uint_eq(look.waits, MANY);
	ck_assert_str_eq(look.server, w->server.url);
	ck_assert_msg(strstr(look.why, "503") != NULL, "%s", look.why);
	/* those that nobody wants any more end, the one that asks too */
	for (unsigned i = 0; i < MANY; i += 2)
		src->ops->cancel(src, &v->req[i]);
	wait_for(MANY / 2);
	w->left = 0;
	wait_for(MANY);
	for (unsigned i = 0; i < MANY; i++)
		ck_assert_int_eq(v->req[i].r, i % 2 ? 0 : -ECANCELED);
	sf_outage_look(sf_outage_first(&w->io.counters), &look);
	ck_assert(!look.away);
	ck_assert_uint_eq(look.waits, 0);
	free(v);
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* What is definite is so at once, whatever the deadline. */
START_TEST(what_is_definite_is_not_waited_for)
{
	static const unsigned status[] = { 401, 403, 404, 400 };
	struct world *w = begin(120000, 1);
	struct sf_source *src = open_one(w, "a");
	struct sf_error err = SF_ERROR_INIT;

	w->fault = (struct sf_http_fault){ SF_HTTP_STATUS, status[_i], NULL, NULL };
	w->left = 2;
	ck_assert_int_lt(read_one(w, src, &err), 0);
	ck_assert_uint_eq(w->met, 1);
	ck_assert_uint_eq(w->io.counters.retried, 0);
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* An object that the server cannot give does not stand for the others. */
START_TEST(one_bad_object_holds_up_no_other)
{
	struct world *w = begin(120000, 1);
	struct sf_source *a = open_one(w, "a"), *b = open_one(w, "b");
	struct reads *v = calloc(1, sizeof(*v));
	struct sf_error err = SF_ERROR_INIT;

	w->fault = (struct sf_http_fault){ SF_HTTP_STATUS, 500, NULL, NULL };
	w->bad = "/d/a";
	w->left = 1000000;
	submit(w, a, v, 4);
	while (w->met < 200)
		usleep(1000);
	for (int i = 0; i < 20; i++)
		ck_assert_msg(read_one(w, b, &err) == 0, "%s", err.msg);
	for (unsigned i = 0; i < 4; i++)
		a->ops->cancel(a, &v->req[i]);
	wait_for(4);
	free(v);
	sf_source_unref(a);
	sf_source_unref(b);
	finish(w);
}
END_TEST

/* A server that was away for the whole of a deadline: those that come next end after a few tries, for a
 * while; and as soon as it is back they are answered. */
START_TEST(after_a_deadline_reads_end_soon)
{
	struct world *w = begin(2000, 10);
	struct sf_source *src = open_one(w, "a");
	struct sf_error err = SF_ERROR_INIT;
	uint64_t before;

	w->fault = (struct sf_http_fault){ SF_HTTP_CLOSE, 0, NULL, NULL };
	w->left = 1000000;
	ck_assert_int_lt(read_one(w, src, &err), 0);
	ck_assert_uint_gt(w->met, 5);
	before = w->met;
	for (int i = 0; i < 4; i++)
		ck_assert_int_lt(read_one(w, src, &err), 0);
	/* three tries each; what libcurl tries again on a kept connection comes to it */
	ck_assert_uint_le(w->met - before, 4 * 2 * 3);
	w->left = 1;
	ck_assert_msg(read_one(w, src, &err) == 0, "%s", err.msg);
	/* it is not dead any more: what fails now has its deadline */
	w->left = 8;
	ck_assert_msg(read_one(w, src, &err) == 0, "%s", err.msg);
	sf_source_unref(src);
	finish(w);
}
END_TEST

/* A server that says nothing is found out, too, and after a while reads wait for it again. */
START_TEST(a_silent_server_is_dead)
{
	struct world *w = begin(500, 10);
	struct sf_source *src = open_one(w, "a");
	struct sf_error err = SF_ERROR_INIT;
	struct sf_outage *o;

	w->fault = (struct sf_http_fault){ SF_HTTP_SILENT, 0, NULL, NULL };
	w->left = 1;
	ck_assert_int_eq(read_one(w, src, &err), -ETIMEDOUT);
	o = sf_outage_first(&w->io.counters);
	ck_assert_ptr_nonnull(o);
	ck_assert_int_eq(w->away, 1);
	while (sf_outage_dead(o)) /* of its own accord not for long */
		usleep(1000);
	w->fault.kind = SF_HTTP_CLOSE;
	w->left = 5;
	ck_assert_msg(read_one(w, src, &err) == 0, "%s", err.msg);
	ck_assert_uint_ge(w->met, 6);
	sf_source_unref(src);
	finish(w);
}
END_TEST

struct turn {
	struct sf_turn t;
	int called, r;
	char why[64];
};

static void note_turn(struct sf_turn *t, int r, const char *why)
{
	struct turn *n = sf_container_of(t, struct turn, t);

	n->called++;
	n->r = r;
	snprintf(n->why, sizeof(n->why), "%s", why);
}

/* Of those that come to a dead server one tries. What it finds holds for the others, if it is that
 * nothing came; else the next one tries, or all may. */
START_TEST(one_tries_and_the_others_share_it)
{
	struct turn t[5] = { 0 };
	struct sf_io io;
	struct sf_outage *o;

	ck_assert_int_eq(sf_io_init(&io, 1, NULL), 0);
	io.timeout_ms = 60000;
	o = sf_outage_of(&io, "http://h:1/a/b?c");
	ck_assert_ptr_eq(sf_outage_of(&io, "http://h:1"), o);
	ck_assert_ptr_ne(sf_outage_of(&io, "http://h:2/a"), o);
	ck_assert(!sf_outage_dead(o));
	ck_assert(sf_outage_failed(o, sf_now_ns() - INT64_C(60000000000), -1, "refused"));
	ck_assert(sf_outage_dead(o));
	for (int i = 0; i < 5; i++)
		t[i].t.go = note_turn;
	ck_assert(sf_outage_lead(o, &t[0].t));
	for (int i = 1; i < 5; i++)
		ck_assert(!sf_outage_lead(o, &t[i].t));
	/* one that nobody wants any more */
	ck_assert(sf_outage_leave(o, &t[1].t));
	ck_assert(!sf_outage_leave(o, &t[1].t));
	/* an answer, if a bad one: another object's may be better */
	sf_outage_over(o, &t[0].t, 0, "");
	ck_assert(t[2].called == 1 && t[2].r == 0 && !t[3].called && !t[4].called);
	sf_outage_over(o, &t[2].t, -ETIMEDOUT, "nothing");
	for (int i = 3; i < 5; i++) {
		ck_assert(t[i].called == 1 && t[i].r == -ETIMEDOUT);
		ck_assert_str_eq(t[i].why, "nothing");
	}
	ck_assert_int_eq(t[1].called, 0);
	/* the next one finds it there: all go on */
	ck_assert(sf_outage_lead(o, &t[0].t));
	ck_assert(!sf_outage_lead(o, &t[1].t));
	sf_outage_answered(o);
	ck_assert(t[1].called == 1 && t[1].r == 0);
	sf_outage_over(o, &t[0].t, 0, "");
	ck_assert(!sf_outage_dead(o));
	sf_io_release(&io);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("outage");
	TCase *c = tcase_create("outage");

	tcase_set_timeout(c, 120);
	tcase_add_loop_test(c, an_outage_is_ridden_out, 0, 3);
	tcase_add_test(c, a_server_that_fails_is_not_overrun);
	tcase_add_test(c, one_asks_whether_it_is_back);
	tcase_add_loop_test(c, what_is_definite_is_not_waited_for, 0, 4);
	tcase_add_test(c, one_bad_object_holds_up_no_other);
	tcase_add_test(c, after_a_deadline_reads_end_soon);
	tcase_add_test(c, a_silent_server_is_dead);
	tcase_add_test(c, one_tries_and_the_others_share_it);
	suite_add_tcase(s, c);
	return sf_test_main(s);
}
