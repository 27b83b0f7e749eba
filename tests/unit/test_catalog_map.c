#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "sf_test.h"
#include "catalog/catalog_map.h"

/* The shown name of @name, or NULL; the caller frees it. */
static char *shown(struct sf_key_map *m, const char *name)
{
	struct sf_buf out = { 0 };
	int r = sf_map_name(m, name, strlen(name), &out);

	ck_assert_int_ge(r, 0);
	sf_buf_byte(&out, 0);
	ck_assert_int_eq(sf_buf_check(&out), 0);
	if (r)
		return (char *)out.at;
	sf_buf_release(&out);
	return NULL;
}

/* What @rule alone makes of the name. */
static char *by_one(const struct sf_map_rule *rule, const char *name)
{
	struct sf_key_map m;

	ck_assert_int_eq(sf_key_map_init(&m, rule, 1), 0);
	char *s = shown(&m, name);
	sf_key_map_release(&m);
	return s;
}

START_TEST(one_rule)
{
	static const struct {
		const char *old_name, *new_name, *name, *shown;
	} t[] = {
		{ "model", "m", "model.a", "m.a" },
		{ "model", "m", "model", "m" },
		{ "model", "m", "models.a", NULL },
		{ "model.a", "", "model.a.b", "b" },
		{ "model/a", "x", "model.a.b", "x.b" },
		{ "model.a", "x", "model/a/b", "x/b" },
		{ "layers.*.w", "l*", "layers.7.w", "l7" },
		{ "layers.*.w", "l*", "layers.7.v", NULL },
		{ "layers.*.w", "l*", "layers.7.ww",
		  NULL }, /* whole components, as without a star */
		{ "layers.*.w", "l*", "layers.7.w.b", "l7.b" },
		{ "layers.*", "l*", "layers.7/b", "l7/b" },
		{ "a*", "b", "ax", NULL }, /* no component of its own: a star like others */
		{ "a*", "b", "a*", "b" },
		{ "", "p", "a.b", "p.a.b" },
		{ "", "", "a.b", "a.b" },
		{ "a", "b", "", NULL },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		const struct sf_map_rule rule = { t[i].old_name, t[i].new_name };
		char *got = by_one(&rule, t[i].name);
		ck_assert_msg(!got == !t[i].shown && (!got || strcmp(got, t[i].shown) == 0),
		              "%s=%s of %s is %s", t[i].old_name, t[i].new_name, t[i].name,
		              got ? got : "(none)");
		free(got);
	}
}
END_TEST

/* A NUL in a name is a byte like others. */
START_TEST(a_name_with_a_nul_is_mapped_whole)
{
	static const struct {
		struct sf_map_rule rule;
		const char *shown;
		size_t len; /* 0: no rule matches */
	} t[] = {
		{ { "", "p" }, "p.a\0b.w\0", 8 },    { { "*", "m" }, "m.w\0", 4 },
		{ { "*", "<*>" }, "<a\0b>.w\0", 8 }, { { "a", "m" }, NULL, 0 },
		{ { "a*", "m" }, NULL, 0 },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		struct sf_key_map m;
		struct sf_buf out = { 0 };
		ck_assert_int_eq(sf_key_map_init(&m, &t[i].rule, 1), 0);
		ck_assert_int_eq(sf_map_name(&m, "a\0b.w\0", 6, &out), t[i].len > 0);
		ck_assert_uint_eq(out.len, t[i].len);
		ck_assert(!out.len || memcmp(out.at, t[i].shown, out.len) == 0);
		sf_buf_release(&out);
		sf_key_map_release(&m);
	}
}
END_TEST

/* Property: many rules give what the first of them that gives something alone does. */
START_TEST(the_first_rule_that_matches_wins)
{
	static const char *const part[] = { "a", "b", "*", "ab" };
	uint64_t seed = sf_test_seed("the_first_rule_that_matches_wins");
	struct sf_map_rule rule[12];
	char old[12][32], new[12][8], name[32];

	for (int round = 0; round < 3000; round++) {
		struct sf_key_map m;
		for (size_t i = 0; i <= SF_ARRAY_LEN(rule); i++) {
			char *to = i < SF_ARRAY_LEN(rule) ? old[i] : name;
			*to = 0;
			for (size_t n = sf_test_below(&seed, 4); n; n--) {
				strcat(to, *to ? sf_test_below(&seed, 3) ? "." : "/" : "");
				strcat(to, part[sf_test_below(&seed, to == name ? 2 : 4)]);
			}
			if (to == name)
				continue;
			snprintf(new[i], sizeof(new[i]), "%zu*", i);
			rule[i] = (struct sf_map_rule){ old[i], new[i] };
		}
		ck_assert_int_eq(sf_key_map_init(&m, rule, SF_ARRAY_LEN(rule)), 0);
		char *got = shown(&m, name), *want = NULL;
		for (size_t i = 0; i < SF_ARRAY_LEN(rule) && !want; i++)
			want = by_one(&rule[i], name);
		ck_assert_msg(!got == !want && (!got || strcmp(got, want) == 0),
		              "'%s' is %s, not %s", name, got ? got : "(none)",
		              want ? want : "(none)");
		free(got);
		free(want);
		sf_key_map_release(&m);
	}
}
END_TEST

/* A file with a line for each key: comparing each with each would take minutes. */
START_TEST(a_rule_for_each_of_many_keys)
{
	enum { N = 100000 };
	char(*old)[48] = malloc(N * sizeof(*old)), (*new)[16] = malloc(N * sizeof(*new));
	struct sf_map_rule *rule = malloc(N * sizeof(*rule));
	struct sf_key_map m;

	for (int i = 0; i < N; i++) {
		snprintf(old[i], sizeof(*old), "model.decoder.layers.%d.weight", i);
		snprintf(new[i], sizeof(*new), "%d", i);
		rule[i] = (struct sf_map_rule){ old[i], new[i] };
	}
	ck_assert_int_eq(sf_key_map_init(&m, rule, N), 0);
	for (int i = 0; i < N; i++) {
		char *got = shown(&m, old[i]);
		ck_assert_str_eq(got, new[i]);
		free(got);
	}
	sf_key_map_release(&m);
	free(old);
	free(new);
	free(rule);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("catalog_map");
	TCase *tc = tcase_create("catalog_map");

	tcase_add_test(tc, one_rule);
	tcase_add_test(tc, a_name_with_a_nul_is_mapped_whole);
	tcase_add_test(tc, the_first_rule_that_matches_wins);
	tcase_add_test(tc, a_rule_for_each_of_many_keys);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
