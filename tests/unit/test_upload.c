#include "config.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "store/upload_plan.h"
#include "tests/lib/put_mem.h"
#include "tests/lib/sf_test.h"

/* ---- a world ---- */

struct world {
	struct sf_io io;
	struct sf_put_mem mem;
	struct sf_uploads u;
	struct sf_budget *budget;
};

static void begin_world(struct world *w)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(sf_io_init(&w->io, 2, &err) == 0, "%s", err.msg);
	sf_put_mem_init(&w->mem);
	w->u.store = sf_put_mem_store(&w->mem, &w->io, "run/");
	ck_assert_msg(sf_uploads_init(&w->u, &err) == 0, "%s", err.msg);
}

static void end_world(struct world *w)
{
	sf_uploads_release(&w->u);
	sf_store_free(w->u.store);
	sf_put_mem_release(&w->mem);
	sf_io_release(&w->io);
}

static void fill(uint8_t *at, size_t n, uint64_t seed)
{
	for (size_t i = 0; i < n; i++)
		at[i] = (uint8_t)(sf_test_rand(&seed) >> 17);
}

static struct sf_upload *begin(struct world *w, const char *name, uint64_t size)
{
	const struct sf_upload_options o = { .size = size };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_upload *up;

	ck_assert_msg(sf_upload_begin(&w->u, name, &o, &up, &err) == 0, "%s", err.msg);
	return up;
}

static void write_it(struct sf_upload *up, uint64_t off, const void *at, size_t len)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(sf_upload_write(up, off, at, len, &err) == 0, "%s", err.msg);
}

static void finish(struct sf_upload *up)
{
	struct sf_error err = SF_ERROR_INIT;
	char *etag = NULL;

	ck_assert_msg(sf_upload_finish(up, &etag, &err) == 0, "%s", err.msg);
	ck_assert_ptr_nonnull(etag);
	free(etag);
}

static void is_there(struct world *w, const char *name, const uint8_t *want, size_t len)
{
	size_t have = 0;
	const void *at = sf_put_mem_at(&w->mem, name, &have);

	ck_assert_msg(at != NULL, "'%s' is not there", name);
	ck_assert_uint_eq(have, len);
	ck_assert(len == 0 || memcmp(at, want, len) == 0);
}

/* ---- the plan ---- */

/* The slow reference: part after part. */
START_TEST(parts_are_where_a_walk_over_all_finds_them)
{
	uint64_t seed = sf_test_seed("parts_are_where_a_walk_over_all_finds_them");

	for (int round = 0; round < 500; round++) {
		const struct sf_put_ops limits = { .part_min = 1 + sf_test_below(&seed, 4),
			                           .part_max = 4 + sf_test_below(&seed, 60),
			                           .parts_max =
			                                   1 + (uint32_t)sf_test_below(&seed, 40) };
		uint64_t size = sf_test_below(&seed, 3) ? 0 : 1 + sf_test_below(&seed, 500), at = 0;
		struct sf_upload_plan p;
		int r = sf_upload_plan_init(&p, size, sf_test_below(&seed, 9), &limits, NULL);

		ck_assert_int_eq(r, size > limits.part_max * limits.parts_max ? -EFBIG : 0);
		if (r < 0)
			continue;
		for (uint32_t n = 0; n < limits.parts_max && at < (size ? size : UINT64_MAX); n++) {
			uint64_t start, len = 0;
			ck_assert_uint_eq(sf_upload_plan_part(&p, at, &start, &len), n);
			ck_assert_uint_eq(start, at);
			ck_assert(len > 0 && len <= limits.part_max);
			ck_assert(len >= limits.part_min || at + len == size);
			for (uint64_t i = 0; i < len; i++) {
				uint64_t s, l;
				ck_assert_uint_eq(sf_upload_plan_part(&p, at + i, &s, &l), n);
				ck_assert(s == start && l == len);
			}
			at += len;
		}
		ck_assert_uint_eq(sf_upload_plan_most(&p), at);
		ck_assert_uint_eq(sf_upload_plan_part(&p, at, &at, &at), UINT32_MAX);
	}
}
END_TEST

