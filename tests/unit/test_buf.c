#include "config.h"

#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/vec.h"
#include "tests/lib/sf_test.h"

SF_VEC(u16s, uint16_t);

/* Property: any mix of appends gives the bytes that a plain array would hold, up to the limit and
 * not a byte more. */
START_TEST(appends_give_the_same_bytes_as_an_array)
{
	static uint8_t want[70000], piece[300];
	uint64_t rnd = sf_test_seed("appends_give_the_same_bytes_as_an_array");

	for (int round = 0; round < 60; round++) {
		struct sf_buf b = { .limit =
			                    round % 2 ? 1 + sf_test_below(&rnd, sizeof(want)) : 0 };
		size_t n = 0, goal = sf_test_below(&rnd, 60000);
		while (n < goal && !b.failed) {
			size_t len = 1 + sf_test_below(&rnd, sizeof(piece) - 1), had = n;
			for (size_t i = 0; i < len; i++)
				piece[i] = (uint8_t)('a' + sf_test_below(&rnd, 26));
			piece[len] = '\0';
			switch (sf_test_below(&rnd, 5)) {
			case 0:
				sf_buf_add(&b, piece, len);
				break;
			case 1:
				sf_buf_str(&b, (char *)piece);
				break;
			case 2:
				sf_buf_printf(&b, "%s", (char *)piece);
				break;
			case 3:
				len = 1;
				sf_buf_byte(&b, piece[0]);
				break;
			default: {
				void *p = sf_buf_extend(&b, len);
				if (p)
					memcpy(p, piece, len);
			}
			}
			if (b.limit && had + len > b.limit) {
				ck_assert_int_eq(b.failed, -E2BIG);
				break;
			}
			ck_assert_int_eq(b.failed, 0);
			memcpy(want + n, piece, len);
			n += len;
		}
		ck_assert_uint_eq(b.len, n);
		if (n)
			ck_assert_mem_eq(b.at, want, n);
		if (b.limit)
			ck_assert_uint_le(b.cap, b.limit);
		if (!b.failed)
			ck_assert_uint_eq(strlen(sf_buf_cstr(&b)), n);
		sf_buf_release(&b);
	}
}
END_TEST

START_TEST(the_first_failure_sticks)
{
	struct sf_buf b = { .limit = 4 };

	sf_buf_str(&b, "abc");
	sf_buf_str(&b, "de");
	sf_buf_byte(&b, 'x'); /* would fit, but must not come behind a hole */
	sf_buf_printf(&b, "%d", 1);
	ck_assert_ptr_null(sf_buf_extend(&b, 0));
	ck_assert_int_eq(sf_buf_check(&b), -E2BIG);
	ck_assert_uint_eq(b.len, 3);
	ck_assert_str_eq(sf_buf_cstr(&b), "");
	sf_buf_reset(&b);
	sf_buf_str(&b, "wxyz");
	ck_assert_int_eq(sf_buf_check(&b), 0);
	ck_assert_str_eq(sf_buf_cstr(&b), "wxyz");
	sf_buf_release(&b);
	ck_assert_uint_eq(b.limit, 4);
	ck_assert_ptr_null(b.at);
}
END_TEST

START_TEST(an_empty_buffer_is_an_empty_string)
{
	struct sf_buf b = { 0 };

	ck_assert_str_eq(sf_buf_cstr(&b), "");
	sf_buf_add(&b, NULL, 0);
	ck_assert_int_eq(sf_buf_check(&b), 0);
	ck_assert_ptr_nonnull(sf_buf_extend(&b, 0));
	sf_buf_release(&b);
}
END_TEST

START_TEST(a_size_that_overflows_is_an_error)
{
	struct sf_buf b = { 0 };

	sf_buf_str(&b, "ab");
	ck_assert_ptr_null(sf_buf_extend(&b, SIZE_MAX - 1));
	ck_assert_int_ne(b.failed, 0);
	ck_assert_uint_eq(b.len, 2);
	sf_buf_release(&b);
}
END_TEST

START_TEST(a_vec_keeps_what_was_pushed_and_grows_by_half)
{
	struct u16s v = { 0 };
	size_t grown = 0, cap = 0;

	for (size_t i = 0; i < 60000; i++) {
		ck_assert_int_eq(u16s_push(&v, (uint16_t)i), 0);
		grown += v.cap != cap;
		cap = v.cap;
	}
	for (size_t i = 0; i < 60000; i++)
		ck_assert_uint_eq(v.at[i], i);
	ck_assert_uint_le(grown, 30);
	ck_assert_uint_le(v.cap, 90000);
	ck_assert_int_eq(u16s_reserve(&v, SIZE_MAX - 1), -ENOMEM);
	ck_assert_uint_eq(v.n, 60000);
	u16s_release(&v);
	ck_assert_ptr_null(v.at);
}
END_TEST

START_TEST(a_part_that_failed_fails_the_whole)
{
	struct sf_buf b = { 0 };

	sf_buf_str(&b, "before");
	sf_buf_fail(&b, 0);
	ck_assert_int_eq(sf_buf_check(&b), 0);
	sf_buf_fail(&b, -E2BIG);
	sf_buf_fail(&b, -ENOMEM);
	sf_buf_fail(&b, 0);
	sf_buf_str(&b, "behind");
	ck_assert_int_eq(sf_buf_check(&b), -E2BIG);
	ck_assert_uint_eq(b.len, 6);
	sf_buf_release(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("buf");
	TCase *t = tcase_create("buf");

	tcase_add_test(t, appends_give_the_same_bytes_as_an_array);
	tcase_add_test(t, the_first_failure_sticks);
	tcase_add_test(t, an_empty_buffer_is_an_empty_string);
	tcase_add_test(t, a_size_that_overflows_is_an_error);
	tcase_add_test(t, a_part_that_failed_fails_the_whole);
	tcase_add_test(t, a_vec_keeps_what_was_pushed_and_grows_by_half);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
