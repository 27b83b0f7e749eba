#include "config.h"

#include <sched.h>
#include <stdatomic.h>
#include <string.h>

#include "base/mem.h"
#include "tests/lib/far_world.h"

/* Items of a far server whose payload only their archive's directory tells. */

#define HUNG 6 /* reads */

/* Tensor @i of @n rows of @len bytes, an item a row, all in file @i. @more: so many further records
 * in each archive. */
static void tensor(unsigned i, uint64_t n, uint64_t len, unsigned more)
{
	const uint64_t shape[2] = { n, len }, extent[2] = { 1, len }, stride[2] = { len, 1 };
	uint32_t number, place;
	char name[8];

	snprintf(name, sizeof(name), "t%u", i);
	f.ntensors = i + 1;
	f.t[i].dtype = SF_INT8;
	f.t[i].bytes = n * len;
	f.t[i].dense = malloc(n * len);
	for (uint64_t k = 0; k < n * len; k++)
		f.t[i].dense[k] = (uint8_t)sf_test_rand(&f.seed);
	ck_assert_int_ge(
		sf_ckpt_builder_tensor(f.b, name, strlen(name), SF_INT8, shape, 2, &number, NULL),
		0);
	ck_assert_int_ge(sf_ckpt_builder_place(f.b, f.name[i], strlen(f.name[i]), SF_ITEM_TORCH,
	                                       SF_CODEC_NONE, &place, NULL),
	                 0);
	for (uint64_t k = 0; k < n; k++)
		ck_assert_int_ge(sf_ckpt_builder_chunk(f.b, (uint64_t[]){ k, 0 }, extent, NULL), 0);
	for (uint32_t k = 0; k < n; k++) {
		const uint8_t *data = f.t[i].dense + k * len;
		struct sf_buf pkl = { 0 }, dir = { 0 }, zip = { 0 };
		uint64_t off = f.file[i].len;
		struct sf_zip_entry e = { "archive/data/0", 14, 0, len, sf_crc32(0, data, len) };

		fake_pkl(&pkl, SF_INT8, extent, stride, 2, len, 0, false);
		sf_zip_put_header(&zip, &e);
		sf_buf_add(&zip, data, len);
		sf_zip_put_central(&dir, &e);
		for (unsigned j = 1; j <= more; j++) {
			int w = snprintf(name, sizeof(name), "%u", j);
			char text[32];
			w = snprintf(text, sizeof(text), "archive/data/%s", name);
			e = (struct sf_zip_entry){ text, (size_t)w, zip.len, 0, 0 };
			sf_zip_put_header(&zip, &e);
			sf_zip_put_central(&dir, &e);
		}
		e = (struct sf_zip_entry){ "archive/data.pkl", 16, zip.len, pkl.len,
			                   sf_crc32(0, pkl.at, pkl.len) };
		sf_zip_put_header(&zip, &e);
		sf_buf_add(&zip, pkl.at, pkl.len);
		sf_zip_put_central(&dir, &e);
		uint64_t dir_off = zip.len, dir_len = dir.len;
		sf_buf_add(&zip, dir.at, dir.len);
		sf_zip_put_end(&zip, more + 2, dir_off, dir_len);
		ck_assert_int_eq(sf_buf_check(&zip), 0);
		sf_buf_add(&f.file[i], zip.at, zip.len);
		sf_ckpt_builder_set_item(f.b, number, k, place, off, zip.len);
		sf_buf_release(&pkl);
		sf_buf_release(&dir);
		sf_buf_release(&zip);
	}
}

static int emit_tensor(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
                       struct sf_error *err)
{
	return sf_parts_tensor(p, *(uint32_t *)arg, off, len, SF_DTYPE_NONE);
}

/* Of the first files, the end of an archive. */
static bool is_hung_end(const struct sf_io_req *req)
{
	return req->off + req->len == req->src->size && strcmp(req->src->name, f.name[HUNG]) != 0;
}

static void note_done(struct sf_read *rd, int r)
{
	atomic_store((atomic_int *)rd->priv, r == 0 ? 1 : r);
}

