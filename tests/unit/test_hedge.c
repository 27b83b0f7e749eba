/* Hedged requests: a second one for what is slow, the first answer counts, and seldom enough. */
#include "config.h"

#include <pthread.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/hedge.h"
#include "store/hedge_times.h"
#include "tests/lib/test_stores.h"
#include "tests/lib/sf_test.h"

#define BYTES 100000
#define LEN 5000

/* A server whose answers come when the test says so. */
static struct sf_io io;
static uint8_t bytes[BYTES];
static struct {
	pthread_mutex_t m;
	struct sf_io_req *req[8]; /* under way, in the order they came */
	bool canceled[8];
	unsigned n;
	uint64_t seen;
	bool at_once;      /* all end within submit */
	bool hold;         /* the next one is held there, */
	_Atomic bool held; /* until this is false again */
} server = { .m = PTHREAD_MUTEX_INITIALIZER };

static void give(struct sf_io_req *req, int r)
{
	const uint8_t *from = bytes + req->off;

	for (int i = 0; i < req->niov && r == 0; from += req->iov[i++].iov_len)
		memcpy(req->iov[i].iov_base, from, req->iov[i].iov_len);
	if (r < 0)
		sf_fail(&req->err, r, "the test says %d", r);
	sf_io_req_end(req, r);
}

static void slow_submit(struct sf_source *src, struct sf_io_req *req)
{
	bool now;

	pthread_mutex_lock(&server.m);
	server.seen++;
	now = server.at_once;
	if (server.hold) {
		server.hold = false;
		server.held = true;
		pthread_mutex_unlock(&server.m);
		while (server.held)
			sched_yield();
		pthread_mutex_lock(&server.m);
	}
	if (!now) {
		server.canceled[server.n] = false;
		server.req[server.n++] = req;
	}
	pthread_mutex_unlock(&server.m);
	if (now)
		give(req, 0);
}

static void slow_cancel(struct sf_source *src, struct sf_io_req *req)
{
	pthread_mutex_lock(&server.m);
	for (unsigned i = 0; i < server.n; i++)
		server.canceled[i] |= server.req[i] == req;
	pthread_mutex_unlock(&server.m);
}

/* Ends the @i-th of those under way. */
static void answer(unsigned i, int r)
{
	struct sf_io_req *req;

	pthread_mutex_lock(&server.m);
	ck_assert_uint_lt(i, server.n);
	req = server.req[i];
	server.n--;
	for (unsigned k = i; k < server.n; k++) {
		server.req[k] = server.req[k + 1];
		server.canceled[k] = server.canceled[k + 1];
	}
	pthread_mutex_unlock(&server.m);
	give(req, r);
}

static unsigned under_way(void)
{
	unsigned n;

	pthread_mutex_lock(&server.m);
	n = server.n;
	pthread_mutex_unlock(&server.m);
	return n;
}

static bool canceled(unsigned i)
{
	bool is;

	pthread_mutex_lock(&server.m);
	is = i < server.n && server.canceled[i];
	pthread_mutex_unlock(&server.m);
	return is;
}

static int no_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                  uint64_t len, struct sf_error *err)
{
	return -EAGAIN;
}
static int no_check(struct sf_source *src, struct sf_error *err)
{
	return 0;
}
static void slow_free(struct sf_source *src)
{
	free(src);
}
static const struct sf_source_ops source_ops = { .try_read = no_try,
	                                         .submit = slow_submit,
	                                         .cancel = slow_cancel,
	                                         .check = no_check,
	                                         .free = slow_free };

static int slow_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                     struct sf_source **ret, struct sf_error *err)
{
	struct sf_source *src = calloc(1, sizeof(*src));

	*src = (struct sf_source){
		.ops = &source_ops, .refs = 1, .io = s->io, .name = "x", .size = BYTES
	};
	*ret = src;
	return 0;
}
static void store_free(struct sf_store *s)
{
	free(s->source);
	free(s);
}
static const struct sf_store_ops store_ops = { .open = slow_open, .free = store_free };

static struct sf_store *store;
static struct sf_source *source;

struct ask {
	struct sf_io_req io;
	uint8_t got[LEN];
	struct iovec iov[2];
	atomic_int done;
};

static void ended(struct sf_io_req *req, int r)
{
	atomic_store(&((struct ask *)req)->done, r ? r : 1);
}

static void ask(struct ask *a)
{
	memset(a, 0, sizeof(*a));
	a->iov[0] = (struct iovec){ a->got, 1000 };
	a->iov[1] = (struct iovec){ a->got + 1000, LEN - 1000 };
	a->io = (struct sf_io_req){ .off = 777,
		                    .len = LEN,
		                    .iov = a->iov,
		                    .niov = 2,
		                    .kind = SF_FETCH_TENSOR,
		                    .done = ended };
	if (sf_source_submit(source, &a->io))
		ended(&a->io, a->io.r);
}

