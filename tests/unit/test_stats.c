#include "config.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/sf_test.h"
#include "tool/stats.h"

static double number(uint64_t *seed, bool odd)
{
	uint64_t what = sf_test_below(seed, 40);
	double v = (double)sf_test_below(seed, 2000001) / 1000 - 1000;

	if (odd && what < 3)
		return what == 0 ? (double)NAN : what == 1 ? (double)INFINITY : -(double)INFINITY;
	return what < 6 ? 0 : v;
}

/* In any cuts the same as number by number, twice over them. */
START_TEST(a_pass_in_blocks_says_what_two_passes_over_all_say)
{
	uint64_t seed = sf_test_seed("stats");

	for (int round = 0; round < 200; round++) {
		double v[3000];
		size_t n = (size_t)sf_test_below(&seed, SF_ARRAY_LEN(v) + 1);
		struct sf_stats s = { 0 }, want = { 0 };
		long double sum = 0, square = 0;
		uint64_t finite = 0;
		for (size_t i = 0; i < n; i++)
			v[i] = number(&seed, round % 2);
		for (size_t i = 0, k; i < n; i += k) {
			k = 1 + (size_t)sf_test_below(&seed, n - i);
			sf_stats_add(&s, v + i, k);
		}
		for (size_t i = 0; i < n; i++) {
			want.nan += isnan(v[i]) != 0;
			want.pinf += v[i] == (double)INFINITY;
			want.ninf += v[i] == -(double)INFINITY;
			if (!isfinite(v[i]))
				continue;
			want.zeros += v[i] == 0;
			want.min = !finite || v[i] < want.min ? v[i] : want.min;
			want.max = !finite || v[i] > want.max ? v[i] : want.max;
			finite++;
			sum += v[i];
		}
		for (size_t i = 0; i < n; i++)
			if (isfinite(v[i]))
				square += (v[i] - sum / finite) * (v[i] - sum / finite);
		ck_assert_uint_eq(s.n, n);
		ck_assert_uint_eq(sf_stats_finite(&s), finite);
		ck_assert_uint_eq(s.nan, want.nan);
		ck_assert_uint_eq(s.pinf, want.pinf);
		ck_assert_uint_eq(s.ninf, want.ninf);
		ck_assert_uint_eq(s.zeros, want.zeros);
		if (!finite)
			continue;
		ck_assert_double_eq(s.min, want.min);
		ck_assert_double_eq(s.max, want.max);
		ck_assert_double_eq_tol(s.mean, (double)(sum / finite), 1e-9);
		ck_assert_double_eq_tol(sf_stats_std(&s), (double)sqrtl(square / finite), 1e-9);
	}
}
END_TEST

/* A million numbers near 10^9 that differ in the third digit behind the point. */
START_TEST(numbers_far_from_zero_keep_their_deviation)
{
	struct sf_stats s = { 0 };

	for (int i = 0; i < 1000; i++) {
		double v[1000];
		for (int k = 0; k < 1000; k++)
			v[k] = 1e9 + (k % 2 ? 0.001 : -0.001);
		sf_stats_add(&s, v, 1000);
	}
	ck_assert_double_eq_tol(sf_stats_std(&s), 0.001, 1e-6);
	ck_assert_double_eq_tol(s.mean, 1e9, 1e-3);
}
END_TEST

START_TEST(what_no_double_holds_is_no_number)
{
	const double v[16] = { 1.7e308, -1.7e308, 1.7e308, -1.7e308,
		               1.7e308, -1.7e308, 1.7e308, -1.7e308 };
	struct sf_stats s = { 0 };

	sf_stats_add(&s, v, 16);
	ck_assert(s.min == -1.7e308 && s.max == 1.7e308 && s.zeros == 8);
	ck_assert(isnan(sf_stats_std(&s)));
	s = (struct sf_stats){ 0 };
	sf_stats_add(&s, v, 5); /* number by number */
	sf_stats_add(&s, v + 8, 3);
	ck_assert(isnan(sf_stats_std(&s)) && isnan(s.m2));
}
END_TEST

START_TEST(a_histogram_counts_each_finite_number_once)
{
	static const double v[] = { -1, -1, 0, 0.999, 1, NAN, INFINITY };
	struct sf_stats s = { 0 };
	struct sf_histogram h;
	uint64_t sum = 0;

	sf_stats_add(&s, v, SF_ARRAY_LEN(v));
	sf_histogram_begin(&h, &s);
	sf_histogram_add(&h, v, SF_ARRAY_LEN(v));
	for (int i = 0; i < SF_BINS; i++)
		sum += h.bin[i];
	ck_assert_uint_eq(sum, 5);
	ck_assert_uint_eq(h.bin[0], 2);
	ck_assert_uint_eq(h.bin[SF_BINS / 2], 1);
	ck_assert_uint_eq(h.bin[SF_BINS - 1], 2); /* the last part has its end */
	/* one value alone, and the widest there is */
	s = (struct sf_stats){ 0 };
	sf_stats_add(&s, v + 4, 1);
	sf_histogram_begin(&h, &s);
	ck_assert(h.min == 0.5 && h.max == 1.5);
	s = (struct sf_stats){ .n = 2, .min = -1.7e308, .max = 1.7e308 };
	sf_histogram_begin(&h, &s);
	sf_histogram_add(&h, &s.min, 1);
	sf_histogram_add(&h, &s.max, 1);
	ck_assert(h.bin[0] == 1 && h.bin[SF_BINS - 1] == 1);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("stats");
	TCase *tc = tcase_create("stats");

	tcase_add_test(tc, a_pass_in_blocks_says_what_two_passes_over_all_say);
	tcase_add_test(tc, numbers_far_from_zero_keep_their_deviation);
	tcase_add_test(tc, what_no_double_holds_is_no_number);
	tcase_add_test(tc, a_histogram_counts_each_finite_number_once);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
