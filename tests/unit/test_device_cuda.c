#include "config.h"

#include <pthread.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>

#include "save/save_stage.h"
#include "shardfuse.h"
#include "shardfuse_save.h"
#include "tests/lib/box_world.h"
#include "tests/lib/fake_cudart.h"

static const struct fake_cudart *fake;
static struct sf_error err;

static struct fake_counts counts(void)
{
	struct fake_counts c;

	fake->counts(&c);
	return c;
}

static void begin(int gpus)
{
	fake = fake_cudart();
	ck_assert_ptr_nonnull(fake);
	fake->reset(gpus);
	err.msg[0] = 0;
}

static void end(void)
{
	ck_assert_str_eq(fake->wrong(), "");
	ck_assert_uint_eq(counts().pinned, 0);
	ck_assert_int_eq(fake->last_error(), cudaSuccess);
	fake->reset(1);
}

/* ---- what is missing ---- */

static int needs(const char *library)
{
	const struct sf_device *d;

	setenv("SHARDFUSE_CUDART", library, 1);
	return sf_device_cuda(&d, &err);
}

START_TEST(what_is_missing_is_said)
{
	ck_assert_int_eq(needs("/nowhere/libcudart.so"), -ENOTSUP);
	ck_assert_ptr_nonnull(
		strstr(err.msg, "CUDA memory: SHARDFUSE_CUDART: /nowhere/libcudart.so"));
	ck_assert_int_eq(needs("libm.so.6"), -ENOTSUP);
	ck_assert_str_eq(
		err.msg,
		"CUDA memory: SHARDFUSE_CUDART: 'libm.so.6' has no function cudaGetLastError");
	begin(0);
	ck_assert_int_eq(needs(getenv("SHARDFUSE_CUDART")), -ENOTSUP);
	ck_assert_ptr_nonnull(strstr(err.msg, "no CUDA-capable device is detected"));
	ck_assert(!sf_device_cuda_in_use());
	/* whatever is installed here, a GPU or not: an answer */
	const struct sf_device *d;
	unsetenv("SHARDFUSE_CUDART");
	int r = access("/dev/nvidiactl", F_OK) == 0 ? 0 : sf_device_cuda(&d, &err);
	ck_assert(r == 0 || (r == -ENOTSUP && strncmp(err.msg, "CUDA memory: ", 13) == 0));
	end();
}
END_TEST

/* ---- bytes ---- */

/* A box's memory on a GPU, behind a kernel that writes it only when somebody waits. */
static void *to_gpu(int gpu, cudaStream_t s, const void *from, size_t len)
{
	void *at = fake->alloc(gpu, len);

	memset(fake->bytes(at), 0x11, len);
	fake->kernel(s, gpu, at, from, len);
	return at;
}

START_TEST(any_range_of_any_layout_is_as_the_dense_box)
{
	uint64_t seed = sf_test_seed("gather");

	begin(3);
	cudaStream_t streams[3] = { fake->stream(0), fake->stream(1), fake->stream(2) };
	for (int round = 0; round < 60; round++) {
		struct box_world w;
		const struct sf_device *d;
		int now, gpu = (int)sf_test_below(&seed, 3), mine = (int)sf_test_below(&seed, 3);
		box_draw(&w, &seed);
		fake->set_device(mine);
		cudaStream_t s = sf_test_below(&seed, 3) ? streams[gpu] : NULL;
		w.item.from.at = to_gpu(gpu, s, w.memory, w.memory_len);
		w.item.from.stream = s;
		w.item.from.device = SHARDFUSE_CUDA;
		ck_assert_int_eq(sf_stage_device(&w.item, &d, &err), 0);
		uint8_t *got = d->alloc(d, w.item.bytes + 2);
		for (int i = 0; i < 6; i++) {
			uint64_t off = i ? sf_test_below(&seed, w.item.bytes + 1) : 0;
			uint64_t len =
				i ? sf_test_below(&seed, w.item.bytes - off + 1) : w.item.bytes;
			memset(got, 0xa5, w.item.bytes + 2);
			ck_assert_int_eq(sf_stage_fill(&w.item, off, got + 1, len, &err), 0);
			ck_assert_mem_eq(got + 1, w.dense + off, len);
			ck_assert_uint_eq(got[0], 0xa5);
			ck_assert_uint_eq(got[len + 1], 0xa5);
			fake->get_device(&now);
			ck_assert_int_eq(now, mine);
		}
		d->free(d, got, w.item.bytes + 2);
		fake->free((void *)(uintptr_t)w.item.from.at);
		box_undraw(&w);
	}
	ck_assert_uint_gt(counts().copies_2d, 0);
	ck_assert_uint_eq(counts().pageable, 0);
	end();
}
END_TEST

