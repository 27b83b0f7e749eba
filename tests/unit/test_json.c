#include "config.h"

#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "tests/lib/sf_test.h"

static struct sf_json *parse(const char *text)
{
	struct sf_json *j = NULL;
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(sf_json_parse(text, strlen(text), &j, &err) == 0, "%s: %s", text, err.msg);
	return j;
}

START_TEST(getters_give_the_values)
{
	struct sf_json *j = parse(" {\"s\":\"x\\u00e9\",\"n\":9007199254740991,\"o\":{\"z\":0},"
	                          "\"a\":[1,2,3],\"e\":[]} \n");
	const struct cJSON *root = sf_json_root(j), *o;
	const char *s;
	uint64_t n, a[3];

	ck_assert_int_eq(sf_json_get_str(root, "s", &s, NULL), 0);
	ck_assert_str_eq(s, "x\xc3\xa9");
	ck_assert_int_eq(sf_json_get_u64(root, "n", &n, NULL), 0);
	ck_assert_uint_eq(n, 9007199254740991);
	ck_assert_int_eq(sf_json_get_obj(root, "o", &o, NULL), 0);
	ck_assert_int_eq(sf_json_get_u64(o, "z", &n, NULL), 0);
	ck_assert_uint_eq(n, 0);
	ck_assert_int_eq(sf_json_get_u64s(root, "a", a, 3, NULL), 3);
	ck_assert_uint_eq(a[2], 3);
	ck_assert_int_eq(sf_json_get_u64s(root, "e", a, 0, NULL), 0);
	sf_json_free(j);
}
END_TEST

START_TEST(a_wrong_type_or_range_is_an_error_with_the_name)
{
	struct sf_json *j = parse(
		"{\"neg\":-1,\"half\":1.5,\"big\":9007199254740992,\"huge\":1e300,\"s\":\"1\","
		"\"b\":true,\"a\":[1,-1],\"nul\":null}");
	static const char *const not_u64[] = { "neg", "half", "big", "huge", "s", "b", "a", "nul" };
	const struct cJSON *root = sf_json_root(j), *o;
	struct sf_error err;
	const char *s;
	uint64_t n = 77, a[2];

	for (size_t i = 0; i < SF_ARRAY_LEN(not_u64); i++) {
		err.msg[0] = '\0';
		ck_assert_int_eq(sf_json_get_u64(root, not_u64[i], &n, &err), -EBADMSG);
		ck_assert_ptr_nonnull(strstr(err.msg, not_u64[i]));
	}
	ck_assert_uint_eq(n, 77);
	ck_assert_int_eq(sf_json_get_u64(root, "none", &n, &err), -ENOENT);
	ck_assert_int_eq(sf_json_get_str(root, "neg", &s, &err), -EBADMSG);
	ck_assert_int_eq(sf_json_get_obj(root, "a", &o, &err), -EBADMSG);
	ck_assert_int_eq(sf_json_get_u64s(root, "a", a, 2, &err), -EBADMSG);
	ck_assert_int_eq(sf_json_get_u64s(root, "a", a, 1, &err), -EBADMSG);
	ck_assert_int_eq(sf_json_get_u64s(root, "s", a, 1, &err), -EBADMSG);
	/* asked of an array or a number, not of an object */
	ck_assert_int_eq(sf_json_get_obj(root, "neg", &o, &err), -EBADMSG);
	for (const struct cJSON *c = NULL; (c = sf_json_next(root, c));)
		ck_assert_int_eq(sf_json_get_u64(c, "x", &n, &err), -EBADMSG);
	sf_json_free(j);
}
END_TEST

START_TEST(the_last_of_two_equal_keys_wins)
{
	struct sf_json *j = parse("{\"a\":1,\"A\":2,\"a\":3}");
	uint64_t n;

	ck_assert_int_eq(sf_json_get_u64(sf_json_root(j), "a", &n, NULL), 0);
	ck_assert_uint_eq(n, 3);
	ck_assert_int_eq(sf_json_get_u64(sf_json_root(j), "A", &n, NULL), 0);
	ck_assert_uint_eq(n, 2);
	sf_json_free(j);
}
END_TEST

