#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/near.h"
#include "sf_test.h"

/* The textbook's table. */
static unsigned slow(const char *a, size_t n, const char *b, size_t m)
{
	unsigned d[40][40];

	for (size_t i = 0; i <= n; i++)
		for (size_t j = 0; j <= m; j++) {
			unsigned v = i && j ? d[i - 1][j - 1] + (a[i - 1] != b[j - 1])
			                    : (unsigned)(i + j);
			if (i)
				v = SF_MIN(v, d[i - 1][j] + 1);
			if (j)
				v = SF_MIN(v, d[i][j - 1] + 1);
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				v = SF_MIN(v, d[i - 2][j - 2] + 1);
			d[i][j] = v;
		}
	return d[n][m];
}

static unsigned edits(const char *a, const char *b)
{
	return sf_edits(a, strlen(a), b, strlen(b), SF_NEAR_MAX);
}

START_TEST(edits_of_words)
{
	ck_assert_uint_eq(edits("wieght", "weight"), 1);
	ck_assert_uint_eq(edits("unmount", "umount"), 1);
	ck_assert_uint_eq(edits("info", "info"), 0);
	ck_assert_uint_eq(edits("", "abc"), 3);
	ck_assert_uint_eq(edits("abc", ""), 3);
	ck_assert_uint_eq(edits("kitten", "sitting"), 3);
	ck_assert_uint_eq(edits("abcdefghij", "klmnopqrst"), SF_NEAR_MAX + 1);
	ck_assert_uint_eq(sf_edits("ab", 2, "cd", 2, 1), 2);
	ck_assert_uint_eq(sf_edits("a", 1, "abcdefghijk", 11, 3), 4);
	ck_assert_uint_eq(sf_edits("same", 4, "same", 4, 0), 0);
	ck_assert_uint_eq(sf_edits("same", 4, "sane", 4, 0), 1);
}
END_TEST

START_TEST(edits_are_the_tables_within_the_limit)
{
	uint64_t rnd = sf_test_seed("edits_are_the_tables_within_the_limit");

	for (int i = 0; i < 200000; i++) {
		char a[30], b[30];
		size_t n = sf_test_rand(&rnd) % 30, m = sf_test_rand(&rnd) % 30;
		unsigned letters = 1 + (unsigned)(sf_test_rand(&rnd) % 4),
			 max = (unsigned)(sf_test_rand(&rnd) % (SF_NEAR_MAX + 1));
		for (size_t k = 0; k < 30; k++)
			a[k] = (char)('a' + sf_test_rand(&rnd) % letters);
		memcpy(b, a, sizeof(b)); /* near ones too */
		for (size_t k = sf_test_rand(&rnd) % 6; k-- > 0;)
			b[sf_test_rand(&rnd) % 30] = (char)('a' + sf_test_rand(&rnd) % letters);
		if (sf_test_rand(&rnd) % 2)
			memmove(b + 1, b, sizeof(b) - 1);
		unsigned want = SF_MIN(slow(a, n, b, m), max + 1);
		ck_assert_uint_eq(sf_edits(a, n, b, m, max), want);
	}
}
END_TEST

START_TEST(who_misspells_or_stops_early_is_near)
{
	static const struct {
		const char *a, *b;
		bool near;
	} t[] = {
		{ "step9000", "stpe9000", true },
		{ "step900", "step9000", true },
		{ "step9000", "step9", true },
		{ "step9000", "logs", false },
		{ "", "logs", false },
		{ "logs", "", false },
		{ "ab", "ac", false },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++)
		ck_assert_msg(sf_is_near(t[i].a, strlen(t[i].a), t[i].b, strlen(t[i].b)) ==
		                      t[i].near,
		              "%zu", i);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("near");
	TCase *tc = tcase_create("near");

	tcase_add_test(tc, edits_of_words);
	tcase_add_test(tc, edits_are_the_tables_within_the_limit);
	tcase_add_test(tc, who_misspells_or_stops_early_is_near);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
