/* A save from a GPU's memory, by the CUDA runtime and driver of this machine; skipped, with the reason, without. */
#include "config.h"

#include <dlfcn.h>
#include <string.h>
#include <time.h>

#ifdef SF_HAVE_CUDART_H
#include <cuda_runtime_api.h>
#endif
#include "save/device_cuda_abi.h"
#include "save/save_stage.h"
#include "shardfuse.h"
#include "shardfuse_save.h"
#include "tests/lib/sf_test.h"

#define ROWS 4096
#define COLS 2048 /* of float32: 32 MiB */
#define LEN ((size_t)ROWS * COLS * sizeof(float))
#define TENSORS 3

/* What the test calls itself, of the runtime that the library has found. */
static struct {
	cudaError_t (*malloc)(void **at, size_t len);
	cudaError_t (*free)(void *at);
	__typeof__(&cudaMemcpyAsync) copy;
	__typeof__(&cudaStreamCreateWithFlags) stream;
	__typeof__(&cudaStreamSynchronize) synchronize;
	__typeof__(&cudaHostAlloc) pin;
	__typeof__(&cudaFreeHost) unpin;
	__typeof__(&cudaGetDevice) device;
} rt;
static const char *missing;

static void get(void *lib, const char *name, void *to)
{
	void *f = dlsym(lib, name);

	if (!f)
		missing = name;
	memcpy(to, &f, sizeof(f));
}

static bool find_runtime(void)
{
	static const char *const names[] = { "libcudart.so.13", "libcudart.so.12",
		                             "libcudart.so.11.0", "libcudart.so" };
	const char *given = getenv("SHARDFUSE_CUDART");
	void *lib = given ? dlopen(given, RTLD_NOW | RTLD_NOLOAD) : NULL;

	for (size_t i = 0; !lib && i < 4; i++)
		lib = dlopen(names[i], RTLD_NOW | RTLD_NOLOAD);
	if (!lib)
		return false;
	get(lib, "cudaMalloc", &rt.malloc);
	get(lib, "cudaFree", &rt.free);
	get(lib, "cudaMemcpyAsync", &rt.copy);
	get(lib, "cudaStreamCreateWithFlags", &rt.stream);
	get(lib, "cudaStreamSynchronize", &rt.synchronize);
	get(lib, "cudaHostAlloc", &rt.pin);
	get(lib, "cudaFreeHost", &rt.unpin);
	get(lib, "cudaGetDevice", &rt.device);
	return !missing;
}

static struct {
	float *want, *turned; /* pinned: the same, transposed */
	cudaStream_t s;
	void *at[TENSORS];
	char dir[64], target[100];
} w;

