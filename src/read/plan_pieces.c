#include "config.h"

#include <inttypes.h>

#include "base/mem.h"
#include "ckpt/box.h"
#include "ckpt/ckpt_order.h"
#include "read/plan_geometry.h"
#include "read/plan_left.h"
#include "read/region.h"

/*
 * By what copies a chunk gives what it holds of a region: as boxes, out of which earlier chunks take
 * theirs where the tensor overlaps; each that is left is copied as the strides on both sides say. A
 * range and a box differ in where their elements go, and in that a range may begin and end inside an
 * element.
 */
struct copies {
	const struct sf_ckpt *ckpt;
	const struct sf_region *region;
	const struct sf_item_layout *layout;
	struct sf_emit emit;
	uint32_t number; /* of the chunk */
	struct sf_chunk *chunk;
	uint64_t elem;
	/* bytes of the region's first and last element that are not asked for */
	uint64_t head, tail;
	uint64_t *src; /* bytes from one element to the next, modulo 2^64 as all below */
	const uint64_t *dst;
	uint64_t dst0; /* where element (0, …) of the tensor would go */
};

/* Bytes [from, to) of the row-major order of the box at @lo. */
static int copy_box(struct copies *c, const uint64_t *lo, const uint64_t *extent, uint64_t from,
                    uint64_t to)
{
	unsigned ndim = c->region->t->ndim;
	struct sf_geometry g;

	sf_geometry_make(&g, ndim, extent, c->elem, c->src, c->dst);
	g.src0 = -(c->chunk->part_off * c->elem);
	g.dst0 = c->dst0;
	for (unsigned d = 0; d < ndim; d++) {
		g.src0 += (lo[d] - c->chunk->origin[d]) * c->src[d];
		g.dst0 += lo[d] * c->dst[d];
	}
	return sf_emit_range(&c->emit, &g, from, to);
}

static int find_strides(struct copies *c, struct sf_error *err)
{
	return sf_item_strides(c->ckpt, c->region->t, c->chunk, c->elem, c->layout, c->src, err);
}

/* Of a range without overlap: a range of the chunk's box, the fewest copies there are. */
static int copy_run(struct copies *c, struct sf_error *err)
{
	const struct sf_region *range = c->region;
	const struct sf_tensor *t = range->t;
	uint64_t from, to, begin, end;
	int r;

	if (!sf_region_run(range, c->number, c->chunk, &from, &to))
		return 0;
	r = find_strides(c, err);
	if (r < 0)
		return r;
	begin = from * c->elem;
	end = to * c->elem;
	if (c->head && sf_chunk_element(t, c->number, from) == range->first)
		begin += c->head;
	if (c->tail && sf_chunk_element(t, c->number, to - 1) + 1 == range->end)
		end -= c->tail;
	return copy_box(c, c->chunk->origin, c->chunk->extent, begin, end);
}

struct earlier {
	const struct copies *copies;
	struct sf_left *left;
};

static int take_chunk(void *arg, uint32_t chunk)
{
	const struct earlier *e = arg;

	return chunk < e->copies->number && sf_left_n(e->left)
	               ? sf_region_meet(e->copies->region, chunk, sf_left_take, e->left)
	               : 0;
}

/* A region's first element is the first of the box it is in, and its last one the last. */
static int copy_left(struct copies *c, const uint64_t *lo, const uint64_t *hi)
{
	const struct sf_region *region = c->region;
	uint64_t extent[SF_DIMS_MAX], last[SF_DIMS_MAX],
		begin = 0, end = sf_region_volume(region, lo, hi) * c->elem;

	for (unsigned d = 0; d < region->ndim; d++) {
		extent[d] = hi[d] - lo[d];
		last[d] = hi[d] - 1;
	}
	if (c->head && sf_region_element(region, lo) == region->first)
		begin = c->head;
	if (c->tail && sf_region_element(region, last) + 1 == region->end)
		end -= c->tail;
	return copy_box(c, lo, extent, begin, end);
}

static int copy_boxes(struct copies *c, struct sf_error *err)
{
	SF_CLEANUP(sf_left_release) struct sf_left left = { .ndim = c->region->ndim };
	const struct sf_tensor *t = c->region->t;
	struct earlier earlier = { c, &left };
	int r = sf_region_meet(c->region, c->number, sf_left_add, &left);

	if (r < 0 || !sf_left_n(&left))
		return r;
	sf_tensor_chunk(t, c->number, c->chunk);
	r = find_strides(c, err);
	if (r >= 0 && t->flags & SF_TENSOR_OVERLAP)
		r = sf_order_query(t, c->region->first, c->region->end, take_chunk, &earlier);
	for (size_t i = 0; i < sf_left_n(&left) && r == 0; i++)
		r = copy_left(c, sf_left_lo(&left, i), sf_left_hi(&left, i));
	return r;
}

