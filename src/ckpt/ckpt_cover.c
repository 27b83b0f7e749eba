#include "config.h"

#include <errno.h>

#include "base/mem.h"
#include "base/vec.h"
#include "ckpt/ckpt_cover.h"
#include "ckpt/ckpt_order.h"

#define CORNERS_MAX (UINT64_C(1) << 23)     /* 64 MiB, twice for sorting */
#define SWEEP_INDEX_MAX (UINT64_C(1) << 26) /* numbers of boxes on the sweep's stack */

static const uint64_t *box_lo(const struct sf_boxes *b, uint32_t i)
{
	return b->at + 2 * (size_t)i * b->ndim;
}

static const uint64_t *box_hi(const struct sf_boxes *b, uint32_t i)
{
	return box_lo(b, i) + b->ndim;
}

/* The corners of one box as position << 1 | sign. */
static uint64_t *put_corners(uint64_t *out, unsigned ndim, const uint64_t *lo, const uint64_t *hi,
                             const uint64_t *step, unsigned sign)
{
	uint64_t base = 0;

	for (unsigned d = 0; d < ndim; d++)
		base += (lo ? lo[d] : 0) * step[d];
	*out = base << 1 | sign;
	for (unsigned d = 0; d < ndim; d++) { /* each dimension doubles what is there */
		size_t n = (size_t)1 << d;
		uint64_t move = (hi[d] - (lo ? lo[d] : 0)) * step[d] << 1;
		for (size_t k = 0; k < n; k++)
			out[n + k] = (out[k] + move) ^ 1;
	}
	return out + ((size_t)1 << ndim);
}

int sf_cover_corners(const struct sf_boxes *b, const uint64_t *shape, bool *ret_hole,
                     uint64_t *ret_at)
{
	unsigned ndim = b->ndim;
	uint64_t step[SF_DIMS_MAX], span = 1, n;

	/* corners reach one past the last element: positions are numbers to the base shape + 1 */
	for (unsigned d = ndim; d-- > 0;) {
		step[d] = span;
		if (shape[d] >= UINT64_MAX / 2 || !sf_mul(span, shape[d] + 1, &span) || span >> 63)
			return -E2BIG;
	}
	if (ndim >= 23 || (n = ((uint64_t)b->n + 1) << ndim) > CORNERS_MAX)
		return -E2BIG;

	SF_FREE uint64_t *at = sf_alloc_array(n, sizeof(*at));
	SF_FREE uint64_t *tmp = sf_alloc_array(n, sizeof(*tmp));
	uint64_t *end = at;

	if (!at || !tmp)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->n; i++)
		end = put_corners(end, ndim, box_lo(b, i), box_hi(b, i), step, 0);
	put_corners(end, ndim, NULL, shape, step, 1);
	sf_sort_u64(at, tmp, n, 1);

	for (uint64_t i = 0, k; i < n; i = k) {
		int64_t sum = 0;
		for (k = i; k < n && at[k] >> 1 == at[i] >> 1; k++)
			sum += at[k] & 1 ? -1 : 1;
		if (sum == 0)
			continue;
		*ret_hole = sum < 0;
		for (unsigned d = 0; d < ndim; d++)
			ret_at[d] = (at[i] >> 1) / step[d] % (shape[d] + 1);
		return 0;
	}
	return 1;
}

SF_VEC(sf_box_ids, uint32_t);

struct sweep {
	const struct sf_boxes *b;
	const uint64_t *lo, *hi;
	bool want_overlap;
	uint64_t *budget;
	struct sf_cover *ret;
	uint64_t at[SF_DIMS_MAX]; /* where the slabs above are */
	struct sf_box_ids ids;    /* each level: its boxes sorted, then those that cross the slab */
};

struct lo_column {
	const uint64_t *at;
	size_t stride;
};

static int compare_lo(const void *a, const void *b, void *arg)
{
	const struct lo_column *c = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t cx = c->at[x * c->stride], cy = c->at[y * c->stride];

	return cx != cy ? (cx < cy ? -1 : 1) : (x > y) - (x < y);
}

static void sort_by_lo(const struct sf_boxes *b, unsigned d, uint32_t *id, size_t n)
{
	if (n < 2) /* of none there is no array */
		return;
	struct lo_column column = { b->at + d, 2 * (size_t)b->ndim };
	for (size_t i = 1; i < n; i++)
		if (compare_lo(&id[i - 1], &id[i], &column) > 0) {
			qsort_r(id, n, sizeof(*id), compare_lo, &column);
			return;
		}
}

static bool spend(struct sweep *s, uint64_t steps)
{
	if (*s->budget < steps) {
		*s->budget = 0;
		return false;
	}
	*s->budget -= steps;
	return true;
}

