#include "config.h"

#include "ckpt/place.h"
#include "seam_tree.h"
#include "tests/lib/sf_fake_ckpt.h"

#define TEXTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* One tensor of one chunk: float32 [2, 3] in a raw item at byte @off of @place. */
static int one_raw(struct sf_ckpt_builder *b, const char *key, uint32_t place, uint64_t off,
                   uint64_t len, struct sf_error *err)
{
	const uint64_t shape[2] = { 2, 3 }, zero[2] = { 0 };
	uint32_t t;
	int r = sf_ckpt_builder_tensor(b, key, strlen(key), SF_FLOAT32, shape, 2, &t, err);

	if (r >= 0)
		r = sf_ckpt_builder_chunk(b, zero, shape, err);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, t, 0, place, off, len);
	return r;
}

/* Bytes 0, 1, 2, … of a file. */
static void counting_file(struct seam *w, const char *name, size_t len)
{
	uint8_t at[256];

	for (size_t i = 0; i < len; i++)
		at[i] = (uint8_t)i;
	seam_file(w, name, at, len);
}

/* ---- members ---- */

static int lower_members(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t file, in[SF_CONTAINER_DEPTH], place;
	int r = sf_ckpt_builder_file(b, "run.tar", 7, &file, err);

	/* a member of the file, one of that, and so on as deep as may be */
	for (unsigned d = 0; d < SF_CONTAINER_DEPTH && r >= 0; d++) {
		char name[8];
		snprintf(name, sizeof(name), "m%u", d);
		r = sf_ckpt_builder_member(b, d ? in[d - 1] : file, name, 2, 10, 150 - 10 * d,
		                           &in[d], err);
	}
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, in[0], SF_ITEM_RAW, SF_CODEC_NONE, 0, &place, err);
	if (r >= 0)
		r = one_raw(b, "one", place, 5, 24, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, in[7], SF_ITEM_RAW, SF_CODEC_NONE, 0, &place, err);
	if (r >= 0)
		r = one_raw(b, "eight", place, 56, 24, err);
	return r;
}

START_TEST(a_member_of_a_member_is_read_in_place)
{
	const struct sf_container *in[SF_CONTAINER_DEPTH];
	uint8_t want[256];
	struct seam w = { 0 };
	char name[SF_PLACE_NAME];

	for (int i = 0; i < 256; i++)
		want[i] = (uint8_t)i;
	counting_file(&w, "run.tar", 160);
	seam_open(&w, lower_members);
	seam_check(&w, "one", want + 15, 24);
	seam_check(&w, "eight", want + 136, 24);
	seam_verify(&w, NULL);
	ck_assert_uint_eq(w.s.ckpt->nwarnings, 0);
	const uint32_t place = w.s.ckpt->tensor[1].place[0];
	ck_assert_uint_eq(sf_place_members(w.s.ckpt, place, in), 8);
	ck_assert_str_eq(in[0]->name, "m0");
	ck_assert_str_eq(sf_place_name(w.s.ckpt, place, name), "run.tar:m0:m1:m2:m3:m4:m5:m6:m7");
	struct sf_vfile *f;
	uint64_t len;
	ck_assert_int_eq(sf_view_entry_json(w.s.catalog, w.s.reader, 0, &f, NULL), 0);
	char *json = (char *)seam_read(f, &len);
	json[len] = '\0';
	ck_assert_msg(strstr(json, "\"file\": \"run.tar\", \"inside\": [\"m0\"], \"offset\": 5, "
	                           "\"length\": 24") != NULL,
	              "%s", json);
	free(json);
	seam_close(&w);
}
END_TEST

