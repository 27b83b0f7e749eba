#include "config.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "parse/dtype.h"
#include "tests/lib/sf_test.h"

START_TEST(every_dtype_is_found_by_each_of_its_names)
{
	for (int i = 1; i < SF_NDTYPES; i++) {
		const struct sf_dtype_info *d = sf_dtype_info((enum sf_dtype)i);
		ck_assert_int_eq(sf_dtype_by_torch(d->torch, strlen(d->torch)), i);
		ck_assert_int_eq(sf_dtype_by_torch(d->torch, strlen(d->torch) + 1),
		                 SF_DTYPE_NONE); /* its NUL */
		if (d->storage)
			ck_assert_int_eq(sf_dtype_by_storage(d->storage, strlen(d->storage)), i);
		ck_assert_int_eq(!d->safetensors, !d->st_order);
		if (d->safetensors)
			ck_assert_int_eq(
				sf_dtype_by_safetensors(d->safetensors, strlen(d->safetensors)), i);
		ck_assert_uint_ge(d->bytes, 1);
		ck_assert_uint_eq(d->swap_bytes, d->is_complex ? d->bytes / 2 : d->bytes);
		for (int k = 1; k < i; k++)
			if (d->st_order)
				ck_assert_int_ne(d->st_order,
				                 sf_dtype_info((enum sf_dtype)k)->st_order);
		/* the number at the end of .npy's names is the size */
		if (d->npy)
			ck_assert_int_eq(atoi(d->npy + 2), d->bytes);
	}
	ck_assert_int_eq(sf_dtype_by_torch("half", 4), SF_FLOAT16);
	ck_assert_int_eq(sf_dtype_by_torch("", 0), SF_DTYPE_NONE);
	ck_assert_str_eq(sf_dtype_info(SF_DTYPE_NONE)->torch, "none");
	ck_assert_str_eq(sf_dtype_info((enum sf_dtype)200)->torch, "none");
}
END_TEST

/* The slow way: what a sign, an exponent of @ebits and a mantissa of @mbits stand for. */
static double small_value(uint16_t h, int ebits, int mbits)
{
	int e = h >> mbits & ((1 << ebits) - 1), m = h & ((1 << mbits) - 1),
	    bias = (1 << (ebits - 1)) - 1;
	double d;

	if (e == (1 << ebits) - 1)
		d = m ? NAN : INFINITY;
	else
		d = e ? ldexp((1 << mbits) + m, e - bias - mbits) : ldexp(m, 1 - bias - mbits);
	return h & 0x8000 ? -d : d;
}

/*
 * The slow way back: of all positive numbers, in order, the nearest, of two as near the even one.
 * The number past the largest is Inf, which stands where the next one would be.
 */
static uint16_t nearest(double d, int ebits, int mbits)
{
	uint16_t lo = 0, hi = (uint16_t)(((1 << ebits) - 1) << mbits),
		 sign = signbit(d) ? 0x8000 : 0, inf = hi;
	double a = fabs(d), x, y;

	if (isnan(d))
		return 0xffff;
	while (hi - lo > 1) {
		uint16_t mid = (uint16_t)((lo + hi) / 2);
		if (small_value(mid, ebits, mbits) <= a)
			lo = mid;
		else
			hi = mid;
	}
	x = small_value(lo, ebits, mbits);
	y = hi == inf ? 2 * x - small_value((uint16_t)(lo - 1), ebits, mbits)
	              : small_value(hi, ebits, mbits);
	if (isinf(a))
		return sign | inf;
	/* exact: both differences are of numbers within a factor of two, or one is 0 */
	if (a - x < y - a)
		return sign | lo;
	if (a - x > y - a)
		return sign | hi;
	return sign | (lo & 1 ? hi : lo);
}

START_TEST(all_16_bit_floats_widen_exactly_and_come_back)
{
	static const struct {
		enum sf_dtype dtype;
		int ebits, mbits;
	} kind[] = { { SF_FLOAT16, 5, 10 }, { SF_BFLOAT16, 8, 7 } };
	static uint16_t all[65536], back[65536];
	static float f[65536];
	static double d[65536];
	int e = kind[_i].ebits, m = kind[_i].mbits;

	for (int i = 0; i < 65536; i++)
		all[i] = (uint16_t)i;
	sf_dtype_cast(f, SF_FLOAT32, all, kind[_i].dtype, 65536);
	sf_dtype_cast(d, SF_FLOAT64, all, kind[_i].dtype, 65536);
	for (int i = 0; i < 65536; i++) {
		double want = small_value((uint16_t)i, e, m);
		ck_assert_msg(isnan(want) ? isnan(f[i]) && isnan(d[i])
		                          : want == f[i] && want == d[i],
		              "0x%04x", i);
		if (want == 0)
			ck_assert_int_eq(!!signbit(f[i]), i >> 15);
	}
	for (int wide = 0; wide < 2; wide++) {
		sf_dtype_cast(back, kind[_i].dtype, wide ? (void *)d : (void *)f,
		              wide ? SF_FLOAT64 : SF_FLOAT32, 65536);
		for (int i = 0; i < 65536; i++)
			if (isnan(f[i]))
				ck_assert(isnan(small_value(back[i], e, m)));
			else
				ck_assert_uint_eq(back[i], i);
	}
}
END_TEST

