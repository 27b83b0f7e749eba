#include "config.h"

#include "seam_tree.h"
#include "tests/lib/sf_fake_ckpt.h"
#include "tool/claims.h"

#define TEXTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* Chunks without an item: of a tensor with a fill value they are full of it. */

static uint64_t archive_len;

/* [4, 3] in chunks of two rows each; @items of them have an item, the others none. */
static int add(struct sf_ckpt_builder *b, const char *key, enum sf_dtype dtype, const void *fill,
               unsigned chunks, uint32_t *ret, struct sf_error *err)
{
	const uint64_t shape[2] = { 4, 3 };
	int r = sf_ckpt_builder_tensor(b, key, strlen(key), dtype, shape, 2, ret, err);

	if (r >= 0 && fill)
		r = sf_ckpt_builder_fill(b, *ret, fill, err);
	for (unsigned i = 0; i < chunks && r >= 0; i++)
		r = sf_ckpt_builder_chunk(b, (const uint64_t[]){ i * (4 / chunks), 0 },
		                          (const uint64_t[]){ 4 / chunks, 3 }, err);
	return r;
}

static int lower(struct sf_ckpt_builder *b, struct sf_error *err)
{
	static const float one_half = 1.5f;
	static const double nan_like[2] = { -0.25, 1e300 };
	static const uint8_t byte = 7;
	static const int16_t zero = 0;
	uint32_t raw, torch, t;
	int r = sf_ckpt_builder_place(b, "f", 1, SF_ITEM_RAW, SF_CODEC_NONE, &raw, err);

	if (r >= 0)
		r = sf_ckpt_builder_place(b, "f", 1, SF_ITEM_TORCH, SF_CODEC_NONE, &torch, err);
	if (r >= 0)
		r = add(b, "whole", SF_FLOAT32, &one_half, 1, &t, err);
	if (r >= 0)
		r = add(b, "wide", SF_COMPLEX128, nan_like, 2, &t, err);
	if (r >= 0)
		r = add(b, "zeros", SF_INT16, &zero, 4, &t, err);
	if (r >= 0)
		r = add(b, "bytes", SF_UINT8, &byte, 2, &t, err);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, t, 1, raw, 0, 6);
	/* an archive between two that are not there: rows 1 and 2 are, 0 and 3 are not */
	if (r >= 0)
		r = add(b, "mixed", SF_FLOAT32, &one_half, 4, &t, err);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, t, 1, torch, 24, archive_len);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, t, 2, raw, 12, 12);
	if (r >= 0)
		r = add(b, "missing", SF_FLOAT32, NULL, 2, &t, err);
	return r;
}

static void open_world(struct seam *w)
{
	static const uint64_t shape[2] = { 1, 3 }, stride[2] = { 3, 1 };
	static const float row[3] = { 10, 11, 12 };
	struct sf_buf at = { 0 }, pkl = { 0 };

	for (int i = 0; i < 12; i++)
		sf_buf_byte(&at, (uint8_t)(i + 1));
	sf_buf_add(&at, (const float[]){ 20, 21, 22 }, 12);
	fake_pkl(&pkl, SF_FLOAT32, shape, stride, 2, 3, 0, false);
	fake_zip(&at, &pkl, (const uint8_t *)row, sizeof(row), false);
	archive_len = at.len - 24;
	seam_file(w, "f", at.at, at.len);
	sf_buf_release(&at);
	sf_buf_release(&pkl);
	seam_open(w, lower);
}

START_TEST(a_chunk_without_an_item_is_full_of_the_fill_value)
{
	static const float mixed[12] = {
		1.5f, 1.5f, 1.5f, 10, 11, 12, 20, 21, 22, 1.5f, 1.5f, 1.5f
	};
	static const uint8_t bytes[12] = { 7, 7, 7, 7, 7, 7, 1, 2, 3, 4, 5, 6 };
	static const int16_t zeros[12] = { 0 };
	const uint32_t wide = 1;
	struct seam w = { 0 };
	float whole[12];
	double got[24], want[24];

	open_world(&w);
	for (int i = 0; i < 12; i++) {
		whole[i] = 1.5f;
		want[2 * i] = -0.25;
		want[2 * i + 1] = 1e300;
	}
	seam_check(&w, "whole", whole, sizeof(whole));
	seam_check(&w, "zeros", zeros, sizeof(zeros));
	seam_check(&w, "bytes", bytes, sizeof(bytes));
	seam_check(&w, "mixed", mixed, sizeof(mixed));
	/* (safetensors has no complex128) */
	ck_assert_int_eq(sf_read_tensor(w.s.reader, wide, 0, got, sizeof(got), NULL), 0);
	ck_assert_mem_eq(got, want, sizeof(want));
	for (unsigned off = 0; off < 64; off++) {
		ck_assert_int_eq(sf_read_tensor(w.s.reader, wide, off, got, 37, NULL), 0);
		ck_assert_mem_eq(got, (const uint8_t *)want + off, 37);
	}
	seam_check_pt(&w, wide, want, sizeof(want));
	seam_verify(&w, NULL);
	seam_close(&w);
}
END_TEST

