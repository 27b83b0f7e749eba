#include "config.h"
#include <string.h>
#include "base/mem.h"
#include "lib/session.h"
#include "tests/lib/sf_test.h"
#include "tool/options.h"

struct own {
	bool flag, other;
	const char *text;
	struct sf_strs many, list;
	unsigned number;
	uint64_t size;
};
static const struct sf_opt table[] = {
	{ "flag", 'f', SF_OPT_FLAG, offsetof(struct own, flag), NULL, NULL, "a flag" },
	{ "other-flag", 'x', SF_OPT_FLAG, offsetof(struct own, other), NULL, NULL, "another" },
	{ "text", 't', SF_OPT_STR, offsetof(struct own, text), NULL, "TEXT", "text" },
	{ "many", 'm', SF_OPT_STRS, offsetof(struct own, many), NULL, "TEXT", "adds up" },
	{ "list", 0, SF_OPT_LIST, offsetof(struct own, list), NULL, "A,B", "is split" },
	{ "number", 'n', SF_OPT_UINT, offsetof(struct own, number), NULL, "N", "a number" },
	{ "size", 0, SF_OPT_SIZE, offsetof(struct own, size), NULL, "SIZE", "a size" },
	{ 0 },
};
static const struct sf_opt *const tables[] = { table, NULL };

static int parse(struct own *o, struct sf_error *err, int argc, char **argv)
{
	void *dests[] = { o };
	*o = (struct own){ 0 };
	return sf_options_parse(tables, dests, argc, argv, err);
}

static void drop(struct own *o)
{
	free(o->many.at);
	for (size_t i = 0; i < o->list.n; i++)
		free((void *)o->list.at[i]);
	free(o->list.at);
}

START_TEST(options_come_anywhere_before_two_dashes)
{
	struct sf_error err = SF_ERROR_INIT;
	struct own o;
	char *argv[] = { "one", "-f",       "two", "--text=a=b", "-n",
		         "7",   "-xtshort", "--",  "--flag",     "-" };
	ck_assert_int_eq(parse(&o, &err, SF_ARRAY_LEN(argv), argv), 4);
	ck_assert_str_eq(argv[0], "one");
	ck_assert_str_eq(argv[1], "two");
	ck_assert_str_eq(argv[2], "--flag");
	ck_assert_str_eq(argv[3], "-");
	ck_assert(o.flag && o.other);
	ck_assert_str_eq(o.text, "short");
	ck_assert_uint_eq(o.number, 7);
	drop(&o);
}
END_TEST

START_TEST(dashes_and_underscores_are_the_same)
{
	struct sf_error err = SF_ERROR_INIT;
	struct own o;
	char *argv[] = { "--other_flag" };
	ck_assert_int_eq(parse(&o, &err, 1, argv), 0);
	ck_assert(o.other);
}
END_TEST

START_TEST(lists_split_and_repeats_add_up)
{
	struct sf_error err = SF_ERROR_INIT;
	struct own o;
	char *argv[] = { "--list", "a,b\\,c,,d:e", "-m", "x,y", "--many=z" };
	ck_assert_int_eq(parse(&o, &err, SF_ARRAY_LEN(argv), argv), 0);
	ck_assert_uint_eq(o.list.n, 4);
	ck_assert_str_eq(o.list.at[3], "e"); /* as in -o */
	ck_assert_str_eq(o.list.at[0], "a");
	ck_assert_str_eq(o.list.at[1], "b,c");
	ck_assert_str_eq(o.list.at[2], "d");
	ck_assert_uint_eq(o.many.n, 2);
	ck_assert_str_eq(o.many.at[0], "x,y");
	drop(&o);
}
END_TEST

START_TEST(a_misspelt_option_names_the_one_meant)
{
	struct sf_error err = SF_ERROR_INIT;
	struct own o;
	char *argv[] = { "--txet=1" };
	ck_assert_int_eq(parse(&o, &err, 1, argv), -EINVAL);
	ck_assert_msg(strstr(err.msg, "--txet") && strstr(err.msg, "--text"), "%s", err.msg);
}
END_TEST

static char *help_of(size_t width)
{
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	sf_options_help(table, width, f);
	fclose(f);
	return text;
}

