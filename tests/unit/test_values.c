#include "config.h"

#include <string.h>

#include "cli/values.h"
#include "parse/dtype_text.h"
#include "tests/lib/view_world.h"

/* The slow way: element by element, its place by the definition of row-major. */
static void reference(struct sf_buf *out, const struct sf_tensor *t, const uint8_t *dense,
                      const struct sf_value_box *b, uint64_t *index, unsigned d)
{
	char text[SF_DTYPE_TEXT];
	uint64_t at = 0;

	if (d == t->ndim) {
		for (unsigned k = 0; k < t->ndim; k++)
			at = at * t->shape[k] + index[k];
		sf_dtype_json(text, t->dtype, dense + at * sf_dtype_info(t->dtype)->bytes);
		sf_buf_str(out, text);
		return;
	}
	if (!(b->dropped >> d & 1))
		sf_buf_byte(out, '[');
	for (uint64_t i = 0; i < b->extent[d]; i++) {
		index[d] = b->origin[d] + i;
		sf_buf_str(out, i ? "," : "");
		reference(out, t, dense, b, index, d + 1);
	}
	if (!(b->dropped >> d & 1))
		sf_buf_byte(out, ']');
}

static void without_blanks(struct sf_buf *b)
{
	size_t n = 0;

	for (size_t i = 0; i < b->len; i++)
		if (b->at[i] != ' ' && b->at[i] != '\n')
			b->at[n++] = b->at[i];
	b->len = n;
}

static uint8_t *dense_of(struct vw *w, uint32_t entry)
{
	struct sf_vfile *f;
	uint64_t len;

	vw_ok(sf_view_raw(w->cat, w->reader, entry, &f, &err));
	return vw_read(f, &len);
}

START_TEST(any_box_of_any_tensor)
{
	uint64_t rnd = sf_test_seed("any_box_of_any_tensor");
	static const enum sf_dtype dtypes[] = { SF_INT32, SF_UINT8, SF_FLOAT64, SF_BFLOAT16 };

	for (int n = 0; n < 60; n++) {
		uint64_t shape[5], index[5];
		unsigned ndim = (unsigned)sf_test_below(&rnd, 6);
		struct vw w;
		for (unsigned d = 0; d < ndim; d++)
			shape[d] = 1 + sf_test_below(&rnd, 9);
		vw_init(&w);
		vw_tensor_n(&w, "t", 1, dtypes[n % 4], ndim, shape,
		            ndim ? 1 + (uint32_t)sf_test_below(&rnd, shape[0]) : 1);
		vw_open(&w);
		SF_FREE uint8_t *dense = dense_of(&w, 0);
		for (int k = 0; k < 20; k++) {
			struct sf_value_box b = { .dropped = 0 };
			struct sf_buf got = { 0 }, want = { 0 };
			for (unsigned d = 0; d < ndim; d++) {
				b.origin[d] = sf_test_below(&rnd, shape[d]);
				b.extent[d] = sf_test_below(&rnd, shape[d] - b.origin[d] + 1);
				if (sf_test_below(&rnd, 3) == 0) {
					b.origin[d] = 0;
					b.extent[d] = shape[d];
				} else if (sf_test_below(&rnd, 3) == 0) {
					b.extent[d] = 1;
					b.dropped |= UINT64_C(1) << d;
				}
			}
			vw_ok(sf_values_json(&got, w.reader, 0, dtypes[n % 4], &b, &err));
			reference(&want, &w.ckpt->tensor[0], dense, &b, index, 0);
			without_blanks(&got);
			without_blanks(&want);
			ck_assert_str_eq(sf_buf_cstr(&got), sf_buf_cstr(&want));
			sf_buf_release(&got);
			sf_buf_release(&want);
		}
		vw_close(&w);
	}
}
END_TEST

static void whole(const struct sf_tensor *t, struct sf_value_box *b)
{
	static const struct sf_key_slice none;

	vw_ok(sf_key_slice_box(&none, t->shape, t->ndim, b, &err));
}

static const char *text_of(struct vw *w, uint32_t tensor, const struct sf_value_box *box)
{
	static char text[8192];
	const struct sf_tensor *t = &w->ckpt->tensor[tensor];
	struct sf_buf out = { 0 };
	struct sf_value_box b;

	if (!box)
		whole(t, &b);
	vw_ok(sf_values_text(&out, w->reader, tensor, t->dtype, box ? box : &b, 2, &err));
	snprintf(text, sizeof(text), "%s", sf_buf_cstr(&out));
	sf_buf_release(&out);
	return text;
}

/* Bytes of vw_tensor: 31 * i mod 256 while i < 251, of tensor 0. */
START_TEST(people_get_columns)
{
	static const uint64_t two[] = { 2, 3 }, cube[] = { 2, 1, 2 }, none[] = { 3, 0 };
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "two", SF_UINT8, 2, two);
	vw_tensor(&w, "scalar", SF_UINT8, 0, two);
	vw_tensor(&w, "cube", SF_UINT8, 3, cube);
	vw_tensor(&w, "none", SF_UINT8, 2, none);
	vw_open(&w);
	ck_assert_str_eq(text_of(&w, 0, NULL), "  [[  0,  31,  62],\n   [ 93, 124, 155]]");
	ck_assert_str_eq(text_of(&w, 1, NULL), "  187");
	ck_assert_str_eq(text_of(&w, 2, NULL), "  [[[219, 250]],\n   [[ 25,  56]]]");
	ck_assert_str_eq(text_of(&w, 3, NULL), "  []");
	const struct sf_value_box row = { .origin = { 1, 0 }, .extent = { 1, 3 }, .dropped = 1 },
				  column = { .origin = { 0, 2 }, .extent = { 2, 1 }, .dropped = 2 },
				  one = { .origin = { 1, 1 }, .extent = { 1, 1 }, .dropped = 3 };
	ck_assert_str_eq(text_of(&w, 0, &row), "  [ 93, 124, 155]");
	ck_assert_str_eq(text_of(&w, 0, &column), "  [ 62, 155]");
	ck_assert_str_eq(text_of(&w, 0, &one), "  124");
	vw_close(&w);
}
END_TEST

