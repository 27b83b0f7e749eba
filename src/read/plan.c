#include "config.h"

#include <inttypes.h>
#include <stdio.h>

#include "base/mem.h"
#include "ckpt/box.h"
#include "ckpt/ckpt_cover.h"
#include "ckpt/ckpt_order.h"
#include "read/plan.h"
#include "read/plan_left.h"
#include "read/region.h"

/*
 * Which chunks lie under a region, be it a range or a box: candidates are found, by the grid or by
 * where their elements begin and end; those that hold something of it are put into order; and where
 * the tensor has a hole, what they hold is looked at for one.
 */

#define SORT_ON_STACK 64
#define HOLE_BUDGET (UINT64_C(1) << 24) /* steps to look for a hole under one region */

/* ---- candidates ---- */

struct gather {
	const struct sf_tensor *t;
	struct sf_u32s *chunks;
	uint64_t stride[SF_DIMS_MAX]; /* grids: cells from one to the next along a dimension */
};

static int push_chunk(void *arg, uint32_t chunk)
{
	struct gather *g = arg;

	return sf_u32s_push(g->chunks, chunk) < 0 ? -ENOMEM : 0;
}

/* The cell along dimension @d that has coordinate @x. Equal cells are found at once. */
static uint32_t find_cell(const struct gather *g, unsigned d, uint64_t x)
{
	const struct sf_tensor *t = g->t;
	uint32_t n = t->grid_n[d];
	uint64_t guess = x / sf_chunk_extent(t, t->order[0], d);

	if (guess < n) {
		uint32_t c = t->order[guess * g->stride[d]];
		if (x - sf_chunk_origin(t, c, d) < sf_chunk_extent(t, c, d))
			return (uint32_t)guess;
	}
	return SF_LAST_THAT(i, n, sf_chunk_origin(t, t->order[i * g->stride[d]], d) <= x);
}

/* All cells that meet one box of the tensor. */
static int push_cells(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct gather *g = arg;
	uint32_t from[SF_DIMS_MAX], to[SF_DIMS_MAX], at[SF_DIMS_MAX];
	unsigned ndim = g->t->ndim, d;

	for (d = 0; d < ndim; d++) {
		at[d] = from[d] = find_cell(g, d, lo[d]);
		to[d] = hi[d] - lo[d] == 1 ? from[d] : find_cell(g, d, hi[d] - 1);
	}
	do {
		uint64_t cell = 0;
		for (d = 0; d < ndim; d++)
			cell += at[d] * g->stride[d];
		if (sf_u32s_push(g->chunks, g->t->order[cell]) < 0)
			return -ENOMEM;
		for (d = ndim; d-- > 0;) {
			if (at[d]++ < to[d])
				break;
			at[d] = from[d];
		}
	} while (d < ndim); /* d wraps when the odometer does */
	return 0;
}

/* In any order, some twice, some that hold nothing of it. */
static int find_candidates(const struct sf_region *region, struct sf_u32s *chunks)
{
	const struct sf_tensor *t = region->t;
	struct gather g = { .t = t, .chunks = chunks };
	uint64_t step = 1;

	if (!(t->flags & SF_TENSOR_GRID))
		return sf_order_query(t, region->first, region->end, push_chunk, &g);
	for (unsigned d = t->ndim; d-- > 0; step *= t->grid_n[d])
		g.stride[d] = step;
	return sf_region_boxes(region, push_cells, &g);
}

/* ---- those that hold something ---- */

struct found {
	uint64_t first; /* element that it holds of the region */
	uint32_t chunk;
};

static int compare_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

struct look {
	const struct sf_region *region;
	struct found *found;
	uint64_t elements;
};

static int look_at_box(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct look *l = arg;

	l->found->first = SF_MIN(l->found->first, sf_region_element(l->region, lo));
	l->elements += sf_region_volume(l->region, lo, hi);
	return 0;
}

/* How many elements of the region does the chunk hold, and which first? */
static uint64_t look_at(const struct sf_region *region, uint32_t chunk, struct found *ret)
{
	struct look look = { .region = region, .found = ret };
	struct sf_chunk c;
	uint64_t from, to;

	*ret = (struct found){ UINT64_MAX, chunk };
	if (region->lo) {
		sf_region_meet(region, chunk, look_at_box, &look);
		return look.elements;
	}
	if (!sf_region_run(region, chunk, &c, &from, &to))
		return 0;
	ret->first = sf_chunk_element(region->t, chunk, from);
	return to - from;
}

/*
 * Leaves of the candidates from chunks->at[n0] on those that hold something, once and in order.
 * *ret_elements: how many they hold, summed; of those that were candidates twice twice as many.
 */
static int settle(const struct sf_region *region, size_t n0, struct sf_u32s *chunks,
                  uint64_t *ret_elements)
{
	struct found stack[SORT_ON_STACK], *at = stack;
	size_t n = 0, all = chunks->n - n0, kept = 0;
	SF_FREE struct found *heap = NULL;
	uint64_t elements = 0;
	bool sorted = true;

	if (all > SORT_ON_STACK) {
		at = heap = sf_alloc_array(all, sizeof(*heap));
		if (!heap)
			return -ENOMEM;
	}
	for (size_t i = 0; i < all; i++) {
		uint64_t held = look_at(region, chunks->at[n0 + i], &at[n]);
		if (!held)
			continue;
		elements += held;
		sorted &= !n || compare_found(&at[n - 1], &at[n]) < 0;
		n++;
	}
	if (!sorted)
		qsort(at, n, sizeof(*at), compare_found);
	for (size_t i = 0; i < n; i++)
		if (!kept || at[i].chunk != at[i - 1].chunk)
			chunks->at[n0 + kept++] = at[i].chunk;
	chunks->n = n0 + kept;
	*ret_elements = elements;
	return 0;
}