static int end_of(struct ask *a)
{
	int r;

	while (!(r = atomic_load(&a->done)))
		sched_yield();
	if (r == 1)
		ck_assert_mem_eq(a->got, bytes + 777, LEN);
	return r;
}

/* What the machine was slow to do is hedged too: counters are looked at from here on. */
static uint64_t hedged_before, won_before;

/* After that, requests are known to take next to no time. */
static void learn(void)
{
	struct ask a;

	server.at_once = true;
	for (int i = 0; i < 100; i++) {
		ask(&a);
		ck_assert_int_eq(end_of(&a), 1);
	}
	server.at_once = false;
	hedged_before = io.counters.hedged_requests;
	won_before = io.counters.hedged_won;
}

static void begin(void)
{
	struct sf_store *s = calloc(1, sizeof(*s));

	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(i * 31 + i / 256);
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	*s = (struct sf_store){ .ops = &store_ops, .io = &io, .source = strdup("slow") };
	ck_assert_int_eq(sf_store_hedge(s, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &source, NULL), 0);
}

static void end(void)
{
	struct sf_budget_stat s;

	sf_source_unref(source);
	sf_store_free(store);
	sf_budget_stat(io.budget, &s);
	ck_assert_uint_eq(s.held, 0);
	sf_io_release(&io);
}

/* A slow request, and its second one under way: sooner or later, where the ones before took all that
 * was earned. */
static void hedge(struct ask *a)
{
	for (;;) {
		learn(); /* and earn */
		ask(a);
		for (int ms = 0; ms < 2000 && under_way() < 2; ms++)
			usleep(1000);
		if (under_way() == 2)
			return;
		answer(0, 0);
		while (!atomic_load(&a->done))
			if (under_way()) /* it came just now */
				answer(0, -ECANCELED);
	}
}

START_TEST(the_second_wins_and_the_first_is_ended)
{
	struct ask a;

	begin();
	hedge(&a);
	answer(1, 0);
	while (!canceled(0)) /* its end comes on a thread of the pool */
		sched_yield();
	ck_assert_int_eq(atomic_load(&a.done), 0); /* the first may still write */
	answer(0, _i ? 0 : -ECANCELED);
	ck_assert_int_eq(end_of(&a), 1);
	ck_assert_uint_eq(io.counters.hedged_requests, hedged_before + 1);
	ck_assert_uint_eq(io.counters.hedged_bytes, (hedged_before + 1) * LEN);
	ck_assert_uint_eq(io.counters.hedged_won, won_before + 1);
	/* second ones are not counted as fetched */
	ck_assert_uint_eq(io.counters.fetched_bytes[SF_FETCH_TENSOR],
	                  io.counters.fetched_requests[SF_FETCH_TENSOR] * LEN);
	ck_assert_uint_le(io.counters.fetched_requests[SF_FETCH_TENSOR],
	                  server.seen - io.counters.hedged_requests);
	end();
}
END_TEST

START_TEST(the_first_wins_and_the_second_is_ended)
{
	struct ask a;

	begin();
	hedge(&a);
	answer(0, 0);
	ck_assert(canceled(0)); /* the second, which is the first of the list now */
	answer(0, _i ? 0 : -ECANCELED);
	ck_assert_int_eq(end_of(&a), 1);
	ck_assert_uint_eq(io.counters.hedged_won, won_before);
	end();
}
END_TEST

START_TEST(an_error_waits_for_the_second)
{
	struct ask a;

	begin();
	hedge(&a);
	answer(0, -EIO);
	ck_assert(!canceled(0));
	answer(0, _i ? -ETIMEDOUT : 0);
	ck_assert_int_eq(end_of(&a), _i ? -EIO : 1);
	if (_i)
		ck_assert_str_eq(a.io.err.msg, "the test says -5");
	/* and that of a second one is nobody's */
	hedge(&a);
	answer(1, -EIO);
	answer(0, 0);
	ck_assert_int_eq(end_of(&a), 1);
	end();
}
END_TEST

/* A source below takes its time to be asked: that holds up nobody else, and a first that ends
 * meanwhile ends the second when it is there. */
START_TEST(a_second_that_is_just_made_holds_up_no_other)
{
	struct ask a, b;

	begin();
	for (;;) {
		learn();
		ask(&a);
		server.hold = true;
		for (int ms = 0; ms < 2000 && !server.held; ms++)
			usleep(1000);
		if (server.held)
			break;
		server.hold = false;
		while (!atomic_load(&a.done))
			if (under_way())
				answer(0, 0);
	}
	ask(&b);
	ck_assert_uint_eq(under_way(), 2);
	answer(0, 0); /* a's first */
	usleep(1000);
	server.held = false;
	while (!canceled(1)) /* behind b's first */
		sched_yield();
	answer(1, -ECANCELED);
	ck_assert_int_eq(end_of(&a), 1);
	answer(0, 0);
	while (!atomic_load(&b.done))
		if (under_way())
			answer(0, -ECANCELED);
	ck_assert_int_eq(end_of(&b), 1);
	end();
}
END_TEST

