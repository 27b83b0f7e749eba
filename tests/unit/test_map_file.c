#include "config.h"
#include <string.h>
#include "base/mem.h"
#include "tests/lib/sf_test.h"
#include "catalog/map_file.h"

struct rules {
	struct sf_map_rule *at;
	size_t n;
};

static int add(struct rules *r, const char *value, struct sf_error *err)
{
	return sf_map_rules_add(value, &r->at, &r->n, err);
}

/* "@PATH" of a file with that text, in @buf of 64 bytes. */
static const char *file_with(char *buf, const void *text, size_t len)
{
	strcpy(buf, "@/tmp/sf-map-XXXXXX");
	int fd = mkstemp(buf + 1);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, len), (ssize_t)len);
	close(fd);
	return buf;
}

static int add_text(struct rules *r, const char *text, struct sf_error *err)
{
	char path[64];
	int code = add(r, file_with(path, text, strlen(text)), err);
	unlink(path + 1);
	return code;
}

START_TEST(a_rule_ends_its_old_name_at_the_first_equals_sign)
{
	struct rules r = { 0 };
	ck_assert_int_eq(add(&r, "a.b=c=d", NULL), 0);
	ck_assert_int_eq(add(&r, "x=", NULL), 0);
	ck_assert_uint_eq(r.n, 2);
	ck_assert_str_eq(r.at[0].old_name, "a.b");
	ck_assert_str_eq(r.at[0].new_name, "c=d");
	ck_assert_str_eq(r.at[1].new_name, "");
	sf_map_rules_free(r.at, r.n);
}
END_TEST

START_TEST(lines_are_split_at_a_tab_and_comments_left_out)
{
	struct rules r = { 0 };
	ck_assert_int_eq(add_text(&r, "# old\tnew\n\na b\tc d\r\nlast\tone", NULL), 0);
	ck_assert_uint_eq(r.n, 2);
	ck_assert_str_eq(r.at[0].old_name, "a b");
	ck_assert_str_eq(r.at[0].new_name, "c d");
	ck_assert_str_eq(r.at[1].old_name, "last");
	ck_assert_str_eq(r.at[1].new_name, "one");
	sf_map_rules_free(r.at, r.n);
}
END_TEST

START_TEST(a_json_object_is_taken_as_well)
{
	struct rules r = { 0 };
	ck_assert_int_eq(add_text(&r, " \n{\"a\": \"b\", \"c.*\": \"\\u00e9\"}", NULL), 0);
	ck_assert_uint_eq(r.n, 2);
	ck_assert_str_eq(r.at[1].old_name, "c.*");
	ck_assert_str_eq(r.at[1].new_name, "\xc3\xa9");
	sf_map_rules_free(r.at, r.n);
}
END_TEST

START_TEST(what_is_no_rule_is_refused_with_its_place)
{
	static const struct {
		const char *text, *word;
	} cases[] = {
		{ "a\tb\nno tab here\n", "line 2" },
		{ "{\"a\": 1}", "object of strings" },
		{ "{\"a\": ", "/tmp/sf-map-" },
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct rules r = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_int_lt(add_text(&r, cases[i].text, &err), 0);
		ck_assert_msg(strstr(err.msg, cases[i].word) != NULL, "%s", err.msg);
		sf_map_rules_free(r.at, r.n);
	}
	struct rules r = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	ck_assert_int_eq(add(&r, "no-equals", &err), -EINVAL);
	ck_assert_int_eq(add(&r, "@/nowhere/at/all", &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "/nowhere/at/all"));
	ck_assert_uint_eq(r.n, 0);
}
END_TEST

START_TEST(a_name_with_a_nul_is_refused_and_not_cut)
{
	static const struct {
		const char *text;
		size_t len;
		const char *word;
	} cases[] = {
		{ "x\ty\na\0b\tc\n", 10, "line 2" },
		{ "a\tb\0c\n", 6, "line 1" },
		{ "\0{\"a\": \"b\"}", 11, "line 1" },
		{ "{\"a\\u0000b\": \"c\"}", 18, "\\u0000" },
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct rules r = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		char path[64];
		int code = add(&r, file_with(path, cases[i].text, cases[i].len), &err);
		unlink(path + 1);
		ck_assert_msg(code < 0 && strstr(err.msg, cases[i].word), "case %zu: %d %s", i,
		              code, err.msg);
		sf_map_rules_free(r.at, r.n);
	}
}
END_TEST

START_TEST(a_directory_is_no_file_of_rules)
{
	struct sf_error err = SF_ERROR_INIT;
	struct rules r = { 0 };
	ck_assert_int_eq(add(&r, "@/", &err), -EISDIR);
	ck_assert_msg(strstr(err.msg, "'/'") != NULL, "%s", err.msg);
}
END_TEST

START_TEST(thousands_of_rules_keep_their_order)
{
	struct rules r = { 0 };
	char text[64];
	for (int i = 0; i < 5000; i++) {
		snprintf(text, sizeof(text), "old.%d=new.%d", i, i);
		ck_assert_int_eq(add(&r, text, NULL), 0);
	}
	ck_assert_uint_eq(r.n, 5000);
	for (int i = 0; i < 5000; i += 77) {
		snprintf(text, sizeof(text), "new.%d", i);
		ck_assert_str_eq(r.at[i].new_name, text);
	}
	sf_map_rules_free(r.at, r.n);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("map_file");
	TCase *tc = tcase_create("rules");
	tcase_add_test(tc, a_rule_ends_its_old_name_at_the_first_equals_sign);
	tcase_add_test(tc, lines_are_split_at_a_tab_and_comments_left_out);
	tcase_add_test(tc, a_json_object_is_taken_as_well);
	tcase_add_test(tc, what_is_no_rule_is_refused_with_its_place);
	tcase_add_test(tc, a_name_with_a_nul_is_refused_and_not_cut);
	tcase_add_test(tc, a_directory_is_no_file_of_rules);
	tcase_add_test(tc, thousands_of_rules_keep_their_order);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
