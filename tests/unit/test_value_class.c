#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "sf_test.h"
#include "value/object.h"
#include "value/value_json.h"

#define BYTES(s) s, sizeof(s) - 1
#define META "ctorch._utils\n_rebuild_meta_tensor_no_storage\n"

/* Pickles by CPython 3.11 and torch 2.13: subclasses of str, tensors without bytes. */
static const struct {
	const char *pickle;
	size_t len;
	const char *json;
} cases[] = {
	/* torch.__version__ by protocols 0, 2 and 4 */
	{ BYTES("ccopy_reg\n_reconstructor\np0\n(ctorch.torch_version\nTorchVersion\np1\n"
	        "c__builtin__\nunicode\np2\nV2.13.0+cpu\np3\ntp4\nRp5\n."),
	  "\"2.13.0+cpu\"" },
	{ BYTES("\x80\x02"
	        "ctorch.torch_version\nTorchVersion\nq\0X\n\0\0\0"
	        "2.13.0+cpuq\1\x85q\2\x81q\3."),
	  "\"2.13.0+cpu\"" },
	{ BYTES("\x80\x04\x95\x39\0\0\0\0\0\0\0\x8c\x13torch.torch_"
	        "version\x94\x8c\x0cTorchVersion\x94"
	        "\x93\x94\x8c\x0a"
	        "2.13.0+cpu\x94\x85\x94\x81\x94."),
	  "\"2.13.0+cpu\"" },
	/* of anybody's module */
	{ BYTES("\x80\x02"
	        "cmod\nS\nq\0X\5\0\0\0plainq\1\x85q\2\x81q\3."),
	  "\"plain\"" },
	/* with an attribute it is more than its text */
	{ BYTES("\x80\x02"
	        "cmod\nA\nq\0X\1\0\0\0xq\1\x85q\2\x81q\3}q\4X\4\0\0\0attrq\5K\1sb."),
	  "{\"$class\": \"mod.A\", \"args\": [\"x\"], \"state\": {\"attr\": 1}}" },
	/* two arguments, or one that is no text: no str */
	{ BYTES("\x80\x02"
	        "cmod\nP\nX\1\0\0\0aX\1\0\0\0b\x86\x81."),
	  "{\"$class\": \"mod.P\", \"args\": [\"a\", \"b\"], \"state\": null}" },
	{ BYTES("\x80\x02"
	        "cmod\nP\nK\1\x85\x81."),
	  "{\"$class\": \"mod.P\", \"args\": [1], \"state\": null}" },
	/* torch.empty(2, 3, device="meta", dtype=torch.bfloat16) in a dict */
	{ BYTES("\x80\x02}q\0X\1\0\0\0mq\1" META
	        "q\2(ctorch\nbfloat16\nq\3K\2K\3\x86q\4K\3K\1\x86q\5\x89tq\6Rq\7s."),
	  "{\"m\": {\"$tensor\": {\"dtype\": \"bfloat16\", \"shape\": [2, 3]}}}" },
	/* what a class that wraps tensors pretends to be, and its attributes */
	{ BYTES("\x80\x02"
	        "ctorch._tensor\n_rebuild_from_type_v2\n(ctorch._utils\n_rebuild_wrapper_subclass\n"
	        "cmy\nSub\n(cmy\nSub\nctorch\nbfloat16\nK\2K\3\x86t}X\1\0\0\0sK\1stR."),
	  "{\"$tensor\": {\"dtype\": \"bfloat16\", \"shape\": [2, 3]}, \"$class\": \"my.Sub\", "
	  "\"state\": {\"s\": 1}}" },
	{ BYTES("\x80\x02" META "q\0(ctorch\nint8\nq\1K\0K\3\x86q\2K\3K\1\x86q\3\x89tq\4Rq\5."),
	  "{\"$tensor\": {\"dtype\": \"int8\", \"shape\": [0, 3]}}" },
};

static struct sf_pv *parse(const char *p, size_t len, struct sf_arena *arena)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pv *v;

	ck_assert_msg(sf_pickle_parse((const uint8_t *)p, len, NULL, arena, &v, NULL, &err) == 0,
	              "%s", err.msg);
	return v;
}

