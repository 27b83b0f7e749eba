#include "config.h"

#include <errno.h>
#include <locale.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "save/save_values.h"
#include "tests/lib/sf_test.h"

/* What was built, as text: lists [], tuples (), dicts {}, calls and globals by name. */
static void show(const struct sf_pv *v, struct sf_buf *out)
{
	const char *ends = v->kind == SF_PV_LIST ? "[]" : v->kind == SF_PV_TUPLE ? "()" : "{}";

	switch (v->kind) {
	case SF_PV_NONE:
		sf_buf_str(out, "None");
		break;
	case SF_PV_BOOL:
		sf_buf_str(out, v->b ? "True" : "False");
		break;
	case SF_PV_INT:
		sf_buf_printf(out, "%lld", (long long)v->i);
		break;
	case SF_PV_LONG:
		ck_assert_uint_eq(v->str.len, 9);
		ck_assert_int_eq(v->str.at[8], 0);
		sf_buf_printf(out, "%lluL", (unsigned long long)sf_le64(v->str.at));
		break;
	case SF_PV_FLOAT:
		sf_buf_printf(out, "%a", v->f);
		break;
	case SF_PV_STR:
	case SF_PV_BYTES:
		sf_buf_str(out, v->kind == SF_PV_STR ? "'" : "b'");
		sf_buf_add(out, v->str.at, v->str.len);
		sf_buf_byte(out, '\'');
		break;
	case SF_PV_GLOBAL:
		sf_buf_printf(out, "%s.%s", v->global.module->str.at, v->global.name->str.at);
		break;
	case SF_PV_CALL:
		show(v->call.callable, out);
		show(v->call.args, out);
		break;
	default:
		sf_buf_byte(out, (uint8_t)ends[0]);
		for (size_t i = 0; i < v->seq.n; i++) {
			if (i)
				sf_buf_str(out, v->kind == SF_PV_DICT && i % 2 ? ":" : ",");
			show(v->seq.at[i], out);
		}
		sf_buf_byte(out, (uint8_t)ends[1]);
	}
}

static void check_shown(const struct shardfuse_value *v, const char *want)
{
	struct sf_buf out = { 0 };

	ck_assert_ptr_nonnull(v);
	show(sf_save_value_tree(v), &out);
	ck_assert_str_eq(sf_buf_cstr(&out), want);
	sf_buf_release(&out);
}

START_TEST(each_builder_makes_its_value)
{
	struct shardfuse_values *vs = shardfuse_values_new();
	const uint64_t dim[2] = { 3, 70000 };

	check_shown(shardfuse_value_none(vs), "None");
	check_shown(shardfuse_value_bool(vs, 7), "True");
	check_shown(shardfuse_value_int(vs, INT64_MIN), "-9223372036854775808");
	check_shown(shardfuse_value_float(vs, 1.5), "0x1.8p+0");
	check_shown(shardfuse_value_str(vs, "a\xc3\xa4", 3), "'a\xc3\xa4'");
	check_shown(shardfuse_value_str(vs, NULL, 0), "''");
	ck_assert_ptr_null(shardfuse_value_str(vs, "\xff", 1));
	check_shown(shardfuse_value_bytes(vs, "\xff", 1), "b'\xff'");
	check_shown(shardfuse_value_list(vs), "[]");
	check_shown(shardfuse_value_tuple(vs), "()");
	check_shown(shardfuse_value_dict(vs), "{}");
	check_shown(shardfuse_value_dtype(vs, "half"), "torch.float16");
	ck_assert_ptr_null(shardfuse_value_dtype(vs, "float33"));
	check_shown(shardfuse_value_size(vs, dim, 2), "torch.Size((3,70000))");
	check_shown(shardfuse_value_size(vs, NULL, 0), "torch.Size(())");
	ck_assert_ptr_null(shardfuse_value_size(vs, (const uint64_t[]){ UINT64_MAX }, 1));
	shardfuse_values_free(vs);
	shardfuse_values_free(NULL);
}
END_TEST

