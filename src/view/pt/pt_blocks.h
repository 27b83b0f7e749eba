/* Tensors in blocks, as torch_dist has what Megatron-Core flattened: how checkpoint.pt shows them. */
#ifndef SF_VIEW_PT_PT_BLOCKS_H
#define SF_VIEW_PT_PT_BLOCKS_H

#include "view/pt/pt.h"

static inline bool sf_pt_in_blocks(const struct sf_pt *pt, const struct sf_tensor *t)
{
	return pt->sel.stored && t->more && t->more->grid;
}
/* The grid, and behind it the elements of a block; how many dimensions. */
unsigned sf_pt_block_shape(const struct sf_tensor *t, uint64_t ret[SF_DIMS_MAX]);
/* Bytes [off, off+len) of it in that order, of the cast dtype where there is one: runs of the dense one's. */
int sf_pt_block_parts(struct sf_parts *parts, uint32_t tensor, const struct sf_tensor *t,
                      uint64_t off, uint64_t len, enum sf_dtype cast);

#endif
