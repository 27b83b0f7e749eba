#include "config.h"

#include "seam_tree.h"
#include "tests/lib/sf_fake_ckpt.h"

#define TEXTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Raw items whose layout only the format knows. */

static int add(struct sf_ckpt_builder *b, const char *key, enum sf_dtype dtype, unsigned ndim,
               const uint64_t *shape, uint32_t *ret, struct sf_error *err)
{
	return sf_ckpt_builder_tensor(b, key, strlen(key), dtype, shape, ndim, ret, err);
}

/* A chunk, how its item lies, and where. */
static int chunk(struct sf_ckpt_builder *b, uint32_t t, uint32_t i, const uint64_t *origin,
                 const uint64_t *extent, const int64_t *stride, uint32_t place, uint64_t off,
                 uint64_t len, struct sf_error *err)
{
	int r = sf_ckpt_builder_chunk(b, origin, extent, err);

	if (r >= 0 && stride)
		r = sf_ckpt_builder_layout(b, stride, false, false, err);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, t, i, place, off, len);
	return r;
}

/* ---- strides: transposed, with gaps, a stack of layers, one element for all ---- */

static int lower_strided(struct sf_ckpt_builder *b, struct sf_error *err)
{
	const uint64_t shape[3] = { 2, 2, 3 }, zero[3] = { 0 }, layer[3] = { 1, 2, 3 };
	const int64_t turned[2] = { 1, 2 }, gaps[2] = { 6, 2 }, all[2] = { 0, 0 },
		      layers[3] = { 77, 1, 2 };
	uint32_t place, t;
	int r = sf_ckpt_builder_place(b, "f", 1, SF_ITEM_RAW, SF_CODEC_NONE, &place, err);

	if (r >= 0)
		r = add(b, "turned", SF_UINT8, 2, shape + 1, &t, err);
	if (r >= 0)
		r = chunk(b, t, 0, zero, shape + 1, turned, place, 10, 6, err);
	if (r >= 0)
		r = add(b, "gaps", SF_UINT8, 2, shape + 1, &t, err);
	if (r >= 0)
		r = chunk(b, t, 0, zero, shape + 1, gaps, place, 20, 11, err);
	if (r >= 0)
		r = add(b, "all", SF_UINT8, 2, shape + 1, &t, err);
	if (r >= 0)
		r = chunk(b, t, 0, zero, shape + 1, all, place, 33, 1, err);
	/* layers that lie anywhere, transposed, one of them dense */
	if (r >= 0)
		r = add(b, "stack", SF_UINT8, 3, shape, &t, err);
	if (r >= 0)
		r = chunk(b, t, 0, zero, layer, NULL, place, 50, 6, err);
	return r < 0 ? r
	             : chunk(b, t, 1, (const uint64_t[]){ 1, 0, 0 }, layer, layers, place, 40, 6,
	                     err);
}

START_TEST(a_raw_item_lies_as_the_format_says)
{
	static const uint8_t turned[] = { 10, 12, 14, 11, 13, 15 },
			     gaps[] = { 20, 22, 24, 26, 28, 30 },
			     all[] = { 33, 33, 33, 33, 33, 33 },
			     stack[] = { 50, 51, 52, 53, 54, 55, 40, 42, 44, 41, 43, 45 };
	struct seam w = { 0 };
	uint8_t at[64];

	for (size_t i = 0; i < sizeof(at); i++)
		at[i] = (uint8_t)i;
	seam_file(&w, "f", at, sizeof(at));
	seam_open(&w, lower_strided);
	ck_assert_uint_eq(w.s.ckpt->nwarnings, 0);
	seam_check(&w, "turned", turned, 6);
	seam_check(&w, "gaps", gaps, 6);
	seam_check(&w, "all", all, 6);
	seam_check(&w, "stack", stack, 12);
	seam_verify(&w, NULL);
	seam_close(&w);
}
END_TEST

/* ---- chunks that are stored whole where the tensor ends inside them ---- */

static uint64_t padded_off[5];
static enum sf_codec padded_codec;

static int lower_padded(struct sf_ckpt_builder *b, struct sf_error *err)
{
	const uint64_t shape[2] = { 3, 5 };
	const int64_t stored[2] = { 4, 1 };
	uint32_t place, t;
	int r = sf_ckpt_builder_place(b, "f", 1, SF_ITEM_RAW, padded_codec, &place, err);

	if (r >= 0)
		r = add(b, "w", SF_INT16, 2, shape, &t, err);
	for (uint32_t i = 0; i < 4 && r >= 0; i++) {
		const uint64_t origin[2] = { i / 2 * 2, i % 2 * 4 },
			       extent[2] = { i / 2 ? 1 : 2, i % 2 ? 1 : 4 };
		r = chunk(b, t, i, origin, extent, stored, place, padded_off[i],
		          padded_off[i + 1] - padded_off[i], err);
	}
	return r;
}