START_TEST(whoever_cancels_ends_both)
{
	struct ask a;

	begin();
	hedge(&a);
	source->ops->cancel(source, &a.io);
	ck_assert(canceled(0));
	answer(0, -ECANCELED);
	ck_assert(canceled(0));
	answer(0, -ECANCELED);
	ck_assert_int_eq(end_of(&a), -ECANCELED);
	end();
}
END_TEST

START_TEST(nothing_is_slow_before_it_is_known_what_is)
{
	struct ask a;

	begin();
	ask(&a);
	usleep(30000);
	ck_assert_uint_eq(under_way(), 1);
	answer(0, 0);
	ck_assert_int_eq(end_of(&a), 1);
	/* nor where there is no memory to spare */
	learn();
	sf_budget_add(io.budget, SF_BUDGET_ITEM, 1);
	sf_budget_add(io.budget, SF_BUDGET_FETCH, sf_budget_limit(io.budget));
	ask(&a);
	usleep(30000);
	ck_assert_uint_eq(under_way(), 1);
	answer(0, 0);
	ck_assert_int_eq(end_of(&a), 1);
	sf_budget_give(io.budget, SF_BUDGET_FETCH, sf_budget_limit(io.budget));
	sf_budget_give(io.budget, SF_BUDGET_ITEM, 1);
	end();
}
END_TEST

START_TEST(one_in_twenty_at_most)
{
	struct sf_hedge_times t = { 0 };
	unsigned second = 0;

	ck_assert(!sf_hedge_times_spend(&t));
	for (unsigned i = 1; i <= 2000; i++) {
		sf_hedge_times_earn(&t);
		second += sf_hedge_times_spend(&t);
		ck_assert_uint_le(second * 20, i);
	}
	ck_assert_uint_eq(second, 100);
	for (unsigned i = 0; i < 100000; i++)
		sf_hedge_times_earn(&t);
	for (second = 0; sf_hedge_times_spend(&t); second++)
		;
	ck_assert_uint_eq(second, 16);
}
END_TEST

static int by_value(const void *a, const void *b)
{
	uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;

	return x < y ? -1 : x > y;
}

/* Property: between the 95th of 100 in order and half as much again, to a millisecond. */
START_TEST(slow_is_what_95_of_100_are_not)
{
	uint64_t seed = sf_test_seed("slow"), us[400];

	for (int round = 0; round < 200; round++) {
		struct sf_hedge_times t = { 0 };
		uint64_t most = UINT64_C(1) << sf_test_below(&seed, 26), len = 1;
		unsigned n = 32 + (unsigned)sf_test_below(&seed, 360), ms;
		len <<= sf_test_below(&seed, 28);
		for (unsigned i = 0; i < n; i++) {
			us[i] = sf_test_below(&seed, most + 1);
			ck_assert(i >= 32 || !sf_hedge_times_slow_ms(&t, len));
			sf_hedge_times_add(&t, len, us[i] * 1000);
		}
		qsort(us, n, sizeof(us[0]), by_value);
		ms = sf_hedge_times_slow_ms(&t, len);
		ck_assert_uint_ge(ms * UINT64_C(1000), us[n - 1 - n / 20]);
		ck_assert_uint_le(ms, us[n - 1 - n / 20] * 3 / 2 / 1000 + 1);
		ck_assert_uint_eq(sf_hedge_times_slow_ms(&t, len > 65536 ? 1 : 1 << 20), 0);
	}
	/* what was long ago is forgotten */
	struct sf_hedge_times t = { 0 };
	for (unsigned i = 0; i < 1000; i++)
		sf_hedge_times_add(&t, 1, 1000000000);
	for (unsigned i = 0; i < 5000; i++)
		sf_hedge_times_add(&t, 1, 1000);
	ck_assert_uint_eq(sf_hedge_times_slow_ms(&t, 1), 1);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("hedge");
	TCase *t = tcase_create("hedge");

	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, the_second_wins_and_the_first_is_ended, 0, 2);
	tcase_add_loop_test(t, the_first_wins_and_the_second_is_ended, 0, 2);
	tcase_add_loop_test(t, an_error_waits_for_the_second, 0, 2);
	tcase_add_test(t, a_second_that_is_just_made_holds_up_no_other);
	tcase_add_test(t, whoever_cancels_ends_both);
	tcase_add_test(t, nothing_is_slow_before_it_is_known_what_is);
	tcase_add_test(t, one_in_twenty_at_most);
	tcase_add_test(t, slow_is_what_95_of_100_are_not);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
