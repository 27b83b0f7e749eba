/* -o prefetch=auto: when it begins, and whether there is room for it. */
#include "config.h"

#include <string.h>

#include "fuse/prefetch.h"
#include "tests/lib/sf_test.h"

#define GB UINT64_C(1000000000)

START_TEST(an_eighth_is_wide)
{
	ck_assert(!sf_prefetch_is_wide(0, 0));
	ck_assert(!sf_prefetch_is_wide(0, 8 * GB));
	ck_assert(!sf_prefetch_is_wide(GB - 1, 8 * GB));
	ck_assert(sf_prefetch_is_wide(GB, 8 * GB));
	ck_assert(sf_prefetch_is_wide(UINT64_MAX, UINT64_MAX));
	ck_assert(!sf_prefetch_is_wide(GB, UINT64_MAX));
}
END_TEST

START_TEST(what_fits_fits_the_limit_and_the_disk)
{
	struct sf_cache_state s = { .counted = true,
		                    .limit = 10 * GB,
		                    .kept = 0,
		                    .space = { .free = 100 * GB, .total = 200 * GB, .floor = GB } };

	ck_assert(sf_prefetch_fits(&s, 10 * GB));
	ck_assert(!sf_prefetch_fits(&s, 10 * GB + 1));
	s.kept = 10 * GB; /* of others: they go */
	ck_assert(sf_prefetch_fits(&s, 10 * GB));
	s.space.free = 3 * GB; /* two of them are room */
	ck_assert(sf_prefetch_fits(&s, 10 * GB));
	s.kept = 4 * GB;
	ck_assert(sf_prefetch_fits(&s, 6 * GB));
	ck_assert(!sf_prefetch_fits(&s, 6 * GB + 1));
	s.space.free = 0; /* below the floor: what goes makes room */
	ck_assert(sf_prefetch_fits(&s, 4 * GB));
	ck_assert(!sf_prefetch_fits(&s, 4 * GB + 1));
	s.counted = false; /* nobody knows what might go */
	ck_assert(sf_prefetch_fits(&s, 10 * GB));
	ck_assert(!sf_prefetch_fits(&s, 10 * GB + 1));
	s.counted = true;
	s.space =
		(struct sf_cache_space){ UINT64_MAX, UINT64_MAX, 0 }; /* a disk that does not say */
	ck_assert(sf_prefetch_fits(&s, 10 * GB));
	strcpy(s.why, "read-only");
	ck_assert(!sf_prefetch_fits(&s, 1));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("prefetch_rule");
	TCase *t = tcase_create("prefetch_rule");

	tcase_add_test(t, an_eighth_is_wide);
	tcase_add_test(t, what_fits_fits_the_limit_and_the_disk);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
