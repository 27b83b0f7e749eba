/* Parameters of a legacy checkpoint: the pieces of all ranks under one name, put together. */
#ifndef SF_FORMAT_MEGATRON_MEGATRON_JOIN_H
#define SF_FORMAT_MEGATRON_MEGATRON_JOIN_H

#include "format/megatron/megatron_ranks.h"
#include "ckpt/join_rules.h"

/* What is not put together: a value of one rank. */
struct megatron_left {
	const struct megatron_rank *rank;
	const char *name; /* in the rank's file, without the container of the model */
	uint32_t len;
	struct sf_pv *v;
};
struct megatron_lefts {
	struct sf_arena arena;
	struct megatron_left *at;
	size_t n, cap;
};
void megatron_lefts_release(struct megatron_lefts *l);

/*
 * megatron_join - the model's tensors as keys: layers and experts as they are numbered in the whole,
 * tensor-parallel pieces as chunks of one tensor. No tensor is read.
 *
 * @left: what no rule joins, what ranks disagree about, a second copy in another pipeline stage,
 * values that are no tensors where there are several tensor ranks (None is not kept).
 * Warnings: "unjoined", "ranks-disagree", "layer-count". Errors: -E2BIG more than 2^22 names; -ENOMEM; the
 * builder's.
 */
int megatron_join(const struct megatron_ranks *ranks, const struct sf_join_rules *rules,
                  struct sf_ckpt_builder *b, struct megatron_lefts *left, struct sf_error *err);

#endif
