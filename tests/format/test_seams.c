#include "config.h"

#include "ckpt/place.h"
#include "seam_world.h"

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

int main(void)
{
	Suite *s = suite_create("seams");
	TCase *tc = tcase_create("seams");

	tcase_add_test(tc, a_member_of_a_member_is_read_in_place);
	tcase_add_test(tc, no_item_passes_the_end_of_its_member);
	tcase_add_test(tc, a_container_that_cannot_be_is_refused);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
