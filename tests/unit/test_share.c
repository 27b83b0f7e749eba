#include "config.h"

#include "sf_test.h"
#include "tool/share.h"

#define THINGS 500

/* Property: the ranks' parts, one behind the other, are all of it, each thing once; and none has more than an
 * equal part and one thing. */
START_TEST(each_thing_is_one_ranks)
{
	const uint32_t size = (uint32_t[]){ 1, 2, 3, 8, 64, 1024 }[_i];
	uint64_t bytes[THINGS], all = 0, largest = 0;
	uint64_t seed = sf_test_seed("each_thing_is_one_ranks");
	size_t n, end = 0, first, to;

	for (int round = 0; round < 50; round++) {
		n = sf_test_below(&seed, THINGS + 1);
		all = largest = 0;
		for (size_t i = 0; i < n; i++) {
			bytes[i] = sf_test_below(&seed, 3) ? sf_test_below(&seed, 1000000) : 0;
			all += bytes[i] + 1;
			largest = bytes[i] > largest ? bytes[i] : largest;
		}
		end = 0;
		for (uint32_t r = 0; r < size; r++) {
			uint64_t own = 0;
			sf_share(bytes, n, r, size, &first, &to);
			ck_assert_uint_le(first, to);
			if (first == to)
				continue;
			ck_assert_uint_eq(first, end);
			for (size_t i = first; i < to; i++)
				own += bytes[i] + 1;
			ck_assert_uint_le(own, all / size + largest + 2);
			end = to;
		}
		ck_assert_uint_eq(end, n);
	}
}
END_TEST

START_TEST(sizes_that_lie_are_shared_too)
{
	const uint64_t bytes[3] = { UINT64_MAX, UINT64_MAX, UINT64_MAX };
	size_t first, end;

	for (uint32_t r = 0; r < 3; r++) {
		sf_share(bytes, 3, r, 3, &first, &end);
		ck_assert_uint_eq(first, r);
		ck_assert_uint_eq(end, r + 1);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("share");
	TCase *t = tcase_create("share");

	tcase_add_loop_test(t, each_thing_is_one_ranks, 0, 6);
	tcase_add_test(t, sizes_that_lie_are_shared_too);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