START_TEST(a_value_stands_in_one_place_and_never_in_itself)
{
	struct shardfuse_values *vs = shardfuse_values_new(), *other = shardfuse_values_new();
	struct shardfuse_value *list = shardfuse_value_list(vs), *in = shardfuse_value_list(vs),
			       *one = shardfuse_value_int(vs, 1);

	ck_assert_int_eq(shardfuse_value_append(list, list), -EINVAL);
	ck_assert_int_eq(shardfuse_value_append(list, in), 0);
	ck_assert_int_eq(shardfuse_value_append(in, list), -EINVAL);
	ck_assert_int_eq(shardfuse_value_append(in, one), 0);
	ck_assert_int_eq(shardfuse_value_append(list, one), -EINVAL);
	ck_assert_int_eq(shardfuse_value_append(one, shardfuse_value_none(vs)), -EINVAL);
	ck_assert_int_eq(shardfuse_value_append(list, shardfuse_value_none(other)), -EINVAL);
	ck_assert_int_eq(shardfuse_value_append(list, NULL), -ENOMEM);
	ck_assert_int_eq(shardfuse_value_append(NULL, one), -ENOMEM);
	ck_assert_int_eq(shardfuse_value_append(shardfuse_value_dict(vs), one), -EINVAL);
	check_shown(list, "[[1]]");
	shardfuse_values_free(vs);
	shardfuse_values_free(other);
}
END_TEST

/* Python's equality of keys decides, not their type. */
START_TEST(a_dict_has_each_key_once)
{
	struct shardfuse_values *vs = shardfuse_values_new();
	const uint64_t dim[1] = { 1 };
	struct shardfuse_value *tuple = shardfuse_value_tuple(vs), *in = shardfuse_value_list(vs),
			       *bad = shardfuse_value_tuple(vs);
	shardfuse_value_append(tuple, shardfuse_value_float(vs, 1));
	shardfuse_value_append(bad, in);
	const struct {
		struct shardfuse_value *key;
		int want;
	} cases[] = {
		{ shardfuse_value_int(vs, 1), 0 },
		{ shardfuse_value_bool(vs, 1), -EEXIST },
		{ shardfuse_value_float(vs, 1), -EEXIST },
		{ shardfuse_value_str(vs, "1", 1), 0 },
		{ shardfuse_value_bytes(vs, "1", 1), 0 },
		{ shardfuse_value_float(vs, -0.0), 0 },
		{ shardfuse_value_int(vs, 0), -EEXIST },
		{ shardfuse_value_int(vs, -1), 0 },
		{ sf_save_value_uint(vs, UINT64_MAX), 0 },
		{ shardfuse_value_float(vs, 0x1p63), 0 },
		{ sf_save_value_uint(vs, UINT64_C(1) << 63), -EEXIST },
		{ shardfuse_value_float(vs, 0.5), 0 },
		{ shardfuse_value_none(vs), 0 },
		{ tuple, 0 },
		{ shardfuse_value_size(vs, dim, 1), -EEXIST },
		{ shardfuse_value_dtype(vs, "int8"), 0 },
		{ shardfuse_value_list(vs), -EINVAL },
		{ shardfuse_value_dict(vs), -EINVAL },
		{ bad, -EINVAL },
		{ NULL, -ENOMEM },
	};
	struct shardfuse_value *dict = shardfuse_value_dict(vs), *two = shardfuse_value_dict(vs);

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++)
		ck_assert_msg(shardfuse_value_set(dict, cases[i].key, shardfuse_value_none(vs)) ==
		                      cases[i].want,
		              "case %zu", i);
	/* a key changes no more; another dict has keys of its own */
	ck_assert_int_eq(shardfuse_value_append(tuple, shardfuse_value_none(vs)), -EINVAL);
	ck_assert_int_eq(
		shardfuse_value_set(two, shardfuse_value_int(vs, 1), shardfuse_value_int(vs, 2)),
		0);
	check_shown(two, "{1:2}");
	ck_assert_int_eq(
		shardfuse_value_set(tuple, shardfuse_value_none(vs), shardfuse_value_none(vs)),
		-EINVAL);
	struct shardfuse_value *same = shardfuse_value_int(vs, 3);
	ck_assert_int_eq(shardfuse_value_set(two, same, same), -EINVAL);
	shardfuse_values_free(vs);
}
END_TEST

