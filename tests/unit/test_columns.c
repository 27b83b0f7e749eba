#include "config.h"

#include <string.h>

#include "base/columns.h"
#include "sf_test.h"

static size_t columns(const char *s)
{
	return sf_columns(s, strlen(s));
}

START_TEST(characters_are_counted_not_bytes)
{
	ck_assert_uint_eq(columns(""), 0);
	ck_assert_uint_eq(columns("model.w"), 7);
	ck_assert_uint_eq(columns("NAME,…"), 6);
	ck_assert_uint_eq(columns("größe"), 5);
	ck_assert_uint_eq(columns("gro\xcc\x88\xc3\x9f"
	                          "e"),
	                  5); /* o and a combining diaeresis */
	ck_assert_uint_eq(columns("重み.weight"), 11);
	ck_assert_uint_eq(columns("🙂"), 2);
	ck_assert_uint_eq(columns("a\xff\x80z"), 4);
	ck_assert_uint_eq(columns("\xe9\x87"), 2); /* cut in the middle */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("columns");
	TCase *tc = tcase_create("columns");

	tcase_add_test(tc, characters_are_counted_not_bytes);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
