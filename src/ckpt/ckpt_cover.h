/* Do boxes tile a window of n-dimensional space? If not: where is the first hole, which two
 * overlap? */
#ifndef SF_CKPT_CKPT_COVER_H
#define SF_CKPT_CKPT_COVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "parse/torch_item.h" /* SF_DIMS_MAX */

/* Box i: ndim lower ends at at[2 * i * ndim], then ndim upper ends (not in the box). No box is
 * empty. */
struct sf_boxes {
	unsigned ndim;
	uint32_t n;
	const uint64_t *at;
};

/*
 * sf_cover_corners - an exact test in O(n 2^ndim).
 *
 * A function on points is known by its mixed difference: coverage is the tensor's box everywhere if
 * and only if the signed corners of all boxes cancel those of the whole. What does not cancel is,
 * at its lexicographically first point, a hole (coverage 0) or an overlap that begins there.
 * Returns 1 it tiles, 0 it does not (*ret_hole, @ret_at: that point), -E2BIG too many corners for
 * memory or numbers (ask sf_cover_sweep then), -ENOMEM.
 */
int sf_cover_corners(const struct sf_boxes *b, const uint64_t *shape, bool *ret_hole,
                     uint64_t *ret_at);

struct sf_cover {
	bool hole, overlap;
	uint64_t hole_at[SF_DIMS_MAX]; /* the first in row-major order */
	uint32_t a, b;                 /* two boxes that overlap inside the window */
};

/*
 * sf_cover_sweep - find a hole and an overlap in the window [lo, hi) by slabs.
 *
 * Every slab between two cuts of the first dimension is a smaller problem of one dimension less;
 * the last is a sweep over intervals. O(n log n) for what checkpoints look like, up to n^2 and more
 * for tangles: each step takes one from *budget, and -E2BIG says that it ran out. -ENOMEM.
 * @want_overlap: false ends it at the first hole.
 */
int sf_cover_sweep(const struct sf_boxes *b, const uint64_t *lo, const uint64_t *hi,
                   bool want_overlap, uint64_t *budget, struct sf_cover *ret);

#endif
