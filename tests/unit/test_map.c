#include "config.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "tests/lib/sf_test.h"

struct names {
	char (*at)[24];
	size_t asked;
};

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	struct names *names = arg;

	names->asked++;
	return strlen(names->at[value]) == len && memcmp(names->at[value], key, len) == 0;
}

/* Property: 200,000 names, a third of them twice: the map says what the order of adding says. */
START_TEST(names_are_found_and_others_are_not)
{
	enum { N = 200000 };
	struct names names = { .at = malloc(N * sizeof(*names.at)) };
	struct sf_map m = { 0 };
	int failed;

	ck_assert_ptr_nonnull(names.at);
	for (uint32_t i = 0; i < N; i++) {
		snprintf(names.at[i], sizeof(names.at[i]), "layers.%u.w", i % 3 == 2 ? i - 1 : i);
		uint32_t was = sf_map_add(&m, names.at[i], strlen(names.at[i]), i, same_name,
		                          &names, &failed);
		ck_assert_int_eq(failed, 0);
		ck_assert_uint_eq(was, i % 3 == 2 ? i - 1 : SF_MAP_NONE);
	}
	ck_assert_uint_eq(m.n, N - N / 3);
	names.asked = 0;
	for (uint32_t i = 0; i < N; i++) {
		char other[24];
		ck_assert_uint_eq(
			sf_map_get(&m, names.at[i], strlen(names.at[i]), same_name, &names),
			i % 3 == 2 ? i - 1 : i);
		int n = snprintf(other, sizeof(other), "layers.%u.b", i);
		ck_assert_uint_eq(sf_map_get(&m, other, (size_t)n, same_name, &names), SF_MAP_NONE);
	}
	ck_assert_uint_lt(names.asked, N + N / 10); /* a stored half hash spares the comparisons */
	sf_map_release(&m);
	ck_assert_uint_eq(m.n, 0);
	free(names.at);
}
END_TEST

START_TEST(an_empty_map_has_nothing_and_room_is_made_once)
{
	struct names names = { .at = calloc(1000, sizeof(*names.at)) };
	struct sf_map m = { 0 };
	int failed;

	ck_assert_uint_eq(sf_map_get(&m, "a", 1, same_name, &names), SF_MAP_NONE);
	ck_assert_int_eq(sf_map_reserve(&m, 1000), 0);
	size_t cap = m.cap;
	for (uint32_t i = 0; i < 1000; i++) {
		snprintf(names.at[i], sizeof(names.at[i]), "%u", i);
		sf_map_add(&m, names.at[i], strlen(names.at[i]), i, same_name, &names, &failed);
		ck_assert_int_eq(failed, 0);
	}
	ck_assert_uint_eq(m.cap, cap);
	ck_assert_int_eq(sf_map_reserve(&m, SIZE_MAX), -ENOMEM);
	ck_assert_uint_eq(sf_map_get(&m, "999", 3, same_name, &names), 999);
	sf_map_release(&m);
	free(names.at);
}
END_TEST

/* Each length, each bit: the hash changes, and about half of its bits do on average. */
START_TEST(every_bit_of_a_name_reaches_the_hash)
{
	uint8_t text[130], copy[130];
	uint64_t rnd = sf_test_seed("every_bit_of_a_name_reaches_the_hash");
	uint64_t flips = 0, tries = 0;

	for (size_t i = 0; i < sizeof(text); i++)
		text[i] = (uint8_t)sf_test_rand(&rnd);
	for (size_t len = 1; len <= sizeof(text); len++) {
		uint64_t h = sf_hash(text, len);
		ck_assert_uint_ne(h, sf_hash(text, len - 1));
		for (size_t bit = 0; bit < len * 8; bit++) {
			memcpy(copy, text, len);
			copy[bit / 8] ^= (uint8_t)(1 << bit % 8);
			uint64_t other = sf_hash(copy, len);
			ck_assert_msg(other != h, "length %zu, bit %zu", len, bit);
			flips += (uint64_t)__builtin_popcountll(h ^ other);
			tries++;
		}
	}
	ck_assert_uint_gt(flips, tries * 31);
	ck_assert_uint_lt(flips, tries * 33);
	ck_assert_uint_eq(sf_hash(text, 130), sf_hash(text, 130));
}
END_TEST

/* Lengths are told apart where the bytes are all the same. */
START_TEST(zeros_of_different_length_differ)
{
	static const uint8_t zeros[300];

	for (size_t a = 0; a < sizeof(zeros); a++)
		for (size_t b = 0; b < a; b++)
			ck_assert_uint_ne(sf_hash(zeros, a), sf_hash(zeros, b));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("map");
	TCase *t = tcase_create("map");

	tcase_add_test(t, names_are_found_and_others_are_not);
	tcase_add_test(t, an_empty_map_has_nothing_and_room_is_made_once);
	tcase_add_test(t, every_bit_of_a_name_reaches_the_hash);
	tcase_add_test(t, zeros_of_different_length_differ);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
