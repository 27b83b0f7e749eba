/*
 * CUDA memory: copied to pinned buffers of the host on a stream of our own, behind the caller's. The runtime
 * library is looked for when the first tensor in CUDA memory comes; nothing of it is linked.
 */
#include "config.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#ifdef SF_HAVE_CUDART_H
#include <cuda_runtime_api.h>
#endif
#include "base/mem.h"
#include "save/device_cuda_abi.h"
#include "save/save_stage.h"

#define GPUS_MAX 64
/* cudaMemcpy2DAsync takes no rows that are farther apart. */
#define PITCH_MAX ((uint64_t)INT32_MAX)

struct cudart {
	void *handle;
	int gpus;
	/* Of the driver, whose CUdevice is the GPU's number; NULL: not found, all count as in use. */
	int (*context_state)(int gpu, unsigned *flags, int *active);
#define X(name) __typeof__(&name) name;
	SF_CUDART_FUNCTIONS(X)
#undef X
};

/* A copy that is under way: its event, which was recorded behind it on our stream. */
struct copy {
	struct copy *next; /* of those that are free */
	int gpu;
	cudaEvent_t event;
	void *behind; /* the caller's stream */
};

static struct {
	_Atomic(const struct cudart *) found; /* never goes again */
	struct {
		pthread_mutex_t m;
		struct cudart cudart;
		cudaStream_t stream[GPUS_MAX]; /* ours, made when a GPU's first copy comes */
		struct copy *free[GPUS_MAX];
	} locked;
} cuda = { .locked = { .m = PTHREAD_MUTEX_INITIALIZER } };

/* ---- the library ---- */

/* The code's words; what a later look at the last error would find is ours and goes. */
static const char *why(const struct cudart *rt, cudaError_t e)
{
	(void)rt->cudaGetLastError();
	return rt->cudaGetErrorString(e);
}

static int fail(const struct cudart *rt, struct sf_error *err, cudaError_t e, const char *what)
{
	return sf_fail(err, e == cudaErrorMemoryAllocation ? -ENOMEM : -EIO, "%s: %s", what,
	               why(rt, e));
}

/* Of the runtime when it has it, else of the driver, which the runtime has loaded. */
static void find_context_state(struct cudart *rt)
{
	static const char name[] = "cuDevicePrimaryCtxGetState";
	void *driver, *f = dlsym(rt->handle, name);

	if (!f && (driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD)))
		f = dlsym(driver, name);
	memcpy(&rt->context_state, &f, sizeof(f));
}

