#include "config.h"

#include <math.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "sf_test.h"
#include "value/object.h"
#include "value/value_json.h"
#include "tests/unit/value_json_cases.h"

static struct sf_pv *parse(const char *p, size_t len, struct sf_arena *arena)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pv *v = NULL;
	size_t used;

	ck_assert_msg(sf_pickle_parse((const uint8_t *)p, len, NULL, arena, &v, &used, &err) == 0,
	              "%s", err.msg);
	return v;
}

/* A parser that never saw Python takes it. Lone surrogates are JSON's grammar, but cJSON wants
 * pairs: other escapes stand in. */
static void check_strict(struct sf_buf *text)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_json *json = NULL;

	for (size_t i = 0; i + 2 < text->len; i++)
		if (memcmp(text->at + i, "\\ud", 3) == 0)
			text->at[i + 2] = '0';
	ck_assert_msg(sf_json_parse((const char *)text->at, text->len, &json, &err) == 0,
	              "%s in %s", err.msg, sf_buf_cstr(text));
	sf_json_free(json);
}

START_TEST(values_of_python_torch_and_numpy_read_as_the_contract_says)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf out = { 0 };
	struct sf_arena arena = { 0 };

	const struct sf_pv *v = parse(cases[_i].pickle, cases[_i].len, &arena);
	ck_assert_msg(sf_value_json(&out, v, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(sf_buf_cstr(&out), cases[_i].json);
	if (!strstr(cases[_i].json, "9007199254740992")) /* cJSON's doubles end before 2^53 */
		check_strict(&out);
	sf_buf_release(&out);
	sf_arena_release(&arena);
}
END_TEST

/* Values built here: kinds, nesting and text at random. */
static struct sf_pv *random_value(struct sf_arena *arena, uint64_t *seed, unsigned depth)
{
	static const uint8_t leaves[] = { SF_PV_NONE, SF_PV_BOOL,  SF_PV_INT,  SF_PV_FLOAT,
		                          SF_PV_STR,  SF_PV_BYTES, SF_PV_LONG, SF_PV_BYTEARRAY };
	static const uint8_t nodes[] = { SF_PV_TUPLE,     SF_PV_LIST, SF_PV_DICT,   SF_PV_SET,
		                         SF_PV_FROZENSET, SF_PV_CALL, SF_PV_OBJECT, SF_PV_PERSID };
	struct sf_pv *v = sf_arena_calloc(arena, 1, sizeof(*v));
	bool leaf = depth == 0 || sf_test_below(seed, 3) == 0;
	size_t n = sf_test_below(seed, 5);

	v->kind = leaf ? leaves[sf_test_below(seed, SF_ARRAY_LEN(leaves))]
	               : nodes[sf_test_below(seed, SF_ARRAY_LEN(nodes))];
	switch (v->kind) {
	case SF_PV_BOOL:
		v->b = n & 1;
		break;
	case SF_PV_INT:
		v->i = (int64_t)(sf_test_rand(seed) >> 1) >> sf_test_below(seed, 63);
		break;
	case SF_PV_FLOAT: {
		uint64_t bits = sf_test_rand(seed);
		memcpy(&v->f, &bits, 8);
		break;
	}
	case SF_PV_STR: { /* ASCII with control characters, quotes, and lone surrogates */
		char *s = sf_arena_alloc(arena, 3 * n + 1);
		size_t len = 0;
		for (size_t i = 0; i < n; i++) {
			if (sf_test_below(seed, 4) == 0) {
				memcpy(s + len, "\xed\xb2\x80", 3);
				len += 3;
			} else {
				s[len++] =
					(char)(1 +
				               sf_test_below(seed,
				                             127)); /* our reader refuses \\u0000 */
			}
		}
		s[len] = '\0';
		v->str.at = s;
		v->str.len = len;
		break;
	}
	case SF_PV_BYTES:
	case SF_PV_BYTEARRAY:
	case SF_PV_LONG: {
		char *s = sf_arena_calloc(arena, 1, n + 9);
		n += 8 * (v->kind == SF_PV_LONG);
		for (size_t i = 0; i < n; i++)
			s[i] = (char)sf_test_rand(seed);
		v->str.at = s;
		v->str.len = n;
		break;
	}
	case SF_PV_CALL:
	case SF_PV_OBJECT:
		v->call.callable = random_value(arena, seed, depth - 1);
		v->call.args = random_value(arena, seed, depth - 1);
		if (n & 1)
			v->call.state = random_value(arena, seed, depth - 1);
		break;
	case SF_PV_PERSID:
		v->persid = random_value(arena, seed, depth - 1);
		break;
	case SF_PV_NONE:
		break;
	default:
		n *= 1 + (v->kind == SF_PV_DICT);
		v->seq.n = n;
		v->seq.at = sf_arena_calloc(arena, n + 1, sizeof(*v->seq.at));
		for (size_t i = 0; i < n; i++)
			v->seq.at[i] = random_value(arena, seed, depth - 1);
	}
	return v;
}

START_TEST(any_value_gives_strict_json)
{
	uint64_t seed = sf_test_seed("any_value_gives_strict_json");

	for (unsigned i = 0; i < 3000; i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_arena arena = { 0 };
		struct sf_buf out = { 0 };
		const struct sf_pv *v = random_value(&arena, &seed, 6);
		ck_assert_msg(sf_value_json(&out, v, &err) == 0, "%s", err.msg);
		check_strict(&out);
		sf_buf_release(&out);
		sf_arena_release(&arena);
	}
}
END_TEST

/* The number as a reader of JSON gets it is the number, to the last bit. */
START_TEST(floats_come_back_as_they_were)
{
	uint64_t seed = sf_test_seed("floats_come_back_as_they_were");
	static const double some[] = {
		0.1 + 0.2, 5e-324, 1.7976931348623157e308, -0.0, 1.0 / 3,
		1e22,      1e23,   9007199254740993.0,     4.35, 2.2250738585072014e-308
	};

	for (size_t i = 0; i < 5000; i++) {
		struct sf_buf out = { 0 };
		struct sf_arena arena = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		uint64_t bits;
		double f, got;
		char p[10] = { 'G' };
		if (i < SF_ARRAY_LEN(some)) {
			f = some[i];
			memcpy(&bits, &f, sizeof(bits));
		} else {
			bits = sf_test_rand(&seed);
			memcpy(&f, &bits, sizeof(f));
			if (!isfinite(f))
				continue;
		}
		for (int k = 0; k < 8; k++) /* BINFLOAT is big-endian */
			p[1 + k] = (char)(bits >> 8 * (7 - k));
		p[9] = '.';
		ck_assert_int_eq(sf_value_json(&out, parse(p, sizeof(p), &arena), &err), 0);
		got = strtod(sf_buf_cstr(&out), NULL);
		ck_assert_msg(memcmp(&got, &f, sizeof(f)) == 0, "%a became %s", f,
		              sf_buf_cstr(&out));
		sf_buf_release(&out);
		sf_arena_release(&arena);
	}
}
END_TEST

/* [[[…[x, x]…, same], same]: 2^n leaves of n lists. */
START_TEST(a_shared_pointer_bomb_is_refused_and_names_its_limit)
{
	struct sf_arena arena = { 0 };
	struct sf_buf out = { .limit = SF_VJ_BYTES };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pv *v = sf_arena_calloc(&arena, 1, sizeof(*v));

	for (unsigned i = 0; i < 64; i++) {
		struct sf_pv *l = sf_arena_calloc(&arena, 1, sizeof(*l));
		l->kind = SF_PV_LIST;
		l->shared = true;
		l->seq.n = 2;
		l->seq.at = sf_arena_calloc(&arena, 2, sizeof(*l->seq.at));
		l->seq.at[0] = l->seq.at[1] = v;
		v = l;
	}
	ck_assert_int_eq(sf_value_json(&out, v, &err), -E2BIG);
	ck_assert_ptr_nonnull(strstr(err.msg, "4194304"));
	sf_buf_release(&out);
	sf_arena_release(&arena);
}
END_TEST

START_TEST(nesting_past_the_limit_is_refused)
{
	struct sf_arena arena = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pv *v = NULL;

	for (unsigned i = 0; i < SF_VJ_DEPTH + 1; i++) {
		struct sf_buf out = { 0 };
		struct sf_pv *l = sf_arena_calloc(&arena, 1, sizeof(*l));
		l->kind = SF_PV_TUPLE;
		l->seq.n = v != NULL;
		l->seq.at = sf_arena_calloc(&arena, 1, sizeof(*l->seq.at));
		l->seq.at[0] = v;
		v = l;
		ck_assert_int_eq(sf_value_json(&out, v, &err), i < SF_VJ_DEPTH ? 0 : -E2BIG);
		sf_buf_release(&out);
	}
	sf_arena_release(&arena);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("value_json");
	TCase *tc = tcase_create("value_json");

	tcase_add_loop_test(tc, values_of_python_torch_and_numpy_read_as_the_contract_says, 0,
	                    SF_ARRAY_LEN(cases));
	tcase_add_test(tc, any_value_gives_strict_json);
	tcase_add_test(tc, floats_come_back_as_they_were);
	tcase_add_test(tc, a_shared_pointer_bomb_is_refused_and_names_its_limit);
	tcase_add_test(tc, nesting_past_the_limit_is_refused);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
