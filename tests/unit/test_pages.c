#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/pages.h"
#include "tests/lib/sf_test.h"

/* Property: of any size and cut to any, the bytes that are left are those that were there. */
START_TEST(bytes_stay_where_they_are_cut)
{
	uint64_t seed = sf_test_seed("bytes_stay_where_they_are_cut");

	for (int i = 0; i < 100; i++) {
		size_t len = sf_test_below(&seed, i % 2 ? 5000 : 3 * SF_PAGES_MIN);
		struct sf_pages p;
		ck_assert_int_eq(sf_pages_make(&p, len), 0);
		ck_assert_uint_ge(p.len, len);
		ck_assert(p.mapped == (len >= SF_PAGES_MIN));
		for (size_t k = 0; k < p.len; k++)
			p.at[k] = (uint8_t)(k * 7 + k / 256);
		for (int again = 0; again < 3; again++) {
			size_t cut = sf_test_below(&seed, p.len + 10);
			sf_pages_cut(&p, cut);
			ck_assert_uint_ge(p.len, cut < p.len ? cut : p.len);
			ck_assert_uint_lt(p.len, (cut ? cut : 1) + 4096 + (p.mapped ? 65536 : 0));
			bool same = true;
			for (size_t k = 0; k < p.len; k++)
				same &= p.at[k] == (uint8_t)(k * 7 + k / 256);
			ck_assert(same);
		}
		sf_pages_release(&p);
		ck_assert_ptr_null(p.at);
		sf_pages_release(&p);
	}
}
END_TEST

START_TEST(what_there_is_no_memory_for_is_an_error)
{
	struct sf_pages p = { .len = 5 };

	ck_assert_int_eq(sf_pages_make(&p, SIZE_MAX), -ENOMEM);
	ck_assert_int_eq(sf_pages_make(&p, SIZE_MAX / 2), -ENOMEM);
	ck_assert_ptr_null(p.at);
	ck_assert_uint_eq(p.len, 0);
}
END_TEST

/* kB of anonymous memory that is resident */
static long anon(void)
{
	FILE *f = fopen("/proc/self/status", "r");
	char line[256];
	long n = -1;

	ck_assert_ptr_nonnull(f);
	while (n < 0 && fgets(line, sizeof(line), f))
		if (sscanf(line, "RssAnon: %ld", &n) != 1)
			n = -1;
	fclose(f);
	return n;
}

START_TEST(what_is_released_is_not_resident)
{
	struct sf_pages p[8];
	long before = anon(), with, cut;

	if (before < 0)
		return; /* a kernel that does not say */
	for (int i = 0; i < 8; i++) {
		ck_assert_int_eq(sf_pages_make(&p[i], 8 << 20), 0);
		memset(p[i].at, 1, p[i].len);
	}
	with = anon();
	ck_assert_int_ge(with, before + 60 * 1024);
	for (int i = 0; i < 8; i++)
		sf_pages_cut(&p[i], 4 << 20);
	cut = anon();
	ck_assert_int_le(cut, with - 30 * 1024);
	for (int i = 0; i < 8; i++)
		sf_pages_release(&p[i]);
	ck_assert_int_le(anon(), cut - 30 * 1024);
}
END_TEST

/* Large ones begin where a huge page does, and have no more than was asked for. */
START_TEST(large_ones_can_be_huge_pages)
{
	for (size_t mib = 2; mib < 12; mib += 3) {
		struct sf_pages p;

		ck_assert_int_eq(sf_pages_make(&p, (mib << 20) + 5), 0);
		ck_assert_uint_eq((uintptr_t)p.at % (2 << 20), 0);
		ck_assert_uint_lt(p.len, (mib << 20) + (64 << 10) + 5);
		memset(p.at, 1, p.len);
		sf_pages_cut(&p, (mib << 20) - 70000);
		p.at[p.len - 1] = 2;
		sf_pages_release(&p);
	}
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("pages");
	TCase *t = tcase_create("pages");

	tcase_add_test(t, bytes_stay_where_they_are_cut);
	tcase_add_test(t, large_ones_can_be_huge_pages);
	tcase_add_test(t, what_there_is_no_memory_for_is_an_error);
	tcase_add_test(t, what_is_released_is_not_resident);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