/* A library by its name, if it is one and has a GPU. */
static int open_one(const char *name, int flags, struct cudart *rt, struct sf_error *err)
{
	*rt = (struct cudart){ .handle = dlopen(name, RTLD_NOW | RTLD_LOCAL | flags) };
	if (!rt->handle) {
		const char *text = dlerror();
		return sf_fail(err, -ENOENT, "%s", text ? text : name);
	}
#define X(f)                                                                                \
	{                                                                                   \
		void *at = dlsym(rt->handle, #f);                                           \
		if (!at) {                                                                  \
			dlclose(rt->handle);                                                \
			return sf_fail(err, -ENOTSUP, "'%s' has no function %s", name, #f); \
		}                                                                           \
		memcpy(&rt->f, &at, sizeof(at));                                            \
	}
	SF_CUDART_FUNCTIONS(X)
#undef X
	cudaError_t e = rt->cudaGetDeviceCount(&rt->gpus);
	if (e == cudaSuccess && rt->gpus > 0) {
		find_context_state(rt);
		return 0;
	}
	/* it stays loaded: it has begun to run */
	return sf_fail(err, -ENOTSUP, "'%s': %s", name, e == cudaSuccess ? "no GPU" : why(rt, e));
}

/* The caller's if it has one loaded, else the newest whose driver is there. A library without GPU says more than
 * one that is missing. */
static int open_any(struct cudart *rt, struct sf_error *err)
{
	static const char *const names[] = { "libcudart.so.13", "libcudart.so.12",
		                             "libcudart.so.11.0", "libcudart.so" };
	const char *given = getenv("SHARDFUSE_CUDART");
	struct sf_error one = SF_ERROR_INIT;
	int r = -ENOENT;

	if (given && given[0]) {
		r = open_one(given, 0, rt, &one);
		return r < 0 ? sf_fail(err, -ENOTSUP, "SHARDFUSE_CUDART: %s", one.msg) : 0;
	}
	for (size_t i = 0; i < 2 * SF_ARRAY_LEN(names); i++) {
		int got = open_one(names[i % SF_ARRAY_LEN(names)],
		                   i < SF_ARRAY_LEN(names) ? RTLD_NOLOAD : 0, rt, &one);
		if (got >= 0)
			return 0;
		if (got != -ENOENT && r == -ENOENT)
			r = sf_fail(err, got, "%s", one.msg);
	}
	return r == -ENOENT
	               ? sf_fail(err, -ENOTSUP,
	                         "no CUDA runtime is found (libcudart.so.13, .12, .11.0, .so); "
	                         "SHARDFUSE_CUDART names one")
	               : r;
}

/* What was not found is looked for again the next time. */
static int find(const struct cudart **ret, struct sf_error *err)
{
	struct cudart rt;
	int r = 0;

	*ret = atomic_load_explicit(&cuda.found, memory_order_acquire);
	if (*ret)
		return 0;
	pthread_mutex_lock(&cuda.locked.m);
	*ret = atomic_load_explicit(&cuda.found, memory_order_acquire);
	if (!*ret && (r = open_any(&rt, err)) >= 0) {
		rt.gpus = SF_MIN(rt.gpus, GPUS_MAX);
		cuda.locked.cudart = rt;
		*ret = &cuda.locked.cudart;
		atomic_store_explicit(&cuda.found, *ret, memory_order_release);
	}
	pthread_mutex_unlock(&cuda.locked.m);
	return r < 0 ? sf_fail_ctx(err, -ENOTSUP, "CUDA memory") : 0;
}

/* ---- a thread's place ---- */

/* What the thread had before. */
struct place {
	int gpu, now;
	enum cudaStreamCaptureMode mode;
};

static bool has_context(const struct cudart *rt, int gpu)
{
	unsigned flags;
	int active = 0;

	return !rt->context_state || rt->context_state(gpu, &flags, &active) != 0 || active;
}

static int move_to(const struct cudart *rt, int gpu, struct place *p, struct sf_error *err)
{
	cudaError_t e = p->now == gpu ? cudaSuccess : rt->cudaSetDevice(gpu);

	if (e == cudaSuccess)
		p->now = gpu;
	return e == cudaSuccess ? 0 : fail(rt, err, e, "cudaSetDevice");
}

/*
 * To a GPU that the process uses, @gpu (-1: any). Nearly every call makes a context on the thread's current GPU
 * when there is none, which is a few hundred MB of its memory; of a new thread that is GPU 0, another
 * process's mostly. A graph that the caller captures meanwhile is not spoilt by what this thread does.
 */
static int enter(const struct cudart *rt, int gpu, struct place *p, struct sf_error *err)
{
	cudaError_t e = rt->cudaGetDevice(&p->gpu);

	if (e != cudaSuccess)
		return fail(rt, err, e, "cudaGetDevice");
	p->now = p->gpu;
	if (gpu < 0 && !has_context(rt, p->gpu))
		for (int i = 0; i < rt->gpus && gpu < 0; i++)
			if (has_context(rt, i))
				gpu = i;
	p->mode = cudaStreamCaptureModeRelaxed;
	e = rt->cudaThreadExchangeStreamCaptureMode(&p->mode);
	if (e != cudaSuccess)
		return fail(rt, err, e, "cudaThreadExchangeStreamCaptureMode");
	int r = gpu < 0 ? 0 : move_to(rt, gpu, p, err);
	if (r < 0)
		(void)rt->cudaThreadExchangeStreamCaptureMode(&p->mode);
	return r;
}

/* Back; where the thread's was nobody's choice, going back would make the context there after all. */
static void leave(const struct cudart *rt, struct place *p)
{
	(void)rt->cudaThreadExchangeStreamCaptureMode(&p->mode);
	if (p->now != p->gpu && has_context(rt, p->gpu) && rt->cudaSetDevice(p->gpu) != cudaSuccess)
		(void)rt->cudaGetLastError();
}

/* ---- buffers ---- */

/* Pinned, for all GPUs. Where no more memory can be pinned, or it does not begin at a page: the host's, to which
 * copies are slower. */
static void *cuda_alloc(const struct sf_device *d, size_t len)
{
	const struct cudart *rt = atomic_load_explicit(&cuda.found, memory_order_acquire);
	struct place p;
	void *at = NULL;

	(void)d;
	if (enter(rt, -1, &p, NULL) >= 0) {
		if (rt->cudaHostAlloc(&at, len, cudaHostAllocPortable) != cudaSuccess) {
			(void)rt->cudaGetLastError();
			at = NULL;
		}
		if (at && (uintptr_t)at % 4096) {
			(void)rt->cudaFreeHost(at);
			at = NULL;
		}
		leave(rt, &p);
	}
	return at ? at : sf_device_host()->alloc(sf_device_host(), len);
}

static cudaError_t attributes(const struct cudart *rt, const void *at,
                              struct cudaPointerAttributes *ret)
{
	union { /* of whatever version it is: they only grow */
		struct cudaPointerAttributes a;
		uint8_t room[256];
	} u;

	memset(&u, 0, sizeof(u));
	cudaError_t e = rt->cudaPointerGetAttributes(&u.a, at);
	*ret = u.a;
	return e;
}

static void cuda_free(const struct sf_device *d, void *at, size_t len)
{
	const struct cudart *rt = atomic_load_explicit(&cuda.found, memory_order_acquire);
	struct cudaPointerAttributes a = { 0 };
	struct place p;

	(void)d;
	if (!at)
		return;
	bool in = enter(rt, -1, &p, NULL) >= 0;
	bool told = attributes(rt, at, &a) == cudaSuccess;
	if (told && a.type == cudaMemoryTypeUnregistered)
		sf_device_host()->free(sf_device_host(), at, len);
	else if (rt->cudaFreeHost(at) != cudaSuccess || !told)
		(void)rt->cudaGetLastError(); /* at the process's end it goes with all of CUDA */
	if (in)
		leave(rt, &p);
}

/* ---- copies ---- */

static void copy_put(struct copy *c)
{
	pthread_mutex_lock(&cuda.locked.m);
	c->next = cuda.locked.free[c->gpu];
	cuda.locked.free[c->gpu] = c;
	pthread_mutex_unlock(&cuda.locked.m);
}

/* One of the thread's current GPU. */
static int copy_get(const struct cudart *rt, int gpu, struct copy **ret, struct sf_error *err)
{
	pthread_mutex_lock(&cuda.locked.m);
	struct copy *c = cuda.locked.free[gpu];
	if (c)
		cuda.locked.free[gpu] = c->next;
	pthread_mutex_unlock(&cuda.locked.m);
	if (!c) {
		c = calloc(1, sizeof(*c));
		if (!c)
			return sf_fail(err, -ENOMEM, "a copy from GPU %d", gpu);
		c->gpu = gpu;
		cudaError_t e = rt->cudaEventCreateWithFlags(
			&c->event, cudaEventBlockingSync | cudaEventDisableTiming);
		if (e != cudaSuccess) {
			free(c);
			return fail(rt, err, e, "cudaEventCreateWithFlags");
		}
	}
	*ret = c;
	return 0;
}

/* Ours, of the thread's current GPU. It waits for nothing but what it is told to. */
static int stream_get(const struct cudart *rt, int gpu, cudaStream_t *ret, struct sf_error *err)
{
	cudaError_t e = cudaSuccess;

	pthread_mutex_lock(&cuda.locked.m);
	if (!cuda.locked.stream[gpu])
		e = rt->cudaStreamCreateWithFlags(&cuda.locked.stream[gpu], cudaStreamNonBlocking);
	if (e != cudaSuccess)
		cuda.locked.stream[gpu] = NULL;
	*ret = cuda.locked.stream[gpu];
	pthread_mutex_unlock(&cuda.locked.m);
	return e == cudaSuccess ? 0 : fail(rt, err, e, "cudaStreamCreateWithFlags");
}

/* @mine waits for what is queued on the caller's stream so far. */
static int stand_behind(const struct cudart *rt, struct copy *c, cudaStream_t theirs,
                        cudaStream_t mine, struct sf_error *err)
{
	enum cudaStreamCaptureStatus capturing = cudaStreamCaptureStatusNone;
	cudaError_t e;

	if (theirs == cudaStreamPerThread)
		return sf_fail(err, -EINVAL,
		               "its stream is cudaStreamPerThread, which is another one in each "
		               "thread");
	e = rt->cudaStreamIsCapturing(theirs, &capturing);
	if (e != cudaSuccess)
		return fail(rt, err, e, "the stream of the caller");
	if (capturing != cudaStreamCaptureStatusNone)
		return sf_fail(err, -EINVAL,
		               "its stream is being captured: what is on it does not run");
	e = rt->cudaEventRecord(c->event, theirs);
	if (e == cudaErrorInvalidResourceHandle)
		return sf_fail(err, -EINVAL,
		               "its stream is not one of GPU %d, where its memory is: %s", c->gpu,
		               why(rt, e));
	if (e != cudaSuccess)
		return fail(rt, err, e, "an event on the caller's stream");
	e = rt->cudaStreamWaitEvent(mine, c->event, 0);
	return e == cudaSuccess ? 0 : fail(rt, err, e, "cudaStreamWaitEvent");
}

static cudaError_t queue(const struct cudart *rt, const struct sf_device_rows *w, cudaStream_t s)
{
	cudaError_t e = cudaSuccess;

	if (w->n > 1 && w->step >= w->run && w->step <= PITCH_MAX)
		return rt->cudaMemcpy2DAsync(w->to, w->run, w->from, w->step, w->run, w->n,
		                             cudaMemcpyDefault, s);
	for (uint64_t i = 0; e == cudaSuccess && i < w->n; i++)
		e = rt->cudaMemcpyAsync((uint8_t *)w->to + i * w->run,
		                        (const uint8_t *)w->from + i * w->step, w->run,
		                        cudaMemcpyDefault, s);
	return e;
}

/* The rows, and the event behind them. On a failure none of them is under way. */
static int queue_all(const struct cudart *rt, struct copy *c, const struct sf_device_rows *rows,
                     size_t n, cudaStream_t mine, struct sf_error *err)
{
	cudaError_t e = cudaSuccess;

	for (size_t i = 0; e == cudaSuccess && i < n; i++)
		e = queue(rt, &rows[i], mine);
	if (e == cudaSuccess)
		e = rt->cudaEventRecord(c->event, mine);
	if (e == cudaSuccess)
		return 0;
	int r = sf_fail(err, -EIO, "a copy from GPU %d: %s", c->gpu, why(rt, e));
	(void)rt->cudaStreamSynchronize(mine);
	(void)rt->cudaGetLastError();
	return r;
}

/* On which GPU, less than 0: on any; with the words when it is none's. */
static int gpu_of(const struct cudart *rt, const void *at, int *ret, struct sf_error *err)
{
	struct cudaPointerAttributes a;
	cudaError_t e = attributes(rt, at, &a);

	if (e != cudaSuccess)
		return fail(rt, err, e, "cudaPointerGetAttributes");
	if (a.type == cudaMemoryTypeUnregistered)
		return sf_fail(err, -EINVAL,
		               "it is said to lie in CUDA memory, and %p is the host's: device is "
		               "SHARDFUSE_HOST",
		               at);
	if (a.device >= rt->gpus)
		return sf_fail(err, -ENOTSUP, "GPU %d of %d", a.device, rt->gpus);
	*ret = a.device;
	return 0;
}

static int copy_here(const struct cudart *rt, int gpu, const struct sf_device_rows *rows, size_t n,
                     void *stream, struct copy **copy, struct sf_error *err)
{
	struct copy *c = *copy;
	cudaStream_t mine;
	int r = stream_get(rt, gpu, &mine, err);

	if (r < 0)
		return r;
	if (c && c->gpu == gpu && c->behind == stream)
		return queue_all(rt, c, rows, n, mine, err);
	r = copy_get(rt, gpu, &c, err);
	if (r < 0)
		return r;
	c->behind = stream;
	r = stand_behind(rt, c, stream, mine, err);
	if (r >= 0)
		r = queue_all(rt, c, rows, n, mine, err);
	if (r < 0)
		copy_put(c);
	else
		*copy = c;
	return r;
}

static int cuda_copy(const struct sf_device *d, const struct sf_device_rows *rows, size_t n,
                     void *stream, void **copy, struct sf_error *err)
{
	const struct cudart *rt = atomic_load_explicit(&cuda.found, memory_order_acquire);
	struct copy *c = *copy;
	struct place p;
	int gpu, r = enter(rt, -1, &p, err);

	(void)d;
	if (r < 0)
		return r;
	r = gpu_of(rt, rows->from, &gpu, err);
	if (r >= 0 && gpu >= 0)
		r = move_to(rt, gpu, &p, err);
	if (r >= 0)
		r = copy_here(rt, p.now, rows, n, stream, &c, err);
	leave(rt, &p);
	*copy = c;
	return r;
}

static int cuda_wait(const struct sf_device *d, void *copy, struct sf_error *err)
{
	const struct cudart *rt = atomic_load_explicit(&cuda.found, memory_order_acquire);
	struct copy *c = copy;
	struct place p;
	int r = 0;

	(void)d;
	/* without it too: who comes back takes the buffer for free */
	bool in = enter(rt, c->gpu, &p, NULL) >= 0;
	cudaError_t e = rt->cudaEventSynchronize(c->event);
	if (e != cudaSuccess)
		r = sf_fail(err, -EIO, "waiting for GPU %d: %s", c->gpu, why(rt, e));
	if (in)
		leave(rt, &p);
	copy_put(c);
	return r;
}

int sf_device_cuda(const struct sf_device **ret, struct sf_error *err)
{
	static const struct sf_device device = {
		.name = "CUDA",
		.alloc = cuda_alloc,
		.free = cuda_free,
		.copy = cuda_copy,
		.wait = cuda_wait,
	};
	const struct cudart *rt;
	int r = find(&rt, err);

	if (r >= 0)
		*ret = &device;
	return r;
}

/* ---- whose memory is it? ---- */

/* Without a context nobody has memory of a GPU, and asking would make one. */
static bool any_context(const struct cudart *rt)
{
	for (int i = 0; i < rt->gpus; i++)
		if (has_context(rt, i))
			return true;
	return false;
}

bool sf_device_cuda_in_use(void)
{
	const struct cudart *rt = atomic_load_explicit(&cuda.found, memory_order_acquire);

	if (!rt) { /* a program that uses a GPU has its driver loaded, however it came to the runtime */
		void *driver = dlopen("libcuda.so.1", RTLD_NOW | RTLD_NOLOAD);
		bool asked = driver || getenv("SHARDFUSE_CUDART");
		if (driver)
			dlclose(driver);
		if (!asked || find(&rt, NULL) < 0)
			return false;
	}
	return any_context(rt);
}

int sf_device_cuda_check(const void *at, bool said_cuda, struct sf_error *err)
{
	const struct cudart *rt = atomic_load_explicit(&cuda.found, memory_order_acquire);
	struct cudaPointerAttributes a;
	struct place p;
	int gpu, r = 0;

	if (!rt || enter(rt, -1, &p, NULL) < 0)
		return 0;
	if (said_cuda)
		r = gpu_of(rt, at, &gpu, err);
	else if (attributes(rt, at, &a) != cudaSuccess)
		(void)rt->cudaGetLastError();
	else if (a.type == cudaMemoryTypeDevice)
		r = sf_fail(err, -EINVAL,
		            "it is said to lie in the host's memory, and %p is GPU %d's: device is "
		            "SHARDFUSE_CUDA",
		            at, a.device);
	leave(rt, &p);
	return r;
}