static int plan_pieces(struct copies *c, struct sf_pieces *pieces, uint32_t item,
                       struct sf_piece_window *w, struct sf_error *err)
{
	const struct sf_region *region = c->region;
	const struct sf_key *k = &c->ckpt->key[region->t->key];
	bool run = !region->lo && !(region->t->flags & SF_TENSOR_OVERLAP);
	struct sf_chunk chunk;
	bool full;
	int r;

	c->chunk = &chunk;
	c->emit.pieces = pieces;
	c->emit.n0 = pieces->n;
	c->emit.skip = w ? w->skip : 0;
	c->emit.most = w ? w->most : SF_PIECES_MAX;
	c->emit.like.item = item;
	c->emit.like.kind = sf_piece_kind_of(c->layout);
	r = run ? copy_run(c, err) : copy_boxes(c, err);
	full = r == SF_EMIT_FULL;
	if (full && !w)
		r = -E2BIG;
	if (w)
		w->more = full;
	if (r >= 0)
		return 0;
	pieces->n = c->emit.n0;
	if (r == -E2BIG)
		return sf_fail(err, r,
		               "tensor '%.*s': elements %" PRIu64 " to %" PRIu64
		               " take more than %u copies from chunk %u",
		               (int)SF_MIN(k->len, 200u), k->name, region->first, region->end,
		               full ? SF_PIECES_MAX : SF_LEFT_MAX, c->number);
	return r == -ENOMEM ? sf_fail(err, r, "tensor '%.*s': no memory to plan a read",
	                              (int)SF_MIN(k->len, 200u), k->name)
	                    : r;
}

int sf_plan_some_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                        const struct sf_item_layout *layout, uint64_t off, uint64_t len,
                        uint32_t item, struct sf_piece_window *w, struct sf_pieces *pieces,
                        struct sf_error *err)
{
	const struct sf_key *k = &ckpt->key[t->key];
	uint64_t elem = sf_dtype_info(t->dtype)->bytes, src[SF_DIMS_MAX], dst[SF_DIMS_MAX], end,
		 dense = elem;
	struct sf_region range;

	if (!sf_add(off, len, &end) || end > t->bytes || chunk >= t->nchunks)
		return sf_fail(
			err, -EINVAL,
			"tensor '%.*s': chunk %u, bytes %llu to %llu asked of %llu in %u chunks",
			(int)SF_MIN(k->len, 200u), k->name, chunk, (unsigned long long)off,
			(unsigned long long)end, (unsigned long long)t->bytes, t->nchunks);
	if (w)
		w->more = false;
	if (!len)
		return 0;
	range = sf_region_range(t, off / elem, (end - 1) / elem + 1);
	for (unsigned d = t->ndim; d-- > 0; dense *= t->shape[d])
		dst[d] = dense;
	struct copies c = { .ckpt = ckpt,
		            .region = &range,
		            .layout = layout,
		            .number = chunk,
		            .elem = elem,
		            .head = off - range.first * elem,
		            .tail = range.end * elem - end,
		            .src = src,
		            .dst = dst,
		            .dst0 = -off };
	return plan_pieces(&c, pieces, item, w, err);
}

int sf_plan_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                   const struct sf_item_layout *layout, uint64_t off, uint64_t len, uint32_t item,
                   struct sf_pieces *pieces, struct sf_error *err)
{
	return sf_plan_some_pieces(ckpt, t, chunk, layout, off, len, item, NULL, pieces, err);
}

int sf_plan_some_box_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                            const struct sf_item_layout *layout, const uint64_t *lo,
                            const uint64_t *hi, const int64_t *dst_stride, uint32_t item,
                            struct sf_piece_window *w, struct sf_pieces *pieces,
                            struct sf_error *err)
{
	const struct sf_region box = sf_region_box(t, lo, hi);
	uint64_t src[SF_DIMS_MAX], dst[SF_DIMS_MAX];
	struct copies c = { .ckpt = ckpt,
		            .region = &box,
		            .layout = layout,
		            .number = chunk,
		            .elem = sf_dtype_info(t->dtype)->bytes,
		            .src = src,
		            .dst = dst };

	for (unsigned d = 0; d < t->ndim; d++) {
		dst[d] = (uint64_t)dst_stride[d];
		c.dst0 -= lo[d] * dst[d];
	}
	return plan_pieces(&c, pieces, item, w, err);
}

int sf_plan_box_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                       const struct sf_item_layout *layout, const uint64_t *lo, const uint64_t *hi,
                       const int64_t *dst_stride, uint32_t item, struct sf_pieces *pieces,
                       struct sf_error *err)
{
	return sf_plan_some_box_pieces(ckpt, t, chunk, layout, lo, hi, dst_stride, item, NULL,
	                               pieces, err);
}
