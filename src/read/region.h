/* What is asked of a tensor, and what a chunk's item holds of that. Only read/ includes it. */
#ifndef SF_READ_REGION_H
#define SF_READ_REGION_H

#include "ckpt/ckpt.h"

/*
 * A row-major range of elements, or a box: a planner asks the functions below which it is by nothing
 * but what they hand over. Boxes are handed over in the tensor's coordinates, the last ones not in
 * them; those of a scalar have one dimension, of one element. A nonzero result of @each ends a
 * function and is returned.
 */
struct sf_region {
	const struct sf_tensor *t;
	uint64_t first, end;     /* a box: the range from its first element to its last */
	const uint64_t *lo, *hi; /* borrowed; NULL: a range */
	unsigned ndim;           /* of the boxes that are handed over */
};
typedef int sf_region_each(void *arg, const uint64_t *lo, const uint64_t *hi);

/* Neither is empty, both are inside the tensor. The box of a scalar is the range of its element. */
struct sf_region sf_region_range(const struct sf_tensor *t, uint64_t first, uint64_t end);
struct sf_region sf_region_box(const struct sf_tensor *t, const uint64_t *lo, const uint64_t *hi);

/* All of it, each element once. */
int sf_region_boxes(const struct sf_region *r, sf_region_each *each, void *arg);
/* What the chunk's item holds of it, each element once. */
int sf_region_meet(const struct sf_region *r, uint32_t chunk, sf_region_each *each, void *arg);

/*
 * The same of a range as one: a range of the tensor's order meets any box in a range of the box's
 * order. Its item holds elements [*ret_from, *ret_to) of the chunk's box; false: none. *ret_chunk: the
 * chunk.
 */
bool sf_region_run(const struct sf_region *range, uint32_t chunk, struct sf_chunk *ret_chunk,
                   uint64_t *ret_from, uint64_t *ret_to);

/* The tensor's number of an element. */
uint64_t sf_region_element(const struct sf_region *r, const uint64_t *at);
uint64_t sf_region_volume(const struct sf_region *r, const uint64_t *lo, const uint64_t *hi);

#endif
