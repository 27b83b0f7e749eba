#include "config.h"

#include <stdio.h>

#include "base/mem.h"
#include "ckpt/ckpt_cover.h"
#include "ckpt/ckpt_order.h"
#include "read/plan_priv.h"

#define SORT_ON_STACK 64

struct found {
	uint64_t first; /* first byte of the box that is asked for, as the tensor's byte */
	uint32_t chunk;
};

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

static int compare_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->first != y->first)
		return x->first < y->first ? -1 : 1;
	return (x->chunk > y->chunk) - (x->chunk < y->chunk);
}

/*
 * Leaves of the candidates from chunks->at[n0] on those that meet [off, end), once and in order.
 * *ret_bytes: what they hold of it, summed.
 */
static int settle(const struct sf_tensor *t, uint64_t elem, uint64_t off, uint64_t end, size_t n0,
                  struct sf_u32s *chunks, uint64_t *ret_bytes)
{
	struct found stack[SORT_ON_STACK], *at = stack;
	size_t n = 0, all = chunks->n - n0, kept = 0;
	SF_FREE struct found *heap = NULL;
	struct sf_box_range range;
	bool sorted = true;
	uint64_t bytes = 0;

	if (all > SORT_ON_STACK) {
		at = heap = sf_alloc_array(all, sizeof(*heap));
		if (!heap)
			return -ENOMEM;
	}
	for (size_t i = 0; i < all; i++) {
		uint32_t chunk = chunks->at[n0 + i];
		if (!sf_box_range(t, chunk, elem, off, end, &range))
			continue;
		at[n].chunk = chunk;
		at[n].first = sf_box_byte(t, &range.chunk, elem, range.from);
		sorted &= !n || compare_found(&at[n - 1], &at[n]) < 0;
		n++;
		bytes += range.to - range.from;
	}
	if (!sorted)
		qsort(at, n, sizeof(*at), compare_found);
	for (size_t i = 0; i < n; i++)
		if (!kept || at[i].chunk != at[i - 1].chunk)
			chunks->at[n0 + kept++] = at[i].chunk;
	chunks->n = n0 + kept;
	*ret_bytes =
		bytes; /* cells found twice are counted twice: only read where there is no grid */
	return 0;
}

SF_VEC(sf_corner_list, uint64_t);

/* What the chunks hold of a range as boxes in the tensor's coordinates. */
struct held {
	const struct sf_tensor *t;
	const struct sf_chunk *chunk;
	struct sf_corner_list at;
	uint32_t n;
};

static int push_box(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct held *h = arg;
	unsigned ndim = h->t->ndim;

	if (sf_corner_list_reserve(&h->at, h->at.n + 2 * ndim) < 0)
		return -ENOMEM;
	for (unsigned d = 0; d < ndim; d++)
		h->at.at[h->at.n++] = h->chunk->origin[d] + lo[d];
	for (unsigned d = 0; d < ndim; d++)
		h->at.at[h->at.n++] = h->chunk->origin[d] + hi[d];
	h->n++;
	return 0;
}

struct hole_search {
	const struct sf_boxes *boxes;
	uint64_t budget;
	struct sf_cover cover;
};

static int look_for_hole(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct hole_search *s = arg;
	int r = sf_cover_sweep(s->boxes, lo, hi, false, &s->budget, &s->cover);

	return r < 0 ? r : s->cover.hole;
}

int sf_plan_fail_hole(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint64_t off,
                      const uint64_t *at, struct sf_error *err)
{
	uint64_t elem = sf_dtype_info(t->dtype)->bytes;
	const struct sf_key *k = &ckpt->key[t->key];
	char coords[256] = "";
	uint64_t x = 0;
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

/* The tensor has a hole somewhere: is it under [off, end)? @chunks: what meets that range. */
static int check_holes(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint64_t elem,
                       uint64_t off, uint64_t end, const uint32_t *chunk, size_t n,
                       struct sf_error *err)
{
	const struct sf_key *k = &ckpt->key[t->key];
	struct hole_search s = { .budget = SF_HOLE_BUDGET };
	struct held held = { .t = t };
	struct sf_box_range range;
	uint64_t from = off / elem, to = (end - 1) / elem + 1;
	struct sf_boxes boxes;
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++) {
		held.chunk = &range.chunk;
		if (sf_box_range(t, chunk[i], 1, from, to, &range))
			r = sf_box_cut(range.chunk.extent, t->ndim, range.from, range.to, push_box,
			               &held);
	}
	boxes = (struct sf_boxes){ t->ndim, held.n, held.at.at };
	s.boxes = &boxes;
	if (r >= 0)
		r = sf_box_cut(t->shape, t->ndim, from, to, look_for_hole, &s);
	sf_corner_list_release(&held.at);
	if (r > 0)
		return sf_plan_fail_hole(ckpt, t, off, s.cover.hole_at, err);
	if (r == -E2BIG)
		return sf_fail(err, r,
		               "tensor '%.*s': bytes %llu to %llu lie under %zu chunks too tangled "
		               "to look for holes",
		               (int)SF_MIN(k->len, 200u), k->name, (unsigned long long)off,
		               (unsigned long long)end, n);
	return r < 0 ? sf_fail(err, r, "tensor '%.*s': no memory to plan a read",
	                       (int)SF_MIN(k->len, 200u), k->name)
	             : 0;
}

int sf_plan_cells(const struct sf_tensor *t, const uint64_t *lo, const uint64_t *hi,
                  struct sf_u32s *chunks)
{
	struct gather g = { .t = t, .chunks = chunks };
	uint64_t step = 1;

	for (unsigned d = t->ndim; d-- > 0; step *= t->grid_n[d])
		g.stride[d] = step;
	return push_cells(&g, lo, hi);
}

int sf_plan_chunks(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint64_t off,
                   uint64_t len, struct sf_u32s *chunks, struct sf_error *err)
{
	struct gather g = { .t = t, .chunks = chunks };
	const struct sf_key *k = &ckpt->key[t->key];
	uint64_t elem = sf_dtype_info(t->dtype)->bytes, end, bytes, step = 1;
	size_t n0 = chunks->n;
	int r;

	if (!sf_add(off, len, &end) || end > t->bytes)
		return sf_fail(err, -EINVAL, "tensor '%.*s': bytes %llu to %llu asked of %llu",
		               (int)SF_MIN(k->len, 200u), k->name, (unsigned long long)off,
		               (unsigned long long)end, (unsigned long long)t->bytes);
	if (!len)
		return 0;
	if (t->flags & SF_TENSOR_GRID) {
		for (unsigned d = t->ndim; d-- > 0; step *= t->grid_n[d])
			g.stride[d] = step;
		r = sf_box_cut(t->shape, t->ndim, off / elem, (end - 1) / elem + 1, push_cells, &g);
	} else {
		r = sf_order_query(t, off / elem, (end - 1) / elem + 1, push_chunk, &g);
	}
	if (r >= 0)
		r = settle(t, elem, off, end, n0, chunks, &bytes);
	if (r < 0) {
		chunks->n = n0;
		return sf_fail(err, r, "tensor '%.*s': no memory to plan a read",
		               (int)SF_MIN(k->len, 200u), k->name);
	}
	/* without overlap the sum tells; only where something is missing it is looked for */
	if (t->flags & SF_TENSOR_HOLE && (bytes != len || t->flags & SF_TENSOR_OVERLAP)) {
		const uint32_t *found = chunks->at ? chunks->at + n0 : NULL;
		r = check_holes(ckpt, t, elem, off, end, found, chunks->n - n0, err);
		if (r < 0)
			chunks->n = n0;
	}
	return r;
}
