#include "config.h"

#include "ckpt/place.h"
#include "parse/zstd.h"
#include "seam_torch.h"
#include "seam_tree.h"
#include "tests/lib/sf_fake_ckpt.h"
#include "value/object.h"
#include "value_lines.h"

#define TEXTS(...) ((const char *const[]){ __VA_ARGS__, NULL })

/* What a compressed stream of a stored file has inside: tensors, objects, archives. */

enum { BEFORE = 5, BEHIND = 7 }; /* bytes of the file around the stream */
static struct {
	uint64_t len;     /* of the stream, bytes of the file */
	uint64_t size;    /* inside it, as the format says */
	uint64_t at[5];   /* "raw", "turned", "dir", "object", the end */
	unsigned streams; /* one inside the other */
} in;

static int add(struct sf_ckpt_builder *b, const char *key, uint32_t container, unsigned i,
               enum sf_item_form form, struct sf_error *err)
{
	const uint64_t shape[2] = { 2, 3 }, zero[2] = { 0 };
	uint32_t t, place;
	int r = sf_ckpt_builder_place_in(b, container, form, SF_CODEC_NONE, 0, &place, err);

	if (r >= 0)
		r = sf_ckpt_builder_tensor(b, key, strlen(key), SF_FLOAT32, shape, 2, &t, err);
	if (r >= 0)
		r = sf_ckpt_builder_chunk(b, zero, shape, err);
	if (r >= 0)
		sf_ckpt_builder_set_item(b, t, 0, place, in.at[i], in.at[i + 1] - in.at[i]);
	return r;
}

/* "turned" is in a member of what the stream has inside; the stream in one of the file. */
static int lower(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t file, outer, stream, place, object;
	int r = sf_ckpt_builder_file(b, "run.tar", 7, &file, err);

	if (r >= 0)
		r = sf_ckpt_builder_member(b, file, "a.zst", 5, BEFORE, in.len, &outer, err);
	if (r >= 0)
		r = sf_ckpt_builder_stream(b, outer, 0, in.len, SF_CODEC_ZSTD, in.streams, in.size,
		                           &stream, err);
	if (r >= 0)
		r = add(b, "raw", stream, 0, SF_ITEM_RAW, err);
	if (r >= 0)
		r = sf_ckpt_builder_member(b, stream, "m", 1, in.at[1], in.at[2] - in.at[1], &outer,
		                           err);
	if (r < 0)
		return r;
	in.at[2] -= in.at[1]; /* from the start of the member */
	const uint64_t off = in.at[1];
	in.at[1] = 0;
	r = add(b, "turned", outer, 1, SF_ITEM_TORCH, err);
	in.at[1] = off;
	in.at[2] += off;
	if (r >= 0)
		r = add(b, "dir", stream, 2, SF_ITEM_TORCH, err);
	if (r >= 0)
		r = sf_ckpt_builder_object(b, "object", 6, &object, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, stream, SF_ITEM_TORCH, SF_CODEC_NONE, 0, &place,
		                             err);
	if (r >= 0)
		sf_ckpt_builder_set_object(b, object, place, in.at[3], in.at[4] - in.at[3]);
	return r;
}

static const float raw[6] = { -1, -2, -3, -4, -5, -6 }, stored[6] = { 1, 2, 3, 4, 5, 6 },
		   turned[6] = { 1, 3, 5, 2, 4, 6 };

