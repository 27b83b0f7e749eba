#include "config.h"

#include "base/mem.h"
#include "read/plan_left.h"

static int push(struct sf_left_boxes *v, unsigned ndim, const uint64_t *lo, const uint64_t *hi)
{
	if (v->n / (2 * ndim) >= SF_LEFT_MAX)
		return -E2BIG;
	if (sf_left_boxes_reserve(v, v->n + 2 * ndim) < 0)
		return -ENOMEM;
	for (unsigned d = 0; d < ndim; d++)
		v->at[v->n++] = lo[d];
	for (unsigned d = 0; d < ndim; d++)
		v->at[v->n++] = hi[d];
	return 0;
}

int sf_left_add(void *left, const uint64_t *lo, const uint64_t *hi)
{
	struct sf_left *l = left;

	return push(&l->now, l->ndim, lo, hi);
}

/* What sticks out of [lo, hi) on either side, dimension by dimension; the box is cut down to what
 * does not. */
static int push_outside(struct sf_left *l, uint64_t *a, uint64_t *b, const uint64_t *lo,
                        const uint64_t *hi)
{
	int r = 0;

	for (unsigned d = 0; d < l->ndim && r >= 0; d++) {
		uint64_t keep;
		if (a[d] < lo[d]) {
			keep = b[d];
			b[d] = lo[d];
			r = push(&l->next, l->ndim, a, b);
			b[d] = keep;
			a[d] = lo[d];
		}
		if (r >= 0 && b[d] > hi[d]) {
			keep = a[d];
			a[d] = hi[d];
			r = push(&l->next, l->ndim, a, b);
			a[d] = keep;
			b[d] = hi[d];
		}
	}
	return r;
}

int sf_left_take(void *left, const uint64_t *lo, const uint64_t *hi)
{
	struct sf_left *l = left;
	unsigned ndim = l->ndim;
	int r = 0;

	l->next.n = 0;
	for (size_t i = 0; i < l->now.n && r >= 0; i += 2 * (size_t)ndim) {
		uint64_t a[SF_DIMS_MAX], b[SF_DIMS_MAX];
		bool apart = false;

		memcpy(a, l->now.at + i, ndim * sizeof(*a));
		memcpy(b, l->now.at + i + ndim, ndim * sizeof(*b));
		for (unsigned d = 0; d < ndim; d++)
			apart |= lo[d] >= b[d] || hi[d] <= a[d];
		r = apart ? push(&l->next, ndim, a, b) : push_outside(l, a, b, lo, hi);
	}
	struct sf_left_boxes swap = l->now;
	l->now = l->next;
	l->next = swap;
	return r;
}

void sf_left_release(struct sf_left *l)
{
	sf_left_boxes_release(&l->now);
	sf_left_boxes_release(&l->next);
}
