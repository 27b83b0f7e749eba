/* What is left of some boxes when others are taken out of them: overlaps of chunks. Only read/
 * includes it. */
#ifndef SF_READ_PLAN_LEFT_H
#define SF_READ_PLAN_LEFT_H

#include "base/vec.h"
#include "read/plan_geometry.h"

SF_VEC(sf_left_boxes, uint64_t);

/* Slow, exact, and only for tensors that are flagged. */
struct sf_left {
	unsigned ndim;                  /* at most SF_GEOMETRY_DIMS */
	struct sf_left_boxes now, next; /* 2 ndim numbers a box: lower ends, upper ends */
};
/* 0; -E2BIG more than SF_PIECES_MAX boxes; -ENOMEM. */
int sf_left_add(struct sf_left *l, const uint64_t *lo, const uint64_t *hi);
/* Takes one box out of every box that is left. */
int sf_left_take(struct sf_left *l, const uint64_t *lo, const uint64_t *hi);
void sf_left_release(struct sf_left *l);

#endif
