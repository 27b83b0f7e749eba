/* Tensors that are a part of another: a layer of stacked ones, rows of fused ones. */
#ifndef SF_CKPT_CKPT_PICK_H
#define SF_CKPT_CKPT_PICK_H

#include "base/error.h"
#include "ckpt/ckpt.h"

/* A key to be: @name, NUL behind, outlives the call. */
struct sf_pick {
	uint32_t key; /* of the tensor that it is a part of */
	const char *name;
	uint32_t len;
	struct sf_tensor_pick of; /* source is filled in */
};

/*
 * sf_ckpt_pick - the keys of @pick, ascending by key, become keys of the checkpoint.
 *
 * Each stands behind the key that it is a part of, which is no longer shown (sf_key.picked). Before
 * anybody else sees the checkpoint: its keys get other numbers.
 *
 * Errors: -EINVAL, with the key and both numbers, what the tensor does not have; -E2BIG; -ENOMEM. The
 * checkpoint is then to be freed. Memory: its arena. Cost: O(keys + picks).
 */
int sf_ckpt_pick(struct sf_ckpt *ckpt, const struct sf_pick *pick, size_t n, struct sf_error *err);

/* Elements of the source, in its dense row-major order: run of them from first + i * step on, i < count. */
struct sf_pick_runs {
	uint64_t first, run, step, count;
};
struct sf_pick_runs sf_pick_runs(const struct sf_ckpt *ckpt, const struct sf_tensor_pick *of);

/* The tensor that has the chunks: @t, or that which it is a part of. */
static inline const struct sf_tensor *sf_tensor_whole(const struct sf_ckpt *ckpt,
                                                      const struct sf_tensor *t)
{
	return t->more && t->more->pick ? &ckpt->tensor[t->more->pick->source] : t;
}

#endif
