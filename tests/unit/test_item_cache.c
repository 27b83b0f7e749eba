#include "config.h"

#include "tests/lib/item_cache_world.h"

START_TEST(all_who_ask_get_one_load)
{
	struct sf_item_cache *c;
	struct wait x[30];

	begin(20);
	sf_budget_set_limit(io.budget, 64 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	for (int i = 0; i < 30; i++)
		load(c, want(i % 3), &x[i]);
	for (int i = 0; i < 30; i++) {
		ck_assert_int_eq(wait_done(&x[i]), 0);
		ck_assert_uint_eq(x[i].item->len, LEN - i % 3);
		ck_assert_mem_eq(x[i].item->at, plain + i % 3, x[i].item->len);
		sf_cached_unref(c, x[i].item);
	}
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 3);
	free_cache(c);
	end();
}
END_TEST

START_TEST(it_holds_what_fits_and_forgets_the_oldest)
{
	struct sf_item_cache *c;
	struct wait x;
	struct sf_cache_want w;
	const struct sf_cached *held0;
	int kept = 0;

	begin(0);
	sf_budget_set_limit(io.budget, LEN * 16);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	w = want(0);
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), 0);
	held0 = x.item;
	for (int i = 1; i < ITEMS; i++) {
		w = want(i);
		ck_assert_ptr_null(sf_item_cache_get(c, &w));
		load(c, w, &x);
		ck_assert_int_eq(wait_done(&x), 0);
		sf_cached_unref(c, x.item);
	}
	for (int i = 0; i < ITEMS; i++) {
		const struct sf_cached *got;
		w = want(i);
		got = sf_item_cache_get(c, &w);
		ck_assert(i != ITEMS - 1 || got);
		ck_assert(i != 0 || got == held0); /* it is used */
		ck_assert(i != 1 || !got);
		kept += got != NULL;
		sf_cached_unref(c, got);
	}
	ck_assert_int_ge(kept, 2);
	ck_assert_int_le(kept, 8);
	ck_assert_mem_eq(held0->at, plain, LEN); /* whoever holds it keeps it */
	sf_cached_unref(c, held0);
	free_cache(c);
	end();
}
END_TEST

START_TEST(what_does_not_fit_names_the_numbers_and_the_option)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x;

	begin(0);
	sf_budget_set_limit(io.budget, LEN - 1000);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &x);
	ck_assert_int_eq(wait_done(&x), -E2BIG);
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "400000"));
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "399000"));
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "--memory 399000"));
	w = want(0);
	w.decoded_max = 100; /* metadata allows no more */
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), -E2BIG);
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "more than 100 bytes"));
	/* a failure is not kept */
	w = want(5);
	w.len -= 10; /* a cut frame */
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), -E2BIG);
	free_cache(c);
	sf_budget_set_limit(io.budget, LEN * 8);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "'x'"));
	load(c, want(5), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	sf_cached_unref(c, x.item);
	free_cache(c);
	end();
}
END_TEST

START_TEST(all_who_wait_hear_of_a_failure_and_the_next_one_tries_again)
{
	struct sf_item_cache *c;
	struct wait x[5];

	begin(20);
	plan.fail_at = 0;
	plan.code = -EIO;
	sf_budget_set_limit(io.budget, 2 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	for (int i = 0; i < 5; i++)
		load(c, want(0), &x[i]);
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(wait_done(&x[i]), -EIO);
		ck_assert_ptr_nonnull(strstr(x[i].w.err.msg, "injected"));
	}
	load(c, want(0), &x[0]);
	ck_assert_int_eq(wait_done(&x[0]), 0);
	sf_cached_unref(c, x[0].item);
	free_cache(c);
	end();
}
END_TEST

START_TEST(its_end_ends_loads_that_hang)
{
	struct sf_item_cache *c;
	struct wait x[3];

	begin(100000);
	sf_budget_set_limit(io.budget, 2 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	for (int i = 0; i < 3; i++)
		load(c, want(i), &x[i]);
	free_cache(c);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(wait_done(&x[i]), -ECANCELED);
	end();
}
END_TEST

/* Behind one that takes its time, more than the stack has room for if each began the next. */
START_TEST(thousands_that_fail_at_once_do_not_nest)
{
	enum { BAD = 20000 };
	struct sf_item_cache *c;
	struct wait first, *x = calloc(BAD, sizeof(*x));

	begin(200);
	sf_budget_set_limit(io.budget, 2 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &first);
	for (int i = 0; i < BAD; i++) {
		struct sf_cache_want w = want(0);
		w.off = file.len + 1 + (uint64_t)i; /* past the end: no request is made for it */
		w.len = 1 << 20;
		load(c, w, &x[i]);
	}
	ck_assert_int_eq(wait_done(&first), 0);
	sf_cached_unref(c, first.item);
	for (int i = 0; i < BAD; i++)
		ck_assert_int_eq(wait_done(&x[i]), -EBADMSG);
	free_cache(c);
	free(x);
	end();
}
END_TEST

START_TEST(an_item_is_known_by_file_offset_and_kind)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x;

	begin(0);
	sf_budget_set_limit(io.budget, 2 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	w = want(0);
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), 0);
	sf_cached_unref(c, x.item);
	const struct sf_cached *got = sf_item_cache_get(c, &w);
	ck_assert_ptr_eq(got, x.item);
	sf_cached_unref(c, got);
	w.kind = SF_CACHED_BLOB;
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	w = want(0);
	w.file = 1;
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	w = want(1);
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	free_cache(c);
	end();
}
END_TEST

