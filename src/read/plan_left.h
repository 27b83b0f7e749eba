/* What is left of some boxes when others are taken out of them: overlaps of chunks. Only read/
 * includes it. */
#ifndef SF_READ_PLAN_LEFT_H
#define SF_READ_PLAN_LEFT_H

#include "base/vec.h"
#include "read/plan_geometry.h"

#define SF_LEFT_MAX (1u << 18) /* boxes */

SF_VEC(sf_left_boxes, uint64_t);

/* Slow, exact, and only for tensors that are flagged. */
struct sf_left {
	unsigned ndim;                  /* 1 to SF_DIMS_MAX */
	struct sf_left_boxes now, next; /* 2 ndim numbers a box: lower ends, upper ends */
};
static inline size_t sf_left_n(const struct sf_left *l)
{
	return l->now.n / (2 * (size_t)l->ndim);
}
static inline const uint64_t *sf_left_lo(const struct sf_left *l, size_t i)
{
	return l->now.at + 2 * i * l->ndim;
}
static inline const uint64_t *sf_left_hi(const struct sf_left *l, size_t i)
{
	return sf_left_lo(l, i) + l->ndim;
}
/* Both are for sf_region_meet: @left is a struct sf_left. 0; -E2BIG more than SF_LEFT_MAX boxes;
 * -ENOMEM. */
int sf_left_add(void *left, const uint64_t *lo, const uint64_t *hi);
/* Takes one box out of every box that is left. */
int sf_left_take(void *left, const uint64_t *lo, const uint64_t *hi);
void sf_left_release(struct sf_left *l);

#endif
