/* What plan.c and plan_pieces.c share: a chunk and a byte range as a range of the chunk's own
 * row-major order. */
#ifndef SF_READ_PLAN_PRIV_H
#define SF_READ_PLAN_PRIV_H

#include "ckpt/box.h"
#include "read/plan.h"

/*
 * The bytes of [off, end) that the chunk's item holds are bytes [from, to) of its box in the box's
 * row-major order: a range of the tensor's order meets any box in a range of the box's order. from
 * == to: none.
 */
struct sf_box_range {
	struct sf_chunk chunk;
	uint64_t from, to;
};
/* @off, @end: bytes of the tensor; false when they do not meet. Empty chunks never do. */
bool sf_box_range(const struct sf_tensor *t, uint32_t chunk, uint64_t elem, uint64_t off,
                  uint64_t end, struct sf_box_range *ret);
/* The tensor's byte at byte @r of the box. */
uint64_t sf_box_byte(const struct sf_tensor *t, const struct sf_chunk *c, uint64_t elem,
                     uint64_t r);

#define SF_HOLE_BUDGET (UINT64_C(1) << 24) /* steps to look for a hole under one range */

/* A grid's cells that meet the box [lo, hi). -ENOMEM. */
int sf_plan_cells(const struct sf_tensor *t, const uint64_t *lo, const uint64_t *hi,
                  struct sf_u32s *chunks);
/* -EBADMSG: nothing holds the element @at. @off: where the range that was asked for begins. */
int sf_plan_fail_hole(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint64_t off,
                      const uint64_t *at, struct sf_error *err);

#endif
