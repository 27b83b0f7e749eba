/* The block cache: many readers at once, and those who end before the end. */
#include "config.h"

#include "store/filter.h"
#include "tests/lib/cache_asked.h"

#define B SF_CACHE_BLOCK

static struct cache_world w;

/* ---- many at once ---- */

#define READERS 8
static struct sf_source *shared[READERS];
static _Atomic unsigned failures;

static void *reader(void *arg)
{
	const uintptr_t who = (uintptr_t)arg;
	uint64_t state = 7 + who / 2; /* two of each kind ask for the same */

	for (int i = 0; i < 40; i++) {
		uint64_t off = sf_test_below(&state, CW_BYTES - 1),
			 len = 1 + sf_test_below(&state, SF_MIN(CW_BYTES - off, 5 * B) - 1);
		struct sf_lease lease;
		failures += cw_read_err(&w, shared[who], off, len, NULL) != 0;
		if (sf_source_lend(shared[who], off, len, SF_FETCH_TENSOR, &lease) == 0) {
			failures += memcmp(lease.at, w.bytes + off, len) != 0;
			sf_lease_release(&lease);
		}
	}
	return NULL;
}

START_TEST(readers_at_once_fetch_each_block_once)
{
	pthread_t thread[READERS];

	cw_begin(&w, NULL);
	w.far.reorder = _i & 1;
	w.far.inline_of = _i & 2 ? 3 : 0;
	for (uintptr_t i = 0; i < READERS; i++)
		shared[i] = cw_open(&w); /* each its own source, as two views have */
	for (uintptr_t i = 0; i < READERS; i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, reader, (void *)i), 0);
	for (uintptr_t i = 0; i < READERS; i++)
		pthread_join(thread[i], NULL);
	ck_assert_uint_eq(failures, 0);
	ck_assert_uint_le(w.far.bytes, CW_BYTES);
	ck_assert_uint_eq(w.io.counters.cache_fetched_bytes, w.far.bytes);
	for (unsigned i = 0; i < READERS; i++)
		sf_source_unref(shared[i]);
	struct sf_budget_stat stat;
	sf_budget_stat(w.io.budget, &stat);
	ck_assert_uint_eq(stat.held, 0);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* ---- ends before the end ---- */

START_TEST(one_readers_cancel_is_no_others)
{
	struct sf_source *src;
	struct asked one, two, three;

	cw_begin(&w, NULL);
	w.far.hold_until = 2; /* the first request stays until there is another */
	src = cw_open(&w);
	ask(&one, src, 0, 100);
	while (!w.far.requests)
		sched_yield();
	ask(&two, src, 50, 100);  /* waits for the first one's block */
	ask(&three, src, 90, 20); /* so does this */
	src->ops->cancel(src, &three.req);
	ck_assert_int_eq(outcome(&three), -ECANCELED);
	ck_assert_ptr_nonnull(strstr(three.req.err.msg, "canceled"));
	ck_assert_int_eq(one.r, 1);
	cw_read(&w, src, 20 * B, 1);
	ck_assert_int_eq(outcome(&one), 0);
	ck_assert_int_eq(outcome(&two), 0);
	ck_assert_mem_eq(two.at, w.bytes + 50, 100);
	src->ops->cancel(src, &three.req); /* long gone */
	free(one.at);
	free(two.at);
	free(three.at);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(a_canceled_fetch_is_made_anew_for_who_waits)
{
	struct sf_source *src;
	struct asked one, two;

	for (int i = 0; i < 20; i++) {
		cw_begin(&w, NULL);
		src = cw_open(&w);
		ask(&one, src, 0, 100);
		if (i & 1)
			while (!w.far.requests)
				sched_yield();
		ask(&two, src, 50, 100);
		src->ops->cancel(src, &one.req);
		int r = outcome(&one);
		ck_assert(r == 0 || r == -ECANCELED);
		ck_assert_int_eq(outcome(&two), 0);
		ck_assert_mem_eq(two.at, w.bytes + 50, 100);
		free(one.at);
		free(two.at);
		sf_source_unref(src);
		cw_end(&w);
		cw_remove(&w);
	}
}
END_TEST

START_TEST(a_failure_is_told_to_all_who_wait_and_nothing_is_kept)
{
	struct sf_fault plan = { .fail_at = 0, .code = -EIO, .busy = true };
	char at[] = "http://there";
	struct sf_far far = { .etag = "f" };
	struct sf_store *mem, *faulty, *store;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_source *src;

	cw_begin(&w, NULL);
	ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &far, &mem, NULL), 0);
	mem->at = at;
	ck_assert_int_eq(sf_store_fault(mem, &plan, &faulty, NULL), 0);
	ck_assert_str_eq(faulty->at, at); /* filters say the same */
	ck_assert_int_eq(sf_store_cached(faulty, w.cache, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &src, NULL), 0);
	ck_assert_int_eq(cw_read_err(&w, src, 0, 100, &err), -EIO);
	ck_assert_ptr_nonnull(strstr(err.msg, "injected"));
	cw_read(&w, src, 0, 100); /* asked again */
	sf_source_unref(src);
	sf_store_free(store);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* The deadline that a fetch missed is that of the read which began it. */