START_TEST(of_many_the_edges)
{
	static const uint64_t shape[] = { 50, 40 }, line[] = { 200 },
			      deep[] = { 2, 2, 2, 2, 2, 2, 2, 2 };
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "w", SF_UINT8, 2, shape);
	vw_tensor_n(&w, "l", 1, SF_UINT8, 1, line, 7);
	vw_tensor(&w, "d", SF_UINT8, 8, deep);
	vw_open(&w);
	SF_FREE uint8_t *b = dense_of(&w, 0);
	char want[1024] = "";
	for (int i = 0; i < 6; i++) {
		const uint8_t *row = b + (i < 3 ? i : 44 + i) * 40;
		snprintf(want + strlen(want), sizeof(want) - strlen(want),
		         "%s%s[%3u, %3u, %3u, ..., %3u, %3u, %3u]%s", i ? "   " : "  [",
		         i == 3 ? "...,\n   " : "", row[0], row[1], row[2], row[37], row[38],
		         row[39], i < 5 ? ",\n" : "]");
	}
	ck_assert_str_eq(text_of(&w, 0, NULL), want);
	/* a long row goes on below, under its first number */
	const char *s = text_of(&w, 1, NULL), *second = strchr(s, '\n');
	ck_assert_ptr_nonnull(second);
	ck_assert_int_le(second - s, 100);
	ck_assert_int_eq(strncmp(second, "\n   ", 4), 0);
	ck_assert_ptr_null(strstr(s, "..."));
	ck_assert_ptr_null(strstr(text_of(&w, 2, NULL), "..."));
	vw_close(&w);
}
END_TEST

/* A claim costs nothing: as much as one may ask for is refused before any of it is made. */
START_TEST(what_is_too_many_is_refused)
{
	static const uint64_t far[] = { UINT64_C(1) << 20, UINT64_C(1) << 20 },
			      empty[] = { UINT64_C(1) << 40, 0 }, one = 1;
	struct sf_error why = SF_ERROR_INIT;
	struct sf_buf out = { 0 };
	struct sf_value_box b;
	uint32_t t;
	struct vw w;

	vw_init(&w);
	vw_ok(sf_ckpt_builder_tensor(w.b, "far", 3, SF_UINT8, far, 2, &t, &err));
	vw_ok(sf_ckpt_builder_tensor(w.b, "empty", 5, SF_UINT8, empty, 2, &t, &err));
	vw_tensor(&w, "one", SF_UINT8, 1, &one);
	vw_open(&w);
	whole(&w.ckpt->tensor[0], &b);
	ck_assert_int_eq(sf_values_json(&out, w.reader, 0, SF_UINT8, &b, &why), -E2BIG);
	ck_assert_ptr_nonnull(strstr(why.msg, "use a slice"));
	whole(&w.ckpt->tensor[1], &b);
	ck_assert_int_eq(sf_values_json(&out, w.reader, 1, SF_UINT8, &b, &why), -E2BIG);
	ck_assert_str_eq(text_of(&w, 1, NULL), "  []");
	out.limit = 2;
	sf_buf_reset(&out);
	sf_buf_release(&out);
	whole(&w.ckpt->tensor[2], &b);
	ck_assert_int_eq(sf_values_json(&out, w.reader, 2, SF_UINT8, &b, &why), -E2BIG);
	sf_buf_release(&out);
	/* and what is missing is an error with the reader's words */
	out.limit = 0;
	b = (struct sf_value_box){ .extent = { 1, 1 } };
	ck_assert_int_lt(sf_values_json(&out, w.reader, 0, SF_UINT8, &b, &why), 0);
	ck_assert_int_ne(why.msg[0], 0);
	sf_buf_release(&out);
	vw_close(&w);
}
END_TEST

START_TEST(the_first_few_in_a_line)
{
	static const uint64_t shape[] = { 2, 3 };
	struct sf_buf out = { 0 };
	struct vw w;

	vw_init(&w);
	vw_tensor_n(&w, "t", 1, SF_UINT8, 2, shape, 2);
	vw_open(&w);
	vw_ok(sf_values_line(&out, w.reader, 0, SF_UINT8, 4, &err));
	ck_assert_str_eq(sf_buf_cstr(&out), "0, 31, 62, 93, …");
	sf_buf_reset(&out);
	vw_ok(sf_values_line(&out, w.reader, 0, SF_UINT8, 6, &err));
	ck_assert_str_eq(sf_buf_cstr(&out), "0, 31, 62, 93, 124, 155");
	sf_buf_release(&out);
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("values");
	TCase *tc = tcase_create("values");

	tcase_add_test(tc, any_box_of_any_tensor);
	tcase_add_test(tc, people_get_columns);
	tcase_add_test(tc, of_many_the_edges);
	tcase_add_test(tc, what_is_too_many_is_refused);
	tcase_add_test(tc, the_first_few_in_a_line);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
