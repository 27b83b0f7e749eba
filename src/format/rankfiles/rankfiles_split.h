/* A tensor of which each rank has a part: what its pickled DTensor or ShardedTensor says. Pure. */
#ifndef SF_FORMAT_RANKFILES_SPLIT_H
#define SF_FORMAT_RANKFILES_SPLIT_H

#include <stdbool.h>
#include "parse/torch_item.h"

/* A box of the whole tensor, and where it lies in this rank's file. */
struct rankfiles_piece {
	uint64_t origin[SF_DIMS_MAX];
	struct sf_torch_tensor t; /* its shape is the box's extent */
};

/* The whole, as one rank has it. */
struct rankfiles_whole {
	uint8_t dtype, ndim;
	uint64_t shape[SF_DIMS_MAX];
};

/* 1: @v is a DTensor or ShardedTensor (parameters are looked through); 0: it is neither. */
int rankfiles_is_split(const struct sf_pv *v);

/*
 * rankfiles_split - the whole of which @v is a part, and the boxes that this rank has of it.
 *
 * @each: gets each of them that is not empty; negative ends it. NULL: the whole alone is asked for.
 * Of a DTensor the boxes follow from placements, the mesh's sizes and the rank's coordinates, and are
 * checked against the local tensor; of a ShardedTensor they are written beside each of its shards.
 * Errors: -EBADMSG @v contradicts itself, or its box the local tensor; -ENOTSUP Partial placements, a
 *         mesh that does not say where the rank is; -E2BIG over 4,096 boxes; what @each returned.
 * Source: pytorch/pytorch torch/distributed/tensor/ (_dtensor_spec.py, placement_types.py, _utils.py),
 *         torch/distributed/device_mesh.py, _mesh_layout.py, _shard/sharded_tensor/, 1.12 to 2.13.
 */
int rankfiles_split(const struct sf_pv *v, struct rankfiles_whole *ret,
                    int (*each)(void *arg, const struct rankfiles_piece *piece), void *arg,
                    struct sf_error *err);

/* Where this rank's first bytes of a tensor lie, split or not: names of one tensor have one place. */
struct rankfiles_place {
	uint64_t off, origin, extent; /* elements: in the storage; along the first dimension */
	char storage[40];             /* its key, cut */
};
/* false: @v is no tensor, or a scalar, or this rank has nothing of it. Padding is 0. */
bool rankfiles_place(const struct sf_pv *v, struct rankfiles_place *ret);

#endif