/* [3, 5] in stored chunks of [2, 4]; what lies behind the edges is none of the tensor. */
START_TEST(a_padded_chunk_gives_what_is_inside_the_tensor)
{
	struct sf_decoder *d;
	struct sf_buf at = { 0 };
	struct seam w = { 0 };
	int16_t want[15];

	padded_codec = _i ? SF_CODEC_ZSTD : SF_CODEC_NONE;
	if (_i && sf_decoder_new(SF_CODEC_ZSTD, 1, &d, NULL) < 0)
		return;
	if (_i)
		sf_decoder_free(d);
	for (int i = 0; i < 15; i++)
		want[i] = (int16_t)(1000 + i);
	for (unsigned c = 0; c < 4; c++) {
		int16_t stored[8];
		for (unsigned i = 0; i < 8; i++) {
			const unsigned y = c / 2 * 2 + i / 4, x = c % 2 * 4 + i % 4;
			stored[i] = y < 3 && x < 5 ? want[y * 5 + x] : -1;
		}
		padded_off[c] = at.len;
		if (_i)
			fake_zstd(&at, (const uint8_t *)stored, sizeof(stored));
		else
			sf_buf_add(&at, stored, sizeof(stored));
		padded_off[c + 1] = at.len;
	}
	seam_file(&w, "f", at.at, at.len);
	seam_open(&w, lower_padded);
	ck_assert_uint_eq(w.s.ckpt->nwarnings, 0);
	seam_check(&w, "w", want, sizeof(want));
	seam_verify(&w, NULL);
	sf_buf_release(&at);
	seam_close(&w);
}
END_TEST

/* ---- signs ---- */

static int lower_signs(struct sf_ckpt_builder *b, struct sf_error *err)
{
	const uint64_t shape[1] = { 3 }, zero[1] = { 0 };
	const int64_t twice[1] = { 2 };
	uint32_t place, t;
	int r = sf_ckpt_builder_place(b, "f", 1, SF_ITEM_RAW, SF_CODEC_NONE, &place, err);

	if (r >= 0)
		r = add(b, "conj", SF_COMPLEX64, 1, shape, &t, err);
	if (r >= 0)
		r = sf_ckpt_builder_chunk(b, zero, shape, err);
	if (r >= 0)
		r = sf_ckpt_builder_layout(b, NULL, true, false, err);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, t, 0, place, 0, 24);
	if (r >= 0)
		r = add(b, "neg", SF_FLOAT32, 1, shape, &t, err);
	if (r >= 0)
		r = sf_ckpt_builder_chunk(b, zero, shape, err);
	if (r >= 0)
		r = sf_ckpt_builder_layout(b, twice, false, true, err);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, t, 0, place, 0, 20);
	return r;
}

START_TEST(signs_that_the_format_knows_are_undone)
{
	static const float stored[6] = { 1, 2, 3, 4, 5, 6 }, conj[6] = { 1, -2, 3, -4, 5, -6 },
			   neg[3] = { -1, -3, -5 };
	const uint32_t tensor = 0;
	struct seam w = { 0 };
	float got[6];

	seam_file(&w, "f", stored, sizeof(stored));
	seam_open(&w, lower_signs);
	/* (safetensors has no complex64) */
	ck_assert_int_eq(sf_read_tensor(w.s.reader, tensor, 0, got, 24, NULL), 0);
	ck_assert_mem_eq(got, conj, 24);
	seam_check_pt(&w, 0, conj, 24);
	seam_check(&w, "neg", neg, 12);
	seam_verify(&w, NULL);
	seam_close(&w);
}
END_TEST

/* ---- hostile ---- */

static int lower_short(struct sf_ckpt_builder *b, struct sf_error *err)
{
	const uint64_t shape[2] = { 2, 3 }, zero[2] = { 0 };
	uint32_t place, t;
	int r = sf_ckpt_builder_place(b, "f", 1, SF_ITEM_RAW, SF_CODEC_NONE, &place, err);

	if (r >= 0)
		r = add(b, "short", SF_FLOAT32, 2, shape, &t, err);
	/* from 0 to 10 + 2: 13 elements, 52 bytes */
	return r < 0 ? r
	             : chunk(b, t, 0, zero, shape, (const int64_t[]){ 10, 1 }, place, 0, 51, err);
}

START_TEST(an_item_that_is_shorter_than_its_strides_is_told_by_both)
{
	uint8_t at[64] = { 0 };
	struct seam w = { 0 };

	seam_file(&w, "f", at, sizeof(at));
	seam_open(&w, lower_short);
	seam_warns(&w, "short-item", TEXTS("'f'", " 51 bytes", "needs 52"));
	seam_fails(&w, "short", -EBADMSG, TEXTS("'short'", " 51 bytes", "needs 52"));
	seam_close(&w);
}
END_TEST

START_TEST(a_layout_that_cannot_be_is_refused)
{
	const uint64_t shape[2] = { 2, 3 }, zero[2] = { 0 };
	const int64_t bad[][2] = {
		{ -1, 1 }, { 1, INT64_MIN }, { INT64_MAX, 1 }, { 1, INT64_MAX / 8 }
	};
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt_builder *b;
	uint32_t t;

	ck_assert_int_eq(sf_ckpt_builder_new("seam", "src", &b, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_layout(b, bad[0], false, false, &err), -EBADMSG);
	ck_assert_int_eq(add(b, "w", SF_COMPLEX128, 2, shape, &t, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_layout(b, bad[0], false, false, &err), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_chunk(b, zero, shape, NULL), 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		char stride[32];
		ck_assert_int_eq(sf_ckpt_builder_layout(b, bad[i], false, false, &err), -EBADMSG);
		snprintf(stride, sizeof(stride), "%lld", (long long)bad[i][i % 2]);
		ck_assert_msg(strstr(err.msg, "'w'") && strstr(err.msg, stride), "%s", err.msg);
	}
	sf_ckpt_builder_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("seam_layouts");
	TCase *tc = tcase_create("seam_layouts");

	tcase_add_test(tc, a_raw_item_lies_as_the_format_says);
	tcase_add_loop_test(tc, a_padded_chunk_gives_what_is_inside_the_tensor, 0, 2);
	tcase_add_test(tc, signs_that_the_format_knows_are_undone);
	tcase_add_test(tc, an_item_that_is_shorter_than_its_strides_is_told_by_both);
	tcase_add_test(tc, a_layout_that_cannot_be_is_refused);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
