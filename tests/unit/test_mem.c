#include "config.h"

#include "base/mem.h"
#include "tests/lib/sf_test.h"

struct inner {
	int x;
};
struct outer {
	char before[13];
	struct inner a, b;
};

START_TEST(a_struct_is_found_by_what_it_holds)
{
	struct outer o = { .before = "outer" };
	struct inner *a = &o.a, *b = &o.b;

	ck_assert_ptr_eq(sf_container_of(a, struct outer, a), &o);
	ck_assert_ptr_eq(sf_container_of(b, struct outer, b), &o);
	ck_assert_str_eq(sf_container_of(&o.b.x, struct outer, b.x)->before, "outer");
}
END_TEST

START_TEST(arrays_that_no_memory_holds_are_none)
{
	ck_assert_ptr_null(sf_alloc_array(SIZE_MAX / 2, 3));
	void *p = sf_alloc_array(0, 8); /* not NULL: that is a failure */
	ck_assert_ptr_nonnull(p);
	free(p);
}
END_TEST

START_TEST(numbers_are_little_endian_anywhere)
{
	uint8_t b[9] = { 0 };

	sf_put_le64(b + 1, UINT64_C(0x8877665544332211));
	for (int i = 1; i < 9; i++)
		ck_assert_uint_eq(b[i], 0x11 * i);
	ck_assert_uint_eq(sf_le64(b + 1), UINT64_C(0x8877665544332211));
	ck_assert_uint_eq(sf_le32(b + 5), 0x88776655);
	ck_assert_uint_eq(sf_le16(b + 7), 0x8877);
}
END_TEST

START_TEST(sums_and_products_that_pass_64_bits_are_told)
{
	uint64_t r = 7;

	ck_assert(!sf_add(UINT64_MAX, 1, &r));
	ck_assert(sf_add(UINT64_MAX - 1, 1, &r) && r == UINT64_MAX);
	ck_assert(!sf_mul(UINT64_C(1) << 33, UINT64_C(1) << 31, &r));
	ck_assert(sf_mul(UINT64_C(1) << 32, UINT64_C(1) << 31, &r) && r == UINT64_C(1) << 63);
}
END_TEST

START_TEST(the_last_start_that_is_not_behind)
{
	static const uint64_t start[] = { 0, 0, 5, 5, 5, 9 };

	for (size_t n = 1; n <= SF_ARRAY_LEN(start); n++)
		for (uint64_t at = 0; at < 12; at++) {
			size_t want = 0;
			for (size_t i = 0; i < n; i++)
				if (start[i] <= at)
					want = i;
			ck_assert_uint_eq(sf_last_start(start, n, at), want);
		}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mem");
	TCase *t = tcase_create("all");

	tcase_add_test(t, a_struct_is_found_by_what_it_holds);
	tcase_add_test(t, arrays_that_no_memory_holds_are_none);
	tcase_add_test(t, numbers_are_little_endian_anywhere);
	tcase_add_test(t, the_last_start_that_is_not_behind);
	tcase_add_test(t, sums_and_products_that_pass_64_bits_are_told);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
