/* Tensors that Megatron-Core flattened before it gave them to DCP. */
#ifndef SF_FORMAT_DCP_DCP_FLAT_H
#define SF_FORMAT_DCP_DCP_FLAT_H

#include "format/dcp/dcp_meta.h"

/*
 * A tensor of n dimensions that was cut into a grid of equal blocks, each of them flattened and then
 * cut again, is stored as one of n + 1: the grid, and behind it the elements of a block in row-major
 * order. mcore_data says what its shape was.
 * Source: NVIDIA/Megatron-LM megatron/core/dist_checkpointing/strategies/resharding.py, 0.8 to 0.15
 * (apply_nd_flattened_tensors_reformulation).
 */
struct dcp_flat {
	unsigned ndim;         /* of the tensor as it was */
	const uint64_t *shape; /* m's */
	uint64_t block[SF_DIMS_MAX];
	bool fits; /* shape and grid agree, and each chunk lies in one block */
};
/* How @t, of which mcore_data speaks, lies. Cost: O(chunks). */
void dcp_flat_init(const struct dcp_meta *m, const struct dcp_tensor *t, struct dcp_flat *ret);

/* A chunk's box as stored, of f->ndim + 1 dimensions, to the block that it is a run of: its box, and
 * which elements of that. */
void dcp_flat_chunk(const struct dcp_flat *f, const uint64_t *stored_origin,
                    const uint64_t *stored_extent, uint64_t *ret_origin, uint64_t *ret_part_off,
                    uint64_t *ret_part_len);

#endif
