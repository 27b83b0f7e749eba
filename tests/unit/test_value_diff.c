#include "config.h"

#include <math.h>

#include "base/mem.h"
#include "tests/lib/sf_test.h"
#include "tool/value_diff.h"

START_TEST(distances_are_of_numbers_and_elements_are_counted)
{
	const double x[] = { 1, 2, NAN, 4, 0, -8 }, y[] = { 1, 2.5, NAN, 4, 0, 8 };
	struct sf_value_diff d = { 0 };

	sf_value_diff_add(&d, x, y, 3, 1);
	sf_value_diff_add(&d, x + 3, y + 3, 3, 1); /* goes on where it was */
	ck_assert_uint_eq(d.n, 6);
	ck_assert_uint_eq(d.differ, 2);
	ck_assert_uint_eq(d.max_at, 5);
	ck_assert_double_eq(d.max_abs, 16);
	ck_assert_double_eq(d.max_rel, 2); /* 8 and -8 */
	/* pairs of numbers are one element */
	d = (struct sf_value_diff){ 0 };
	sf_value_diff_add(&d, x, y, 3, 2);
	ck_assert_uint_eq(d.n, 3);
	ck_assert_uint_eq(d.differ, 2);
	ck_assert_uint_eq(d.max_at, 2);
}
END_TEST

START_TEST(what_is_not_finite_is_infinitely_far_from_all_else)
{
	static const struct {
		double x, y;
		bool same;
	} c[] = { { NAN, NAN, true },           { NAN, 1, false },
		  { INFINITY, INFINITY, true }, { INFINITY, -INFINITY, false },
		  { 3, -INFINITY, false },      { INFINITY, NAN, false },
		  { 1.7e308, -1.7e308, false } }; /* their distance is no double */

	for (size_t i = 0; i < SF_ARRAY_LEN(c); i++) {
		struct sf_value_diff d = { 0 };
		sf_value_diff_add(&d, &c[i].x, &c[i].y, 1, 1);
		ck_assert_uint_eq(d.differ, !c[i].same);
		ck_assert_msg(c[i].same ? d.max_abs == 0 : isinf(d.max_abs), "%zu: %g", i,
		              d.max_abs);
		ck_assert_msg(c[i].same == (d.max_rel == 0), "%zu: %g", i, d.max_rel);
	}
	/* zeros of both signs are one number */
	struct sf_value_diff d = { 0 };
	const double zero = 0, minus = -0.0;
	sf_value_diff_add(&d, &zero, &minus, 1, 1);
	ck_assert_uint_eq(d.differ, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("value_diff");
	TCase *tc = tcase_create("value_diff");

	tcase_add_test(tc, distances_are_of_numbers_and_elements_are_counted);
	tcase_add_test(tc, what_is_not_finite_is_infinitely_far_from_all_else);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