static void begin(void)
{
	uint64_t seed = sf_test_seed("gpu");

	ck_assert_int_eq(rt.pin((void **)&w.want, LEN, 0), cudaSuccess);
	ck_assert_int_eq(rt.pin((void **)&w.turned, LEN, 0), cudaSuccess);
	for (size_t i = 0; i < ROWS; i++)
		for (size_t j = 0; j < COLS; j++)
			w.want[i * COLS + j] = w.turned[j * ROWS + i] =
				(float)(sf_test_rand(&seed) >> 40);
	ck_assert_int_eq(rt.stream(&w.s, cudaStreamNonBlocking), cudaSuccess);
	for (int i = 0; i < TENSORS; i++)
		ck_assert_int_eq(rt.malloc(&w.at[i], LEN), cudaSuccess);
	snprintf(w.dir, sizeof(w.dir), "/tmp/sf-gpu-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(w.dir));
	snprintf(w.target, sizeof(w.target), "%s/step", w.dir);
}

static void end(void)
{
	char cmd[200];

	for (int i = 0; i < TENSORS; i++)
		rt.free(w.at[i]);
	rt.unpin(w.want);
	rt.unpin(w.turned);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", w.dir);
	ck_assert_int_eq(system(cmd), 0);
}

static void add(struct shardfuse_save *s, const char *key, void *at, const uint64_t *stride)
{
	static const uint64_t shape[2] = { ROWS, COLS };
	struct shardfuse_save_tensor t = SHARDFUSE_INIT(t);
	struct shardfuse_error e = { "" };

	t.key = key;
	t.dtype = "float32";
	t.ndim = 2;
	t.shape = shape;
	t.stride = stride;
	t.at = at;
	t.device = SHARDFUSE_CUDA;
	t.stream = w.s;
	ck_assert_msg(shardfuse_save_add_tensor(s, &t, &e) == 0, "%s", e.msg);
}

static void check_saved(void)
{
	static const char *const keys[TENSORS] = { "a", "b", "turned" };
	struct shardfuse_error e = { "" };
	struct shardfuse *h;
	float *got = malloc(LEN);

	ck_assert_msg(shardfuse_open(NULL, w.target, NULL, &h, &e) == 0, "%s", e.msg);
	for (int i = 0; i < TENSORS; i++) {
		int64_t t = shardfuse_tensor_find(h, keys[i], strlen(keys[i]), &e);
		ck_assert_int_ge(t, 0);
		ck_assert_int_eq(shardfuse_tensor_read(h, (uint64_t)t, 0, got, LEN, &e), 0);
		ck_assert(memcmp(got, w.want, LEN) == 0);
	}
	shardfuse_close(h);
	free(got);
}

/* _i: asynchronous. The tensors are written by what is queued just before; then over again by what comes after. */
START_TEST(a_save_has_what_the_stream_wrote)
{
	static const uint64_t turned[2] = { 1, ROWS };
	struct shardfuse_save_options o = SHARDFUSE_INIT(o);
	struct shardfuse_save_request *req;
	struct shardfuse_save *s;
	struct shardfuse_error e = { "" };
	int before, after;

	begin();
	o.staging = _i ? 0 : 8 << 20;
	o.no_fsync = 1;
	ck_assert_int_eq(shardfuse_save_begin(w.target, &o, NULL, &s, &e), 0);
	add(s, "a", w.at[0], NULL);
	add(s, "b", w.at[1], NULL);
	add(s, "turned", w.at[2], turned);
	rt.device(&before);
	for (int again = 0; again < 20; again++)
		for (int i = 0; i < TENSORS; i++)
			rt.copy(w.at[i],
			        again < 19 ? (i < 2 ? w.turned : w.want)
			                   : (i < 2 ? w.want : w.turned),
			        LEN, cudaMemcpyDefault, w.s);
	if (_i) {
		ck_assert_msg(shardfuse_save_commit_async(s, &req, &e) == 0, "%s", e.msg);
		for (int i = 0; i < TENSORS; i++)
			rt.copy(w.at[i], i < 2 ? w.turned : w.want, LEN, cudaMemcpyDefault, w.s);
		ck_assert_msg(shardfuse_save_wait(req, &e) == 0, "%s", e.msg);
	} else {
		ck_assert_msg(shardfuse_save_commit(s, &e) == 0, "%s", e.msg);
	}
	shardfuse_save_free(s);
	rt.device(&after);
	ck_assert_int_eq(before, after);
	rt.synchronize(w.s);
	check_saved();
	end();
}
END_TEST

static double now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

/* For the reader: nothing depends on it. */
START_TEST(its_speed_is_printed)
{
	const uint64_t extent = LEN;
	const struct sf_device *d;
	struct sf_error err;
	double began;

	begin();
	struct sf_save_item item = {
		.kind = SF_SAVE_TENSOR,
		.dtype = SF_UINT8,
		.ndim = 1,
		.extent = &extent,
		.bytes = LEN,
		.from = { .at = w.at[0], .stream = w.s, .device = SHARDFUSE_CUDA }
	};
	ck_assert_int_eq(sf_stage_device(&item, &d, &err), 0);
	for (int round = 0; round < 2; round++) {
		struct sf_stage_copies copies = { 0 };
		began = now();
		for (size_t off = 0; off < LEN; off += 4 << 20)
			ck_assert_int_eq(sf_stage_fill_begin(&item, off, (uint8_t *)w.turned + off,
			                                     4 << 20, &copies, &err),
			                 0);
		ck_assert_int_eq(sf_stage_fill_wait(&copies, &err), 0);
		if (round)
			printf("staged: %.2f GB/s\n", LEN / (now() - began) / 1e9);
		sf_stage_copies_release(&copies);
	}
	began = now();
	rt.copy(w.turned, w.at[0], LEN, cudaMemcpyDefault, w.s);
	rt.synchronize(w.s);
	printf("cudaMemcpyAsync to pinned memory: %.2f GB/s\n", LEN / (now() - began) / 1e9);
	end();
}
END_TEST

int main(void)
{
	struct sf_error err = SF_ERROR_INIT;
	const struct sf_device *d;

	if (sf_device_cuda(&d, &err) < 0)
		return sf_test_skip(err.msg);
	if (!find_runtime())
		return sf_test_skip(missing ? missing : "the runtime is linked, not loaded");
	Suite *s = suite_create("gpu_save");
	TCase *t = tcase_create("gpu_save");
	tcase_set_timeout(t, 120);
	tcase_add_loop_test(t, a_save_has_what_the_stream_wrote, 0, 2);
	tcase_add_test(t, its_speed_is_printed);
	suite_add_tcase(s, t);
	setenv("CK_FORK", "no", 1); /* CUDA does not go on in a child */
	return sf_test_main(s);
}
