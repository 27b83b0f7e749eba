#include "config.h"

#include <string.h>

#include "base/map.h"
#include "tests/lib/sf_test.h"

/* Numbers of the authors' page: the same in every process, on every machine. */
START_TEST(fnv_is_that_of_its_authors)
{
	ck_assert_uint_eq(sf_fnv1a(SF_FNV1A, "", 0), UINT64_C(0xcbf29ce484222325));
	ck_assert_uint_eq(sf_fnv1a(SF_FNV1A, "a", 1), UINT64_C(0xaf63dc4c8601ec8c));
	ck_assert_uint_eq(sf_fnv1a(SF_FNV1A, "foobar", 6), UINT64_C(0x85944171f73967e8));
	ck_assert_uint_eq(sf_fnv1a(sf_fnv1a(SF_FNV1A, "foo", 3), "bar", 3),
	                  sf_fnv1a(SF_FNV1A, "foobar", 6));
}
END_TEST

/* Names that differ in one bit anywhere, or in length alone, do not meet. */
START_TEST(a_bit_makes_another_hash)
{
	char text[40] = { 0 };
	uint64_t whole = sf_hash(text, sizeof(text));

	ck_assert_uint_eq(sf_hash(text, sizeof(text)), whole);
	for (size_t i = 0; i < sizeof(text) * 8; i++) {
		text[i / 8] = (char)(text[i / 8] ^ 1 << i % 8);
		ck_assert_uint_ne(sf_hash(text, sizeof(text)), whole);
		text[i / 8] = (char)(text[i / 8] ^ 1 << i % 8);
	}
	for (size_t len = 0; len < sizeof(text); len++)
		ck_assert_uint_ne(sf_hash(text, len), whole);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hash");
	TCase *t = tcase_create("all");

	tcase_add_test(t, fnv_is_that_of_its_authors);
	tcase_add_test(t, a_bit_makes_another_hash);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
