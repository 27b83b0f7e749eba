/* Bytes on their way from tensors to files: copied into pooled buffers, within a budget. */
#ifndef SF_SAVE_SAVE_STAGE_H
#define SF_SAVE_SAVE_STAGE_H

#include "save/save_item.h"

/*
 * A device: where tensors lie and how they come to the host. Host memory is one (device_host.c), CUDA
 * another (device_cuda.c, found at run time). Any thread.
 */
struct sf_device {
	const char *name;
	/* host memory that copies are fast to (pinned, huge pages); NULL: no memory */
	void *(*alloc)(const struct sf_device *d, size_t len);
	void (*free)(const struct sf_device *d, void *at, size_t len);
	/* Queues a copy of @len bytes from @from, behind what is queued on @stream so far; *ret is
	 * waited for once. */
	int (*copy)(const struct sf_device *d, void *to, const void *from, size_t len, void *stream,
	            void **ret, struct sf_error *err);
	int (*wait)(const struct sf_device *d, void *copy, struct sf_error *err);
};
const struct sf_device *sf_device_host(void);
/* -ENOTSUP with what is missing: no runtime library, no driver, no GPU. */
int sf_device_cuda(const struct sf_device **ret, struct sf_error *err);

/* Pooled buffers and their budget; shared by saves one after another. Any thread. */
struct sf_stage_pool;
int sf_stage_pool_new(uint64_t budget, struct sf_stage_pool **ret, struct sf_error *err);
void sf_stage_pool_free(struct sf_stage_pool *p);
void sf_stage_pool_set_budget(struct sf_stage_pool *p, uint64_t budget);

/* A buffer: @len bytes, aligned to 4,096. Waits while the budget is taken; larger than the budget, it is
 * given when nothing else is out. -ECANCELED after sf_stage_pool_stop. */
int sf_stage_get(struct sf_stage_pool *p, const struct sf_device *d, size_t len, void **ret,
                 struct sf_error *err);
void sf_stage_put(struct sf_stage_pool *p, void *at);
void sf_stage_pool_stop(struct sf_stage_pool *p, bool stopped);

/* Bytes [off, off + len) of an item's dense box into @to: gathered from strides, asked of its provider,
 * copied from its device. off and len at any byte. Cost: O(len), and O(runs) where rows are short. */
int sf_stage_fill(const struct sf_save_item *item, uint64_t off, void *to, size_t len,
                  struct sf_error *err);
/* The item's bytes where they lie, when nothing need be copied: dense host memory. NULL: it must. */
const void *sf_stage_direct(const struct sf_save_item *item);

#endif
