#include "config.h"

#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include "base/crc32.h"
#include "base/mem.h"
#include "base/path.h"
#include "parse/zstd.h"
#include "save/save_item_bytes.h"
#include "save/save_write.h"
#include "tests/lib/sf_test.h"

/* ---- items of all kinds, and what their files have to be ---- */

#define NFILES 3

static struct {
	char dir[64], token[33];
	struct sf_save_items items;
	struct sf_write_place *place;
	struct sf_buf want[NFILES];
	uint64_t total;
	struct sf_stage_pool *pool;
	struct sf_save_target *target;
	struct sf_shard_writer_options o;
	_Atomic uint64_t progress;
	_Atomic bool cancel;
} w;
static struct sf_error err;

static int provide(void *arg, uint64_t off, void *to, size_t len, struct shardfuse_error *e)
{
	static _Thread_local uint64_t next; /* in order, each byte once */

	(void)e;
	if (off == 0)
		next = 0;
	if (off != next)
		return -EINVAL;
	memcpy(to, (uint8_t *)arg + off, len);
	next += len;
	return 0;
}

static void *keep(size_t n)
{
	void *p = sf_arena_alloc(&w.items.arena, n ? n : 1);

	ck_assert_ptr_nonnull(p);
	return p;
}

static struct sf_save_tensor_item plan_of(const struct sf_save_item *item)
{
	struct sf_save_tensor_item t = { .dtype = item->dtype,
		                         .ndim = item->ndim,
		                         .extent = item->extent,
		                         .bytes = item->bytes };

	ck_assert_int_eq(sf_save_tensor_item_plan(&t, &err), 0);
	return t;
}

/* A tensor of @n bytes: dense, strided by two, or provided. Returns its dense bytes. */
static uint8_t *draw_tensor(struct sf_save_item *item, uint64_t n, uint64_t *seed)
{
	uint8_t *dense = keep(n), *twice;
	uint64_t *extent = keep(2 * sizeof(uint64_t));

	for (uint64_t i = 0; i < n; i++)
		dense[i] = (uint8_t)sf_test_rand(seed);
	extent[0] = n, extent[1] = 2;
	*item = (struct sf_save_item){ .kind = SF_SAVE_TENSOR,
		                       .dtype = SF_UINT8,
		                       .ndim = 1,
		                       .key = "t",
		                       .extent = extent,
		                       .bytes = n };
	struct sf_save_tensor_item t = plan_of(item);
	item->stored = t.head_len + n + t.tail_len;
	switch (sf_test_below(seed, 3)) {
	case 0:
		item->from.at = dense;
		break;
	case 1:
		item->from.at = twice = keep(2 * n);
		item->from.stride = &extent[1];
		for (uint64_t i = 0; i < 2 * n; i++)
			twice[i] = i % 2 ? 0xee : dense[i / 2];
		break;
	default:
		item->from.provide = provide;
		item->from.provide_arg = dense;
	}
	return dense;
}

static void want_item(struct sf_buf *to, const struct sf_save_item *item, const uint8_t *dense)
{
	struct sf_save_tensor_item t = { 0 };
	uint32_t crc = w.o.crc ? sf_crc32(0, dense, item->bytes) : 0;

	if (item->kind == SF_SAVE_TENSOR) {
		t = plan_of(item);
		sf_save_tensor_item_head(&t, crc, to);
	}
	sf_buf_add(to, dense, item->bytes);
	if (item->kind == SF_SAVE_TENSOR)
		sf_save_tensor_item_tail(&t, crc, to);
}

static void draw_items(size_t n, uint64_t *seed)
{
	w.place = calloc(n, sizeof(*w.place));
	for (size_t i = 0; i < n; i++) {
		struct sf_save_item item = { .kind = SF_SAVE_OBJECT, .key = "o" };
		uint64_t len = sf_test_below(seed, 20) ? sf_test_below(seed, 6000)
		                                       : sf_test_below(seed, 3 << 20);
		struct sf_buf *to =
			&w.want[w.place[i].file = (uint32_t)sf_test_below(seed, NFILES)];
		uint8_t *dense;
		if (sf_test_below(seed, 5)) {
			dense = draw_tensor(&item, len, seed);
		} else {
			item.archive = dense = keep(len);
			item.bytes = item.stored = len;
			memset(dense, (int)i, len);
		}
		for (uint64_t pad = to->len % 64 ? 64 - to->len % 64 : 0; pad > 0; pad--)
			sf_buf_byte(to, 0);
		w.place[i].item = i;
		w.place[i].off = to->len;
		want_item(to, &item, dense);
		w.total += item.stored;
		ck_assert_int_eq(sf_save_item_vec_push(&w.items.item, item), 0);
	}
}