START_TEST(amazons_limits_hold_48_tib_whose_size_is_known_and_more_than_one_that_is_not)
{
	const struct sf_put_ops s3 = { .part_min = 5 << 20,
		                       .part_max = UINT64_C(5) << 30,
		                       .parts_max = 10000 };
	struct sf_upload_plan p;

	ck_assert_int_eq(sf_upload_plan_init(&p, UINT64_C(48) << 40, 8 << 20, &s3, NULL), 0);
	ck_assert_uint_eq(p.part % (1 << 20), 0);
	ck_assert_int_eq(sf_upload_plan_init(&p, UINT64_C(49) << 40, 8 << 20, &s3, NULL), -EFBIG);
	ck_assert_int_eq(sf_upload_plan_init(&p, 0, 8 << 20, &s3, NULL), 0);
	ck_assert(sf_upload_plan_most(&p) > UINT64_C(4) << 40);
}
END_TEST

/* ---- objects ---- */

START_TEST(an_object_of_one_part_is_one_put)
{
	struct world w = { .u.part_bytes = 10 };
	uint8_t at[10];

	begin_world(&w);
	fill(at, sizeof(at), 1);
	for (int known = 0; known < 2; known++)
		for (size_t len = 0; len <= 10; len += 5) {
			struct sf_upload *up = begin(&w, "a", known ? len : 0);
			if (len)
				write_it(up, 0, at, len);
			ck_assert_uint_eq(w.mem.calls[SF_PUT_MEM_PUT], known * 3 + len / 5);
			finish(up);
			is_there(&w, "run/a", at, len);
		}
	ck_assert_uint_eq(w.mem.calls[SF_PUT_MEM_PUT], 6);
	ck_assert_uint_eq(w.mem.calls[SF_PUT_MEM_BEGIN], 0);
	end_world(&w);
}
END_TEST

/* Pieces of [0, len) in any order, each once. */
static void write_shuffled(struct sf_upload *up, const uint8_t *at, size_t len, uint64_t *seed)
{
	size_t cut[64] = { 0 }, n = 1 + sf_test_below(seed, 40), order[64];

	for (size_t i = 1; i < n; i++)
		cut[i] = sf_test_below(seed, len + 1);
	cut[n] = len;
	for (size_t i = 1; i <= n; i++) /* insertion sort */
		for (size_t k = i; k > 1 && cut[k - 1] > cut[k]; k--) {
			size_t t = cut[k];
			cut[k] = cut[k - 1];
			cut[k - 1] = t;
		}
	for (size_t i = 0; i < n; i++)
		order[i] = i;
	for (size_t i = n; i > 1; i--) {
		size_t k = sf_test_below(seed, i), t = order[k];
		order[k] = order[i - 1];
		order[i - 1] = t;
	}
	for (size_t i = 0; i < n; i++)
		write_it(up, cut[order[i]], at + cut[order[i]], cut[order[i] + 1] - cut[order[i]]);
}

START_TEST(bytes_in_any_order_become_the_object)
{
	uint64_t seed = sf_test_seed("bytes_in_any_order_become_the_object");

	for (int round = 0; round < 60; round++) {
		struct world w = { .u.part_bytes = 1 + sf_test_below(&seed, 100),
			           .u.throttle = 1 + (unsigned)sf_test_below(&seed, 5),
			           .mem.parts_max = 200 };
		struct sf_budget *b = NULL;
		uint8_t at[1500];
		size_t len = sf_test_below(&seed, sizeof(at));

		ck_assert_int_eq(sf_budget_new(1 + sf_test_below(&seed, 400), &b, NULL), 0);
		w.u.budget = sf_test_below(&seed, 2) ? b : NULL;
		begin_world(&w);
		fill(at, len, seed);
		struct sf_upload *up = begin(&w, "x/y", sf_test_below(&seed, 2) ? len : 0);
		write_shuffled(up, at, len, &seed);
		finish(up);
		is_there(&w, "run/x/y", at, len);
		ck_assert_uint_eq(sf_put_mem_count(&w.mem), 1);
		ck_assert_uint_eq(sf_put_mem_unfinished(&w.mem), 0);
		ck_assert_uint_eq(w.mem.received, len); /* each byte went up once */
		ck_assert_uint_le(w.mem.most_bodies, w.u.throttle);
		end_world(&w);
		struct sf_budget_stat stat;
		sf_budget_stat(b, &stat);
		ck_assert_uint_eq(stat.held, 0);
		sf_budget_free(b);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("upload");
	TCase *t = tcase_create("upload");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, parts_are_where_a_walk_over_all_finds_them);
	tcase_add_test(
		t, amazons_limits_hold_48_tib_whose_size_is_known_and_more_than_one_that_is_not);
	tcase_add_test(t, an_object_of_one_part_is_one_put);
	tcase_add_test(t, bytes_in_any_order_become_the_object);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
