#include "config.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "store/filter.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/store_far.h"

#define BYTES 10000

static uint8_t bytes[BYTES];
static const struct sf_mem_object object = { "x", bytes, BYTES };
static struct sf_io io;

static void begin(void)
{
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	for (int i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
}

/* ---- a filter that tries again ---- */

struct again_source {
	struct sf_filter flt;
	struct sf_io_hook hook; /* one request at a time is enough here */
	int times;
};

static int once_more(struct sf_io_hook *hook, struct sf_io_req *req, int r)
{
	struct again_source *s = (struct again_source *)hook->src;

	if (r != -EIO || !s->times)
		return r;
	s->times--;
	sf_filter_watch(hook->src, req, hook);
	return SF_IO_AGAIN;
}

static void again_submit(struct sf_source *src, struct sf_io_req *req)
{
	struct again_source *s = (struct again_source *)src;

	s->hook.ended = once_more;
	sf_filter_watch(src, req, &s->hook);
}

static const struct sf_source_ops again_ops = { .submit = again_submit };

/* statistics around a retry around statistics around faults: each sees what passes it, no more. */
START_TEST(a_stack_of_filters_does_what_each_says)
{
	struct sf_fault plan = { .fail_at = 0, .busy = true, .code = -EIO };
	struct sf_stats outer = { 0 }, inner = { 0 };
	struct again_source *again = calloc(1, sizeof(*again));
	struct sf_source *faulty, *counted, *top;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *mem, *store;
	uint8_t got[100];

	begin();
	ck_assert_int_eq(sf_store_mem(&io, &object, 1, &mem, NULL), 0);
	ck_assert_int_eq(sf_store_fault(mem, &plan, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &faulty, NULL), 0);
	ck_assert_int_eq(sf_source_stats(faulty, &inner, &counted, NULL), 0);
	sf_filter_init(&again->flt, &again_ops, counted);
	ck_assert_int_eq(sf_source_stats(&again->flt.s, &outer, &top, NULL), 0);
	sf_source_unref(faulty);
	sf_source_unref(counted);
	sf_source_unref(&again->flt.s);
	ck_assert_str_eq(top->name, "x");
	ck_assert_uint_eq(top->size, BYTES);

	again->times = _i;
	ck_assert_int_eq(sf_source_read(top, 50, got, 100, SF_FETCH_TENSOR, &err), _i ? 0 : -EIO);
	ck_assert_uint_eq(inner.requests, 1 + (unsigned)_i);
	ck_assert_uint_eq(inner.failed, 1);
	ck_assert_uint_eq(outer.requests, 1);
	ck_assert_uint_eq(outer.bytes, 100);
	ck_assert_uint_eq(outer.failed, !_i);
	if (_i)
		ck_assert_mem_eq(got, bytes + 50, 100);
	else
		ck_assert_ptr_nonnull(strstr(err.msg, "injected"));
	/* one read for the client, however many it took */
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_TENSOR], 1);
	sf_source_unref(top);
	sf_store_free(store);
	sf_io_release(&io);
}
END_TEST

/* What a filter says nothing about goes through: leases and their tokens, cancel, hints, check. */
START_TEST(the_rest_goes_through)
{
	struct sf_far far = { .lends = true, .hints = { .range_max = 777, .inflight = 3 } };
	struct sf_stats stats = { 0 };
	struct sf_store *store;
	struct sf_source *src;
	struct sf_lease lease;

	begin();
	ck_assert_int_eq(sf_store_far(&io, &object, 1, &far, &store, NULL), 0);
	ck_assert_int_eq(sf_store_stats(store, &stats, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &src, NULL), 0);
	ck_assert_uint_eq(sf_source_hints(src)->range_max, 777);
	ck_assert_int_eq(sf_source_lend(src, 5, 50, SF_FETCH_TENSOR, &lease), 0);
	ck_assert_mem_eq(lease.at, bytes + 5, 50);
	ck_assert_uint_eq(far.back, 0);
	sf_lease_release(&lease);
	ck_assert_uint_eq(far.back, 1);
	ck_assert_ptr_nonnull(src->ops->cancel);
	ck_assert_int_eq(sf_source_check(src, NULL), 0);
	sf_source_unref(src);
	sf_store_free(store);
	/* a source that cannot end a request does not learn it by being wrapped */
	ck_assert_int_eq(sf_store_mem(&io, &object, 1, &store, NULL), 0);
	ck_assert_int_eq(sf_store_stats(store, &stats, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &src, NULL), 0);
	ck_assert_ptr_null(src->ops->cancel);
	sf_source_unref(src);
	sf_store_free(store);
	sf_io_release(&io);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("filter");
	TCase *t = tcase_create("filter");

	tcase_add_loop_test(t, a_stack_of_filters_does_what_each_says, 0, 2);
	tcase_add_test(t, the_rest_goes_through);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
