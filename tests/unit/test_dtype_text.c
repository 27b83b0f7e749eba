#include "config.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "parse/dtype_text.h"
#include "tests/lib/sf_test.h"

static const char *json(enum sf_dtype dtype, const void *at)
{
	static char buf[SF_DTYPE_TEXT];

	ck_assert_uint_eq(sf_dtype_json(buf, dtype, at), strlen(buf));
	return buf;
}

static const char *text(enum sf_dtype dtype, const void *at)
{
	static char buf[SF_DTYPE_TEXT];

	ck_assert_uint_eq(sf_dtype_text(buf, dtype, at), strlen(buf));
	return buf;
}

START_TEST(every_small_float_comes_back)
{
	static const enum sf_dtype dtypes[] = { SF_FLOAT16, SF_BFLOAT16 };

	for (size_t k = 0; k < 2; k++)
		for (unsigned i = 0; i < 65536; i++) {
			uint16_t h = (uint16_t)i, back;
			const char *s = json(dtypes[k], &h);
			float f;
			sf_dtype_cast(&f, SF_FLOAT32, &h, dtypes[k], 1);
			if (!isfinite(f)) {
				ck_assert_str_eq(s, isnan(f) ? "{\"$float\": \"nan\"}"
				                    : f > 0  ? "{\"$float\": \"inf\"}"
				                             : "{\"$float\": \"-inf\"}");
				continue;
			}
			ck_assert_msg(strpbrk(s, ".e"), "%s is no float", s);
			f = strtof(s, NULL);
			sf_dtype_cast(&back, dtypes[k], &f, SF_FLOAT32, 1);
			ck_assert_msg(back == h, "%04x: %s", i, s);
		}
}
END_TEST

START_TEST(random_floats_come_back)
{
	uint64_t rnd = sf_test_seed("random_floats_come_back");

	for (int i = 0; i < 20000; i++) {
		uint64_t bits = sf_test_rand(&rnd);
		float f;
		double d;
		memcpy(&f, &bits, 4);
		memcpy(&d, &bits, 8);
		if (isfinite(f))
			ck_assert(strtof(json(SF_FLOAT32, &f), NULL) == f);
		if (isfinite(d))
			ck_assert(strtod(json(SF_FLOAT64, &d), NULL) == d);
	}
}
END_TEST