/* The stored file; *ret_inside: what the stream has inside, if that is wanted. */
static void make(struct sf_buf *file, struct sf_buf *ret_inside)
{
	static const uint64_t shape[2] = { 2, 3 }, rows[2] = { 3, 1 }, columns[2] = { 1, 2 };
	struct sf_buf inside = { 0 }, pkl = { 0 }, object = { 0 }, once = { 0 };

	sf_buf_str(&inside, "sixteen of others");
	in.at[0] = inside.len;
	sf_buf_add(&inside, raw, sizeof(raw));
	in.at[1] = inside.len;
	fake_pkl(&pkl, SF_FLOAT32, shape, columns, 2, 6, 0, false);
	fake_zip(&inside, &pkl, (const uint8_t *)stored, sizeof(stored), false);
	in.at[2] = inside.len;
	pkl.len = 0;
	fake_pkl(&pkl, SF_FLOAT32, shape, rows, 2, 6, 0, false);
	fake_zip(&inside, &pkl, (const uint8_t *)stored, sizeof(stored), true);
	in.at[3] = inside.len;
	sf_buf_add(&object, "\x80\x02K\x07.", 5);
	fake_zip(&inside, &object, (const uint8_t *)"", 0, false);
	in.at[4] = inside.len;
	sf_buf_str(&inside, "the end");

	in.size = inside.len;
	in.streams = 2;
	sf_buf_str(file, "12345");
	fake_zstd(&once, inside.at, inside.len);
	fake_zstd(file, once.at, once.len);
	in.len = file->len - BEFORE;
	sf_buf_str(file, "1234567");
	if (ret_inside)
		*ret_inside = inside;
	else
		sf_buf_release(&inside);
	sf_buf_release(&pkl);
	sf_buf_release(&object);
	sf_buf_release(&once);
}

static void check_json(struct seam *w, const char *key, bool value, const char *want)
{
	const uint32_t entry = seam_entry(w, key);
	struct sf_error err = SF_ERROR_INIT;
	struct sf_vfile *f;
	uint64_t len;
	int r = value ? sf_view_value_json(w->s.catalog, w->s.reader, entry, &f, &err)
	              : sf_view_entry_json(w->s.catalog, w->s.reader, entry, &f, &err);

	ck_assert_msg(r >= 0, "%s", err.msg);
	char *json = (char *)seam_read(f, &len);
	json[len] = '\0';
	ck_assert_msg(strstr(json, want) != NULL, "'%s' is not in: %s", want, json);
	free(json);
}

START_TEST(tensors_and_an_object_of_one_stream_are_in_every_view)
{
	struct sf_buf file = { 0 };
	struct seam w = { 0 };
	char name[SF_PLACE_NAME], text[200];

	make(&file, NULL);
	seam_file(&w, "run.tar", file.at, file.len);
	seam_open(&w, lower);
	ck_assert_uint_eq(w.s.ckpt->nwarnings, 0);
	seam_check(&w, "raw", raw, sizeof(raw));
	seam_check(&w, "turned", turned, sizeof(turned));
	seam_check(&w, "dir", stored, sizeof(stored));
	check_json(&w, "object", true, "7");
	seam_verify(&w, NULL);
	/* where that is: the item counts in its member, the stream in the file */
	ck_assert_str_eq(sf_place_name(w.s.ckpt, w.s.ckpt->tensor[1].place[0], name),
	                 "run.tar:a.zst (zstd):m");
	snprintf(text, sizeof(text),
	         "\"file\": \"run.tar\", \"inside\": [\"a.zst\", \"m\"], \"stream\": {\"codec\": "
	         "\"zstd\", \"offset\": %d, \"length\": %llu}, \"offset\": 0, \"length\": %llu",
	         BEFORE, (unsigned long long)in.len, (unsigned long long)(in.at[2] - in.at[1]));
	check_json(&w, "turned", false, text);
	sf_buf_release(&file);
	seam_close(&w);
}
END_TEST

static int emit_all(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	int r = 0;

	for (uint32_t i = 0; i < 6 && r >= 0; i++) /* twice */
		r = sf_parts_tensor(p, i % 3, 0, 24, SF_DTYPE_NONE);
	return r < 0 ? r : sf_parts_object(p, 0, 0, in.at[4] - in.at[3]);
}

