#include "config.h"

#include "tests/lib/reader_world.h"

/* What is lent cannot be changed on its way: bytes whose signs are to be flipped are not. */
START_TEST(items_with_flipped_signs_are_not_lent)
{
	bool conj = _i & 1;
	struct asks a = { .n = 1 };
	struct sf_read rd = { .emit = emit, .arg = &a };
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_fault plan;
	struct sf_io io;
	struct fake f;
	char dir[256];
	uint64_t at = 0;

	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	one_item(&f, SF_COMPLEX64, 64, 64, conj, false, 0, 0);
	open_reader(&f, &io, _i / 2, &plan, dir, &store, &r);
	rd.len = f.t[0].bytes;
	a.at[0] = (struct ask){ .kind = ASK_TENSOR, .len = rd.len };
	for (int i = 0; i < 2; i++) { /* the header is known the second time */
		ck_assert_int_eq(sf_read_wait(r, &rd), 0);
		for (int k = 0; k < rd.niov; at += rd.iov[k++].iov_len)
			ck_assert_mem_eq(rd.iov[k].iov_base, f.t[0].dense + at, rd.iov[k].iov_len);
		ck_assert_uint_eq(at, rd.len);
		if (_i == 0 && i == 1) /* lent it would have been */
			ck_assert((uint8_t *)rd.iov[0].iov_base >= f.file[0].at &&
			          (uint8_t *)rd.iov[0].iov_base < f.file[0].at + f.file[0].len);
		sf_read_release(&rd);
		at = 0;
	}
	close_reader(&f, &io, dir, store, r);
}
END_TEST

/* How many bytes of one_item()'s file lie behind the elements. */
static uint64_t behind_payload(bool raw)
{
	struct fake f;

	one_item(&f, SF_FLOAT32, 50, 50, false, raw, 100, 0);
	const uint8_t *at = memmem(f.file[0].at, f.file[0].len, f.t[0].dense, f.t[0].bytes);
	ck_assert_ptr_nonnull(at);
	uint64_t n = (uint64_t)(f.file[0].at + f.file[0].len - (at + f.t[0].bytes));
	fake_release(&f);
	return n;
}

/* _i / 2: bytes that the item lacks of its elements, in both forms. What follows in the file is
 * another item's. */
START_TEST(a_short_item_never_gives_its_neighbours_bytes)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_fault plan;
	struct sf_io io;
	struct fake f;
	char dir[256];
	bool raw = _i & 1;
	uint64_t lacks = (uint64_t)_i / 2;
	uint8_t *got;

	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	one_item(&f, SF_FLOAT32, 50, 50, false, raw, 100, behind_payload(raw) + lacks);
	open_reader(&f, &io, 0, &plan, dir, &store, &r);
	got = malloc(f.t[0].bytes);
	int e = sf_read_tensor(r, 0, 0, got, f.t[0].bytes, &err);
	ck_assert_msg(e == (lacks ? -EBADMSG : 0), "%d %s", e, err.msg);
	if (lacks)
		ck_assert_msg(strstr(err.msg, "10000") != NULL, "%s", err.msg);
	else
		ck_assert_mem_eq(got, f.t[0].dense, f.t[0].bytes);
	free(got);
	close_reader(&f, &io, dir, store, r);
}
END_TEST

/* _i: bytes that the file lacks at the end of a blob's payload. */
START_TEST(a_blob_that_ends_before_its_payload_is_refused)
{
	const uint64_t shape[1] = { 250 }, zero[1] = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf json = { 0 };
	uint8_t n[8], data[1000], got[1000];
	uint32_t number, place;
	struct sf_store *store;
	struct sf_reader *r;
	struct sf_fault plan;
	struct sf_io io;
	struct fake f;
	char dir[256];

	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	fake_begin(&f, 1);
	for (size_t i = 0; i < sizeof(data); i++)
		data[i] = (uint8_t)(i * 7);
	sf_buf_str(&json, "{");
	sf_st_put_entry(&json, "w", 1, SF_FLOAT32, shape, 1, 0, 1000);
	sf_buf_str(&json, "}");
	sf_put_le64(n, json.len);
	sf_buf_add(&f.file[0], n, 8);
	sf_buf_add(&f.file[0], json.at, json.len);
	sf_buf_add(&f.file[0], data, 1000 - (size_t)_i);
	ck_assert_int_ge(sf_ckpt_builder_tensor(f.b, "w", 1, SF_FLOAT32, shape, 1, &number, NULL),
	                 0);
	ck_assert_int_ge(sf_ckpt_builder_chunk(f.b, zero, shape, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_place(f.b, f.name[0], strlen(f.name[0]), SF_ITEM_ST_BLOB,
	                                       SF_CODEC_NONE, &place, NULL),
	                 0);
	sf_ckpt_builder_set_item(f.b, number, 0, place, 0, 1000);
	open_reader(&f, &io, 0, &plan, dir, &store, &r);
	int e = sf_read_tensor(r, 0, 0, got, 1000, &err);
	ck_assert_msg(e == (_i ? -EBADMSG : 0), "%d %s", e, err.msg);
	if (_i)
		ck_assert_msg(strstr(err.msg, "'w'") && strstr(err.msg, "payload of 1000 bytes"),
		              "%s", err.msg);
	else
		ck_assert_mem_eq(got, data, 1000);
	sf_buf_release(&json);
	close_reader(&f, &io, dir, store, r);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("reader_items");
	TCase *t = tcase_create("reader");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, items_with_flipped_signs_are_not_lent, 0, 4);
	tcase_add_loop_test(t, a_short_item_never_gives_its_neighbours_bytes, 0, 8);
	tcase_add_loop_test(t, a_blob_that_ends_before_its_payload_is_refused, 0, 2);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return run_with_zstd(suite);
}