static int lower_hostile_items(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t file, in, past, raw, blob, gone;
	int r = sf_ckpt_builder_file(b, "a.tar", 5, &file, err);

	if (r >= 0)
		r = sf_ckpt_builder_member(b, file, "in", 2, 20, 30, &in, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, in, SF_ITEM_RAW, SF_CODEC_NONE, 0, &raw, err);
	if (r >= 0)
		r = one_raw(b, "over", raw, 7, 24, err); /* one byte behind the member's end */
	if (r >= 0)
		r = one_raw(b, "far", raw, UINT64_MAX - 3, 24, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, in, SF_ITEM_ST_BLOB, SF_CODEC_NONE, 0, &blob, err);
	if (r >= 0)
		r = one_raw(b, "blob", blob, 10, 24, err);
	/* the member ends behind the file's end, the first item does not */
	if (r >= 0)
		r = sf_ckpt_builder_member(b, file, "past", 4, 90, 1000, &past, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, past, SF_ITEM_RAW, SF_CODEC_NONE, 0, &raw, err);
	if (r >= 0)
		r = one_raw(b, "there", raw, 0, 24, err);
	if (r >= 0)
		r = one_raw(b, "cut", raw, 10, 24, err);
	if (r >= 0)
		r = sf_ckpt_builder_file(b, "gone.tar", 8, &file, err);
	if (r >= 0)
		r = sf_ckpt_builder_member(b, file, "x", 1, 0, 100, &gone, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, gone, SF_ITEM_RAW, SF_CODEC_NONE, 0, &raw, err);
	return r < 0 ? r : one_raw(b, "gone", raw, 0, 24, err);
}

START_TEST(no_item_passes_the_end_of_its_member)
{
	uint8_t want[256];
	struct seam w = { 0 };

	for (int i = 0; i < 256; i++)
		want[i] = (uint8_t)i;
	/* at byte 30 of the file a blob's header that is longer than the member */
	for (int i = 30; i < 38; i++)
		want[i] = i == 30 ? 40 : 0;
	seam_file(&w, "a.tar", want, 120);
	seam_open(&w, lower_hostile_items);
	seam_warns(&w, "outside-member", TEXTS("'a.tar:in'", " 30 bytes", "offset 7 ", "at 31"));
	seam_fails(&w, "over", -EBADMSG, TEXTS("'over'", "a.tar:in", "24 bytes at 7", "of 30"));
	seam_fails(&w, "far", -EBADMSG, TEXTS("a.tar:in", "18446744073709551612", "of 30"));
	seam_fails(&w, "blob", -EBADMSG, TEXTS("a.tar:in", "says 40 bytes", "there are 12"));
	seam_warns(&w, "truncated-file", TEXTS("'a.tar'", " 120 bytes", "offset 100 ", "at 124"));
	seam_check(&w, "there", want + 90, 24);
	seam_fails(&w, "cut", -EBADMSG, TEXTS("a.tar:past", "100", "120"));
	seam_warns(&w, "missing-file", TEXTS("gone.tar"));
	seam_fails(&w, "gone", -EIO, TEXTS("gone.tar:x", "is missing"));
	seam_close(&w);
}
END_TEST

