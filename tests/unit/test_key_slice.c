#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "cli/key_slice.h"
#include "tests/lib/view_world.h"

/* "[3]" and the like on a shape: "origin+extent …" with a ' behind dropped dimensions, or the
 * message. */
static const char *box_of(const char *text, unsigned ndim, const uint64_t *shape)
{
	static char out[SF_ERROR_MAX];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_key_slice s = { 0 };
	struct sf_value_box b;
	size_t len = 99;

	int r = sf_key_slice_parse(text, &s, &len, &err);
	if (r == 0)
		return "none";
	if (r > 0)
		ck_assert_uint_eq(len, 0);
	if (r < 0 || sf_key_slice_box(&s, shape, ndim, &b, &err) < 0) {
		snprintf(out, sizeof(out), "%s", err.msg);
		return out;
	}
	out[0] = 0;
	for (unsigned d = 0; d < ndim; d++)
		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s%d+%d%s", d ? " " : "",
		         (int)b.origin[d], (int)b.extent[d], b.dropped >> d & 1 ? "'" : "");
	return out;
}

START_TEST(slices_are_numpys)
{
	static const uint64_t shape[] = { 10, 20, 30 };
	static const struct {
		const char *text, *box; /* as numpy.empty((10, 20, 30)) has it */
	} cases[] = {
		{ "[3]", "3+1' 0+20 0+30" },
		{ "[-1]", "9+1' 0+20 0+30" },
		{ "[-10]", "0+1' 0+20 0+30" },
		{ "[0:4,:8]", "0+4 0+8 0+30" },
		{ "[ 0 : 4 , : 8 ]", "0+4 0+8 0+30" },
		{ "[:, -3:, 2]", "0+10 17+3 2+1'" },
		{ "[..., 5]", "0+10 0+20 5+1'" },
		{ "[ ... , 5 , ]", "0+10 0+20 5+1'" },
		{ "[1, ...]", "1+1' 0+20 0+30" },
		{ "[..., 1:2, :]", "0+10 1+1 0+30" },
		{ "[...]", "0+10 0+20 0+30" },
		{ "[:]", "0+10 0+20 0+30" },
		{ "[5,]", "5+1' 0+20 0+30" },
		{ "[4:2]", "4+0 0+20 0+30" },
		{ "[8:99, 99:]", "8+2 20+0 0+30" },
		{ "[-99:2, :-99]", "0+2 0+0 0+30" },
		{ "[:-9223372036854775807]", "0+0 0+20 0+30" },
		{ "[10]", "index 10 of dimension 0, which has 10" },
		{ "[0, -21]", "index -21 of dimension 1, which has 20" },
		{ "[1, 1, 1, 1]", "a slice of 4 dimensions, the tensor has 3" },
		{ "[..., 1, ...]", "a slice has at most one '...'" },
		{ "[::2]", "'[::2]': a slice has no steps here" },
		{ "[ : : 2]", "'[ : : 2]': a slice has no steps here" },
		{ "[9223372036854775808]", "'[9223372036854775808]': a number past 2^63" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++)
		ck_assert_str_eq(box_of(cases[i].text, 3, shape), cases[i].box);
}
END_TEST

START_TEST(what_is_no_slice_is_left_to_the_globs)
{
	static const char *const globs[] = {
		"[]",    "[0-9]", "[a:b]", "[!3]",   "[3",     "3]",    "[3]x", "[,]",  "[3,,4]",
		"[1 2]", "[--1]", "[..]",  "[....]", "w[0-9]", "model", "",     "[1]]", "[1][",
	};
	struct sf_key_slice s = { .n = 77 };
	size_t len = 99;

	for (size_t i = 0; i < SF_ARRAY_LEN(globs); i++)
		ck_assert_msg(sf_key_slice_parse(globs[i], &s, &len, NULL) == 0, "%s", globs[i]);
	ck_assert_uint_eq(s.n, 77); /* written on success alone */
	ck_assert_uint_eq(len, 99);
	ck_assert_int_eq(sf_key_slice_parse("a[1][2:]", &s, &len, NULL), 1);
	ck_assert_uint_eq(len, 4); /* the last bracket is the slice, the key is a[1] */
	ck_assert_uint_eq(s.n, 1);
}
END_TEST

START_TEST(as_many_dimensions_as_a_tensor_may_have)
{
	char text[1024] = "[";
	uint64_t shape[SF_DIMS_MAX];
	struct sf_key_slice s;
	struct sf_value_box b;
	size_t len;

	for (unsigned d = 0; d < SF_DIMS_MAX; d++) {
		shape[d] = 2;
		strcat(text, "1,");
	}
	strcat(text, "...]");
	vw_ok(sf_key_slice_parse(text, &s, &len, &err));
	vw_ok(sf_key_slice_box(&s, shape, SF_DIMS_MAX, &b, &err));
	ck_assert_uint_eq(b.dropped, UINT64_MAX);
	text[strlen(text) - 4] = 0;
	strcat(text, "1]");
	vw_ok(sf_key_slice_parse(text, &s, &len, &err));
	ck_assert_int_eq(sf_key_slice_box(&s, shape, SF_DIMS_MAX, &b, NULL), -EINVAL);
	text[strlen(text) - 1] = 0;
	strcat(text, ",1]");
	struct sf_error err = SF_ERROR_INIT;
	ck_assert_int_eq(sf_key_slice_parse(text, &s, &len, &err), -EINVAL);
	ck_assert_str_eq(strstr(err.msg, "more dimensions"), "more dimensions than a tensor has");
}
END_TEST

/* What KEY means, as "name name …" and the number of items in its slice. */
static const char *chosen(const struct vw *w, const char *key)
{
	static char out[256];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_key_choice ch;

	if (sf_key_choose(w->cat, key, &ch, &err) < 0)
		return strcpy(out, err.msg);
	out[0] = 0;
	for (uint32_t i = 0; i < ch.n; i++)
		snprintf(out + strlen(out), sizeof(out) - strlen(out), "%s ",
		         w->cat->entry[ch.entry[i]].name);
	snprintf(out + strlen(out), sizeof(out) - strlen(out), "%u", ch.slice.n);
	sf_key_choice_release(&ch);
	return out;
}

START_TEST(a_key_comes_before_a_slice)
{
	static const uint64_t shape[] = { 4, 4 };
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "m.a", SF_FLOAT32, 2, shape);
	vw_tensor(&w, "m.b1", SF_FLOAT32, 2, shape);
	vw_tensor(&w, "m.b[1]", SF_FLOAT32, 2, shape);
	vw_tensor(&w, "m.c[0:2]", SF_FLOAT32, 2, shape);
	vw_tensor(&w, "m.a1", SF_FLOAT32, 2, shape);
	vw_tensor(&w, "m.d2", SF_FLOAT32, 2, shape);
	vw_open(&w);
	ck_assert_str_eq(chosen(&w, "m.a"), "m.a 0");
	ck_assert_str_eq(chosen(&w, "m.a[1:2,3]"), "m.a 2");
	ck_assert_str_eq(chosen(&w, "m.b[1]"), "m.b[1] m.b1 0"); /* the name itself first */
	ck_assert_str_eq(chosen(&w, "m.b1[1]"), "m.b1 1");
	ck_assert_str_eq(chosen(&w, "m.c[0:2]"), "m.c[0:2] 0");
	ck_assert_str_eq(chosen(&w, "m.c[0:2][1]"), "m.c[0:2] 1");
	ck_assert_str_eq(chosen(&w, "m.a[1]"), "m.a 1"); /* and not m.a1 */
	ck_assert_str_eq(chosen(&w, "m.d[1-3]"), "m.d2 0");
	ck_assert_str_eq(chosen(&w, "m.d[2]"), "m.d2 0"); /* there is no m.d: a glob */
	ck_assert_str_eq(chosen(&w, "m[3]"), "m.a m.b1 m.b[1] m.c[0:2] m.a1 m.d2 1");
	ck_assert_int_eq(strncmp(chosen(&w, "x[3]"), "no key matches 'x'", 18), 0);
	ck_assert_str_eq(chosen(&w, "m.a[::3]"), "'[::3]': a slice has no steps here");
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("key_slice");
	TCase *tc = tcase_create("key_slice");

	tcase_add_test(tc, slices_are_numpys);
	tcase_add_test(tc, what_is_no_slice_is_left_to_the_globs);
	tcase_add_test(tc, as_many_dimensions_as_a_tensor_may_have);
	tcase_add_test(tc, a_key_comes_before_a_slice);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
