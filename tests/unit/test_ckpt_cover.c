#include "config.h"

#include "ckpt/ckpt_cover.h"
#include "tests/lib/sf_test.h"

/* test_ckpt_check.c has the tilings: here is what has no box to look at. */

START_TEST(a_window_without_boxes_is_one_hole)
{
	static const uint64_t lo[] = { 1, 2, 3 }, hi[] = { 4, 5, 6 };

	for (unsigned ndim = 1; ndim <= 3; ndim++) {
		struct sf_boxes none = { .ndim = ndim };
		struct sf_cover c;
		uint64_t budget = 1000;
		ck_assert_int_eq(sf_cover_sweep(&none, lo, hi, true, &budget, &c), 0);
		ck_assert(c.hole && !c.overlap);
		ck_assert_mem_eq(c.hole_at, lo, ndim * sizeof(*lo));
	}
}
END_TEST

START_TEST(a_point_is_covered_by_one_box_alone)
{
	for (uint32_t n = 0; n < 3; n++) {
		struct sf_boxes points = { .n = n };
		struct sf_cover c;
		uint64_t budget = 1000;
		ck_assert_int_eq(sf_cover_sweep(&points, NULL, NULL, true, &budget, &c), 0);
		ck_assert_int_eq(c.hole, n == 0);
		ck_assert_int_eq(c.overlap, n == 2);
		ck_assert(!c.overlap || (c.a == 0 && c.b == 1));
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ckpt_cover");
	TCase *t = tcase_create("ckpt_cover");
	tcase_add_test(t, a_window_without_boxes_is_one_hole);
	tcase_add_test(t, a_point_is_covered_by_one_box_alone);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
