#include "config.h"

#include <string.h>

#include "base/arena.h"
#include "base/mem.h"
#include "tests/lib/sf_test.h"

/* Property: blocks of random sizes are aligned and none overlaps another: each keeps the pattern
 * written to it. */
START_TEST(allocations_do_not_overlap)
{
	enum { N = 4000 };
	static uint8_t *at[N];
	static size_t len[N];
	struct sf_arena a = { 0 };
	uint64_t rnd = sf_test_seed("allocations_do_not_overlap");

	for (size_t i = 0; i < N; i++) {
		len[i] = sf_test_below(&rnd, sf_test_below(&rnd, 50) ? 200 : 300000);
		if (i % 3 == 2) {
			char text[200];
			len[i] %= sizeof(text);
			memset(text, (int)(i & 0xff), len[i]);
			at[i] = (uint8_t *)sf_arena_strdup(&a, text, len[i]);
			ck_assert_uint_eq(at[i][len[i]], 0);
		} else {
			at[i] = sf_arena_alloc(&a, len[i]);
			ck_assert_uint_eq((uintptr_t)at[i] % 8, 0);
			memset(at[i], (int)(i & 0xff), len[i]);
		}
		ck_assert_ptr_nonnull(at[i]);
	}
	for (size_t i = 0; i < N; i++)
		for (size_t k = 0; k < len[i]; k++)
			if (at[i][k] != (i & 0xff))
				ck_abort_msg("allocation %zu, byte %zu of %zu was overwritten", i,
				             k, len[i]);
	sf_arena_release(&a);
	ck_assert_uint_eq(a.used, 0);
	ck_assert_ptr_null(a.blocks);
}
END_TEST

START_TEST(a_small_arena_stays_small)
{
	struct sf_arena a = { 0 };

	ck_assert_ptr_nonnull(sf_arena_alloc(&a, 100));
	ck_assert_uint_le(a.used, 1024);
	sf_arena_release(&a);
}
END_TEST

/* Names by the million: waste is below a tenth. */
START_TEST(many_small_ones_cost_little_more_than_their_bytes)
{
	struct sf_arena a = { 0 };
	size_t bytes = 0;

	for (size_t i = 0; i < 200000; i++, bytes += 41)
		ck_assert_ptr_nonnull(
			sf_arena_strdup(&a, "model.layers.12.attention.wq.weight.shard", 40));
	ck_assert_uint_ge(a.used, bytes);
	ck_assert_uint_le(a.used, bytes + bytes / 10 + (1 << 20));
	sf_arena_release(&a);
}
END_TEST

START_TEST(the_limit_holds_and_is_nearly_reached)
{
	for (size_t limit = 1; limit < 200000; limit = limit * 3 + 1) {
		struct sf_arena a = { .limit = limit };
		size_t n = 0;
		while (sf_arena_alloc(&a, 16)) {
			ck_assert_uint_le(a.used, limit);
			n += 16;
		}
		ck_assert_uint_le(a.used, limit);
		if (limit >= 4000)
			ck_assert_uint_ge(n, limit / 10 * 9);
		ck_assert_ptr_null(sf_arena_alloc(&a, limit + 1));
		sf_arena_release(&a);
	}
}
END_TEST

START_TEST(sizes_that_overflow_fail)
{
	struct sf_arena a = { 0 };

	ck_assert_ptr_null(sf_arena_calloc(&a, SIZE_MAX / 2, 3));
	ck_assert_ptr_null(sf_arena_alloc(&a, SIZE_MAX - 4));
	ck_assert_ptr_null(sf_arena_strdup(&a, "", SIZE_MAX));
	ck_assert_uint_eq(a.used, 0);
}
END_TEST

START_TEST(cleared_memory_is_cleared_and_nothing_is_a_size)
{
	struct sf_arena a = { 0 };
	uint8_t *p = sf_arena_alloc(&a, 600);

	memset(p, 0xff, 600);
	sf_arena_release(&a);
	for (int i = 0; i < 10; i++) {
		p = sf_arena_calloc(&a, 30, 20);
		for (int k = 0; k < 600; k++)
			ck_assert_uint_eq(p[k], 0);
		memset(p, 0xff, 600);
	}
	ck_assert_ptr_nonnull(sf_arena_alloc(&a, 0));
	ck_assert_ptr_nonnull(sf_arena_calloc(&a, 0, 8));
	sf_arena_release(&a);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("arena");
	TCase *t = tcase_create("arena");

	tcase_add_test(t, allocations_do_not_overlap);
	tcase_add_test(t, a_small_arena_stays_small);
	tcase_add_test(t, many_small_ones_cost_little_more_than_their_bytes);
	tcase_add_test(t, the_limit_holds_and_is_nearly_reached);
	tcase_add_test(t, sizes_that_overflow_fail);
	tcase_add_test(t, cleared_memory_is_cleared_and_nothing_is_a_size);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