START_TEST(random_keys_are_known_again)
{
	uint64_t seed = sf_test_seed("random_keys_are_known_again");
	struct shardfuse_values *vs = shardfuse_values_new();
	struct shardfuse_value *dict = shardfuse_value_dict(vs);
	static bool there[2][3000];
	size_t n = 0;

	for (int i = 0; i < 20000; i++) {
		bool text = sf_test_below(&seed, 2);
		uint64_t k = sf_test_below(&seed, 3000);
		char name[16];
		int len = snprintf(name, sizeof(name), "%u", (unsigned)k);
		struct shardfuse_value *key = text ? shardfuse_value_str(vs, name, (size_t)len)
		                                   : shardfuse_value_int(vs, (int64_t)k);
		ck_assert_int_eq(shardfuse_value_set(dict, key, shardfuse_value_none(vs)),
		                 there[text][k] ? -EEXIST : 0);
		n += !there[text][k];
		there[text][k] = true;
	}
	ck_assert_uint_eq(sf_save_value_tree(dict)->seq.n, 2 * n);
	shardfuse_values_free(vs);
}
END_TEST

START_TEST(json_becomes_plain_values)
{
	static const struct {
		const char *json, *want;
	} cases[] = {
		{ " null ", "None" },
		{ "[true,false]", "[True,False]" },
		{ "{\"a\": 1, \"b\" : [ ] , \"c\":{}}", "{'a':1,'b':[],'c':{}}" },
		{ "{\"a\":1,\"b\":2,\"a\":3}", "{'a':3,'b':2}" },
		{ "9007199254740993", "9007199254740993" },
		{ "9223372036854775807", "9223372036854775807" },
		{ "-9223372036854775808", "-9223372036854775808" },
		{ "9223372036854775808", "9223372036854775808L" },
		{ "18446744073709551615", "18446744073709551615L" },
		{ "-0", "0" },
		{ "-0.0", "-0x0p+0" },
		{ "1.0", "0x1p+0" },
		{ "1e2", "0x1.9p+6" },
		{ "25E-1", "0x1.4p+1" },
		{ "1e999", "inf" },
		{ "\"\\u00e4\\ud83d\\ude00\\n\\/\"", "'\xc3\xa4\xf0\x9f\x98\x80\n/'" },
		{ "\"\\ud83dx\\udE00\"", "'\xed\xa0\xbdx\xed\xb8\x80'" },
		{ "\"\\ud83d\\u0041\"", "'\xed\xa0\xbd"
		                        "A'" },
		{ "\"\xc3\xa4\"", "'\xc3\xa4'" },
	};
	struct shardfuse_values *vs = shardfuse_values_new();

	for (size_t i = 0; i < 2 * SF_ARRAY_LEN(cases); i++) {
		const char *json = cases[i / 2].json;
		struct shardfuse_error err;
		/* whose decimal point is a comma, where the machine has it */
		setlocale(LC_NUMERIC, i % 2 ? "de_DE.UTF-8" : "C");
		struct shardfuse_value *v = shardfuse_value_json(vs, json, strlen(json), &err);
		setlocale(LC_NUMERIC, "C");
		ck_assert_msg(v != NULL, "%s: %s", json, err.msg);
		check_shown(v, cases[i / 2].want);
	}
	shardfuse_values_free(vs);
}
END_TEST