/* ---- holes ---- */

struct hole_search {
	const struct sf_boxes *held;
	uint64_t budget;
	struct sf_cover cover;
};

static int look_for_hole(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct hole_search *s = arg;
	int r = sf_cover_sweep(s->held, lo, hi, false, &s->budget, &s->cover);

	return r < 0 ? r : s->cover.hole;
}

static int fail_hole(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint64_t off,
                     const uint64_t *at, struct sf_error *err)
{
	uint64_t elem = sf_dtype_info(t->dtype)->bytes, x = 0;
	const struct sf_key *k = &ckpt->key[t->key];
	char coords[256] = "";
	size_t n = 0;

	for (unsigned d = 0; d < t->ndim; d++) {
		x = x * t->shape[d] + at[d];
		if (n < sizeof(coords))
			n += (size_t)snprintf(coords + n, sizeof(coords) - n, "%s%llu",
			                      d ? ", " : "", (unsigned long long)at[d]);
	}
	return sf_fail(err, -EBADMSG,
	               "tensor '%.*s': no chunk holds element [%s] (byte %llu of %llu)",
	               (int)SF_MIN(k->len, 200u), k->name, coords,
	               (unsigned long long)SF_MAX(x * elem, off), (unsigned long long)t->bytes);
}

/* The tensor has a hole somewhere: is it in the region? @off: the first byte of it that is asked
 * for. @chunk: those that hold something of it. */
static int check_holes(const struct sf_ckpt *ckpt, const struct sf_region *region, uint64_t off,
                       const uint32_t *chunk, size_t n, struct sf_error *err)
{
	const struct sf_key *k = &ckpt->key[region->t->key];
	struct sf_left held = { .ndim = region->ndim };
	struct sf_boxes boxes;
	struct hole_search s = { .held = &boxes, .budget = HOLE_BUDGET };
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		r = sf_region_meet(region, chunk[i], sf_left_add, &held);
	boxes = (struct sf_boxes){ held.ndim, (uint32_t)sf_left_n(&held), held.now.at };
	if (r >= 0)
		r = sf_region_boxes(region, look_for_hole, &s);
	sf_left_release(&held);
	if (r > 0)
		return fail_hole(ckpt, region->t, off, s.cover.hole_at, err);
	if (r == -E2BIG)
		return sf_fail(err, r,
		               "tensor '%.*s': elements %" PRIu64 " to %" PRIu64
		               " lie under %zu chunks too tangled to look for holes",
		               (int)SF_MIN(k->len, 200u), k->name, region->first, region->end, n);
	return r;
}

/* ---- the callers ---- */

/* @off: the first byte that is asked for. */
static int plan_chunks(const struct sf_ckpt *ckpt, const struct sf_region *region, uint64_t off,
                       struct sf_u32s *chunks, struct sf_error *err)
{
	const struct sf_tensor *t = region->t;
	const struct sf_key *k = &ckpt->key[t->key];
	size_t n0 = chunks->n;
	uint64_t asked = region->lo ? sf_region_volume(region, region->lo, region->hi)
	                            : region->end - region->first;
	uint64_t held = 0;
	int r = find_candidates(region, chunks);

	if (r >= 0)
		r = settle(region, n0, chunks, &held);
	/* only where something is missing it is looked for; without overlap the sum tells (what
	 * finds candidates twice is a grid, which has no hole) */
	if (r >= 0 && t->flags & SF_TENSOR_HOLE && (held != asked || t->flags & SF_TENSOR_OVERLAP))
		r = check_holes(ckpt, region, off, chunks->at ? chunks->at + n0 : NULL,
		                chunks->n - n0, err);
	if (r >= 0)
		return 0;
	chunks->n = n0;
	return r == -ENOMEM ? sf_fail(err, r, "tensor '%.*s': no memory to plan a read",
	                              (int)SF_MIN(k->len, 200u), k->name)
	                    : r;
}

int sf_plan_chunks(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint64_t off,
                   uint64_t len, struct sf_u32s *chunks, struct sf_error *err)
{
	const struct sf_key *k = &ckpt->key[t->key];
	uint64_t elem = sf_dtype_info(t->dtype)->bytes, end;
	struct sf_region range;

	if (!sf_add(off, len, &end) || end > t->bytes)
		return sf_fail(err, -EINVAL, "tensor '%.*s': bytes %llu to %llu asked of %llu",
		               (int)SF_MIN(k->len, 200u), k->name, (unsigned long long)off,
		               (unsigned long long)end, (unsigned long long)t->bytes);
	if (!len)
		return 0;
	range = sf_region_range(t, off / elem, (end - 1) / elem + 1);
	return plan_chunks(ckpt, &range, off, chunks, err);
}

int sf_plan_box_chunks(const struct sf_ckpt *ckpt, const struct sf_tensor *t, const uint64_t *lo,
                       const uint64_t *hi, struct sf_u32s *chunks, struct sf_error *err)
{
	const struct sf_region box = sf_region_box(t, lo, hi);

	return plan_chunks(ckpt, &box, box.first * sf_dtype_info(t->dtype)->bytes, chunks, err);
}