/* By a source that makes reads wait, too. */
START_TEST(a_stream_is_decoded_once)
{
	struct sf_fault plan = { .fail_at = -1, .busy = _i };
	struct sf_stats stats = { 0 };
	struct sf_buf file = { 0 }, inside;
	struct seam w = { 0 };
	uint8_t got[6 * 24 + 1000];

	make(&file, &inside);
	seam_file(&w, "run.tar", file.at, file.len);
	seam_open(&w, lower);
	sf_reader_free(w.s.reader);
	ck_assert_int_eq(sf_store_fault(w.s.store, &plan, &w.s.store, NULL), 0);
	ck_assert_int_eq(sf_store_stats(w.s.store, &stats, &w.s.store, NULL), 0);
	ck_assert_int_eq(sf_reader_new(w.s.ckpt, w.s.store, &w.s.reader, NULL), 0);
	for (int again = 0; again < 3; again++) {
		const uint64_t len = 6 * 24 + in.at[4] - in.at[3];
		struct sf_read rd = { .emit = emit_all, .len = len, .buf = got };
		ck_assert_uint_lt(len, sizeof(got));
		ck_assert_msg(sf_read_wait(w.s.reader, &rd) >= 0, "%s", rd.err.msg);
		ck_assert_mem_eq(got, raw, 24);
		ck_assert_mem_eq(got + 96, turned, 24);
		ck_assert_mem_eq(got + 144, inside.at + in.at[3], in.at[4] - in.at[3]);
		sf_read_release(&rd);
	}
	/* of all the file one request, for its own bytes alone */
	ck_assert_uint_eq(stats.requests, 1);
	ck_assert_uint_eq(stats.bytes, in.len);
	sf_buf_release(&file);
	sf_buf_release(&inside);
	seam_close(&w);
}
END_TEST

/* ---- what is wrong ---- */

/* The stream has lost its end, or is not one. */
START_TEST(a_broken_stream_is_told_by_file_and_offset)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf file = { 0 };
	struct seam w = { 0 };
	uint8_t byte;

	make(&file, NULL);
	if (_i)
		file.at[BEFORE] ^= 1;
	else
		in.len -= 40;
	seam_file(&w, "run.tar", file.at, file.len);
	seam_open(&w, lower);
	for (const char *const *key = TEXTS("raw", "turned", "dir"); *key; key++)
		seam_fails(&w, *key, -EBADMSG,
		           TEXTS("'run.tar': compressed item at 5", *key, "run.tar:a.zst (zstd)"));
	ck_assert_int_eq(sf_read_object_range(w.s.reader, 0, 0, &byte, 1, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "object 'object' in run.tar:a.zst (zstd)") &&
	                      strstr(err.msg, "'run.tar': compressed item at 5"),
	              "%s", err.msg);
	seam_verify(&w, "'run.tar': compressed item at 5");
	sf_buf_release(&file);
	seam_close(&w);
}
END_TEST

START_TEST(a_file_that_ends_inside_the_stream_is_told_at_load)
{
	struct sf_buf file = { 0 };
	struct seam w = { 0 };
	char has[64], ends[64];

	make(&file, NULL);
	seam_file(&w, "run.tar", file.at, file.len - BEHIND - 1);
	seam_open(&w, lower);
	snprintf(has, sizeof(has), "'run.tar' has %zu bytes", file.len - BEHIND - 1);
	snprintf(ends, sizeof(ends), "the zstd stream at offset 5 of %llu bytes ends at %llu",
	         (unsigned long long)in.len, (unsigned long long)(in.len + BEFORE));
	seam_warns(&w, "truncated-file", TEXTS(has, ends));
	seam_fails(&w, "raw", -EBADMSG, TEXTS("run.tar"));
	sf_buf_release(&file);
	seam_close(&w);
}
END_TEST

/* What the format said of its inside is not so: by one byte, by all, by half of what there is. */
START_TEST(a_stream_with_other_than_was_said_inside_is_damaged)
{
	static const int64_t more[] = { 1, 100000, -1, -5 };
	struct sf_buf file = { 0 };
	struct seam w = { 0 };
	char said[64];

	make(&file, NULL);
	in.size += (uint64_t)more[_i];
	seam_file(&w, "run.tar", file.at, file.len);
	seam_open(&w, lower);
	if (more[_i] > 0) {
		snprintf(said, sizeof(said), "has %llu bytes inside, not %llu",
		         (unsigned long long)(in.size - (uint64_t)more[_i]),
		         (unsigned long long)in.size);
		seam_fails(&w, "raw", -EBADMSG,
		           TEXTS("tensor 'raw'", "run.tar:a.zst (zstd)", said));
	} else {
		snprintf(said, sizeof(said), "has more than %llu bytes inside",
		         (unsigned long long)in.size);
		seam_fails(&w, "raw", -E2BIG, TEXTS("'run.tar'", "at 5", said));
	}
	sf_buf_release(&file);
	seam_close(&w);
}
END_TEST