START_TEST(small_tensors_share_an_event)
{
	const uint64_t extent = 100;
	struct sf_stage_copies copies = { 0 };
	const struct sf_device *d;
	uint8_t *all, want[100];

	begin(1);
	memset(want, 7, sizeof(want));
	cudaStream_t s = fake->stream(0);
	struct sf_save_item item = { .kind = SF_SAVE_TENSOR,
		                     .dtype = SF_UINT8,
		                     .ndim = 1,
		                     .extent = &extent,
		                     .bytes = 100,
		                     .from = { .stream = s, .device = SHARDFUSE_CUDA } };
	item.from.at = to_gpu(0, s, want, 100);
	ck_assert_int_eq(sf_device_cuda(&d, &err), 0);
	all = d->alloc(d, 10000);
	for (int i = 0; i < 100; i++)
		ck_assert_int_eq(sf_stage_fill_begin(&item, 0, all + 100 * i, 100, &copies, &err),
		                 0);
	ck_assert_uint_eq(copies.n, 1);
	ck_assert_int_eq(sf_stage_fill_wait(&copies, &err), 0);
	ck_assert_uint_eq(counts().waits, 1);
	for (int i = 0; i < 100; i++)
		ck_assert_mem_eq(all + 100 * i, want, 100);
	sf_stage_copies_release(&copies);
	d->free(d, all, 10000);
	end();
}
END_TEST

START_TEST(what_cannot_be_pinned_is_copied_all_the_same)
{
	const uint64_t extent = 5000;
	static uint8_t want[5000];
	const struct sf_device *d;

	begin(1);
	memset(want, 9, sizeof(want));
	struct sf_save_item item = { .kind = SF_SAVE_TENSOR,
		                     .dtype = SF_UINT8,
		                     .ndim = 1,
		                     .extent = &extent,
		                     .bytes = 5000,
		                     .from = { .device = SHARDFUSE_CUDA } };
	item.from.at = to_gpu(0, NULL, want, 5000);
	ck_assert_int_eq(sf_device_cuda(&d, &err), 0);
	for (int i = 0; i < 2; i++) {
		fake->pin_badly(i == 0, i == 1);
		uint8_t *at = d->alloc(d, 5000);
		ck_assert_uint_eq((uintptr_t)at % 4096, 0);
		ck_assert_int_eq(sf_stage_fill(&item, 0, at, 5000, &err), 0);
		ck_assert_mem_eq(at, want, 5000);
		d->free(d, at, 5000);
	}
	ck_assert_uint_eq(counts().pageable, 2);
	end();
}
END_TEST

/* ---- whole saves ---- */

#define TENSORS 5
#define ROWS 700
#define COLS 900 /* of float32: 2.4 MiB each, several slabs */

static struct {
	char dir[64], target[100];
	float *want[TENSORS]; /* dense */
	float *memory[TENSORS];
	struct shardfuse_save_tensor t[TENSORS];
	uint64_t shape[2], stride[2];
	char key[TENSORS][16];
} w;

