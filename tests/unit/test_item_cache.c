#include "config.h"

#include <pthread.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "parse/zstd.h"
#include "read/item_cache.h"
#include "tests/lib/sf_fake_ckpt.h"

#define ITEMS 20
#define LEN 50000

static uint8_t plain[LEN];
static struct sf_buf file;
static uint64_t off[ITEMS + 1];
static struct sf_mem_object object;
static struct sf_io io;
static struct sf_store *store;
static struct sf_source *src;
static struct sf_fault plan;

/* ITEMS frames; item i decodes to plain[i..LEN). */
static void begin(unsigned delay)
{
	struct sf_store *inner;
	uint64_t seed = 9;

	memset(&file, 0, sizeof(file));
	for (size_t i = 0; i < LEN; i++)
		plain[i] = (uint8_t)sf_test_rand(&seed);
	for (int i = 0; i < ITEMS; i++) {
		off[i] = file.len;
		fake_zstd(&file, plain + i, LEN - (size_t)i);
	}
	off[ITEMS] = file.len;
	object = (struct sf_mem_object){ "x", file.at, file.len };
	plan = (struct sf_fault){ .fail_at = -1, .delay_ms = delay };
	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	ck_assert_int_eq(sf_store_mem(&io, &object, 1, &inner, NULL), 0);
	ck_assert_int_eq(sf_store_fault(inner, &plan, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &src, NULL), 0);
}

static void end(void)
{
	sf_source_unref(src);
	sf_store_free(store);
	sf_io_release(&io);
	sf_buf_release(&file);
}

static struct sf_cache_want want(int i)
{
	return (struct sf_cache_want){ .src = src,
		                       .off = off[i],
		                       .len = off[i + 1] - off[i],
		                       .fetch = SF_FETCH_OBJECT,
		                       .decoded_max = LEN };
}

struct wait {
	struct sf_cache_wait w;
	atomic_int done;
	int r;
	const struct sf_cached *item;
};
static void note(struct sf_cache_wait *w, int r, const struct sf_cached *item)
{
	struct wait *x = (struct wait *)w;

	x->r = r;
	x->item = item;
	atomic_store(&x->done, 1);
}
static void load(struct sf_item_cache *c, struct sf_cache_want w, struct wait *x)
{
	memset(x, 0, sizeof(*x));
	x->w.done = note;
	sf_item_cache_load(c, &w, &x->w);
}
static int wait_done(struct wait *x)
{
	while (!atomic_load(&x->done))
		usleep(100);
	return x->r;
}

START_TEST(all_who_ask_get_one_load)
{
	struct sf_item_cache *c;
	struct wait x[30];

	begin(20);
	ck_assert_int_eq(sf_item_cache_new(1 << 20, 2 << 20, &c, NULL), 0);
	for (int i = 0; i < 30; i++)
		load(c, want(i % 3), &x[i]);
	for (int i = 0; i < 30; i++) {
		ck_assert_int_eq(wait_done(&x[i]), 0);
		ck_assert_uint_eq(x[i].item->len, LEN - i % 3);
		ck_assert_mem_eq(x[i].item->at, plain + i % 3, x[i].item->len);
		sf_cached_unref(c, x[i].item);
	}
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 3);
	sf_item_cache_free(c);
	end();
}
END_TEST

START_TEST(it_holds_what_fits_and_forgets_the_oldest)
{
	struct sf_item_cache *c;
	struct wait x;
	struct sf_cache_want w;
	const struct sf_cached *held;
	int kept = 0;

	begin(0);
	ck_assert_int_eq(sf_item_cache_new(LEN * 8, LEN * 16, &c, NULL), 0);
	w = want(0);
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), 0);
	held = x.item;
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
		ck_assert(i != 0 || !got);
		kept += got != NULL;
		sf_cached_unref(c, got);
	}
	ck_assert_int_ge(kept, 2);
	ck_assert_int_le(kept, 8);
	ck_assert_mem_eq(held->at, plain, LEN); /* whoever holds it keeps it */
	sf_cached_unref(c, held);
	sf_item_cache_free(c);
	end();
}
END_TEST

