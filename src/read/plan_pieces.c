#include "config.h"

#include "base/mem.h"
#include "ckpt/ckpt_order.h"
#include "read/plan_geometry.h"
#include "read/plan_left.h"

#define DIMS (SF_DIMS_MAX + 1) /* with the bytes of an element: a range may begin inside one */

/* The box [lo, hi) of the chunk's coordinates (hi == NULL: all of it) between an item with @stride
 * and the dense tensor. */
static void make_geometry(const struct sf_tensor *t, const struct sf_chunk *c, uint64_t elem,
                          const uint64_t *stride, const uint64_t *lo, const uint64_t *hi,
                          struct sf_geometry *g)
{
	uint64_t extent[SF_DIMS_MAX], dst[SF_DIMS_MAX], dense = elem, src0 = 0, dst0 = 0;

	for (unsigned d = t->ndim; d-- > 0; dense *= t->shape[d]) {
		uint64_t from = hi ? lo[d] : 0;
		extent[d] = hi ? hi[d] - lo[d] : c->extent[d];
		dst[d] = dense;
		src0 += from * stride[d];
		dst0 += (c->origin[d] + from) * dense;
	}
	sf_geometry_make(g, t->ndim, extent, elem, stride, dst);
	g->src0 = src0;
	g->dst0 = dst0;
}

/* Overlaps: what is left of a chunk when earlier ones have taken theirs, in boxes of bytes (the
 * last dimension: bytes of an element). */
struct cut {
	struct sf_left left;
	const uint64_t *origin; /* of the chunk whose range is being cut; the bytes' 0 behind */
};

static void move(const struct cut *c, const uint64_t *lo, const uint64_t *hi, uint64_t *a,
                 uint64_t *b)
{
	for (unsigned d = 0; d < c->left.ndim; d++) {
		a[d] = lo[d] + c->origin[d];
		b[d] = hi[d] + c->origin[d];
	}
}

static int add_left(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct cut *c = arg;
	uint64_t a[DIMS], b[DIMS];

	move(c, lo, hi, a, b);
	return sf_left_add(&c->left, a, b);
}

static int take_out(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct cut *c = arg;
	uint64_t a[DIMS], b[DIMS];

	move(c, lo, hi, a, b);
	return sf_left_take(&c->left, a, b);
}

struct earlier {
	const struct sf_tensor *t;
	uint64_t elem, off, end;
	uint32_t chunk;
	struct cut *cut;
};

static int cut_chunk(const struct sf_box_range *range, unsigned ndim, uint64_t elem, struct cut *c,
                     int (*each)(void *arg, const uint64_t *lo, const uint64_t *hi))
{
	uint64_t extent[DIMS], origin[DIMS];
	int r;

	memcpy(extent, range->chunk.extent, ndim * sizeof(*extent));
	memcpy(origin, range->chunk.origin, ndim * sizeof(*origin));
	extent[ndim] = elem;
	origin[ndim] = 0;
	c->origin = origin;
	r = sf_box_cut(extent, ndim + 1, range->from, range->to, each, c);
	c->origin = NULL;
	return r;
}

static int take_out_chunk(void *arg, uint32_t chunk)
{
	struct earlier *e = arg;
	struct sf_box_range range;

	if (chunk >= e->chunk || !e->cut->left.now.n ||
	    !sf_box_range(e->t, chunk, e->elem, e->off, e->end, &range))
		return 0;
	return cut_chunk(&range, e->t->ndim, e->elem, e->cut, take_out);
}