static bool satisfied(const struct sweep *s)
{
	return s->ret->hole && (s->ret->overlap || !s->want_overlap);
}

/* Nothing from dimension @d on covers the slab at coordinate @c. */
static void found_hole(struct sweep *s, unsigned d, uint64_t c)
{
	if (s->ret->hole)
		return; /* slabs come in order: the first stays */
	s->ret->hole = true;
	for (unsigned k = 0; k < d; k++)
		s->ret->hole_at[k] = s->at[k];
	s->ret->hole_at[d] = c;
	for (unsigned k = d + 1; k < s->b->ndim; k++)
		s->ret->hole_at[k] = s->lo[k];
}

static int sweep_intervals(struct sweep *s, unsigned d, const uint32_t *id, size_t n)
{
	uint64_t at = s->lo[d];
	uint32_t reaches = 0; /* the box that ends at @at */

	for (size_t i = 0; i < n && !satisfied(s); i++) {
		uint64_t lo = SF_MAX(box_lo(s->b, id[i])[d], s->lo[d]);
		uint64_t hi = SF_MIN(box_hi(s->b, id[i])[d], s->hi[d]);
		if (lo >= hi)
			continue;
		if (lo > at)
			found_hole(s, d, at);
		if (lo < at && !s->ret->overlap) {
			s->ret->overlap = true;
			s->ret->a = SF_MIN(reaches, id[i]);
			s->ret->b = SF_MAX(reaches, id[i]);
		}
		if (hi > at) {
			at = hi;
			reaches = id[i];
		}
	}
	if (at < s->hi[d])
		found_hole(s, d, at);
	return 0;
}

/* The @n numbers at ids.at[from]: boxes that cross the slabs above. */
static int sweep_dimension(struct sweep *s, unsigned d, size_t from, size_t n)
{
	size_t to = from + n; /* where the crossing ones of the slab are put */
	uint64_t next;
	int r = 0;

	if (!spend(s, n + 1) || to + n > SWEEP_INDEX_MAX)
		return -E2BIG;
	sort_by_lo(s->b, d, s->ids.at + from, n);
	if (d + 1 == s->b->ndim)
		return sweep_intervals(s, d, s->ids.at + from, n);
	if (sf_box_ids_reserve(&s->ids, to + 2 * n) < 0)
		return -ENOMEM;

	size_t crossing = 0, p = 0;
	for (uint64_t c = s->lo[d]; c < s->hi[d] && !satisfied(s) && r >= 0; c = next) {
		uint32_t *id = s->ids.at + from, *slab = s->ids.at + to;
		size_t kept = 0;

		next = s->hi[d];
		for (size_t i = 0; i < crossing; i++)
			if (box_hi(s->b, slab[i])[d] > c)
				slab[kept++] = slab[i];
		for (; p < n && box_lo(s->b, id[p])[d] <= c; p++)
			if (box_hi(s->b, id[p])[d] > c)
				slab[kept++] = id[p];
		if (!spend(s, crossing + 1))
			return -E2BIG;
		crossing = kept;
		for (size_t i = 0; i < kept; i++)
			next = SF_MIN(next, box_hi(s->b, slab[i])[d]);
		if (p < n)
			next = SF_MIN(next, box_lo(s->b, id[p])[d]);
		if (!kept) {
			found_hole(s, d, c);
			continue;
		}
		s->at[d] = c;
		/* the level below sorts its numbers: give it a copy */
		if (sf_box_ids_reserve(&s->ids, to + n + kept) < 0)
			return -ENOMEM;
		memcpy(s->ids.at + to + n, s->ids.at + to, kept * sizeof(uint32_t));
		r = sweep_dimension(s, d + 1, to + n, kept);
	}
	return r;
}

int sf_cover_sweep(const struct sf_boxes *b, const uint64_t *lo, const uint64_t *hi,
                   bool want_overlap, uint64_t *budget, struct sf_cover *ret)
{
	struct sweep s = { .b = b,
		           .lo = lo,
		           .hi = hi,
		           .want_overlap = want_overlap,
		           .budget = budget,
		           .ret = ret };
	int r;

	*ret = (struct sf_cover){ .hole = false };
	if (!b->ndim) { /* one point */
		ret->hole = b->n == 0;
		ret->overlap = b->n > 1;
		ret->b = 1;
		return 0;
	}
	if (sf_box_ids_reserve(&s.ids, (size_t)b->n * 2 + 1) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < b->n; i++)
		s.ids.at[i] = i;
	r = sweep_dimension(&s, 0, 0, b->n);
	sf_box_ids_release(&s.ids);
	return r;
}
