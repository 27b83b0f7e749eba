#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/pickle_write.h"
#include "parse/torch_item.h"
#include "parse/zip_read.h"
#include "parse/zip_write.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/file_range.h"

enum { MAX = 40 };

/* A writer that has its tensors in memory, or says only how long they are. */
struct writer {
	struct sf_torch_file plan;
	uint64_t start[SF_TORCH_FILE_PIECES(MAX) + 1];
	struct sf_torch_storage storage[MAX];
	const uint8_t *data[MAX];
	struct sf_buf pkl, out;
	uint64_t payload; /* bytes that were asked for where there is no data */
	size_t calls, fail_at;
};

static struct sf_torch_storage storage(const void *arg, uint32_t i)
{
	return ((const struct writer *)arg)->storage[i];
}

static int put_bytes(void *arg, const void *at, size_t len)
{
	struct writer *w = arg;

	sf_buf_add(&w->out, at, len);
	return ++w->calls == w->fail_at ? -EIO : sf_buf_check(&w->out);
}

static int put_pickle(void *arg, uint64_t off, uint64_t len)
{
	struct writer *w = arg;

	ck_assert_uint_le(off + len, w->pkl.len);
	return put_bytes(w, w->pkl.at + off, len);
}

static int put_payload(void *arg, uint32_t i, uint64_t off, uint64_t len)
{
	struct writer *w = arg;

	ck_assert_uint_lt(i, w->plan.nstorage);
	ck_assert_uint_le(off + len, w->storage[i].len);
	if (w->data[i])
		return put_bytes(w, w->data[i] + off, len);
	w->payload += len;
	return 0;
}

static int range(struct writer *w, uint64_t off, uint64_t len)
{
	const struct sf_torch_file_sink to = { put_bytes, put_pickle, put_payload, w };

	w->calls = 0;
	sf_buf_reset(&w->out);
	return torch_file_range(&w->plan, off, len, &to);
}

static void plan(struct writer *w, uint32_t n)
{
	struct sf_error err = SF_ERROR_INIT;

	w->plan = (struct sf_torch_file){ .pkl_len = w->pkl.len,
		                          .pkl_crc = sf_crc32(0, w->pkl.at, w->pkl.len),
		                          .nstorage = n,
		                          .storage = storage,
		                          .arg = w,
		                          .start = w->start };
	ck_assert_msg(sf_torch_file_plan(&w->plan, &err) == 0, "%s", err.msg);
}

static void drop(struct writer *w)
{
	sf_buf_release(&w->pkl);
	sf_buf_release(&w->out);
}

/* { "a": float32 [2, 3], "b": int64 [4] } */
static void two_tensors(struct writer *w)
{
	static const uint64_t a[] = { 2, 3 }, b[] = { 4 };
	static const float fa[6] = { 0, 1, 2, 3, 4, 5 };
	static const int64_t ib[4] = { 1, -1, 2, -2 };
	struct sf_pickle_writer p = { .out = &w->pkl };

	sf_pw_proto(&p);
	sf_pw_op(&p, '}');
	sf_pw_op(&p, '(');
	sf_pw_name(&p, "a", 1);
	sf_pw_tensor(&p, &(struct sf_pw_tensor){ SF_FLOAT32, 2, a, sizeof(fa), 0 });
	sf_pw_name(&p, "b", 1);
	sf_pw_tensor(&p, &(struct sf_pw_tensor){ SF_INT64, 1, b, sizeof(ib), 1 });
	sf_pw_op(&p, 'u');
	sf_pw_stop(&p);
	w->data[0] = (const uint8_t *)fa;
	w->data[1] = (const uint8_t *)ib;
	w->storage[0] = (struct sf_torch_storage){ sizeof(fa), sf_crc32(0, fa, sizeof(fa)) };
	w->storage[1] = (struct sf_torch_storage){ sizeof(ib), sf_crc32(0, ib, sizeof(ib)) };
	plan(w, 2);
}