START_TEST(what_is_no_json_is_refused_with_its_byte)
{
	static const struct {
		const char *json;
		int want;
		const char *says;
	} cases[] = {
		{ "", -EBADMSG, "byte 0" },
		{ "[1,]", -EBADMSG, "byte 3" },
		{ "[1 2]", -EBADMSG, "byte 3" },
		{ "{\"a\" 1}", -EBADMSG, "byte 5" },
		{ "{a:1}", -EBADMSG, "byte 1" },
		{ "{\"a\":1,}", -EBADMSG, "byte 7" },
		{ "1 2", -EBADMSG, "byte 2" },
		{ "01", -EBADMSG, "byte 1" },
		{ "+1", -EBADMSG, "byte 0" },
		{ "1.", -EBADMSG, "byte 2" },
		{ ".5", -EBADMSG, "byte 0" },
		{ "1e", -EBADMSG, "byte 2" },
		{ "-", -EBADMSG, "byte 1" },
		{ "0x10", -EBADMSG, "byte 1" },
		{ "NaN", -EBADMSG, "byte 0" },
		{ "-Infinity", -EBADMSG, "byte 1" },
		{ "nul", -EBADMSG, "byte 0" },
		{ "nullx", -EBADMSG, "byte 4" },
		{ "\"a", -EBADMSG, "byte 2" },
		{ "\"\\x\"", -EBADMSG, "byte 2" },
		{ "\"\\u12g4\"", -EBADMSG, "byte 5" },
		{ "\"\\", -EBADMSG, "byte 2" },
		{ "\"a\nb\"", -EBADMSG, "byte 2" },
		{ "\"\xff\"", -EBADMSG, "UTF-8" },
		{ "18446744073709551616", -ERANGE, "64 bits" },
		{ "-9223372036854775809", -ERANGE, "64 bits" },
		{ "99999999999999999999999999999999999999999", -ERANGE, "64 bits" },
	};
	struct shardfuse_values *vs = shardfuse_values_new();

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct shardfuse_value *v;
		int r = sf_save_value_json(vs, cases[i].json, strlen(cases[i].json), &v, &err);
		ck_assert_msg(r == cases[i].want, "%s: %d", cases[i].json, r);
		ck_assert_msg(strstr(err.msg, cases[i].says), "%s: %s", cases[i].json, err.msg);
		struct shardfuse_error said;
		ck_assert_ptr_null(
			shardfuse_value_json(vs, cases[i].json, strlen(cases[i].json), &said));
		ck_assert_str_eq(said.msg, err.msg);
	}
	shardfuse_values_free(vs);
}
END_TEST

START_TEST(json_nests_so_deep_and_no_deeper)
{
	struct shardfuse_values *vs = shardfuse_values_new();
	char text[4000];

	for (size_t n = 500; n < 1500; n += 500) {
		struct sf_error err = SF_ERROR_INIT;
		struct shardfuse_value *v;
		memset(text, '[', n);
		memset(text + n, ']', n);
		int r = sf_save_value_json(vs, text, 2 * n, &v, &err);
		ck_assert_int_eq(r, n == 500 ? 0 : -E2BIG);
	}
	shardfuse_values_free(vs);
}
END_TEST

/* Cut anywhere it is refused, whatever is changed it does not crash. */
START_TEST(damaged_json_is_refused_or_is_other_json)
{
	static const char json[] =
		"{\"a\\u00e4\": [1, -2.5e3, true, null, {\"\": \"\\ud83d\\ude00\"}], \"b\": \"x\"}";
	static const char odd[] = "{}[]\",:\\u0e-.\x80 1";
	uint64_t seed = sf_test_seed("damaged_json_is_refused_or_is_other_json");
	const size_t len = strlen(json);
	char text[sizeof(json)];

	for (size_t i = 0; i < len; i++) {
		struct shardfuse_values *vs = shardfuse_values_new();
		ck_assert_ptr_null(shardfuse_value_json(vs, json, i, NULL));
		shardfuse_values_free(vs);
	}
	for (int round = 0; round < 20000; round++) {
		struct shardfuse_values *vs = shardfuse_values_new();
		memcpy(text, json, sizeof(json));
		for (int i = 0; i < 3; i++)
			text[sf_test_below(&seed, len)] = odd[sf_test_below(&seed, sizeof(odd))];
		(void)shardfuse_value_json(vs, text, len, NULL);
		shardfuse_values_free(vs);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_values");
	TCase *t = tcase_create("all");

	tcase_add_test(t, each_builder_makes_its_value);
	tcase_add_test(t, a_value_stands_in_one_place_and_never_in_itself);
	tcase_add_test(t, a_dict_has_each_key_once);
	tcase_add_test(t, random_keys_are_known_again);
	tcase_add_test(t, json_becomes_plain_values);
	tcase_add_test(t, what_is_no_json_is_refused_with_its_byte);
	tcase_add_test(t, json_nests_so_deep_and_no_deeper);
	tcase_add_test(t, damaged_json_is_refused_or_is_other_json);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