START_TEST(subclasses_of_str_are_text_and_meta_tensors_are_tensors)
{
	struct sf_arena arena = { 0 };
	struct sf_buf out = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pv *v = parse(cases[_i].pickle, cases[_i].len, &arena);

	ck_assert_msg(sf_value_json(&out, v, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(sf_buf_cstr(&out), cases[_i].json);
	sf_buf_release(&out);
	sf_arena_release(&arena);
}
END_TEST

/* Digits by the slowest way there is: a decimal number times 256 plus a byte, from the top. */
static void digits_of(const uint8_t *at, size_t len, char *out)
{
	size_t n = 1;

	out[0] = 0;
	for (size_t i = len; i-- > 0;) {
		unsigned carry = at[i];
		for (size_t k = 0; k < n; k++) { /* lowest digit first */
			carry += (unsigned)out[k] * 256;
			out[k] = (char)(carry % 10);
			carry /= 10;
		}
		for (; carry; carry /= 10)
			out[n++] = (char)(carry % 10);
	}
	for (size_t k = 0; k < n / 2; k++) {
		char c = out[k];
		out[k] = out[n - 1 - k];
		out[n - 1 - k] = c;
	}
	for (size_t k = 0; k < n; k++)
		out[k] = (char)(out[k] + '0');
	out[n] = '\0';
}

START_TEST(integers_of_any_length_are_decimal)
{
	uint64_t seed = sf_test_seed("integers_of_any_length_are_decimal");
	uint8_t *at = malloc(4096);
	char *want = malloc(16384), *text = malloc(16384);

	/* every length up to four limbs, some of a few dozen, one of hundreds: the slow way is n^2 */
	for (int i = 0; i < 51; i++) {
		size_t len = i < 34 ? (size_t)i + 1 : i < 50 ? 1 + sf_test_below(&seed, 300) : 2001;
		struct sf_pv v = { .kind = SF_PV_LONG, .str = { (char *)at, len } };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_buf out = { 0 };
		for (size_t k = 0; k < len; k++)
			at[k] = (uint8_t)sf_test_rand(&seed);
		at[len - 1] = (uint8_t)(1 + sf_test_below(&seed, 0x7f)); /* positive */
		if (i % 5 == 0)                                          /* zeros inside */
			memset(at, 0, len - 1);
		digits_of(at, len, want);
		snprintf(text, 16384, "{\"$int\": \"%s\"}", want);
		ck_assert_int_eq(sf_value_json(&out, &v, &err), 0);
		ck_assert_str_eq(sf_buf_cstr(&out), text);
		/* the negative of it */
		sf_buf_reset(&out);
		for (size_t k = 0, carry = 1; k < len; k++) {
			carry += (uint8_t)~at[k];
			at[k] = (uint8_t)carry;
			carry >>= 8;
		}
		snprintf(text, 16384, "{\"$int\": \"-%s\"}", want);
		ck_assert_int_eq(sf_value_json(&out, &v, &err), 0);
		ck_assert_str_eq(sf_buf_cstr(&out), text);
		sf_buf_release(&out);
	}
	free(at);
	free(want);
	free(text);
}
END_TEST

/* 2^(8 * 65535 - 1) is the largest power of two that has digits. */
START_TEST(digits_of_integers_have_a_limit)
{
	const size_t most = 65536;
	char *at = calloc(1, most + 1);
	struct sf_pv v = { .kind = SF_PV_LONG, .str = { at, most } };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf out = { 0 };

	at[most - 1] = 0x40;
	ck_assert_int_eq(sf_value_json(&out, &v, &err), 0);
	ck_assert_uint_gt(out.len, 157000);
	v.str.len = most + 1;
	ck_assert_int_eq(sf_value_json(&out, &v, &err), -E2BIG);
	ck_assert_msg(strstr(err.msg, "65537") != NULL, "%s", err.msg);
	sf_buf_release(&out);
	free(at);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("value_class");
	TCase *tc = tcase_create("value_class");

	tcase_add_loop_test(tc, subclasses_of_str_are_text_and_meta_tensors_are_tensors, 0,
	                    SF_ARRAY_LEN(cases));
	tcase_add_test(tc, integers_of_any_length_are_decimal);
	tcase_add_test(tc, digits_of_integers_have_a_limit);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