static void read_dir(const uint8_t *at, uint64_t len, struct sf_arena *arena,
                     struct sf_zip_dir *dir)
{
	uint64_t tail = SF_MIN(len, (uint64_t)SF_ZIP_TAIL);
	struct sf_error err = SF_ERROR_INIT;
	struct sf_zip_end end;

	ck_assert_msg(sf_zip_find_end(at + len - tail, tail, len, &end, &err) == 0, "%s", err.msg);
	ck_assert_msg(sf_zip_parse_dir(at + end.dir_off, &end, len, arena, dir, &err) == 0, "%s",
	              err.msg);
}

START_TEST(two_tensors_in_memory_become_a_file)
{
	static const char *const names[] = { "data.pkl", "byteorder", "data/0", "data/1",
		                             "version" };
	struct writer w = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_zip_dir dir;

	two_tensors(&w);
	uint64_t size = sf_torch_file_size(&w.plan);
	ck_assert_int_eq(range(&w, 0, size), 0);
	ck_assert_uint_eq(w.out.len, size);
	read_dir(w.out.at, size, &arena, &dir);
	ck_assert_uint_eq(dir.n, SF_ARRAY_LEN(names));
	for (size_t i = 0; i < dir.n; i++) {
		const struct sf_zip_record *r = sf_zip_find(&dir, names[i]);
		struct sf_error err = SF_ERROR_INIT;
		uint64_t off;
		ck_assert_ptr_eq(r, &dir.at[i]); /* in this order */
		ck_assert_int_eq(
			sf_zip_local_data(w.out.at + r->header_off, r->header_off, &off, &err), 0);
		ck_assert_uint_eq(off % 64, 0);
		ck_assert_uint_eq(sf_crc32(0, w.out.at + off, r->size), r->crc);
		if (i == 2 || i == 3) {
			uint64_t len, at = sf_torch_file_payload(&w.plan, (uint32_t)i - 2, &len);
			ck_assert_uint_eq(at, off);
			ck_assert_uint_eq(len, r->size);
			ck_assert_mem_eq(w.out.at + at, w.data[i - 2], len);
		}
	}
	ck_assert_uint_eq(sf_torch_file_pickle_off(&w.plan), 64);
	ck_assert_mem_eq(w.out.at + 64, w.pkl.at, w.pkl.len);
	sf_arena_release(&arena);
	drop(&w);
}
END_TEST

START_TEST(any_range_is_that_of_the_file)
{
	uint64_t seed = sf_test_seed("any_range_is_that_of_the_file");
	struct writer w = { 0 };

	two_tensors(&w);
	uint64_t size = sf_torch_file_size(&w.plan);
	ck_assert_int_eq(range(&w, 0, size), 0);
	uint8_t *whole = malloc(size);
	memcpy(whole, w.out.at, size);
	for (int i = 0; i < 3000; i++) {
		uint64_t off = sf_test_below(&seed, size),
			 len = sf_test_below(&seed, size - off + 1);
		ck_assert_int_eq(range(&w, off, len), 0);
		ck_assert_uint_eq(w.out.len, len);
		if (len)
			ck_assert_mem_eq(w.out.at, whole + off, len);
	}
	free(whole);
	drop(&w);
}
END_TEST