START_TEST(members_and_elements_come_in_order)
{
	struct sf_json *j = parse("{\"x\":[\"p\",\"q\"],\"y\":{},\"z\":1}");
	const struct cJSON *root = sf_json_root(j), *x = sf_json_next(root, NULL), *y, *p;

	ck_assert_str_eq(sf_json_name(x), "x");
	y = sf_json_next(root, x);
	ck_assert_str_eq(sf_json_name(y), "y");
	ck_assert_ptr_null(sf_json_next(y, NULL));
	ck_assert_ptr_null(sf_json_str(y));
	ck_assert_ptr_null(sf_json_next(root, sf_json_next(root, y)));
	p = sf_json_next(x, NULL);
	ck_assert_str_eq(sf_json_str(p), "p");
	ck_assert_ptr_null(sf_json_name(p));
	ck_assert_str_eq(sf_json_str(sf_json_next(x, p)), "q");
	sf_json_free(j);
}
END_TEST

START_TEST(what_is_no_single_document_is_refused)
{
	static const char *const bad[] = { "",
		                           " ",
		                           "{",
		                           "{}x",
		                           "{} {}",
		                           "[1,]",
		                           "{\"a\":}",
		                           "\"a",
		                           "nul",
		                           "[1",
		                           "{\"a\" 1}",
		                           "\"\\u0000\"",
		                           "{\"a\\u0000b\":1}",
		                           "]",
		                           "\"\\ud800\"" };
	struct sf_json *j = (struct sf_json *)(uintptr_t)1;
	struct sf_error err;

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		err.msg[0] = '\0';
		ck_assert_msg(sf_json_parse(bad[i], strlen(bad[i]), &j, &err) == -EBADMSG, "'%s'",
		              bad[i]);
		ck_assert_msg(err.msg[0] != '\0', "'%s'", bad[i]);
	}
	ck_assert_int_eq(sf_json_parse("{\"a\0\":1}", 8, &j, &err), -EBADMSG);
	ck_assert_ptr_eq(j, (struct sf_json *)(uintptr_t)1); /* outputs only on success */
	j = parse("\"\\\\u0000\""); /* an escaped backslash before u0000 is no NUL */
	ck_assert_str_eq(sf_json_str(sf_json_root(j)), "\\u0000");
	sf_json_free(j);
	sf_json_free(NULL);
}
END_TEST

START_TEST(nesting_stops_at_64)
{
	char text[400];
	struct sf_json *j = NULL;

	for (size_t depth = 60; depth < 70; depth++) {
		memset(text, '[', depth);
		memset(text + depth, ']', depth);
		int r = sf_json_parse(text, 2 * depth, &j, NULL);
		ck_assert_int_eq(r, depth <= 64 ? 0 : -E2BIG);
		if (r == 0)
			sf_json_free(j);
	}
	memset(text, '[', 300); /* brackets in a string are text */
	text[0] = text[299] = '"';
	ck_assert_int_eq(sf_json_parse(text, 300, &j, NULL), 0);
	sf_json_free(j);
}
END_TEST

/* Property: any damage to a document is a result or an error; what a sanitizer would find is the
 * failure. The text has its exact length in malloc. */
START_TEST(damaged_documents_do_no_harm)
{
	static const char good[] = "{\"w\":{\"dtype\":\"F32\",\"shape\":[2,3],\"data_offsets\":[0,"
				   "24]},\"\\u00e9\":[1e3,-0.5,"
				   "true,null,\"\\ud83d\\ude00\"]}";
	uint64_t rnd = sf_test_seed("damaged_documents_do_no_harm");
	size_t whole = 0;

	for (int round = 0; round < 20000; round++) {
		size_t len =
			sizeof(good) - 1 - (round % 4 ? 0 : sf_test_below(&rnd, sizeof(good) - 1));
		char *text = malloc(len);
		struct sf_json *j;
		memcpy(text, good, len);
		for (size_t k = sf_test_below(&rnd, 3); k > 0; k--)
			text[sf_test_below(&rnd, len)] = (char)sf_test_rand(&rnd);
		if (sf_json_parse(text, len, &j, NULL) == 0) {
			const struct cJSON *o;
			uint64_t n[2];
			whole++;
			if (sf_json_get_obj(sf_json_root(j), "w", &o, NULL) == 0)
				sf_json_get_u64s(o, "shape", n, 2, NULL);
			sf_json_free(j);
		}
		free(text);
	}
	ck_assert_uint_gt(whole, 1000); /* a third is not damaged at all */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("json");
	TCase *t = tcase_create("json");

	tcase_add_test(t, getters_give_the_values);
	tcase_add_test(t, a_wrong_type_or_range_is_an_error_with_the_name);
	tcase_add_test(t, the_last_of_two_equal_keys_wins);
	tcase_add_test(t, members_and_elements_come_in_order);
	tcase_add_test(t, what_is_no_single_document_is_refused);
	tcase_add_test(t, nesting_stops_at_64);
	tcase_add_test(t, damaged_documents_do_no_harm);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