static void begin(uint64_t budget)
{
	memset(&w, 0, sizeof(w));
	snprintf(w.dir, sizeof(w.dir), "/tmp/sf-shards-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w.dir));
	char path[100];
	snprintf(path, sizeof(path), "%s/a", w.dir);
	ck_assert_int_eq(sf_save_target_new(path, NULL, &w.target, &err), 0);
	ck_assert_int_eq(sf_save_target_claim(w.target, NULL, false, w.token, &err), 0);
	ck_assert_int_eq(sf_stage_pool_new(budget, &w.pool, &err), 0);
	w.o = (struct sf_shard_writer_options){ .rank = 7,
		                                .nfiles = NFILES,
		                                .crc = true,
		                                .pool = w.pool,
		                                .cancel = &w.cancel,
		                                .progress = &w.progress };
}

static void end(void)
{
	char cmd[100];

	sf_save_target_drop(w.target);
	sf_save_target_free(w.target);
	sf_stage_pool_free(w.pool);
	for (unsigned i = 0; i < NFILES; i++)
		sf_buf_release(&w.want[i]);
	free(w.place);
	sf_save_item_vec_release(&w.items.item);
	sf_arena_release(&w.items.arena);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", w.dir);
	ck_assert_int_eq(system(cmd), 0);
}

static int write_all(bool snapshot, struct sf_shard_file *file, struct sf_shard_place *place)
{
	struct sf_shard_write *s;
	int r = sf_shard_write_begin(w.target, &w.items, w.place, w.items.item.n, &w.o, snapshot,
	                             &s, &err);

	if (r < 0)
		return r;
	if (snapshot) /* the caller's memory is the caller's again */
		for (size_t i = 0; i < w.items.item.n; i++)
			if (w.items.item.at[i].from.at)
				memset((void *)(uintptr_t)w.items.item.at[i].from.at, 0xdd,
				       w.items.item.at[i].bytes);
	return sf_shard_write_end(s, file, place, &err);
}

static void check_file(unsigned i, const struct sf_shard_file *file)
{
	char path[200];
	uint8_t digest[32];
	struct stat st;

	snprintf(path, sizeof(path), "%s/a-tmp/%s__7_%u.distcp", w.dir, w.o.dir ? w.o.dir : "", i);
	int fd = open(path, O_RDONLY);
	ck_assert_uint_eq(file->size, w.want[i].len);
	ck_assert_int_eq(fd >= 0, file->size > 0);
	if (fd < 0)
		return;
	ck_assert_int_eq(fstat(fd, &st), 0);
	ck_assert_uint_eq((uint64_t)st.st_size, w.want[i].len);
	uint8_t *got = malloc(file->size);
	ck_assert_int_eq(read(fd, got, file->size), (ssize_t)file->size);
	ck_assert_mem_eq(got, w.want[i].at, file->size);
	close(fd);
	if (w.o.hash) {
		sf_sha256(got, file->size, digest);
		ck_assert_mem_eq(digest, file->sha256, 32);
	}
	free(got);
}

/* _i: bits of snapshot, hash, no CRC, a budget that is smaller than what is staged */
START_TEST(files_have_every_byte_where_it_belongs)
{
	uint64_t seed = sf_test_seed("files");
	struct sf_shard_file file[NFILES];

	begin(_i & 8 ? 200000 : 64 << 20);
	w.o.hash = _i & 2;
	w.o.crc = !(_i & 4);
	w.o.dir = _i & 1 ? "model_and_optim/" : NULL;
	size_t n = 1 + sf_test_below(&seed, 150);
	draw_items(n, &seed);
	struct sf_shard_place *got = calloc(n, sizeof(*got));
	int r = write_all(_i & 1, file, got);
	ck_assert_msg(r == 0, "%s", err.msg);
	for (unsigned i = 0; i < NFILES; i++)
		check_file(i, &file[i]);
	for (size_t i = 0; i < n; i++) {
		ck_assert_uint_eq(got[i].file, w.place[i].file);
		ck_assert_uint_eq(got[i].off, w.place[i].off);
		ck_assert_uint_eq(got[i].len, w.items.item.at[i].stored);
	}
	ck_assert_uint_eq(w.progress, w.total);
	free(got);
	end();
}
END_TEST

/* What a compressed item is, and that it is one frame. */
static void check_frame(const uint8_t *at, uint64_t len, const uint8_t *want, uint64_t want_len)
{
	struct sf_buf out = { 0 };
	struct sf_unzstd *z;

	ck_assert_int_eq(sf_unzstd_new(&z, &err), 0);
	ck_assert_int_eq(sf_unzstd_feed(z, at, len, &out, &err), 0);
	ck_assert_int_eq(sf_unzstd_end(z, &err), 0);
	sf_unzstd_free(z);
	ck_assert_uint_eq(out.len, want_len);
	ck_assert_mem_eq(out.at, want, want_len);
	sf_buf_release(&out);
}

/* _i: bits of snapshot, a small budget, hash */
START_TEST(compressed_items_lie_one_behind_another)
{
	uint64_t seed = sf_test_seed("zstd");
	struct sf_shard_file file[NFILES];
	struct sf_zstd *z;
	char path[200];

	if (sf_zstd_new(3, &z, NULL) == -ENOTSUP)
		return;
	sf_zstd_free(z);
	begin(_i & 2 ? 200000 : 64 << 20);
	w.o.zstd = 1 + (int)sf_test_below(&seed, 5);
	w.o.hash = _i & 4;
	size_t n = 1 + sf_test_below(&seed, 100);
	draw_items(n, &seed);
	struct sf_shard_place *got = calloc(n, sizeof(*got));
	int r = write_all(_i & 1, file, got);
	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_uint_eq(w.progress, w.total);
	uint64_t sum[NFILES] = { 0 };
	for (size_t i = 0; i < n; i++) {
		uint8_t *at = malloc(got[i].len), digest[32];
		ck_assert_uint_eq(got[i].file, w.place[i].file);
		snprintf(path, sizeof(path), "%s/a-tmp/__7_%u.distcp", w.dir, got[i].file);
		int fd = open(path, O_RDONLY);
		ck_assert_int_eq(pread(fd, at, got[i].len, (off_t)got[i].off), (ssize_t)got[i].len);
		check_frame(at, got[i].len, w.want[got[i].file].at + w.place[i].off,
		            w.items.item.at[i].stored);
		free(at);
		sum[got[i].file] += got[i].len;
		at = malloc(file[got[i].file].size);
		if (w.o.hash) {
			ck_assert_int_eq(read(fd, at, file[got[i].file].size),
			                 (ssize_t)file[got[i].file].size);
			sf_sha256(at, file[got[i].file].size, digest);
			ck_assert_mem_eq(digest, file[got[i].file].sha256, 32);
		}
		free(at);
		close(fd);
	}
	for (unsigned i = 0; i < NFILES; i++)
		ck_assert_uint_eq(sum[i], file[i].size);
	free(got);
	end();
}
END_TEST

START_TEST(cancelled_it_ends_with_that)
{
	uint64_t seed = sf_test_seed("cancel");

	begin(64 << 20);
	draw_items(30, &seed);
	w.cancel = true;
	ck_assert_int_eq(write_all(_i, NULL, NULL), -ECANCELED);
	end();
}
END_TEST

START_TEST(of_what_failed_the_cause_is_told)
{
	uint64_t seed = sf_test_seed("fail");

	begin(64 << 20);
	draw_items(30, &seed);
	struct sf_save_item bad = {
		.kind = SF_SAVE_TENSOR, .key = "bad", .dtype = SF_UINT8, .bytes = 1
	};
	struct sf_save_tensor_item t = plan_of(&bad);
	bad.stored = t.head_len + 1 + t.tail_len;
	w.place[20].file = 0;
	w.place[20].off = (uint64_t)1 << 30; /* behind all others */
	w.items.item.at[20] = bad;
	ck_assert_int_eq(write_all(_i, NULL, NULL), -EINVAL);
	ck_assert_msg(strstr(err.msg, "'bad'"), "%s", err.msg);
	end();
}
END_TEST

/* _i: bits of snapshot, zstd */
START_TEST(a_file_that_cannot_grow_is_named)
{
	uint64_t seed = sf_test_seed("limit");
	struct rlimit was, limit;

	begin(64 << 20);
	draw_items(60, &seed);
	w.o.zstd = _i & 2 ? 1 : 0;
	signal(SIGXFSZ, SIG_IGN);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &was), 0);
	limit = (struct rlimit){ 4096, was.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &limit), 0);
	int r = write_all(_i & 1, NULL, NULL);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &was), 0); /* Check writes files too */
	ck_assert_msg(r == -EFBIG || r == -ENOTSUP, "%d: %s", r, err.msg);
	ck_assert_msg(r == -ENOTSUP || strstr(err.msg, "__7_"), "%s", err.msg);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_write");
	TCase *t = tcase_create("save_write");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, files_have_every_byte_where_it_belongs, 0, 32);
	tcase_add_loop_test(t, compressed_items_lie_one_behind_another, 0, 8);
	tcase_add_loop_test(t, cancelled_it_ends_with_that, 0, 2);
	tcase_add_loop_test(t, of_what_failed_the_cause_is_told, 0, 2);
	tcase_add_loop_test(t, a_file_that_cannot_grow_is_named, 0, 4);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