/* What lies around storages of terabytes: sizes and offsets past 32 bits, records without bytes. */
START_TEST(large_storages_read_back_from_the_directory)
{
	uint64_t seed = sf_test_seed("large_storages_read_back_from_the_directory");

	for (int round = 0; round < 200; round++) {
		struct writer w = { 0 };
		struct sf_arena arena = { 0 };
		uint32_t n = (uint32_t)sf_test_below(&seed, MAX + 1);
		uint64_t payload = 0, at;
		struct sf_zip_end end;
		struct sf_zip_dir dir;
		struct sf_error err = SF_ERROR_INIT;
		sf_buf_str(&w.pkl, "\x80\2}.");
		for (uint32_t i = 0; i < n; i++) {
			w.storage[i].len = sf_test_rand(&seed) >> (22 + sf_test_below(&seed, 42));
			w.storage[i].crc = (uint32_t)sf_test_rand(&seed);
			payload += w.storage[i].len;
		}
		plan(&w, n);
		uint64_t size = sf_torch_file_size(&w.plan), tail = w.start[n + 1];
		ck_assert_int_eq(range(&w, 0, size), 0);
		ck_assert_uint_eq(w.out.len + w.payload, size);
		ck_assert_uint_eq(w.payload, payload);
		ck_assert_int_eq(range(&w, tail, size - tail), 0);
		ck_assert_msg(sf_zip_find_end(w.out.at, w.out.len, size, &end, &err) == 0, "%s",
		              err.msg);
		ck_assert_uint_eq(end.dir_off, tail);
		ck_assert_msg(sf_zip_parse_dir(w.out.at, &end, size, &arena, &dir, &err) == 0, "%s",
		              err.msg);
		ck_assert_uint_eq(dir.n, n + 3);
		for (uint32_t i = 0; i < n; i++) {
			const struct sf_zip_record *r = &dir.at[2 + i];
			uint64_t len, off = sf_torch_file_payload(&w.plan, i, &len);
			ck_assert_uint_eq(r->size, w.storage[i].len);
			ck_assert_uint_eq(r->crc, w.storage[i].crc);
			ck_assert_uint_eq(r->header_off, w.start[i]);
			ck_assert_uint_eq(off % 64, 0);
			ck_assert_int_eq(range(&w, r->header_off, 30), 0);
			ck_assert_int_eq(sf_zip_local_data(w.out.at, r->header_off, &at, &err), 0);
			ck_assert_uint_eq(at, off);
		}
		sf_arena_release(&arena);
		drop(&w);
	}
}
END_TEST

START_TEST(what_no_file_can_hold_is_refused)
{
	struct writer w = { 0 };
	struct sf_error err = SF_ERROR_INIT;

	for (int i = 0; i < 3; i++)
		w.storage[i].len = INT64_MAX / 5;
	plan(&w, 2);
	w.plan.nstorage = 3;
	ck_assert_int_eq(sf_torch_file_plan(&w.plan, &err), -E2BIG);
	ck_assert_msg(strstr(err.msg, "storage 2"), "%s", err.msg);
	w.plan.nstorage = 1;
	w.storage[0].len = UINT64_MAX;
	ck_assert_int_eq(sf_torch_file_plan(&w.plan, &err), -E2BIG);
	w.plan.nstorage = 0;
	w.plan.pkl_len = UINT64_MAX - 100;
	ck_assert_int_eq(sf_torch_file_plan(&w.plan, &err), -E2BIG);
	drop(&w);
}
END_TEST

START_TEST(what_the_taker_says_ends_it)
{
	struct writer w = { 0 };

	two_tensors(&w);
	ck_assert_int_eq(range(&w, 0, sf_torch_file_size(&w.plan)), 0);
	size_t n = w.calls;
	ck_assert_uint_gt(n, 8);
	for (w.fail_at = 1; w.fail_at <= n; w.fail_at++) {
		ck_assert_int_eq(range(&w, 0, sf_torch_file_size(&w.plan)), -EIO);
		ck_assert_uint_eq(w.calls, w.fail_at);
	}
	drop(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("torch_file_plan");
	TCase *t = tcase_create("all");

	tcase_add_test(t, two_tensors_in_memory_become_a_file);
	tcase_add_test(t, any_range_is_that_of_the_file);
	tcase_add_test(t, large_storages_read_back_from_the_directory);
	tcase_add_test(t, what_no_file_can_hold_is_refused);
	tcase_add_test(t, what_the_taker_says_ends_it);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
