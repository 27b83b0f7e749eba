#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "sf_test.h"
#include "catalog/catalog.h"

static bool match(const char *pattern, const char *name)
{
	return sf_key_match(pattern, name, strlen(name));
}

START_TEST(a_key_and_all_below_it_at_a_component_boundary)
{
	ck_assert(match("model.layers.1", "model.layers.1"));
	ck_assert(match("model.layers.1", "model.layers.1.wq.weight"));
	ck_assert(!match("model.layers.1", "model.layers.10"));
	ck_assert(!match("model.layers.1", "model.layers"));
	ck_assert(match("model/layers/1", "model.layers.1.wq"));
	ck_assert(match("model.layers", "model/layers/1"));
	ck_assert(match("model/", "model.a"));
	ck_assert(match("model/", "model"));
	ck_assert(!match("model/", "modelx"));
	ck_assert(!match("", "model"));
	ck_assert(match("", ""));
	ck_assert(!match("odel", "model"));
}
END_TEST

START_TEST(globs_are_fnmatch_over_the_whole_name)
{
	ck_assert(match("*.weight", "model.layers.1.wq.weight"));
	ck_assert(!match("*.weight", "model.layers.1.wq.weight.x"));
	ck_assert(match("model/*/wq/weight", "model.layers.1.wq.weight"));
	ck_assert(match("model.layers.?.wq", "model.layers.1.wq"));
	ck_assert(!match("model.layers.?.wq", "model.layers.11.wq"));
	ck_assert(match("layers.[!0-3]", "layers.4"));
	ck_assert(!match("layers.[!0-3]", "layers.2"));
	ck_assert(!match("layers.?", "layers.1.w")); /* a glob takes nothing below */
	ck_assert(match("*", ""));
}
END_TEST

START_TEST(a_name_with_glob_characters_matches_itself)
{
	ck_assert(match("p[0]", "p[0]"));
	ck_assert(match("p[0]", "p0"));
	ck_assert(!match("p[0]", "p[0].x"));
	ck_assert(match("a*b?", "a*b?"));
}
END_TEST

START_TEST(separators_alone_are_a_name)
{
	ck_assert(match("//", "//"));
	ck_assert(!match("//", ".."));
	ck_assert(!match("..", "//"));
	ck_assert(!match("//", "/"));
	ck_assert(!match("//", "//x"));
	ck_assert(match(".", "."));
	ck_assert(!match("/", "/a"));
	ck_assert(match("//a", "/.a")); /* these have something to separate */
}
END_TEST

START_TEST(names_that_hold_nul_are_compared_whole)
{
	ck_assert(sf_key_match("a*", "a\0b", 3));
	ck_assert(sf_key_match("a.*", "a.\0", 3));
	ck_assert(!sf_key_match("a", "a\0b", 3));
	ck_assert(sf_key_match("a", "a.\0b", 4));
}
END_TEST

/* Property: as the obvious reference, components compared one by one. */
START_TEST(prefixes_agree_with_splitting)
{
	uint64_t rnd = sf_test_seed("prefixes_agree_with_splitting");
	unsigned hits = 0;

	for (int round = 0; round < 200000; round++) {
		char text[2][12];
		for (int k = 0; k < 2; k++) {
			size_t n = sf_test_below(&rnd, k ? 11 : 6);
			for (size_t i = 0; i < n; i++)
				text[k][i] = "ab./"[sf_test_below(&rnd, 4)];
			text[k][n] = '\0';
		}
		if (!text[0][0] || strchr("./", text[0][strlen(text[0]) - 1]))
			continue; /* empty ones and those that end in a separator have rules of
			             their own, above */
		const char *p = text[0], *s = text[1];
		bool same = true;
		for (;; p += 1 + strcspn(p, "./"), s += 1 + strcspn(s, "./")) {
			size_t n = strcspn(p, "./"), m = strcspn(s, "./");
			same = n == m && memcmp(p, s, n) == 0;
			if (!same || !p[n] || !s[m]) {
				same = same && !p[n];
				break;
			}
		}
		hits += same;
		ck_assert_msg(match(text[0], text[1]) == same, "'%s' on '%s': %d", text[0], text[1],
		              same);
	}
	ck_assert_uint_gt(hits, 100);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("key_match");
	TCase *t = tcase_create("all");

	tcase_add_test(t, a_key_and_all_below_it_at_a_component_boundary);
	tcase_add_test(t, globs_are_fnmatch_over_the_whole_name);
	tcase_add_test(t, a_name_with_glob_characters_matches_itself);
	tcase_add_test(t, separators_alone_are_a_name);
	tcase_add_test(t, names_that_hold_nul_are_compared_whole);
	tcase_add_test(t, prefixes_agree_with_splitting);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