static int emit_box(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	return sf_parts_box(p, 4, arg, SF_DTYPE_NONE);
}

/* Rows 0 to 2, columns 1 and 2 of "mixed", transposed; by a source that makes every read wait. */
START_TEST(a_box_of_it_comes_to_its_places_when_others_are_waited_for)
{
	static const float want[6] = { 1.5f, 11, 21, 1.5f, 12, 22 };
	const uint64_t origin[2] = { 0, 1 }, extent[2] = { 3, 2 };
	const int64_t stride[2] = { sizeof(float), 3 * sizeof(float) };
	const float tail[6] = { 20, 21, 22, 1.5f, 1.5f, 1.5f };
	float got[6] = { 0 }, row[12];
	struct sf_read_box box = { origin, extent, got, stride };
	struct sf_read rd = { .emit = emit_box, .arg = &box, .len = sizeof(got) };
	struct sf_fault plan = { .fail_at = -1, .busy = true };
	struct seam w = { 0 };

	open_world(&w);
	sf_reader_free(w.s.reader);
	ck_assert_int_eq(sf_store_fault(w.s.store, &plan, &w.s.store, NULL), 0);
	ck_assert_int_eq(sf_reader_new(w.s.ckpt, w.s.store, &w.s.reader, NULL), 0);
	ck_assert_msg(sf_read_wait(w.s.reader, &rd) >= 0, "%s", rd.err.msg);
	ck_assert_mem_eq(got, want, sizeof(want));
	sf_read_release(&rd);
	ck_assert_int_eq(sf_read_tensor(w.s.reader, 4, 0, row, sizeof(row), NULL), 0);
	ck_assert_mem_eq(row + 6, tail, sizeof(tail));
	seam_close(&w);
}
END_TEST

/* What is said of it; without a value it is damage as before. */
START_TEST(a_filled_chunk_is_no_damage_and_a_missing_item_is)
{
	struct seam w = { 0 };
	struct sf_vfile *f;
	uint64_t len;

	open_world(&w);
	for (uint32_t i = 0; i < w.s.ckpt->nwarnings; i++)
		ck_assert_uint_eq(w.s.ckpt->warning[i].key, w.s.ckpt->tensor[5].key);
	seam_warns(&w, "missing-item", TEXTS("chunk 0", "1 chunks more"));
	seam_fails(&w, "missing", -EBADMSG, TEXTS("'missing', chunk 0", "no stored item"));
	ck_assert_int_eq(
		sf_view_entry_json(w.s.catalog, w.s.reader, seam_entry(&w, "bytes"), &f, NULL), 0);
	char *json = (char *)seam_read(f, &len);
	json[len] = '\0';
	ck_assert_msg(strstr(json, "\"file\": null, \"offset\": 0, \"length\": 0, \"fill\": true, "
	                           "\"origin\": [0, 0]") != NULL,
	              "%s", json);
	ck_assert_msg(strstr(json, "\"length\": 6, \"origin\"") != NULL, "%s", json);
	free(json);
	seam_close(&w);
}
END_TEST

/* What an export asks before it makes room: chunks without an item claim nothing of any file. */
START_TEST(what_a_filled_tensor_claims_is_there)
{
	static const char *const whole[] = { "whole", "wide", "zeros", "bytes", "mixed" };
	struct sf_error err = SF_ERROR_INIT;
	struct seam w = { 0 };

	open_world(&w);
	for (size_t i = 0; i < sizeof(whole) / sizeof(*whole); i++) {
		uint32_t e = seam_entry(&w, whole[i]);
		ck_assert_int_eq(sf_claims_check(&w.s, &e, 1, &err), 0);
	}
	uint32_t e = seam_entry(&w, "missing");
	ck_assert_int_eq(sf_claims_check(&w.s, &e, 1, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'missing'") != NULL, "%s", err.msg);
	seam_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("seam_fill");
	TCase *tc = tcase_create("seam_fill");

	tcase_add_test(tc, a_chunk_without_an_item_is_full_of_the_fill_value);
	tcase_add_test(tc, a_box_of_it_comes_to_its_places_when_others_are_waited_for);
	tcase_add_test(tc, a_filled_chunk_is_no_damage_and_a_missing_item_is);
	tcase_add_test(tc, what_a_filled_tensor_claims_is_there);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
