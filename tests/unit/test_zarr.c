#include "config.h"

#include <math.h>

#include "base/mem.h"
#include "parse/zarr.h"
#include "tests/lib/sf_test.h"

/* .zarray: what is taken of it, and what is refused by name. */

static struct sf_error err;

static int parse(const char *text, struct sf_zarr *z)
{
	err = (struct sf_error)SF_ERROR_INIT;
	return sf_zarr_parse(text, strlen(text), z, &err);
}

/* An array of @dtype with this fill_value. */
static int parse_fill(const char *dtype, const char *fill, struct sf_zarr *z)
{
	char text[512];

	snprintf(text, sizeof(text),
	         "{\"zarr_format\": 2, \"shape\": [5, 7], \"chunks\": [2, 3], \"dtype\": "
	         "\"%s\", \"fill_value\": %s}",
	         dtype, fill);
	return parse(text, z);
}

START_TEST(megatrons_text_is_taken)
{
	struct sf_zarr z;

	ck_assert_int_eq(parse("{\n    \"chunks\": [1, 6, 9], \"compressor\": null,\n    "
	                       "\"dtype\": \"bfloat16\", \"fill_value\": null, \"filters\": "
	                       "null, \"order\": \"C\", \"shape\": [2, 13, 9], "
	                       "\"zarr_format\": 2\n}",
	                       &z),
	                 0);
	ck_assert_uint_eq(z.ndim, 3);
	ck_assert_int_eq(z.dtype, SF_BFLOAT16);
	ck_assert_uint_eq(z.cells[0], 2);
	ck_assert_uint_eq(z.cells[1], 3);
	ck_assert_uint_eq(z.cells[2], 1);
	ck_assert_uint_eq(z.ncells, 6);
	ck_assert_uint_eq(z.chunk_bytes, 108);
	ck_assert(!z.has_fill && !z.column_major);
	ck_assert_int_eq(z.separator, '.');
	ck_assert_int_eq(z.codec, SF_CODEC_NONE);
}
END_TEST

START_TEST(chunks_are_called_by_their_cells)
{
	const uint64_t cell[3] = { 3, 0, 12 };
	struct sf_zarr z = { .ndim = 3, .separator = '.' };
	char name[SF_ZARR_NAME];

	ck_assert_uint_eq(sf_zarr_chunk_name(&z, cell, name), 6);
	ck_assert_str_eq(name, "3.0.12");
	z.ndim = 1;
	ck_assert_uint_eq(sf_zarr_chunk_name(&z, cell, name), 1);
	ck_assert_str_eq(name, "3");
	z.ndim = 0;
	ck_assert_uint_eq(sf_zarr_chunk_name(&z, cell, name), 1);
	ck_assert_str_eq(name, "0");
}
END_TEST

START_TEST(fill_values_are_elements)
{
	static const struct {
		const char *dtype, *fill;
		uint8_t want[16];
	} cases[] = {
		{ "<f4", "1.5", { 0, 0, 0xc0, 0x3f } },
		{ "bfloat16", "1.5", { 0xc0, 0x3f } },
		{ "<f2", "-2", { 0, 0xc0 } },
		{ "<f8", "0", { 0 } },
		{ "<f4", "\"-Infinity\"", { 0, 0, 0x80, 0xff } },
		{ "|b1", "true", { 1 } },
		{ "|u1", "255", { 255 } },
		{ "|i1", "-128", { 0x80 } },
		{ "<i4", "-3", { 0xfd, 0xff, 0xff, 0xff } },
		{ "<i8", "4294967296", { 0, 0, 0, 0, 1 } },
		{ "<c8", "[1.5, -2]", { 0, 0, 0xc0, 0x3f, 0, 0, 0, 0xc0 } },
		{ "<c8", "0", { 0 } },
		{ "float8_e4m3fn", "0", { 0 } },
	};
	struct sf_zarr z;

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		ck_assert_msg(parse_fill(cases[i].dtype, cases[i].fill, &z) == 0, "%s: %s",
		              cases[i].dtype, err.msg);
		ck_assert(z.has_fill);
		ck_assert_mem_eq(z.fill, cases[i].want, sf_dtype_info(z.dtype)->bytes);
	}
	ck_assert_int_eq(parse_fill("<f4", "\"NaN\"", &z), 0);
	float f;
	memcpy(&f, z.fill, sizeof(f));
	ck_assert(isnan(f));
}
END_TEST

