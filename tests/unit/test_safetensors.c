#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/safetensors.h"
#include "tests/lib/sf_test.h"

static int parse(const char *json, size_t len, struct sf_arena *arena, struct sf_st_header *h,
                 struct sf_error *err)
{
	uint8_t *copy =
		malloc(len + 1); /* of its own size, and gone before the header is looked at */
	int r;

	memcpy(copy, json, len);
	r = sf_st_parse(copy, len, arena, h, err);
	free(copy);
	ck_assert_int_eq(r < 0, err->msg[0] != '\0');
	return r;
}

START_TEST(a_header_of_the_official_writer_is_read)
{
	static const char json[] =
		"{\"__metadata__\":{\"format\":\"pt\",\"DCP_SHARDING_INFO\":\"{\\\"a\\\": 1}\"},"
		"\"é\\\"\\u00e9\\ud83d\\ude00\":{\"dtype\":\"I64\",\"shape\":[1],\"data_offsets\":["
		"0,8]},"
		"\"f4\":{\"dtype\":\"F4\",\"shape\":[2,8],\"data_offsets\":[8,16]},"
		"\"s\":{\"shape\":[],\"data_offsets\":[16,18],\"more\":[{\"x\":[1.5e3,null,{}]},"
		"true,[]],\"dtype\":\"BF16\"},"
		"\"0\":{\"dtype\":\"F32\",\"shape\":[3,0],\"data_offsets\":[18,18]}}   ";
	struct sf_arena arena = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_st_header h;

	ck_assert_msg(parse(json, sizeof(json) - 1, &arena, &h, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(h.n, 4);
	ck_assert_str_eq(h.sharding_info, "{\"a\": 1}");
	ck_assert_uint_eq(h.data_off, sizeof(json) - 1 + 8);
	ck_assert_uint_eq(h.data_len, 18);
	ck_assert_str_eq(h.at[0].name, "é\"é\xf0\x9f\x98\x80");
	ck_assert_int_eq(h.at[0].dtype, SF_INT64);
	ck_assert_int_eq(h.at[1].dtype, SF_F4_E2M1FN_X2);
	ck_assert_uint_eq(h.at[1].shape[1], 4); /* torch counts bytes */
	ck_assert_int_eq(h.at[2].ndim, 0);
	ck_assert_uint_eq(h.at[2].end, 18);
	ck_assert_uint_eq(h.at[3].shape[1], 0);
	sf_arena_release(&arena);
	for (size_t len = 0; len < sizeof(json) - 4; len++)
		ck_assert_int_eq(parse(json, len, &arena, &h, &(struct sf_error){ { 0 } }),
		                 -EBADMSG);
	sf_arena_release(&arena);
}
END_TEST

#define T(offsets) "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":" offsets "}}"
static const struct {
	const char *json;
	int code;
} bad[] = {
	{ "", -EBADMSG },
	{ "[]", -EBADMSG },
	{ "{} x", -EBADMSG },
	{ "{},", -EBADMSG },
	{ "{,}", -EBADMSG },
	{ "{\"a\":1}", -EBADMSG },
	{ "{\"a\":{}}", -EBADMSG },
	{ T("[0]"), -EBADMSG },
	{ T("[0,4,4]"), -EBADMSG },
	{ T("[0,5]"), -EBADMSG },
	{ T("[1,5]"), -EBADMSG }, /* a hole in front */
	{ T("[4,0]"), -EBADMSG },
	{ T("[-0,4]"), -EBADMSG },
	{ T("[0,4.0]"), -EBADMSG },
	{ T("[0,4e0]"), -EBADMSG },
	{ T("[00,4]"), -EBADMSG },
	{ T("[0,18446744073709551620]"), -EBADMSG },
	{ T("\"0\""), -EBADMSG },
	{ "{\"a\":{\"dtype\":\"F6_E2M3\",\"shape\":[4],\"data_offsets\":[0,3]}}", -ENOTSUP },
	{ "{\"a\":{\"dtype\":\"F4\",\"shape\":[3],\"data_offsets\":[0,1]}}", -EBADMSG },
	{ "{\"a\":{\"dtype\":\"F4\",\"shape\":[],\"data_offsets\":[0,1]}}", -EBADMSG },
	{ "{\"a\":{\"dtype\":\"F64\",\"shape\":[2305843009213693952],\"data_offsets\":[0,0]}}",
	  -EBADMSG },
	{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\","
	  "\"shape\":[4],\"data_offsets\":[3,7]}}",
	  -EBADMSG },
	{ "{\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]},\"b\":{\"dtype\":\"U8\","
	  "\"shape\":[4],\"data_offsets\":[5,9]}}",
	  -EBADMSG },
	{ "{\"__metadata__\":{\"a\":1}}", -EBADMSG },
	{ "{\"__metadata__\":[]}", -EBADMSG },
	{ "{\"\\ud800\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", -EBADMSG },
	{ "{\"\\ud800\\ue000\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
	  -EBADMSG },
	{ "{\"\\ud800\\udbff\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}",
	  -EBADMSG },
	{ "{\"\\x\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", -EBADMSG },
	{ "{\"\n\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", -EBADMSG },
	{ "{\"\xff\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}", -EBADMSG },
	{ "{\"a\":{\"x\":[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[",
	  -E2BIG },
};

START_TEST(what_the_real_reader_refuses_is_refused)
{
	struct sf_arena arena = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_st_header h;
	int r = parse(bad[_i].json, strlen(bad[_i].json), &arena, &h, &err);

	ck_assert_msg(r == bad[_i].code, "%s: %d %s", bad[_i].json, r, err.msg);
	sf_arena_release(&arena);
}
END_TEST

START_TEST(a_header_may_be_empty_and_of_equal_names_the_last_counts)
{
	static const char twice[] =
		"{\"a\":{\"dtype\":\"U8\",\"shape\":[9],\"data_offsets\":[0,9]},"
		"\"a\":{\"dtype\":\"U8\",\"shape\":[4],\"data_offsets\":[0,4]}}";
	struct sf_arena arena = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_st_header h;

	ck_assert_int_eq(parse(" {\n}\t", 5, &arena, &h, &err), 0);
	ck_assert_uint_eq(h.n, 0);
	ck_assert_uint_eq(h.data_len, 0);
	ck_assert_int_eq(parse(twice, sizeof(twice) - 1, &arena, &h, &err), 0);
	ck_assert_uint_eq(h.n, 1);
	ck_assert_uint_eq(h.data_len, 4);
	sf_arena_release(&arena);
}
END_TEST

/* Random tensors with hard names: what is put reads back, and entries need not stand in the order
 * of their data. */
START_TEST(entries_read_back)
{
	uint64_t seed = sf_test_seed("entries_read_back");
	static const char *const bits[] = { "\"", "\\", "\n",   "\x01", "é", "\xf0\x9f\x98\x80",
		                            "a",  ".",  "\x7f", "/" };

	for (int round = 0; round < 200; round++) {
		enum { N = 50 };
		struct {
			struct sf_buf name;
			enum sf_dtype dtype;
			uint64_t shape[5], begin, end;
			unsigned ndim;
		} t[N] = { 0 };
		struct sf_buf json = { 0 };
		struct sf_arena arena = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_st_header h;
		size_t n = sf_test_below(&seed, N), order[N];
		uint64_t at = 0;
		for (size_t i = 0; i < n; i++) {
			do
				t[i].dtype =
					(enum sf_dtype)(1 + sf_test_below(&seed, SF_NDTYPES - 1));
			while (!sf_dtype_info(t[i].dtype)->safetensors);
			sf_buf_printf(&t[i].name, "%zu", i);
			for (size_t k = sf_test_below(&seed, 9); k; k--)
				sf_buf_str(&t[i].name,
				           bits[sf_test_below(&seed, SF_ARRAY_LEN(bits))]);
			t[i].ndim =
				(unsigned)sf_test_below(&seed, 5) + (t[i].dtype == SF_F4_E2M1FN_X2);
			uint64_t bytes = sf_dtype_info(t[i].dtype)->bytes;
			for (unsigned d = 0; d < t[i].ndim; d++)
				bytes *= t[i].shape[d] = sf_test_below(&seed, 20);
			t[i].begin = at;
			t[i].end = at += bytes;
			size_t j = sf_test_below(&seed, i + 1); /* a shuffle */
			order[i] = order[j];
			order[j] = i;
		}
		sf_buf_byte(&json, '{');
		for (size_t i = 0; i < n; i++) {
			size_t k = order[i];
			sf_buf_str(&json, i ? "," : "");
			sf_st_put_entry(&json, (char *)t[k].name.at, t[k].name.len, t[k].dtype,
			                t[k].shape, t[k].ndim, t[k].begin, t[k].end);
		}
		sf_buf_byte(&json, '}');
		ck_assert_msg(parse((char *)json.at, json.len, &arena, &h, &err) == 0, "%s: %s",
		              err.msg, sf_buf_cstr(&json));
		ck_assert_uint_eq(h.n, n);
		ck_assert_uint_eq(h.data_len, at);
		for (size_t i = 0; i < n; i++) {
			size_t k = order[i];
			ck_assert_uint_eq(h.at[i].name_len, t[k].name.len);
			ck_assert_mem_eq(h.at[i].name, t[k].name.at, t[k].name.len);
			ck_assert_int_eq(h.at[i].dtype, t[k].dtype);
			ck_assert_uint_eq(h.at[i].ndim, t[k].ndim);
			ck_assert_mem_eq(h.at[i].shape, t[k].shape, t[k].ndim * sizeof(uint64_t));
			ck_assert_uint_eq(h.at[i].begin, t[k].begin);
			ck_assert_uint_eq(h.at[i].end, t[k].end);
		}
		for (size_t i = 0; i < n; i++)
			sf_buf_release(&t[i].name);
		sf_buf_release(&json);
		sf_arena_release(&arena);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("safetensors");
	TCase *t = tcase_create("safetensors");

	tcase_add_test(t, a_header_of_the_official_writer_is_read);
	tcase_add_loop_test(t, what_the_real_reader_refuses_is_refused, 0, SF_ARRAY_LEN(bad));
	tcase_add_test(t, a_header_may_be_empty_and_of_equal_names_the_last_counts);
	tcase_add_test(t, entries_read_back);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
