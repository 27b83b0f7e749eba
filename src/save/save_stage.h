/* Bytes on their way from tensors to files: copied into pooled buffers, within a budget. */
#ifndef SF_SAVE_SAVE_STAGE_H
#define SF_SAVE_SAVE_STAGE_H

#include "base/vec.h"
#include "save/save_item.h"

/* @n rows of @run bytes, @step apart, that come side by side to @to. */
struct sf_device_rows {
	void *to;
	const void *from;
	uint64_t run, step, n;
};
/*
 * A device: where tensors lie and how they come to the host. Host memory is one (device_host.c), CUDA
 * another (device_cuda.c, found at run time). Any thread.
 */
struct sf_device {
	const char *name;
	bool passing; /* it goes with its save: no buffer of it is kept for another */
	/* host memory that copies are fast to (pinned, huge pages), aligned to 4,096; NULL: no memory */
	void *(*alloc)(const struct sf_device *d, size_t len);
	void (*free)(const struct sf_device *d, void *at, size_t len);
	/* Queues copies of one memory's rows, behind what is queued on @stream so far. *copy, if it is
	 * not NULL, is one that is not waited for yet: one wait may be for both. Afterwards it is
	 * waited for once; NULL: all is done. On a failure *copy is as before, and none of @rows on
	 * its way. */
	int (*copy)(const struct sf_device *d, const struct sf_device_rows *rows, size_t n,
	            void *stream, void **copy, struct sf_error *err);
	int (*wait)(const struct sf_device *d, void *copy, struct sf_error *err);
};
const struct sf_device *sf_device_host(void);
/* -ENOTSUP with what is missing: no runtime library, no driver, no GPU. */
int sf_device_cuda(const struct sf_device **ret, struct sf_error *err);
/* Whether this process uses CUDA, as far as can be told: sf_device_cuda_check can ask it then. */
bool sf_device_cuda_in_use(void);
/* -EINVAL: @at is not in the memory that was said (CUDA's, or the host's). Nothing is read. */
int sf_device_cuda_check(const void *at, bool said_cuda, struct sf_error *err);
/* That of an item: of a tensor in CUDA memory CUDA, else the host. */
int sf_stage_device(const struct sf_save_item *item, const struct sf_device **ret,
                    struct sf_error *err);

/* Pooled buffers and their budget; shared by saves one after another. Any thread. */
struct sf_stage_pool;
int sf_stage_pool_new(uint64_t budget, struct sf_stage_pool **ret, struct sf_error *err);
void sf_stage_pool_free(struct sf_stage_pool *p); /* nothing is out; NULL is fine */
/* What is kept for the next ones and passes it goes at once. */
void sf_stage_pool_set_budget(struct sf_stage_pool *p, uint64_t budget);
uint64_t sf_stage_pool_budget(struct sf_stage_pool *p);

struct sf_stage_buf {
	uint8_t *at;                    /* aligned to 4,096; what is in it is of no meaning */
	size_t len;                     /* at least what was asked for */
	const struct sf_device *device; /* that it was made by */
	struct sf_stage_buf *next;      /* the pool's, while it is there */
};
/*
 * sf_stage_get - a buffer of @len bytes.
 *
 * Waits while the budget is taken, first come first served; larger than the budget, it is given when
 * nothing else is out. Who waits holds none that nobody else will put. sf_stage_try does not wait:
 * -EAGAIN, also while others do.
 * Errors: -ENOMEM; -ECANCELED after sf_stage_pool_stop.
 */
int sf_stage_get(struct sf_stage_pool *p, const struct sf_device *d, size_t len,
                 struct sf_stage_buf **ret, struct sf_error *err);
int sf_stage_try(struct sf_stage_pool *p, const struct sf_device *d, size_t len,
                 struct sf_stage_buf **ret, struct sf_error *err);
void sf_stage_put(struct sf_stage_pool *p, struct sf_stage_buf *b); /* NULL is fine */
void sf_stage_pool_stop(struct sf_stage_pool *p, bool stopped);

/* Copies that were queued and are to be waited for. */
struct sf_stage_copy {
	const struct sf_device *device;
	void *copy;
};
SF_VEC(sf_stage_copies, struct sf_stage_copy);
/*
 * sf_stage_fill_begin - bytes [off, off + len) of an item's dense box into @to: gathered from strides,
 * asked of its provider, copied from its device; of an object its archive's.
 *
 * off and len at any byte. What a device copies by itself is appended to @copies, and there when
 * sf_stage_fill_wait has returned, which empties it; also after a failure.
 * Cost: O(len), and O(runs) where rows are short; a column-major matrix goes tile by tile.
 */
int sf_stage_fill_begin(const struct sf_save_item *item, uint64_t off, void *to, size_t len,
                        struct sf_stage_copies *copies, struct sf_error *err);
int sf_stage_fill_wait(struct sf_stage_copies *copies, struct sf_error *err);
/* Both. */
int sf_stage_fill(const struct sf_save_item *item, uint64_t off, void *to, size_t len,
                  struct sf_error *err);
/* The item's bytes where they lie, when nothing need be copied: dense host memory, an archive. NULL:
 * it must. */
const void *sf_stage_direct(const struct sf_save_item *item);

#endif