START_TEST(what_does_not_fit_names_the_numbers_and_the_option)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x;

	begin(0);
	ck_assert_int_eq(sf_item_cache_new(LEN - 1000, 2 * (LEN - 1000), &c, NULL), 0);
	load(c, want(0), &x);
	ck_assert_int_eq(wait_done(&x), -E2BIG);
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "50000"));
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "49000"));
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "--memory 98000"));
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
	sf_item_cache_free(c);
	ck_assert_int_eq(sf_item_cache_new(LEN * 4, LEN * 8, &c, NULL), 0);
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(x.w.err.msg, "'x'"));
	load(c, want(5), &x);
	ck_assert_int_eq(wait_done(&x), 0);
	sf_cached_unref(c, x.item);
	sf_item_cache_free(c);
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
	ck_assert_int_eq(sf_item_cache_new(1 << 20, 2 << 20, &c, NULL), 0);
	for (int i = 0; i < 5; i++)
		load(c, want(0), &x[i]);
	for (int i = 0; i < 5; i++) {
		ck_assert_int_eq(wait_done(&x[i]), -EIO);
		ck_assert_ptr_nonnull(strstr(x[i].w.err.msg, "injected"));
	}
	load(c, want(0), &x[0]);
	ck_assert_int_eq(wait_done(&x[0]), 0);
	sf_cached_unref(c, x[0].item);
	sf_item_cache_free(c);
	end();
}
END_TEST

START_TEST(its_end_ends_loads_that_hang)
{
	struct sf_item_cache *c;
	struct wait x[3];

	begin(100000);
	ck_assert_int_eq(sf_item_cache_new(1 << 20, 2 << 20, &c, NULL), 0);
	for (int i = 0; i < 3; i++)
		load(c, want(i), &x[i]);
	sf_item_cache_free(c);
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
	ck_assert_int_eq(sf_item_cache_new(1 << 20, 2 << 20, &c, NULL), 0);
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
	sf_item_cache_free(c);
	free(x);
	end();
}
END_TEST

/* What a load will hold is taken to be four times its size: two fit. */
START_TEST(no_more_loads_run_than_fit)
{
	struct sf_item_cache *c;
	struct wait x[ITEMS];
	uint64_t each;

	begin(100000);
	each = 4 * (off[1] - off[0]);
	ck_assert_int_eq(sf_item_cache_new(2 * each, 4 * each, &c, NULL), 0);
	for (int i = 0; i < ITEMS; i++)
		load(c, want(i), &x[i]);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 2);
	sf_item_cache_free(c);
	for (int i = 0; i < ITEMS; i++)
		ck_assert_int_eq(wait_done(&x[i]), -ECANCELED);
	/* one that takes all there is runs, alone */
	io.counters.fetched_requests[SF_FETCH_OBJECT] = 0;
	ck_assert_int_eq(sf_item_cache_new(each - 1, 2 * each, &c, NULL), 0);
	for (int i = 0; i < 3; i++)
		load(c, want(i), &x[i]);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_OBJECT], 1);
	sf_item_cache_free(c);
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(wait_done(&x[i]), -ECANCELED);
	end();
}
END_TEST

START_TEST(an_item_is_known_by_file_offset_and_kind)
{
	struct sf_item_cache *c;
	struct sf_cache_want w;
	struct wait x;

	begin(0);
	ck_assert_int_eq(sf_item_cache_new(1 << 20, 2 << 20, &c, NULL), 0);
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
	sf_item_cache_free(c);
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
	ck_assert_int_eq(sf_item_cache_new(1 << 20, 2 << 20, &c, NULL), 0);
	w = want(0);
	w.kind = SF_CACHED_BLOB;
	w.off = file.len - (uint64_t)_i;
	load(c, w, &x);
	ck_assert_int_eq(wait_done(&x), -EBADMSG);
	ck_assert_msg(strstr(x.w.err.msg,
	                     _i < 8 ? "a safetensors blob at" : "safetensors header at") != NULL,
	              "%s", x.w.err.msg);
	sf_item_cache_free(c);
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
	tcase_add_test(t, no_more_loads_run_than_fit);
	tcase_add_test(t, an_item_is_known_by_file_offset_and_kind);
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
