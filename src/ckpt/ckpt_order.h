/* Chunks of a tensor in the order of their first elements, and searching in it. */
#ifndef SF_CKPT_CKPT_ORDER_H
#define SF_CKPT_CKPT_ORDER_H

#include "base/vec.h"
#include "ckpt/ckpt.h"

SF_VEC(sf_sort_keys, uint64_t);

/* Memory that is used again for the next tensor. */
struct sf_order_scratch {
	struct sf_sort_keys key, tmp;
};
void sf_order_scratch_release(struct sf_order_scratch *s);

/*
 * sf_order_build - sort t->nchunks chunk numbers into @order.
 *
 * First the non-empty ones by first element, then by number; behind them the empty ones by their
 * coordinates. Returns 0 with *ret_n, the number of non-empty ones, or -ENOMEM. Cost: O(n) when
 * they come sorted, else O(n log n).
 */
int sf_order_build(const struct sf_tensor *t, struct sf_order_scratch *s, uint32_t *order,
                   uint32_t *ret_n);

/*
 * t->hull_end for a tensor that is no grid: order[] is read as a balanced tree (the middle of a
 * range is its root), and each node has the greatest sf_chunk_end() of its range. sf_order_query()
 * then walks the chunks whose hull [first, end) meets [from, to) in O(log n + found); @each's
 * nonzero result ends it and is returned.
 */
void sf_order_hulls(const struct sf_tensor *t, uint64_t *hull_end);
int sf_order_query(const struct sf_tensor *t, uint64_t from, uint64_t to,
                   int (*each)(void *arg, uint32_t chunk), void *arg);

/* Radix sort of bits [shift, 64), stable; @tmp has room for @n too. */
void sf_sort_u64(uint64_t *at, uint64_t *tmp, size_t n, unsigned shift);

#endif
