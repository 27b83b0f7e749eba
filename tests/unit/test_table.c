#include "config.h"

#include <string.h>

#include "cli/table.h"
#include "cli/text.h"
#include "sf_test.h"

START_TEST(columns_stand_under_their_heads)
{
	struct sf_table t = { .align = "lrl" };
	struct sf_buf out = { 0 };

	sf_table_cell(&t, "name");
	sf_table_cell(&t, "%s", "size");
	sf_table_cell(&t, "file");
	sf_table_name(&t, "\x1b[1m\xe4\xb8\xad", 7);
	sf_table_cell(&t, "%d", 123456);
	sf_table_cell(&t, "f");
	sf_table_name(&t, "w", 1);
	sf_table_cell(&t, "7");
	sf_table_cell(&t, "%s", "");
	sf_table_put(&out, &t, "  ");
	ck_assert_str_eq(sf_buf_cstr(&out), "  name         size  file\n"
	                                    "  \\x1b[1m\xe4\xb8\xad  123456  f\n"
	                                    "  w               7\n");
	sf_table_release(&t);
	sf_buf_release(&out);
}
END_TEST

START_TEST(rows_without_end)
{
	struct sf_table t = { .align = "r" };
	struct sf_buf out = { 0 };

	for (int i = 0; i < 1000; i++)
		sf_table_cell(&t, "%d", i);
	sf_table_put(&out, &t, "");
	ck_assert_uint_eq(out.len, 4000);
	ck_assert_int_eq(strncmp(sf_buf_cstr(&out), "  0\n  1\n", 8), 0);
	sf_table_release(&t);
	sf_table_release(&t);
	sf_buf_release(&out);
}
END_TEST

START_TEST(counts_for_people)
{
	static const struct {
		uint64_t n;
		const char *text;
	} cases[] = {
		{ 0, "0" },
		{ 999, "999" },
		{ 1000, "1.00 K" },
		{ 9994, "9.99 K" },
		{ 9995, "10.0 K" },
		{ 120300000, "120.3 M" },
		{ 7241732096, "7.24 B" },
		{ 999949999, "999.9 M" },
		{ 999950000, "1.00 B" },
		{ 1000000000000, "1.00 T" },
		{ UINT64_MAX, "18446744.1 T" },
	};
	char buf[32];

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		ck_assert_str_eq(sf_human_count(cases[i].n, buf), cases[i].text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("table");
	TCase *tc = tcase_create("table");

	tcase_add_test(tc, columns_stand_under_their_heads);
	tcase_add_test(tc, rows_without_end);
	tcase_add_test(tc, counts_for_people);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