/* Tensors on GPU @gpu, but for the last, which is the host's; the third is a transposed one. */
static void draw_save(int gpu)
{
	uint64_t seed = sf_test_seed("save");

	snprintf(w.dir, sizeof(w.dir), "/tmp/sf-cuda-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w.dir));
	snprintf(w.target, sizeof(w.target), "%s/step", w.dir);
	w.shape[0] = w.stride[1] = ROWS;
	w.shape[1] = COLS, w.stride[0] = 1;
	for (int i = 0; i < TENSORS; i++) {
		struct shardfuse_save_tensor *t = &w.t[i];
		w.want[i] = malloc(sizeof(float) * ROWS * COLS);
		w.memory[i] = malloc(sizeof(float) * ROWS * COLS);
		for (size_t k = 0; k < (size_t)ROWS * COLS; k++) {
			size_t to = i == 2 ? k % COLS * ROWS + k / COLS : k;
			w.memory[i][to] = w.want[i][k] = (float)(sf_test_rand(&seed) >> 40);
		}
		snprintf(w.key[i], sizeof(w.key[i]), "t%d", i);
		*t = (struct shardfuse_save_tensor)SHARDFUSE_INIT(*t);
		t->key = w.key[i];
		t->dtype = "float32";
		t->ndim = 2;
		t->shape = w.shape;
		t->stride = i == 2 ? w.stride : NULL;
		t->at = w.memory[i];
		if (i == TENSORS - 1)
			continue;
		t->device = SHARDFUSE_CUDA;
		t->stream = i % 2 ? fake->stream(gpu) : NULL;
		t->at = to_gpu(gpu, t->stream, w.memory[i], sizeof(float) * ROWS * COLS);
	}
}

static void undraw_save(void)
{
	char cmd[200];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", w.dir);
	ck_assert_int_eq(system(cmd), 0);
	for (int i = 0; i < TENSORS; i++) {
		free(w.want[i]);
		free(w.memory[i]);
	}
}

/* The tensors' memory is written over as soon as it may be. */
static void spoil(void)
{
	for (int i = 0; i < TENSORS; i++) {
		bool gpu = w.t[i].device == SHARDFUSE_CUDA;
		memset(gpu ? fake->bytes(w.t[i].at) : (void *)w.memory[i], 0xee,
		       sizeof(float) * ROWS * COLS);
	}
}

static int save(bool async, struct shardfuse_save_options *o, struct shardfuse_error *e)
{
	struct shardfuse_save_request *req = NULL;
	struct shardfuse_save *s;
	int r = shardfuse_save_begin(w.target, o, NULL, &s, e);

	for (int i = 0; r >= 0 && i < TENSORS; i++)
		r = shardfuse_save_add_tensor(s, &w.t[i], e);
	if (r < 0) {
		/* said */
	} else if (!async) {
		r = shardfuse_save_commit(s, e);
	} else {
		r = shardfuse_save_commit_async(s, &req, e);
		if (r >= 0) {
			spoil();
			r = shardfuse_save_wait(req, e);
		}
	}
	shardfuse_save_free(s);
	return r;
}

static void check_saved(void)
{
	float *got = malloc(sizeof(float) * ROWS * COLS);
	struct shardfuse_error e = { "" };
	struct shardfuse *h;

	ck_assert_msg(shardfuse_open(NULL, w.target, NULL, &h, &e) == 0, "%s", e.msg);
	for (int i = 0; i < TENSORS; i++) {
		int64_t t = shardfuse_tensor_find(h, w.key[i], 2, &e);
		ck_assert_int_ge(t, 0);
		int r = shardfuse_tensor_read(h, (uint64_t)t, 0, got, sizeof(float) * ROWS * COLS,
		                              &e);
		ck_assert_msg(r == 0, "%s", e.msg);
		ck_assert_mem_eq(got, w.want[i], sizeof(float) * ROWS * COLS);
	}
	shardfuse_close(h);
	free(got);
}

/* _i: asynchronous; two files; a budget of two slabs; compressed */
START_TEST(a_save_has_the_bytes_behind_what_is_queued)
{
	struct shardfuse_save_options o = SHARDFUSE_INIT(o);
	struct shardfuse_error e = { "" };

	begin(2);
	fake->set_device(1);
	draw_save(1);
	o.files_per_rank = _i & 2 ? 2 : 1;
	o.staging = _i & 4 ? 1 << 20 : 0;
	o.zstd = _i & 8 ? 1 : 0;
	o.no_fsync = 1;
	int r = save(_i & 1, &o, &e);
	if (o.zstd && r == -ENOTSUP) { /* a build without it */
		ck_assert_str_eq(fake->wrong(), "");
	} else {
		ck_assert_msg(r == 0, "%s", e.msg);
		check_saved();
		ck_assert_uint_gt(counts().pinned_ever, 0);
		ck_assert_uint_eq(counts().pageable, 0);
		if (!o.zstd) /* the next one is on its way while one is written */
			ck_assert_uint_gt(counts().ahead, 0);
	}
	/* nobody used the other GPU, and no thread of the library came by it */
	ck_assert_uint_eq(counts().contexts, 1 << 1);
	end();
	undraw_save();
}
END_TEST

START_TEST(what_is_kept_is_pinned_once)
{
	struct shardfuse_save_options o = SHARDFUSE_INIT(o);
	struct shardfuse_error e = { "" };

	begin(1);
	draw_save(0);
	ck_assert_int_eq(shardfuse_save_keep_new(&o.keep, &e), 0);
	o.no_fsync = 1;
	o.overwrite = SHARDFUSE_REPLACE;
	ck_assert_msg(save(false, &o, &e) == 0, "%s", e.msg);
	size_t ever = counts().pinned_ever;
	ck_assert_uint_gt(counts().pinned, 0);
	ck_assert_msg(save(false, &o, &e) == 0, "%s", e.msg);
	ck_assert_uint_eq(counts().pinned_ever, ever);
	check_saved();
	shardfuse_save_keep_free(o.keep);
	end();
	undraw_save();
}
END_TEST

/* Any call may fail: the save says so, or does without; nothing is left behind. */
START_TEST(any_call_may_fail)
{
	struct shardfuse_save_options o = SHARDFUSE_INIT(o);
	unsigned failed = 0;

	begin(1);
	draw_save(0);
	o.no_fsync = 1;
	o.overwrite = SHARDFUSE_REPLACE;
	o.staging = 16 << 20;
	for (unsigned long n = 1;; n += 1 + n / 8) {
		struct shardfuse_error e = { "" };
		unsigned long before = counts().calls;
		fake->fail_at(n, n % 2 ? (cudaError_t)700 : cudaErrorMemoryAllocation);
		int r = save(false, &o, &e);
		bool reached = counts().calls - before >= n;
		fake->fail_at(0, cudaSuccess);
		ck_assert_str_eq(fake->wrong(), "");
		ck_assert_uint_eq(counts().pinned, 0);
		ck_assert_int_eq(fake->last_error(), cudaSuccess);
		if (r < 0)
			ck_assert_msg(e.msg[0] && (r == -EIO || r == -ENOMEM || r == -ENOTSUP),
			              "%d %s", r, e.msg);
		else
			check_saved();
		failed += r < 0;
		if (!reached)
			break;
	}
	ck_assert_uint_gt(failed, 3);
	end();
	undraw_save();
}
END_TEST

/* ---- whose memory is it? ---- */

static void is_refused(const char *why)
{
	struct shardfuse_error e = { "" };
	struct stat st;

	ck_assert_int_eq(save(false, NULL, &e), -EINVAL);
	ck_assert_msg(strstr(e.msg, "tensor 't1'") && strstr(e.msg, why), "%s", e.msg);
	ck_assert_int_ne(stat(w.target, &st), 0);
	ck_assert_str_eq(fake->wrong(), "");
}

START_TEST(memory_that_is_not_where_it_is_said_is_refused)
{
	begin(2);
	draw_save(0);
	const void *gpus = w.t[1].at;
	void *s = w.t[1].stream;

	w.t[1].device = SHARDFUSE_HOST;
	is_refused("is GPU 0's: device is SHARDFUSE_CUDA");
	w.t[1].device = SHARDFUSE_CUDA;
	w.t[1].at = w.memory[1];
	is_refused("is the host's: device is SHARDFUSE_HOST");
	w.t[1].at = gpus;
	w.t[1].stream = fake->stream(1);
	is_refused("not one of GPU 0");
	w.t[1].stream = cudaStreamPerThread;
	is_refused("cudaStreamPerThread");
	w.t[1].stream = s;
	fake->capture(s, true);
	is_refused("captured");
	fake->capture(s, false);
	struct shardfuse_error e = { "" };
	ck_assert_msg(save(false, NULL, &e) == 0, "%s", e.msg);
	check_saved();
	end();
	undraw_save();
}
END_TEST

START_TEST(memory_of_the_host_alone_needs_no_gpu)
{
	struct shardfuse_error e = { "" };

	begin(2);
	draw_save(0);
	for (int i = 0; i < TENSORS; i++) {
		w.t[i].device = SHARDFUSE_HOST;
		w.t[i].at = w.memory[i];
	}
	fake->reset(2); /* nobody was on a GPU */
	ck_assert_msg(save(false, NULL, &e) == 0, "%s", e.msg);
	check_saved();
	ck_assert_uint_eq(counts().contexts, 0);
	ck_assert_uint_eq(counts().pinned_ever, 0);
	end();
	undraw_save();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("device_cuda");
	TCase *t = tcase_create("device_cuda");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, what_is_missing_is_said); /* first: what is found once stays */
	tcase_add_test(t, any_range_of_any_layout_is_as_the_dense_box);
	tcase_add_test(t, small_tensors_share_an_event);
	tcase_add_test(t, what_cannot_be_pinned_is_copied_all_the_same);
	tcase_add_loop_test(t, a_save_has_the_bytes_behind_what_is_queued, 0, 16);
	tcase_add_test(t, what_is_kept_is_pinned_once);
	tcase_add_test(t, any_call_may_fail);
	tcase_add_test(t, memory_that_is_not_where_it_is_said_is_refused);
	tcase_add_test(t, memory_of_the_host_alone_needs_no_gpu);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