START_TEST(help_is_aligned_by_columns)
{
	static const struct sf_opt odd[] = {
		{ "name", 'o', SF_OPT_STR, 0, NULL, "NAME,…", "an ellipsis is three bytes" },
		{ "plain", 0, SF_OPT_FLAG, 0, NULL, NULL, "and nothing here" },
		{ "strategy", 0, SF_OPT_STR, 0, NULL, "one|two_that_are_very|long_indeed",
		  "below" },
		{ 0 },
	};
	char *text = NULL;
	size_t len;
	FILE *f = open_memstream(&text, &len);

	ck_assert_uint_eq(sf_options_width(odd), 19);
	sf_options_help(odd, sf_options_width(odd), f);
	sf_options_help_words(odd + 1, 14, f);
	fclose(f);
	ck_assert_str_eq(text, "  -o, --name NAME,…  an ellipsis is three bytes\n"
	                       "      --plain        and nothing here\n"
	                       "      --strategy one|two_that_are_very|long_indeed\n"
	                       "                     below\n"
	                       "      plain     and nothing here\n"
	                       "      strategy=one|two_that_are_very|long_indeed\n"
	                       "                below\n");
	free(text);
	text = help_of(SF_HELP_COLUMN);
	ck_assert_ptr_nonnull(strstr(text, "  -f, --flag"));
	free(text);
}
END_TEST

START_TEST(what_is_misspelt_has_a_near_one)
{
	ck_assert_str_eq(sf_options_near(tables, "oter_flag", 9), "other-flag");
	ck_assert_ptr_null(sf_options_near(tables, "x", 1));
}
END_TEST

START_TEST(wrong_values_are_refused)
{
	static char *const bad[][2] = {
		{ "--number", "x" },  { "--number", "-1" }, { "--number", "99999999999999999999" },
		{ "--size", "1 Gb" }, { "--size", "-1" },   { "--size", "99999999999999T" },
		{ "--flag=yes", "" }, { "--text", NULL },
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct own o;
		char *argv[] = { bad[i][0], bad[i][1] };
		ck_assert_msg(parse(&o, &err, bad[i][1] ? 2 : 1, argv) == -EINVAL && err.msg[0],
		              "%s", bad[i][0]);
	}
}
END_TEST

START_TEST(sizes_know_both_kinds_of_units)
{
	static const struct {
		const char *s;
		uint64_t v;
	} ok[] = {
		{ "0", 0 },           { "17", 17 },           { "5KB", 5000 },
		{ "5K", 5120 },       { "5KiB", 5120 },       { "2GB", 2000000000 },
		{ "2G", 2147483648 }, { "1TiB", 1ULL << 40 },
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(ok); i++) {
		uint64_t v = 1;
		ck_assert_int_eq(sf_parse_size(ok[i].s, &v, NULL), 0);
		ck_assert_uint_eq(v, ok[i].v);
	}
}
END_TEST

START_TEST(mount_words_set_clear_and_split_at_colons)
{
	struct sf_error err = SF_ERROR_INIT;
	struct own o = { .other = true };
	void *dests[] = { &o };
	char a[] = "other_flag=no", b[] = "list=a:b", c[] = "size=1K", d[] = "nobody", e[] = "text",
	     f[] = "flag=maybe";
	ck_assert_int_eq(sf_options_word(tables, dests, a, &err), 1);
	ck_assert(!o.other);
	ck_assert_int_eq(sf_options_word(tables, dests, b, &err), 1);
	ck_assert_uint_eq(o.list.n, 2);
	ck_assert_int_eq(sf_options_word(tables, dests, c, &err), 1);
	ck_assert_uint_eq(o.size, 1024);
	ck_assert_int_eq(sf_options_word(tables, dests, d, &err), 0);
	ck_assert_int_eq(sf_options_word(tables, dests, e, &err), -EINVAL);
	ck_assert_int_eq(sf_options_word(tables, dests, f, &err), -EINVAL);
	drop(&o);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("options");
	TCase *tc = tcase_create("all");
	tcase_add_test(tc, options_come_anywhere_before_two_dashes);
	tcase_add_test(tc, dashes_and_underscores_are_the_same);
	tcase_add_test(tc, lists_split_and_repeats_add_up);
	tcase_add_test(tc, a_misspelt_option_names_the_one_meant);
	tcase_add_test(tc, help_is_aligned_by_columns);
	tcase_add_test(tc, what_is_misspelt_has_a_near_one);
	tcase_add_test(tc, wrong_values_are_refused);
	tcase_add_test(tc, sizes_know_both_kinds_of_units);
	tcase_add_test(tc, mount_words_set_clear_and_split_at_colons);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
