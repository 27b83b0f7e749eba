/* Each allocation fails once, of the making and of the reading of a checkpoint that has what DCP has
 * not: members, layouts, fill values, ties, streams. It is told, or every byte is there. */
#include "config.h"

#include "parse/zstd.h"
#include "tests/format/seam_world.h"
#include "tests/fuzz/fz_malloc.h"
#include "tests/lib/sf_fake_ckpt.h"

#define TRY(call)                  \
	do {                       \
		int r_ = call;     \
		if (r_ < 0)        \
			return r_; \
	} while (0)

enum { KEYS = 7, BYTES = 24, MEMBER = 3, STREAM = 100 };
static uint64_t inside, stream_len, torch_len; /* bytes: in the stream, of it, of the archive */
static uint8_t stored[STREAM];
/* more than the arena has at hand, wherever it is copied to */
static char text[60001];

/* A tensor [2, 3] of float32, in one chunk. */
static int tensor(struct sf_ckpt_builder *b, const char *key, uint32_t *ret, struct sf_error *err)
{
	const uint64_t shape[2] = { 2, 3 }, zero[2] = { 0 };

	TRY(sf_ckpt_builder_tensor(b, key, strlen(key), SF_FLOAT32, shape, 2, ret, err));
	return sf_ckpt_builder_chunk(b, zero, shape, err);
}

static int in_members(struct sf_ckpt_builder *b, uint32_t file, struct sf_error *err)
{
	const int64_t columns[2] = { 1, 2 };
	uint32_t m, place, t, tied;

	TRY(sf_ckpt_builder_member(b, file, "outer", 5, MEMBER, 90, &m, err));
	TRY(sf_ckpt_builder_member(b, m, text, sizeof(text) - 1, 10, 60, &m, err));
	TRY(sf_ckpt_builder_place_in(b, m, SF_ITEM_RAW, SF_CODEC_NONE, 0, &place, err));
	TRY(tensor(b, "a.member", &t, err));
	sf_ckpt_builder_set_item(b, t, 0, place, 1, BYTES);
	TRY(tensor(b, "b.tied", &tied, err));
	sf_ckpt_builder_set_item(b, tied, 0, place, 1, BYTES);
	TRY(sf_ckpt_builder_tie(b, tied, t, err));
	TRY(tensor(b, "c.layout", &t, err));
	TRY(sf_ckpt_builder_layout(b, columns, false, true, err));
	sf_ckpt_builder_set_item(b, t, 0, place, 30, BYTES);
	TRY(sf_ckpt_builder_place_unreadable(b, m, SF_ITEM_RAW, text, &place, err));
	TRY(sf_ckpt_builder_object(b, "z.sealed", 8, &t, err));
	sf_ckpt_builder_set_object(b, t, place, 0, 10);
	return 0;
}

static int in_a_stream(struct sf_ckpt_builder *b, uint32_t file, struct sf_error *err)
{
	uint32_t s, m, place, t;

	TRY(sf_ckpt_builder_stream(b, file, STREAM, stream_len, SF_CODEC_ZSTD, 1, inside, &s, err));
	TRY(sf_ckpt_builder_place_in(b, s, SF_ITEM_RAW, SF_CODEC_NONE, 0, &place, err));
	TRY(tensor(b, "e.stream", &t, err));
	sf_ckpt_builder_set_item(b, t, 0, place, 2, BYTES);
	TRY(sf_ckpt_builder_member(b, s, "pt", 2, 40, torch_len, &m, err));
	TRY(sf_ckpt_builder_place_in(b, m, SF_ITEM_TORCH, SF_CODEC_NONE, 0, &place, err));
	TRY(tensor(b, "f.torch", &t, err));
	sf_ckpt_builder_set_item(b, t, 0, place, 0, torch_len);
	TRY(sf_ckpt_builder_stored_name(b, t, text, sizeof(text) - 1, err));
	return 0;
}

static int lower(struct sf_ckpt_builder *b, struct sf_error *err)
{
	const float fill = 1.5f;
	uint32_t file, t;

	TRY(sf_ckpt_builder_file(b, "f", 1, &file, err));
	TRY(in_members(b, file, err));
	TRY(tensor(b, "d.fill", &t, err));
	TRY(sf_ckpt_builder_fill(b, t, &fill, err));
	TRY(in_a_stream(b, file, err));
	TRY(tensor(b, "g.again", &t, err));
	TRY(sf_ckpt_builder_fill(b, t, &fill, err));
	return 0;
}

static int emit_all(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	for (uint32_t i = 0; i < KEYS; i++)
		TRY(sf_parts_tensor(p, i, 0, BYTES, SF_DTYPE_NONE));
	return 0;
}