/* Random bit patterns, and the halfway points and their neighbours. */
START_TEST(narrowing_gives_the_nearest_even)
{
	uint64_t seed = sf_test_seed("narrowing_gives_the_nearest_even");

	for (int i = 0; i < 300000; i++) {
		uint64_t u = sf_test_rand(&seed);
		uint16_t got[4], h = (uint16_t)u;
		double d;
		float f;
		memcpy(&d, &u, 8);
		if (i % 4 == 1) /* in the range of halves */
			d = ldexp(d / pow(2, ilogb(d)), (int)(u % 50) - 30);
		else if (i % 4 >
		         1) { /* half way from a small number to the next, or a little beside it */
			int bf = i / 4 % 2;
			double x = small_value(h & 0x7fff, bf ? 8 : 5, bf ? 7 : 10), y;
			y = small_value((h & 0x7fff) + 1, bf ? 8 : 5, bf ? 7 : 10);
			d = isfinite(x + y) ? (x + y) / 2 : x;
			if (i % 4 == 3)
				d = nextafter(d, u & 0x10000 ? INFINITY : 0);
		}
		f = (float)d;
		sf_dtype_cast(&got[0], SF_FLOAT16, &d, SF_FLOAT64, 1);
		sf_dtype_cast(&got[1], SF_BFLOAT16, &d, SF_FLOAT64, 1);
		sf_dtype_cast(&got[2], SF_FLOAT16, &f, SF_FLOAT32, 1);
		sf_dtype_cast(&got[3], SF_BFLOAT16, &f, SF_FLOAT32, 1);
		for (int k = 0; k < 4; k++) {
			int e = k % 2 ? 8 : 5, m = k % 2 ? 7 : 10;
			uint16_t want = nearest(k < 2 ? d : (double)f, e, m);
			ck_assert_msg(want == 0xffff ? isnan(small_value(got[k], e, m))
			                             : got[k] == want,
			              "%a (float %a), way %d: 0x%04x, expected 0x%04x", d,
			              (double)f, k, got[k], want);
		}
	}
}
END_TEST

START_TEST(casts_take_unaligned_rows_of_any_length_and_leave_the_rest_alone)
{
	static const enum sf_dtype kind[] = { SF_FLOAT64, SF_FLOAT32, SF_FLOAT16, SF_BFLOAT16 };
	static uint8_t src[8 * 1000 + 1], dst[8 * 1000 + 2], one[8];

	for (int from = 0; from < 4; from++)
		for (int to = 0; to < 4; to++)
			for (size_t n = 0; n < 1000; n += n < 4 ? 1 : 83) {
				size_t a = sf_dtype_info(kind[from])->bytes,
				       b = sf_dtype_info(kind[to])->bytes;
				memset(dst, 0xee, sizeof(dst));
				for (size_t i = 0; i < n; i++) {
					float f = (float)i * 0.37f - 100;
					sf_dtype_cast(src + 1 + i * a, kind[from], &f, SF_FLOAT32,
					              1);
				}
				sf_dtype_cast(dst + 1, kind[to], src + 1, kind[from], n);
				ck_assert_uint_eq(dst[0], 0xee);
				ck_assert_uint_eq(dst[1 + n * b], 0xee);
				for (size_t i = 0; i < n; i++) {
					sf_dtype_cast(one, kind[to], src + 1 + i * a, kind[from],
					              1);
					ck_assert_mem_eq(dst + 1 + i * b, one, b);
				}
			}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dtype");
	TCase *t = tcase_create("dtype");

	tcase_add_test(t, every_dtype_is_found_by_each_of_its_names);
	tcase_add_loop_test(t, all_16_bit_floats_widen_exactly_and_come_back, 0, 2);
	tcase_add_test(t, narrowing_gives_the_nearest_even);
	tcase_add_test(t, casts_take_unaligned_rows_of_any_length_and_leave_the_rest_alone);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