/* Reads whose directories do not come hold no thread that another one needs for its own. */
START_TEST(headers_that_hang_stop_no_other_read)
{
	const uint64_t len = 100000;
	struct sf_read rd[HUNG];
	atomic_int done[HUNG];
	uint32_t number[HUNG];
	uint8_t *got = malloc(len);
	struct sf_error err = SF_ERROR_INIT;

	fake_begin(&f, 3);
	for (unsigned i = 0; i <= HUNG; i++)
		tensor(i, 1, len, 0);
	begin((struct sf_far){ .hangs = is_hung_end });
	for (unsigned i = 0; i < HUNG; i++) {
		number[i] = i;
		atomic_init(&done[i], 0);
		rd[i] = (struct sf_read){ .emit = emit_tensor,
			                  .arg = &number[i],
			                  .len = len,
			                  .buf = malloc(len),
			                  .done = note_done,
			                  .priv = &done[i] };
		sf_read_park(reader, &rd[i]);
	}
	while (far.hung < HUNG && !far.held_late)
		sched_yield();
	ck_assert_uint_eq(far.held_late, 0);
	ck_assert_msg(sf_read_tensor(reader, HUNG, 0, got, len, &err) == 0, "%s", err.msg);
	ck_assert_mem_eq(got, f.t[HUNG].dense, len);
	ck_assert_uint_eq(far.held_late, 0);
	far.let_go = true;
	for (unsigned i = 0; i < HUNG; i++) {
		while (!atomic_load(&done[i]))
			sched_yield();
		ck_assert_msg(atomic_load(&done[i]) == 1, "%s", rd[i].err.msg);
		ck_assert_mem_eq(rd[i].buf, f.t[i].dense, len);
		sf_read_release(&rd[i]);
		free(rd[i].buf);
	}
	free(got);
	end();
}
END_TEST

/* A cancelled one ends, and the next read of the same item finds all of it. */
START_TEST(a_hung_header_is_cancelled)
{
	const uint64_t len = 100000;
	atomic_int done = 0;
	uint32_t number = 0;
	uint8_t *got = malloc(len);
	struct sf_read rd = {
		.emit = emit_tensor, .arg = &number, .len = len, .done = note_done, .priv = &done
	};

	fake_begin(&f, 4);
	tensor(0, 1, len, 0);
	begin((struct sf_far){ .hangs = is_hung_end });
	sf_read_park(reader, &rd);
	while (!far.hung)
		sched_yield();
	sf_read_cancel(reader, &rd);
	while (!atomic_load(&done))
		sched_yield();
	ck_assert_int_eq(atomic_load(&done), -ECANCELED);
	sf_read_release(&rd);
	far.let_go = true;
	ck_assert_int_eq(sf_read_tensor(reader, 0, 0, got, len, NULL), 0);
	ck_assert_mem_eq(got, f.t[0].dense, len);
	free(got);
	end();
}
END_TEST

/* More of them in one read than are looked at at once; and directories longer than a round. */
START_TEST(any_number_of_directories_gives_the_bytes)
{
	static const struct {
		uint64_t n, len;
		unsigned more;
	} of[] = { { 50, 3000, 0 }, { 1, 7, 0 }, { 3, 500, 70000 }, { 5, 70000, 1500 } };

	fake_begin(&f, 5);
	for (unsigned i = 0; i < SF_ARRAY_LEN(of); i++)
		tensor(i, of[i].n, of[i].len, of[i].more);
	begin((struct sf_far){ .reorder = true,
	                       .inline_of = (unsigned)_i,
	                       .hints = { .range_max = 1 << 20,
	                                  .gap_max = _i ? 1 << 20 : 64,
	                                  .head_guess = _i ? 2048 : 0,
	                                  .inflight = 8 } });
	for (unsigned i = 0; i < SF_ARRAY_LEN(of); i++) {
		struct sf_error err = SF_ERROR_INIT;
		uint8_t *got = malloc(f.t[i].bytes);
		ck_assert_msg(sf_read_tensor(reader, i, 0, got, f.t[i].bytes, &err) == 0, "%s",
		              err.msg);
		ck_assert_mem_eq(got, f.t[i].dense, f.t[i].bytes);
		free(got);
	}
	end();
}
END_TEST

/* What is wrong with an archive is said with where it lies. */
START_TEST(a_broken_directory_is_named)
{
	struct sf_error err = SF_ERROR_INIT;
	uint8_t got[100], *at;

	fake_begin(&f, 6);
	tensor(0, 2, 100, 0);
	at = f.file[0].at;
	for (uint8_t *next = at; next;) {
		at = next;
		next = memmem(at + 1, (size_t)(f.file[0].at + f.file[0].len - at - 1), "PK\1\2", 4);
	}
	at[1] = 'X'; /* the last entry of the second item's */
	begin((struct sf_far){ 0 });
	ck_assert_int_eq(sf_read_tensor(reader, 0, 0, got, 100, NULL), 0);
	ck_assert_int_eq(sf_read_tensor(reader, 0, 100, got, 100, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "tensor 't0', chunk 1") && strstr(err.msg, f.name[0]) &&
	                      strstr(err.msg, "item at ") &&
	                      strstr(err.msg, "directory entry 1 of 2"),
	              "%s", err.msg);
	end();
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("far_headers");
	TCase *t = tcase_create("far_headers");

	tcase_set_timeout(t, 300);
	tcase_add_test(t, headers_that_hang_stop_no_other_read);
	tcase_add_test(t, a_hung_header_is_cancelled);
	tcase_add_loop_test(t, any_number_of_directories_gives_the_bytes, 0, 3);
	tcase_add_test(t, a_broken_directory_is_named);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