/* torch 2.13's values of some bytes: tensor(b, dtype=uint8).view(dtype).item() */
START_TEST(eight_bits_and_fewer)
{
	static const struct {
		enum sf_dtype dtype;
		uint8_t byte;
		const char *json;
	} cases[] = {
		{ SF_F8_E4M3FN, 0x7e, "448.0" },
		{ SF_F8_E4M3FN, 0x7f, "{\"$float\": \"nan\"}" },
		{ SF_F8_E4M3FN, 0xff, "{\"$float\": \"nan\"}" },
		{ SF_F8_E4M3FN, 0x01, "0.001953125" },
		{ SF_F8_E4M3FN, 0xb8, "-1.0" },
		{ SF_F8_E5M2, 0x7b, "57344.0" },
		{ SF_F8_E5M2, 0x7c, "{\"$float\": \"inf\"}" },
		{ SF_F8_E5M2, 0x01, "1.5258789e-05" },
		{ SF_F8_E4M3FNUZ, 0x7f, "240.0" },
		{ SF_F8_E4M3FNUZ, 0x80, "{\"$float\": \"nan\"}" },
		{ SF_F8_E4M3FNUZ, 0xc0, "-1.0" },
		{ SF_F8_E5M2FNUZ, 0x7f, "57344.0" },
		{ SF_F8_E5M2FNUZ, 0x80, "{\"$float\": \"nan\"}" },
		{ SF_F8_E5M2FNUZ, 0x40, "1.0" },
		{ SF_F8_E8M0FNU, 0x7f, "1.0" },
		{ SF_F8_E8M0FNU, 0x00, "5.877472e-39" },
		{ SF_F8_E8M0FNU, 0xff, "{\"$float\": \"nan\"}" },
		{ SF_F4_E2M1FN_X2, 0x72, "[1.0, 6.0]" }, /* the low half is the first */
		{ SF_F4_E2M1FN_X2, 0x81, "[0.5, -0.0]" },
		{ SF_F4_E2M1FN_X2, 0x3f, "[-6.0, 1.5]" },
		{ SF_BITS8, 0xfe, "254" },
		{ SF_QUINT8, 0xfe, "254" },
		{ SF_QINT8, 0xfe, "-2" },
		{ SF_BOOL, 1, "true" },
		{ SF_BOOL, 0, "false" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++)
		ck_assert_str_eq(json(cases[i].dtype, &cases[i].byte), cases[i].json);
}
END_TEST

START_TEST(integers_keep_every_digit)
{
	static const uint64_t v[] = { UINT64_MAX, UINT64_C(1) << 53, (UINT64_C(1) << 53) + 1,
		                      UINT64_C(1) << 63 };

	ck_assert_str_eq(json(SF_UINT64, &v[0]), "{\"$int\": \"18446744073709551615\"}");
	ck_assert_str_eq(json(SF_INT64, &v[0]), "-1");
	ck_assert_str_eq(json(SF_INT64, &v[1]), "9007199254740992");
	ck_assert_str_eq(json(SF_UINT64, &v[2]), "{\"$int\": \"9007199254740993\"}");
	ck_assert_str_eq(json(SF_INT64, &v[3]), "{\"$int\": \"-9223372036854775808\"}");
	ck_assert_str_eq(text(SF_INT64, &v[3]), "-9223372036854775808");
	ck_assert_str_eq(json(SF_INT32, &v[0]), "-1");
	ck_assert_str_eq(json(SF_QINT32, &v[0]), "-1");
	ck_assert_str_eq(json(SF_UINT32, &v[0]), "4294967295");
	ck_assert_str_eq(json(SF_INT16, &v[0]), "-1");
	ck_assert_str_eq(json(SF_UINT16, &v[0]), "65535");
	ck_assert_str_eq(json(SF_BITS16, &v[0]), "65535");
}
END_TEST

START_TEST(complex_numbers_are_pairs)
{
	const float single[] = { 1.5f, -0.1f };
	const double twice[] = { NAN, -0.1 };
	const uint16_t half[] = { 0x3c00, 0xc000 }, bf16[] = { 0x3f80, 0xc000 };
	const double largest[] = { -1.7976931348623157e308, -1.7976931348623157e308 };

	ck_assert_str_eq(json(SF_COMPLEX64, single), "[1.5, -0.1]");
	ck_assert_str_eq(json(SF_COMPLEX128, twice), "[{\"$float\": \"nan\"}, -0.1]");
	ck_assert_str_eq(json(SF_COMPLEX32, half), "[1.0, -2.0]");
	ck_assert_str_eq(json(SF_BCOMPLEX32, bf16), "[1.0, -2.0]");
	ck_assert_str_eq(json(SF_COMPLEX128, largest),
	                 "[-1.7976931348623157e+308, -1.7976931348623157e+308]");
	ck_assert_str_eq(text(SF_COMPLEX64, single), "1.5-0.1j");
	ck_assert_str_eq(text(SF_COMPLEX128, twice), "nan-0.1j");
}
END_TEST

START_TEST(people_get_the_digits_that_mean_something)
{
	const float f[] = { 0.1f, 123456.789f, -INFINITY, -NAN };
	const double d = 1.0 / 3;
	const uint16_t h = 0x3dcd; /* bfloat16 of 0.1 */
	const uint8_t yes = 1, pair = 0x72;

	ck_assert_str_eq(text(SF_FLOAT32, &f[0]), "0.1");
	ck_assert_str_eq(text(SF_FLOAT32, &f[1]), "123457");
	ck_assert_str_eq(text(SF_FLOAT32, &f[2]), "-inf");
	ck_assert_str_eq(text(SF_FLOAT32, &f[3]), "nan");
	ck_assert_str_eq(text(SF_FLOAT64, &d), "0.33333333");
	ck_assert_str_eq(text(SF_BFLOAT16, &h), "0.1001");
	ck_assert_str_eq(text(SF_BOOL, &yes), "True");
	ck_assert_str_eq(text(SF_F4_E2M1FN_X2, &pair), "(1, 6)");
}
END_TEST

START_TEST(every_dtype_has_a_text)
{
	static const uint8_t at[16] = { 0 };

	for (int i = 1; i < SF_NDTYPES; i++) {
		ck_assert_uint_gt(strlen(json((enum sf_dtype)i, at)), 0);
		ck_assert_uint_gt(strlen(text((enum sf_dtype)i, at)), 0);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dtype_text");
	TCase *tc = tcase_create("dtype_text");

	tcase_add_test(tc, every_small_float_comes_back);
	tcase_add_test(tc, random_floats_come_back);
	tcase_add_test(tc, eight_bits_and_fewer);
	tcase_add_test(tc, integers_keep_every_digit);
	tcase_add_test(tc, complex_numbers_are_pairs);
	tcase_add_test(tc, people_get_the_digits_that_mean_something);
	tcase_add_test(tc, every_dtype_has_a_text);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