/* What is wrong with a member is said when it is told, by file and both numbers. */
START_TEST(a_container_that_cannot_be_is_refused)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt_builder *b;
	uint32_t file, m, x = 77;

	ck_assert_int_eq(sf_ckpt_builder_new("seam", "src", &b, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_file(b, "f", 1, &file, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_member(b, file, "m", 1, 10, 20, &m, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_member(b, m, "n", 1, 15, 6, &x, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'f:m'") && strstr(err.msg, "'n'") &&
	                      strstr(err.msg, "6 bytes at 15") && strstr(err.msg, "end at 20"),
	              "%s", err.msg);
	ck_assert_int_eq(sf_ckpt_builder_member(b, m, "n", 1, UINT64_MAX, 6, &x, NULL), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_member(b, file, "n", 1, UINT64_MAX, 6, &x, &err),
	                 -EBADMSG);
	/* its own parent, or one that comes later: there are no circles */
	ck_assert_int_eq(sf_ckpt_builder_member(b, m + 1, "n", 1, 0, 6, &x, &err), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_member(b, file + 1, "n", 1, 0, 6, &x, NULL), -EBADMSG);
	ck_assert_int_eq(
		sf_ckpt_builder_place_in(b, m + 1, SF_ITEM_RAW, SF_CODEC_NONE, 0, &x, NULL),
		-EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_file(b, "../f", 4, &x, NULL), -EBADMSG);
	ck_assert_uint_eq(x, 77);
	for (unsigned d = 2; d <= SF_CONTAINER_DEPTH; d++)
		ck_assert_int_eq(sf_ckpt_builder_member(b, m, "m", 1, 0, 20, &m, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_member(b, m, "deep", 4, 0, 20, &m, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'f'") && strstr(err.msg, "9 members deep") &&
	                      strstr(err.msg, "limit is 8"),
	              "%s", err.msg);
	sf_ckpt_builder_free(b);
}
END_TEST

/* ---- names in blobs, reasons ---- */

static int lower_blob(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t file, in, place, t = 0;
	bool is_tensor;
	int r = sf_ckpt_builder_file(b, "blobs", 5, &file, err);

	if (r >= 0)
		r = sf_ckpt_builder_member(b, file, "m", 1, 16, 200, &in, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, in, SF_ITEM_ST_BLOB, SF_CODEC_NONE, 0, &place, err);
	for (const char *const *k = TEXTS("shown.a", "b", "c"); *k && r >= 0; k++)
		r = one_raw(b, *k, place, 0, 24, err);
	if (r >= 0)
		t = sf_ckpt_builder_find(b, "shown.a", 7, &is_tensor);
	if (r >= 0)
		r = sf_ckpt_builder_stored_name(b, t, "a", 1, err);
	if (r >= 0) /* to this format b and c are c and b */
		r = sf_ckpt_builder_stored_name(b, t + 1, "c", 1, err);
	return r < 0 ? r : sf_ckpt_builder_stored_name(b, t + 2, "nobody", 6, err);
}

START_TEST(a_blob_has_its_tensors_under_the_names_that_the_format_says)
{
	const uint64_t shape[2] = { 2, 3 };
	struct sf_buf at = { 0 }, head = { 0 };
	struct seam w = { 0 };
	uint8_t len[8], want[48];

	sf_buf_byte(&head, '{');
	sf_st_put_entry(&head, "a", 1, SF_FLOAT32, shape, 2, 0, 24);
	sf_buf_byte(&head, ',');
	sf_st_put_entry(&head, "c", 1, SF_FLOAT32, shape, 2, 24, 48);
	sf_buf_byte(&head, '}');
	sf_put_le64(len, head.len);
	sf_buf_add(&at, "sixteen of others", 16);
	sf_buf_add(&at, len, 8);
	sf_buf_add(&at, head.at, head.len);
	for (int i = 0; i < 48; i++) {
		want[i] = (uint8_t)(200 - i);
		sf_buf_byte(&at, want[i]);
	}
	while (at.len < 216)
		sf_buf_byte(&at, 0);
	seam_file(&w, "blobs", at.at, at.len);
	seam_open(&w, lower_blob);
	seam_check(&w, "shown.a", want, 24);
	seam_check(&w, "b", want + 24, 24);
	seam_fails(&w, "c", -EBADMSG, TEXTS("'c'", "blobs:m", "no tensor of that name"));
	seam_verify(&w, "no tensor of that name");
	sf_buf_release(&at);
	sf_buf_release(&head);
	seam_close(&w);
}
END_TEST

static int lower_unreadable(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t file, place, object;
	int r = sf_ckpt_builder_file(b, "f", 1, &file, err);

	if (r >= 0)
		r = sf_ckpt_builder_place_unreadable(b, file, SF_ITEM_RAW, "sealed, and no key",
		                                     &place, err);
	if (r >= 0)
		r = one_raw(b, "sealed", place, 0, 4, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, file, SF_ITEM_RAW, SF_CODEC_NONE, 0, &place, err);
	if (r >= 0)
		r = one_raw(b, "open", place, 3, 24, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_unreadable(b, file, SF_ITEM_RAW, "the second reason",
		                                     &place, err);
	if (r >= 0)
		r = one_raw(b, "second", place, 0, 24, err);
	if (r >= 0)
		r = sf_ckpt_builder_object(b, "object", 6, &object, err);
	if (r >= 0)
		sf_ckpt_builder_set_object(b, object, place, 0, 10);
	return r;
}

START_TEST(a_place_that_cannot_be_read_says_why_in_the_words_of_its_format)
{
	struct sf_error err = SF_ERROR_INIT;
	struct seam w = { 0 };
	uint8_t want[256], byte;

	for (int i = 0; i < 256; i++)
		want[i] = (uint8_t)i;
	counting_file(&w, "f", 40);
	seam_open(&w, lower_unreadable);
	seam_check(&w, "open", want + 3, 24);
	seam_fails(&w, "sealed", -ENOTSUP, TEXTS("tensor 'sealed'", "sealed, and no key"));
	seam_fails(&w, "second", -ENOTSUP, TEXTS("tensor 'second'", "the second reason"));
	ck_assert_int_eq(sf_read_object_range(w.s.reader, 0, 0, &byte, 1, &err), -ENOTSUP);
	ck_assert_msg(strstr(err.msg, "the second reason") != NULL, "%s", err.msg);
	seam_verify(&w, "sealed, and no key");
	ck_assert_uint_eq(w.s.ckpt->nwarnings, 0);
	seam_close(&w);
}
END_TEST

/* ---- flat runs of a single shard ---- */

/* Archives of one float32 tensor each, for a box of [2, 3]. */
static const struct flat {
	const char *key;
	unsigned ndim;
	uint64_t shape[3], stride[3];
} flats[] = { { "flat", 3, { 1, 1, 6 }, { 6, 6, 1 } },
	      { "one", 1, { 6 }, { 1 } },
	      { "middle", 3, { 1, 6, 1 }, { 6, 1, 1 } },
	      { "same", 2, { 2, 3 }, { 1, 2 } },
	      { "seven", 3, { 1, 1, 7 }, { 7, 7, 1 } },
	      { "turned", 2, { 3, 2 }, { 2, 1 } },
	      { "gaps", 1, { 6 }, { 2 } } };
static uint64_t flat_off[SF_ARRAY_LEN(flats) + 1];

/* Each a member of a stored file: its header is read there. */
static int lower_flat(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t file, in, place;
	int r = sf_ckpt_builder_file(b, "a.tar", 5, &file, err);

	for (size_t i = 0; i < SF_ARRAY_LEN(flats) && r >= 0; i++) {
		const uint64_t len = flat_off[i + 1] - flat_off[i];
		r = sf_ckpt_builder_member(b, file, flats[i].key, strlen(flats[i].key), flat_off[i],
		                           len, &in, err);
		if (r >= 0)
			r = sf_ckpt_builder_place_in(b, in, SF_ITEM_TORCH, SF_CODEC_NONE, 0, &place,
			                             err);
		if (r >= 0)
			r = one_raw(b, flats[i].key, place, 0, len, err);
	}
	return r;
}

START_TEST(a_single_shard_may_be_flat)
{
	static const float values[12] = { 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12 },
			   turned[6] = { 1, 3, 5, 2, 4, 6 };
	struct sf_buf at = { 0 };
	struct seam w = { 0 };

	for (size_t i = 0; i < SF_ARRAY_LEN(flats); i++) {
		struct sf_buf pkl = { 0 };
		flat_off[i] = at.len;
		fake_pkl(&pkl, SF_FLOAT32, flats[i].shape, flats[i].stride, flats[i].ndim, 12, 0,
		         false);
		fake_zip(&at, &pkl, (const uint8_t *)values, sizeof(values), i == 1);
		sf_buf_release(&pkl);
		flat_off[i + 1] = at.len;
	}
	seam_file(&w, "a.tar", at.at, at.len);
	seam_open(&w, lower_flat);
	for (size_t i = 0; i < 3; i++)
		seam_check(&w, flats[i].key, values, 24);
	seam_check(&w, "same", turned, 24);
	seam_fails(&w, "seven", -EBADMSG, TEXTS("a.tar:seven", "[1, 1, 7]", "[2, 3]"));
	seam_fails(&w, "turned", -EBADMSG, TEXTS("a.tar:turned", "[3, 2]", "[2, 3]"));
	seam_fails(&w, "gaps", -ENOTSUP, TEXTS("a.tar:gaps", "not contiguous"));
	sf_buf_release(&at);
	seam_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("seams");
	TCase *tc = tcase_create("seams");

	tcase_add_test(tc, a_member_of_a_member_is_read_in_place);
	tcase_add_test(tc, no_item_passes_the_end_of_its_member);
	tcase_add_test(tc, a_container_that_cannot_be_is_refused);
	tcase_add_test(tc, a_blob_has_its_tensors_under_the_names_that_the_format_says);
	tcase_add_test(tc, a_place_that_cannot_be_read_says_why_in_the_words_of_its_format);
	tcase_add_test(tc, a_single_shard_may_be_flat);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
