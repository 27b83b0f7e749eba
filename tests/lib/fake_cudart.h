/*
 * A CUDA runtime without a GPU, a module that a test names in SHARDFUSE_CUDART. It is as late and as strict as
 * CUDA may be: what is queued on a stream runs, in another thread, when something waits for it and not before;
 * until then a copy's target is poison. A GPU's memory is pages that nobody can touch; what is done wrong is
 * noted.
 */
#ifndef SF_TESTS_LIB_FAKE_CUDART_H
#define SF_TESTS_LIB_FAKE_CUDART_H

#include <dlfcn.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "save/device_cuda_abi.h"

struct fake_counts {
	size_t pinned, pinned_ever; /* buffers: now, and in all */
	size_t copies, copies_2d, waits, records;
	size_t ahead;        /* waits while copies behind what was waited for were queued */
	size_t pageable;     /* copies to memory that is not pinned */
	unsigned contexts;   /* bits of GPUs */
	unsigned long calls; /* that could fail */
};

struct fake_cudart {
	/* A world of so many GPUs, where nobody was yet. NULL @counts: nobody asks for the last one's. */
	void (*reset)(int gpus);
	void (*counts)(struct fake_counts *ret);
	/* What was done wrong first; "" nothing. */
	const char *(*wrong)(void);
	/* The caller's: memory of a GPU, where the fake has its bytes, a stream. */
	void *(*alloc)(int gpu, size_t len);
	void (*free)(void *at);
	uint8_t *(*bytes)(const void *at);
	cudaStream_t (*stream)(int gpu);
	void (*capture)(cudaStream_t s, bool on);
	/* A kernel on @s (NULL: @gpu's default) that writes @len bytes to @to, which @from has now. */
	void (*kernel)(cudaStream_t s, int gpu, void *to, const void *from, size_t len);
	/* The @n-th call from now on that can fail does, with @e; 0: none. */
	void (*fail_at)(unsigned long n, cudaError_t e);
	/* Buffers that are pinned at odd places, or none at all. */
	void (*pin_badly)(bool odd, bool none);
	cudaError_t (*set_device)(int gpu);
	cudaError_t (*get_device)(int *gpu);
	cudaError_t (*last_error)(void);
};

/* The module's, once it is named in SHARDFUSE_CUDART. NULL: it is not there. */
static inline const struct fake_cudart *fake_cudart(void)
{
	const char *path = getenv("SF_FAKE_CUDART");
	void *(*get)(void);

	path = path ? path : "tests/lib/.libs/fake_cudart.so";
	void *handle = dlopen(path, RTLD_NOW | RTLD_LOCAL);
	void *f = handle ? dlsym(handle, "fake_cudart_control") : NULL;
	if (!f) {
		fprintf(stderr, "%s: %s\n", path, dlerror());
		return NULL;
	}
	__builtin_memcpy(&get, &f, sizeof(f));
	setenv("SHARDFUSE_CUDART", path, 1);
	return get();
}

#endif