static int emit_left(struct sf_emit *e, const struct sf_tensor *t, const struct sf_box_range *range,
                     uint64_t elem, const uint64_t *stride, uint64_t off, const struct sf_left *l)
{
	const struct sf_chunk *c = &range->chunk;
	int r = 0;

	for (size_t i = 0; i < l->now.n && r >= 0; i += 2 * l->ndim) {
		uint64_t lo[DIMS], hi[DIMS], b0, b1;
		struct sf_geometry g;

		for (unsigned d = 0; d < t->ndim; d++) {
			lo[d] = l->now.at[i + d] - c->origin[d];
			hi[d] = l->now.at[i + l->ndim + d] - c->origin[d];
		}
		b0 = l->now.at[i + t->ndim];
		b1 = l->now.at[i + l->ndim + t->ndim];
		make_geometry(t, c, elem, stride, lo, hi, &g);
		g.src0 -= c->part_off * elem;
		g.dst0 -= off;
		uint64_t volume = 1;
		for (unsigned d = 0; d < g.ndim; d++)
			volume *= g.extent[d];
		if (b1 - b0 == elem)
			r = sf_emit_range(e, &g, 0, volume);
		else /* part of an element: the box is one element wide there */
			r = sf_emit_range(e, &g, b0, b1);
	}
	return r;
}

static int pieces_of_overlap(struct sf_emit *e, const struct sf_tensor *t, uint32_t chunk,
                             const struct sf_box_range *range, uint64_t elem,
                             const uint64_t *stride, uint64_t off, uint64_t end)
{
	struct cut cut = { .left.ndim = t->ndim + 1u };
	struct earlier earlier = { t, elem, off, end, chunk, &cut };
	int r = cut_chunk(range, t->ndim, elem, &cut, add_left);

	if (r >= 0)
		r = sf_order_query(t, off / elem, (end - 1) / elem + 1, take_out_chunk, &earlier);
	if (r >= 0)
		r = emit_left(e, t, range, elem, stride, off, &cut.left);
	sf_left_release(&cut.left);
	return r;
}

int sf_plan_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                   const struct sf_item_layout *layout, uint64_t off, uint64_t len, uint32_t item,
                   struct sf_pieces *pieces, struct sf_error *err)
{
	const struct sf_key *k = &ckpt->key[t->key];
	uint64_t elem = sf_dtype_info(t->dtype)->bytes, stride[SF_DIMS_MAX], end;
	struct sf_emit e = { .pieces = pieces, .n0 = pieces->n };
	struct sf_box_range range;
	struct sf_geometry g;
	int r;

	if (!sf_add(off, len, &end) || end > t->bytes || chunk >= t->nchunks)
		return sf_fail(
			err, -EINVAL,
			"tensor '%.*s': chunk %u, bytes %llu to %llu asked of %llu in %u chunks",
			(int)SF_MIN(k->len, 200u), k->name, chunk, (unsigned long long)off,
			(unsigned long long)end, (unsigned long long)t->bytes, t->nchunks);
	if (!len || !sf_box_range(t, chunk, elem, off, end, &range))
		return 0;
	r = sf_item_strides(ckpt, t, &range.chunk, elem, layout, stride, err);
	if (r < 0)
		return r;
	e.like.item = item;
	e.like.kind = sf_piece_kind_of(layout);
	if (t->flags & SF_TENSOR_OVERLAP) {
		r = pieces_of_overlap(&e, t, chunk, &range, elem, stride, off, end);
	} else {
		make_geometry(t, &range.chunk, elem, stride, NULL, NULL, &g);
		g.src0 -= range.chunk.part_off * elem;
		g.dst0 -= off;
		r = sf_emit_range(&e, &g, range.from, range.to);
	}
	if (r >= 0)
		return 0;
	pieces->n = e.n0;
	if (r == -E2BIG)
		return sf_fail(
			err, r,
			"tensor '%.*s': bytes %llu to %llu of chunk %u take more than %u copies",
			(int)SF_MIN(k->len, 200u), k->name, (unsigned long long)off,
			(unsigned long long)end, chunk, SF_PIECES_MAX);
	return sf_fail(err, r, "tensor '%.*s': no memory to plan a read", (int)SF_MIN(k->len, 200u),
	               k->name);
}