START_TEST(one_readers_timeout_is_no_others)
{
	struct sf_fault plan = { .fail_at = 0, .code = -ETIMEDOUT, .delay_ms = 100 };
	struct sf_far far = { .etag = "f" };
	struct sf_store *mem, *faulty, *store;
	struct sf_source *src;
	struct asked a[3];
	unsigned late = 0;

	cw_begin(&w, NULL);
	ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &far, &mem, NULL), 0);
	ck_assert_int_eq(sf_store_fault(mem, &plan, &faulty, NULL), 0);
	ck_assert_int_eq(sf_store_cached(faulty, w.cache, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &src, NULL), 0);
	for (unsigned i = 0; i < SF_ARRAY_LEN(a); i++)
		ask(&a[i], src, 100 * i, 100);
	for (unsigned i = 0; i < SF_ARRAY_LEN(a); i++) {
		int r = outcome(&a[i]);
		late += r == -ETIMEDOUT;
		ck_assert_msg(r == 0 || r == -ETIMEDOUT, "%d %s", r, a[i].req.err.msg);
		if (r == 0)
			ck_assert_mem_eq(a[i].at, w.bytes + 100 * i, 100);
		free(a[i].at);
	}
	ck_assert_uint_eq(late, 1);
	sf_source_unref(src);
	sf_store_free(store);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* A source that looks at the cache while something is asked of it: where a lock of the cache is held
 * meanwhile, it never answers. */
static struct sf_source *outer;

static void look_and_submit(struct sf_source *src, struct sf_io_req *req)
{
	uint8_t byte;
	struct iovec iov = { &byte, 1 };

	failures += sf_source_try(outer, 0, &iov, 1, 1, SF_FETCH_TENSOR, NULL) != -EAGAIN;
	sf_filter_submit(src, req);
}

static int wrap_looking(void *arg, struct sf_source *src, struct sf_source **ret,
                        struct sf_error *err)
{
	static const struct sf_source_ops ops = { .submit = look_and_submit };
	struct sf_filter *f = calloc(1, sizeof(*f));

	(void)arg, (void)err;
	ck_assert_ptr_nonnull(f);
	sf_filter_init(f, &ops, src);
	*ret = &f->s;
	return 0;
}

START_TEST(nothing_is_locked_while_something_is_asked_for)
{
	struct sf_far far = { .etag = "f" };
	struct sf_store *mem, *looking, *store;

	cw_begin(&w, NULL);
	ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &far, &mem, NULL), 0);
	ck_assert_int_eq(sf_store_filter(mem, wrap_looking, NULL, NULL, &looking, NULL), 0);
	ck_assert_int_eq(sf_store_cached(looking, w.cache, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &outer, NULL), 0);
	cw_read(&w, outer, 20 * B, 1);
	cw_read(&w, outer, 10, 1);
	ck_assert_uint_eq(far.requests, 2);
	ck_assert_uint_eq(failures, 0);
	sf_source_unref(outer);
	sf_store_free(store);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

static void clean(void)
{
	memset(&w, 0, sizeof(w));
	failures = 0;
}

int main(void)
{
	Suite *s = suite_create("cache_at_once");
	TCase *t = tcase_create("cache_at_once");

	tcase_add_checked_fixture(t, clean, NULL);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, readers_at_once_fetch_each_block_once, 0, 4);
	tcase_add_test(t, one_readers_cancel_is_no_others);
	tcase_add_test(t, a_canceled_fetch_is_made_anew_for_who_waits);
	tcase_add_test(t, a_failure_is_told_to_all_who_wait_and_nothing_is_kept);
	tcase_add_test(t, one_readers_timeout_is_no_others);
	tcase_add_test(t, nothing_is_locked_while_something_is_asked_for);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