START_TEST(what_is_none_of_the_dtype_is_refused)
{
	static const struct {
		const char *dtype, *fill;
	} cases[] = { { "|u1", "256" },       { "|u1", "-1" },  { "|i1", "128" },
		      { "<i4", "1.5" },       { "|b1", "2" },   { "<i4", "\"NaN\"" },
		      { "<f4", "\"x\"" },     { "<f4", "[1]" }, { "<c8", "[1]" },
		      { "float8_e5m2", "1" }, { "<f4", "{}" } };
	struct sf_zarr z;

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++)
		ck_assert_msg(parse_fill(cases[i].dtype, cases[i].fill, &z) == -ENOTSUP, "%s %s",
		              cases[i].dtype, cases[i].fill);
}
END_TEST

#define HEAD "{\"zarr_format\": 2, \"shape\": "
#define TAIL ", \"dtype\": \"<f4\"}"

START_TEST(numbers_that_lie_are_told)
{
	static const struct {
		const char *text;
		int code;
		const char *words;
	} cases[] = {
		{ HEAD "[2, 2], \"chunks\": [2]" TAIL, -EBADMSG,
		  "2 dimensions, its chunks have 1" },
		{ HEAD "[2, 2], \"chunks\": [2, 0]" TAIL, -EBADMSG, "empty in dimension 1" },
		{ HEAD "[4503599627370496, 4503599627370496], \"chunks\": [1, 1]" TAIL, -EBADMSG,
		  "2^64" },
		{ HEAD "[9, 9], \"chunks\": [4503599627370496, 4503599627370496]" TAIL, -EBADMSG,
		  "2^64" },
		{ HEAD "[-1], \"chunks\": [1]" TAIL, -EBADMSG, "shape" },
		{ HEAD "[1.5], \"chunks\": [1]" TAIL, -EBADMSG, "shape" },
		{ HEAD "3, \"chunks\": [1]" TAIL, -EBADMSG, "shape" },
		{ "{\"zarr_format\": 3}", -ENOTSUP, "zarr_format is 3" },
		{ "{}", -EBADMSG, "zarr_format" },
		{ "[]", -EBADMSG, "" },
		{ "", -EBADMSG, "" },
		{ HEAD "[1], \"chunks\": [1], \"dtype\": \">f4\"}", -ENOTSUP, "'>f4'" },
		{ HEAD "[1], \"chunks\": [1], \"dtype\": \"|f4\"}", -ENOTSUP, "'|f4'" },
		{ HEAD "[1], \"chunks\": [1], \"dtype\": [[\"a\", \"<f4\"]]}", -ENOTSUP, "dtype" },
		{ HEAD "[1], \"chunks\": [1]}", -EBADMSG, "no dtype" },
		{ HEAD "[1], \"chunks\": [1], \"order\": \"X\"" TAIL, -EBADMSG, "order" },
		{ HEAD "[1], \"chunks\": [1], \"dimension_separator\": \"-\"" TAIL, -EBADMSG,
		  "separator" },
		{ HEAD "[1], \"chunks\": [1], \"filters\": [{\"id\": \"delta\"}]" TAIL, -ENOTSUP,
		  "filters" },
		{ HEAD "[1], \"chunks\": [1], \"compressor\": {\"id\": \"lzma\"}" TAIL, -ENOTSUP,
		  "'lzma'" },
		{ HEAD "[1], \"chunks\": [1], \"compressor\": {}" TAIL, -EBADMSG, "no id" },
	};
	struct sf_zarr z;

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		int r = parse(cases[i].text, &z);
		ck_assert_msg(r == cases[i].code && strstr(err.msg, cases[i].words), "%s: %d %s",
		              cases[i].text, r, err.msg);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("zarr");
	TCase *tc = tcase_create("zarr");

	tcase_add_test(tc, megatrons_text_is_taken);
	tcase_add_test(tc, chunks_are_called_by_their_cells);
	tcase_add_test(tc, fill_values_are_elements);
	tcase_add_test(tc, what_is_none_of_the_dtype_is_refused);
	tcase_add_test(tc, numbers_that_lie_are_told);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