START_TEST(no_item_passes_the_end_of_its_stream)
{
	struct sf_buf file = { 0 };
	struct seam w = { 0 };

	make(&file, NULL);
	in.size = in.at[1];
	/* a member that would pass it is refused when it is told */
	struct sf_error err = SF_ERROR_INIT;
	seam_file(&w, "run.tar", file.at, file.len);
	ck_assert_int_eq(seam_try_open(&w, lower, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'run.tar zstd': member 'm'") && strstr(err.msg, "41"), "%s",
	              err.msg);
	sf_store_free(w.s.store);
	sf_io_release(&w.io);
	in.size = in.at[4] - 1; /* the object's last byte */
	seam_open(&w, lower);
	seam_warns(&w, "outside-member", TEXTS("'run.tar:a.zst (zstd)'"));
	struct sf_where at = sf_place_where(w.s.ckpt, w.s.ckpt->object[0].place, UINT64_MAX);
	ck_assert_uint_eq(at.room, 0);
	uint8_t byte;
	ck_assert_int_eq(sf_read_object_range(w.s.reader, 0, 0, &byte, 1, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "of a stream of") != NULL, "%s", err.msg);
	seam_close(&w);
	sf_buf_release(&file);
}
END_TEST

START_TEST(a_stream_that_memory_has_no_room_for_is_told)
{
	struct sf_buf file = { 0 };
	struct seam w = { 0 };
	char has[64];

	make(&file, NULL);
	seam_file(&w, "run.tar", file.at, file.len);
	seam_open(&w, lower);
	sf_budget_set_limit(w.io.budget, in.size - 1);
	snprintf(has, sizeof(has), "zstd stream at 5 has %llu bytes inside",
	         (unsigned long long)in.size);
	seam_fails(&w, "raw", -E2BIG, TEXTS("tensor 'raw'", "'run.tar'", has, "--memory is"));
	sf_budget_set_limit(w.io.budget, in.size);
	seam_check(&w, "raw", raw, sizeof(raw));
	seam_close(&w);
	sf_buf_release(&file);
}
END_TEST

START_TEST(a_stream_that_cannot_be_is_refused)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt_builder *b;
	uint32_t file, s, m, x = 77;

	ck_assert_int_eq(sf_ckpt_builder_new("seam", "src", &b, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_file(b, "f", 1, &file, NULL), 0);
#define STREAM(parent, off, len, codec, streams) \
	sf_ckpt_builder_stream(b, parent, off, len, codec, streams, 1000, &x, &err)
	ck_assert_int_eq(STREAM(file, 0, 10, SF_CODEC_NONE, 1), -ENOTSUP);
	ck_assert_int_eq(STREAM(file, 0, 10, SF_NCODECS, 1), -ENOTSUP);
	ck_assert_int_eq(STREAM(file, 0, 10, SF_CODEC_ZSTD, 0), -ENOTSUP);
	ck_assert_int_eq(STREAM(file, 0, 10, SF_CODEC_ZSTD, 9), -E2BIG);
	ck_assert_int_eq(STREAM(file + 1, 0, 10, SF_CODEC_ZSTD, 1), -EBADMSG);
	ck_assert_int_eq(STREAM(file, UINT64_MAX, 10, SF_CODEC_ZSTD, 1), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'f': zstd stream of 10 bytes"), "%s", err.msg);
	ck_assert_int_eq(sf_ckpt_builder_member(b, file, "m", 1, 0, 9, &m, NULL), 0);
	ck_assert_int_eq(STREAM(m, 0, 10, SF_CODEC_ZSTD, 1), -EBADMSG);
	ck_assert_uint_eq(x, 77);
	ck_assert_int_eq(STREAM(m, 0, 9, SF_CODEC_ZSTD, 8), 0);
	s = x;
	/* in what one has inside: another, items that are compressed, blobs */
	ck_assert_int_eq(sf_ckpt_builder_member(b, s, "n", 1, 900, 100, &m, &err), 0);
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(STREAM(i ? s : m, 0, 10, SF_CODEC_ZSTD, 1), -ENOTSUP);
		ck_assert_msg(strstr(err.msg, "'f': zstd stream at 0 of what another stream"), "%s",
		              err.msg);
		ck_assert_int_eq(sf_ckpt_builder_place_in(b, i ? s : m, SF_ITEM_RAW, SF_CODEC_ZSTD,
		                                          1, &x, &err),
		                 -ENOTSUP);
		ck_assert_int_eq(sf_ckpt_builder_place_in(b, i ? s : m, SF_ITEM_ST_BLOB,
		                                          SF_CODEC_NONE, 0, &x, &err),
		                 -ENOTSUP);
	}
	ck_assert_int_eq(sf_ckpt_builder_member(b, s, "n", 1, 900, 101, &m, &err), -EBADMSG);
	sf_ckpt_builder_free(b);
}
END_TEST

/* ---- a file of torch.save, compressed ---- */

static uint64_t pt_stream;

static int lower_pt(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t file, stream, place;
	int r = sf_ckpt_builder_file(b, "file.pt.zst", 11, &file, err);

	if (r >= 0)
		r = sf_ckpt_builder_stream(b, file, 0, pt_stream, SF_CODEC_ZSTD, 1, torch_file.len,
		                           &stream, err);
	if (r >= 0)
		r = sf_ckpt_builder_place_in(b, stream, SF_ITEM_RAW, SF_CODEC_NONE, 0, &place, err);
	return r < 0 ? r : seam_torch_lower(b, place, err);
}

/* Its leaves are keys; in one .pt file it is the same value again, whatever contains it. */
START_TEST(a_compressed_file_of_torch_save_is_read_like_any_other)
{
	static const char *const files[] = { "zip", "stream_views", "tar" };
	struct sf_buf at = { 0 }, lines = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	struct seam w = { 0 };
	uint32_t entry[64];
	uint8_t *pt;
	uint64_t len;

	load_torch(files[_i]);
	fake_zstd(&at, torch_file.at, torch_file.len);
	pt_stream = at.len;
	seam_file(&w, "file.pt.zst", at.at, at.len);
	seam_open(&w, lower_pt);
	const struct sf_selection sel = { .entry = entry, .n = w.s.catalog->n };
	for (uint32_t i = 0; i < sel.n; i++)
		entry[i] = i;
	open_pt(&w, &sel, &arena, &pt, &len, &a);
	value_lines(&lines, pt, &a);
	ck_assert_str_eq(sf_buf_cstr(&lines), sf_buf_cstr(&torch_file.leaves));
	seam_verify(&w, NULL);
	if (_i == 0)
		check_json(&w, "optim.param_groups.0.betas.1", true, "0.999");
	free(pt);
	sf_arena_release(&arena);
	sf_buf_release(&at);
	sf_buf_release(&lines);
	sf_buf_release(&torch_file.leaves);
	seam_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("seam_streams");
	TCase *tc = tcase_create("seam_streams");
	struct sf_unzstd *z;

	if (sf_unzstd_new(&z, NULL) < 0)
		return sf_test_skip("built without zstd");
	sf_unzstd_free(z);
	tcase_add_test(tc, tensors_and_an_object_of_one_stream_are_in_every_view);
	tcase_add_loop_test(tc, a_stream_is_decoded_once, 0, 2);
	tcase_add_loop_test(tc, a_broken_stream_is_told_by_file_and_offset, 0, 2);
	tcase_add_test(tc, a_file_that_ends_inside_the_stream_is_told_at_load);
	tcase_add_loop_test(tc, a_stream_with_other_than_was_said_inside_is_damaged, 0, 4);
	tcase_add_test(tc, no_item_passes_the_end_of_its_stream);
	tcase_add_test(tc, a_stream_that_memory_has_no_room_for_is_told);
	tcase_add_test(tc, a_stream_that_cannot_be_is_refused);
	tcase_add_loop_test(tc, a_compressed_file_of_torch_save_is_read_like_any_other, 0, 3);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