/* Two owners that ask for the same bytes: each has its own, and takes it along. */
START_TEST(what_is_one_owners_no_other_sees)
{
	struct sf_item_owner other = { .ending = false };
	const struct sf_cached *got;
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x, y;
	uint64_t one;

	begin(0);
	sf_budget_set_limit(io.budget, 64 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	sf_cached_unref(c, x.item);
	w = want(0);
	w.owner = &other;
	ck_assert_ptr_null(sf_item_cache_get(c, &w));
	load(c, w, &y);
	ck_assert_int_eq(wait_done(&y), 0);
	ck_assert_ptr_ne(y.item, x.item);
	sf_cached_unref(c, y.item);
	sf_item_cache_end(c, &owner);
	sf_item_cache_end(c, &other); /* what is there stays */
	one = held() / 2;
	sf_item_cache_drop(c, &owner);
	ck_assert_uint_eq(held(), one);
	got = sf_item_cache_get(c, &w);
	ck_assert_ptr_eq(got, y.item);
	sf_cached_unref(c, got);
	load(c, want(0), &x); /* no new ones */
	ck_assert_int_eq(wait_done(&x), -ECANCELED);
	sf_item_cache_drop(c, &other);
	ck_assert_uint_eq(held(), 0);
	sf_item_cache_free(c);
	end();
}
END_TEST

/* What the wall clock says: an hour more while it is ahead. */
static _Atomic bool ahead;

int clock_gettime(clockid_t clock, struct timespec *ret)
{
	long r = syscall(SYS_clock_gettime, clock, ret);

	if (ahead && clock == CLOCK_REALTIME)
		ret->tv_sec += 3600;
	return (int)r;
}

static struct sf_source_ops deaf_ops;
static struct sf_io_req *_Atomic deaf_req;
static _Atomic unsigned cancels;

static void deaf_submit(struct sf_source *s, struct sf_io_req *req)
{
	(void)s;
	deaf_req = req;
}

static void deaf_cancel(struct sf_source *s, struct sf_io_req *req)
{
	(void)s;
	(void)req;
	cancels++;
}

static void *end_the_second(void *arg)
{
	(void)arg;
	while (cancels < 2)
		usleep(1000);
	sf_io_req_end(deaf_req, -ECANCELED);
	return NULL;
}

/* A request that is cancelled too early is cancelled again soon, whoever sets the clock meanwhile. */
START_TEST(a_clock_that_is_set_keeps_no_end_waiting)
{
	struct sf_item_cache *c;
	pthread_t thread;
	struct wait x;

	begin(0);
	deaf_ops = *src->ops;
	deaf_ops.submit = deaf_submit;
	deaf_ops.cancel = deaf_cancel;
	deaf_ops.lend = NULL;
	src->ops = &deaf_ops;
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	load(c, want(0), &x);
	while (!deaf_req)
		usleep(1000);
	ck_assert_int_eq(pthread_create(&thread, NULL, end_the_second, NULL), 0);
	ahead = true;
	free_cache(c);
	ahead = false;
	pthread_join(thread, NULL);
	ck_assert_int_eq(x.r, -ECANCELED);
	end();
}
END_TEST

/* _i: bytes of the file from the blob on; of 8 its header's length is whole, and says too much. */
START_TEST(a_blob_at_the_very_end_of_its_file_is_refused)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x;

	begin(0);
	sf_budget_set_limit(io.budget, 2 << 20);
	ck_assert_int_eq(sf_item_cache_new(&io, &c, NULL), 0);
	w = want(0);
	w.kind = SF_CACHED_BLOB;
	w.off = file.len - (uint64_t)_i;
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), -EBADMSG);
	ck_assert_msg(strstr(x.w.err.msg,
	                     _i < 8 ? "a safetensors blob at" : "safetensors header at") != NULL,
	              "%s", x.w.err.msg);
	free_cache(c);
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("item_cache");
	TCase *t = tcase_create("item_cache");

	tcase_add_test(t, all_who_ask_get_one_load);
	tcase_add_test(t, it_holds_what_fits_and_forgets_the_oldest);
	tcase_add_test(t, what_does_not_fit_names_the_numbers_and_the_option);
	tcase_add_test(t, all_who_wait_hear_of_a_failure_and_the_next_one_tries_again);
	tcase_add_test(t, its_end_ends_loads_that_hang);
	tcase_add_test(t, thousands_that_fail_at_once_do_not_nest);
	tcase_add_test(t, an_item_is_known_by_file_offset_and_kind);
	tcase_add_test(t, a_clock_that_is_set_keeps_no_end_waiting);
	tcase_add_test(t, what_is_one_owners_no_other_sees);
	tcase_add_loop_test(t, a_blob_at_the_very_end_of_its_file_is_refused, 6, 9);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	struct sf_unzstd *z;

	if (sf_unzstd_new(&z, NULL) < 0)
		return sf_test_skip("built without zstd");
	sf_unzstd_free(z);
	return sf_test_main(suite());
}