static void make_file(struct seam *w, uint8_t want[KEYS][BYTES])
{
	static const uint64_t shape[2] = { 2, 3 }, rows[2] = { 3, 1 };
	static const unsigned column[6] = { 0, 2, 4, 1, 3, 5 };
	struct sf_buf file = { 0 }, in = { 0 }, pkl = { 0 };
	const float fill = 1.5f;

	memset(text, 'x', sizeof(text) - 1);
	for (int i = 0; i < STREAM; i++)
		stored[i] = (uint8_t)(3 * i);
	sf_buf_add(&file, stored, sizeof(stored));
	sf_buf_add(&in, stored + 20, 40);
	fake_pkl(&pkl, SF_FLOAT32, shape, rows, 2, 6, 0, false);
	fake_zip(&in, &pkl, stored + 60, BYTES, false);
	inside = in.len;
	torch_len = in.len - 40;
	fake_zstd(&file, in.at, in.len);
	stream_len = file.len - STREAM;
	seam_file(w, "f", file.at, file.len);

	const uint8_t *m = stored + MEMBER + 10;
	memcpy(want[0], m + 1, BYTES);
	memcpy(want[1], m + 1, BYTES);
	for (int i = 0; i < 6; i++) { /* turned, and its signs too */
		memcpy(want[2] + 4 * i, m + 30 + 4 * column[i], 4);
		want[2][4 * i + 3] ^= 0x80;
		memcpy(want[3] + 4 * i, &fill, 4);
		memcpy(want[6] + 4 * i, &fill, 4);
	}
	memcpy(want[4], stored + 20 + 2, BYTES);
	memcpy(want[5], stored + 60, BYTES);
	sf_buf_release(&file);
	sf_buf_release(&in);
	sf_buf_release(&pkl);
}

static int read_all(struct seam *w, uint8_t got[KEYS][BYTES], struct sf_error *err)
{
	struct sf_read rd = { .emit = emit_all, .len = (uint64_t)KEYS * BYTES, .buf = got };
	struct sf_reader *reader = NULL;
	int r = sf_reader_new(w->s.ckpt, w->s.store, &reader, err);

	if (r < 0)
		return r;
	r = sf_read_wait(reader, &rd);
	if (r < 0)
		*err = rd.err;
	sf_read_release(&rd);
	sf_reader_free(reader);
	return r;
}

/* Nothing of the making does without what it asked for. */
static void make_ckpt(struct seam *w)
{
	struct seam_listing l = { .n = 0 };
	long failed = 1, n;

	ck_assert_int_eq(w->s.store->ops->list(w->s.store, "", 4, seam_list, &l, NULL), 0);
	for (n = 0; failed; n++) {
		struct sf_error err = SF_ERROR_INIT;
		fz_malloc_fails(n, false);
		int r = seam_load(w->s.store, l.at, l.n, NULL, &w->s.ckpt, &err);
		failed = fz_malloc_fails(-1, false);
		ck_assert_msg(r == (failed ? -ENOMEM : 0) && !failed == !err.msg[0],
		              "allocation %ld: %d %s", n, r, err.msg);
	}
	ck_assert_int_ge(n, 30);
}

/* The second time by a source that makes reads wait. */
START_TEST(memory_that_runs_out_anywhere_is_told)
{
	struct sf_fault plan = { .fail_at = -1, .busy = _i };
	uint8_t want[KEYS][BYTES], got[KEYS][BYTES];
	struct seam w = { 0 };
	long failed = 1, n, told = 0;

	make_file(&w, want);
	seam_lower = lower;
	ck_assert_int_eq(sf_io_init(&w.io, 2, NULL), 0);
	ck_assert_int_eq(sf_store_mem(&w.io, w.file, w.nfiles, &w.s.store, NULL), 0);
	ck_assert_int_eq(sf_store_fault(w.s.store, &plan, &w.s.store, NULL), 0);
	make_ckpt(&w);
	for (n = 0; failed; n++) {
		struct sf_error err = SF_ERROR_INIT;
		memset(got, 0, sizeof(got));
		fz_malloc_fails(n, false);
		int r = read_all(&w, got, &err);
		failed = fz_malloc_fails(-1, false);
		if (r < 0)
			ck_assert_msg(failed && r == -ENOMEM && err.msg[0], "allocation %ld: %d %s",
			              n, r, err.msg);
		else
			ck_assert_msg(memcmp(got, want, sizeof(want)) == 0, "allocation %ld", n);
		told += r < 0;
	}
	ck_assert_int_ge(told, 10);
	sf_ckpt_free(w.s.ckpt);
	sf_store_free(w.s.store);
	sf_io_release(&w.io);
	sf_buf_release(&w.data[0]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("seam_faults");
	TCase *t = tcase_create("seam_faults");
	struct sf_unzstd *z;

	if (sf_unzstd_new(&z, NULL) < 0)
		return sf_test_skip("built without zstd");
	sf_unzstd_free(z);
	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, memory_that_runs_out_anywhere_is_told, 0, 2);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
