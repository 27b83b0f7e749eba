#include "config.h"

#include "base/mem.h"
#include "ckpt/ckpt_order.h"
#include "read/plan_priv.h"

#define PIECES_MAX (1u << 24)
#define DIMS                                                                                  \
	(SF_DIMS_MAX + 1) /* the bytes of an element are the innermost dimension: a range may \
	                     begin inside one */

/* A box of bytes in both places; dimensions that are contiguous in both are one. */
struct geometry {
	unsigned ndim; /* ≥ 1 */
	uint64_t extent[DIMS];
	uint64_t src[DIMS], dst[DIMS]; /* bytes from one to the next */
	uint64_t src0, dst0; /* of the box's first byte; may wrap below 0 where a part or a range
	                        begins later */
};

struct emit {
	struct sf_pieces *pieces;
	size_t n0;
	struct sf_piece like; /* item and kind */
};

/* Strides of the item in bytes, and whether the payload holds the box. */
static int item_strides(const struct sf_ckpt *ckpt, const struct sf_tensor *t,
                        const struct sf_chunk *c, uint64_t elem,
                        const struct sf_item_layout *layout, uint64_t *stride, struct sf_error *err)
{
	const struct sf_key *k = &ckpt->key[t->key];
	uint64_t step = elem, need = elem, volume = 1;

	for (unsigned d = t->ndim; d-- > 0; step *= c->extent[d]) {
		stride[d] = step;
		volume *= c->extent[d];
	}
	if (layout->row_major) {
		need = c->part_len * elem;
	} else if (c->part_len != volume) {
		return sf_fail(err, -ENOTSUP,
		               "tensor '%.*s': an item that holds %llu of its box's %llu elements "
		               "is not contiguous",
		               (int)SF_MIN(k->len, 200u), k->name, (unsigned long long)c->part_len,
		               (unsigned long long)volume);
	} else {
		for (unsigned d = 0; d < t->ndim; d++) {
			uint64_t span;
			stride[d] = (uint64_t)layout->stride[d] * elem;
			if (layout->stride[d] < 0 ||
			    !sf_mul((uint64_t)layout->stride[d], elem, &stride[d]) ||
			    !sf_mul(stride[d], c->extent[d] - 1, &span) ||
			    !sf_add(need, span, &need))
				return sf_fail(err, -EBADMSG,
				               "tensor '%.*s': stride %lld of dimension %u in an "
				               "item of %llu bytes",
				               (int)SF_MIN(k->len, 200u), k->name,
				               (long long)layout->stride[d], d,
				               (unsigned long long)layout->payload_len);
		}
	}
	if (need > layout->payload_len)
		return sf_fail(
			err, -EBADMSG,
			"tensor '%.*s': an item's payload has %llu bytes, its box needs %llu",
			(int)SF_MIN(k->len, 200u), k->name, (unsigned long long)layout->payload_len,
			(unsigned long long)need);
	return 0;
}

/*
 * The box [lo, hi) of the chunk's coordinates (hi == NULL: all of it) between an item with @stride
 * and the dense tensor. From the inside out, so that a dimension joins the one inside it when both
 * sides step over it whole.
 */
static void make_geometry(const struct sf_tensor *t, const struct sf_chunk *c, uint64_t elem,
                          const uint64_t *stride, const uint64_t *lo, const uint64_t *hi,
                          struct geometry *g)
{
	uint64_t extent[DIMS], src[DIMS], dst[DIMS], dense = elem;
	unsigned n = 1;

	extent[0] = elem; /* innermost first here */
	src[0] = dst[0] = 1;
	g->src0 = g->dst0 = 0;
	for (unsigned d = t->ndim; d-- > 0; dense *= t->shape[d]) {
		uint64_t from = hi ? lo[d] : 0, e = hi ? hi[d] - lo[d] : c->extent[d];

		g->src0 += from * stride[d];
		g->dst0 += (c->origin[d] + from) * dense;
		if (e == 1)
			continue;
		if (stride[d] == src[n - 1] * extent[n - 1] &&
		    dense == dst[n - 1] * extent[n - 1]) {
			extent[n - 1] *= e;
			continue;
		}
		extent[n] = e;
		src[n] = stride[d];
		dst[n++] = dense;
	}
	g->ndim = n;
	for (unsigned d = 0; d < n; d++) {
		g->extent[d] = extent[n - 1 - d];
		g->src[d] = src[n - 1 - d];
		g->dst[d] = dst[n - 1 - d];
	}
}

static int push(struct emit *e, uint64_t src, uint64_t dst, uint64_t len, uint64_t count,
                uint64_t src_step, uint64_t dst_step)
{
	struct sf_piece p = e->like;

	if (e->pieces->n - e->n0 >= PIECES_MAX)
		return -E2BIG;
	p.src_off = src;
	p.dst_off = dst;
	p.len = len;
	p.count = count;
	p.src_step = (int64_t)src_step;
	p.dst_step = (int64_t)dst_step;
	return sf_pieces_push(e->pieces, p) < 0 ? -ENOMEM : 0;
}

/* Rows [row, end) of the innermost dimension, @width bytes each: a piece for each run along the
 * dimension outside it. */
static int emit_rows(struct emit *e, const struct geometry *g, uint64_t row, uint64_t end,
                     uint64_t skip, uint64_t width)
{
	unsigned n = g->ndim, in = n >= 2 ? n - 2 : 0;
	uint64_t at[DIMS], rest = row, src, dst;
	int r = 0;

	for (unsigned d = n - 1; d-- > 0;) {
		at[d] = d ? rest % g->extent[d] : rest;
		rest /= g->extent[d];
	}
	while (row < end && r >= 0) {
		uint64_t count = 1;

		src = g->src0 + skip;
		dst = g->dst0 + skip;
		for (unsigned d = 0; d + 1 < n; d++) {
			src += at[d] * g->src[d];
			dst += at[d] * g->dst[d];
		}
		if (n >= 2)
			count = SF_MIN(g->extent[in] - at[in], end - row);
		r = push(e, src, dst, width, count, count > 1 ? g->src[in] : 0,
		         count > 1 ? g->dst[in] : 0);
		row += count;
		if (n < 2)
			break;
		at[in] += count;
		for (unsigned d = in; d > 0 && at[d] == g->extent[d]; d--) {
			at[d] = 0;
			at[d - 1]++;
		}
	}
	return r;
}

/* Bytes [from, to) of the geometry's row-major order. */
static int emit_range(struct emit *e, const struct geometry *g, uint64_t from, uint64_t to)
{
	uint64_t width = g->extent[g->ndim - 1], row = from / width, last = to / width,
		 x = from % width;
	int r = 0;

	if (g->ndim == 1)
		return push(e, g->src0 + from, g->dst0 + from, to - from, 1, 0, 0);
	if (x) {
		r = emit_rows(e, g, row, row + 1, x, SF_MIN(width - x, to - from));
		row++;
	}
	if (r >= 0 && row < last)
		r = emit_rows(e, g, row, last, 0, width);
	if (r >= 0 && row <= last && to % width)
		r = emit_rows(e, g, last, last + 1, 0, to % width);
	return r;
}

/*
 * Overlaps: what is left of a chunk when earlier ones have taken theirs, as a list of boxes of
 * bytes in the tensor's coordinates (the last dimension: bytes of an element). Slow, exact, and
 * only for tensors that are flagged.
 */
SF_VEC(sf_byte_boxes, uint64_t);

struct left {
	unsigned ndim;          /* with the bytes */
	const uint64_t *origin; /* of the chunk whose range is being cut; the bytes' 0 behind */
	struct sf_byte_boxes now, next; /* 2 ndim numbers a box */
	uint64_t nboxes;
};

static int left_push(struct sf_byte_boxes *v, unsigned ndim, const uint64_t *lo, const uint64_t *hi,
                     const uint64_t *origin)
{
	if (v->n / (2 * ndim) >= PIECES_MAX)
		return -E2BIG;
	if (sf_byte_boxes_reserve(v, v->n + 2 * ndim) < 0)
		return -ENOMEM;
	for (unsigned d = 0; d < ndim; d++)
		v->at[v->n++] = lo[d] + (origin ? origin[d] : 0);
	for (unsigned d = 0; d < ndim; d++)
		v->at[v->n++] = hi[d] + (origin ? origin[d] : 0);
	return 0;
}

static int add_left(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct left *l = arg;

	return left_push(&l->now, l->ndim, lo, hi, l->origin);
}

/* Takes one box out of every box that is left: what sticks out on either side, dimension by
 * dimension. */
static int take_out(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct left *l = arg;
	unsigned ndim = l->ndim;
	int r = 0;

	l->next.n = 0;
	for (size_t i = 0; i < l->now.n && r >= 0; i += 2 * ndim) {
		uint64_t a[DIMS], b[DIMS];
		bool apart = false;

		memcpy(a, l->now.at + i, ndim * sizeof(*a));
		memcpy(b, l->now.at + i + ndim, ndim * sizeof(*b));
		for (unsigned d = 0; d < ndim; d++)
			apart |= lo[d] + l->origin[d] >= b[d] || hi[d] + l->origin[d] <= a[d];
		if (apart) {
			r = left_push(&l->next, ndim, a, b, NULL);
			continue;
		}
		for (unsigned d = 0; d < ndim && r >= 0; d++) {
			uint64_t from = lo[d] + l->origin[d], to = hi[d] + l->origin[d], keep;
			if (a[d] < from) {
				keep = b[d];
				b[d] = from;
				r = left_push(&l->next, ndim, a, b, NULL);
				b[d] = keep;
				a[d] = from;
			}
			if (r >= 0 && b[d] > to) {
				keep = a[d];
				a[d] = to;
				r = left_push(&l->next, ndim, a, b, NULL);
				a[d] = keep;
				b[d] = to;
			}
		}
	}
	struct sf_byte_boxes swap = l->now;
	l->now = l->next;
	l->next = swap;
	return r;
}

struct earlier {
	const struct sf_tensor *t;
	uint64_t elem, off, end;
	uint32_t chunk;
	struct left *left;
};

static int cut_chunk(const struct sf_box_range *range, unsigned ndim, uint64_t elem, struct left *l,
                     int (*each)(void *arg, const uint64_t *lo, const uint64_t *hi))
{
	uint64_t extent[DIMS], origin[DIMS];
	int r;

	memcpy(extent, range->chunk.extent, ndim * sizeof(*extent));
	memcpy(origin, range->chunk.origin, ndim * sizeof(*origin));
	extent[ndim] = elem;
	origin[ndim] = 0;
	l->origin = origin;
	r = sf_box_cut(extent, ndim + 1, range->from, range->to, each, l);
	l->origin = NULL;
	return r;
}

static int take_out_chunk(void *arg, uint32_t chunk)
{
	struct earlier *e = arg;
	struct sf_box_range range;

	if (chunk >= e->chunk || !e->left->now.n ||
	    !sf_box_range(e->t, chunk, e->elem, e->off, e->end, &range))
		return 0;
	return cut_chunk(&range, e->t->ndim, e->elem, e->left, take_out);
}

static int emit_left(struct emit *e, const struct sf_tensor *t, const struct sf_box_range *range,
                     uint64_t elem, const uint64_t *stride, uint64_t off, const struct left *l)
{
	const struct sf_chunk *c = &range->chunk;
	int r = 0;

	for (size_t i = 0; i < l->now.n && r >= 0; i += 2 * l->ndim) {
		uint64_t lo[DIMS], hi[DIMS], b0, b1;
		struct geometry g;

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
			r = emit_range(e, &g, 0, volume);
		else /* part of an element: the box is one element wide there */
			r = emit_range(e, &g, b0, b1);
	}
	return r;
}

static int pieces_of_overlap(struct emit *e, const struct sf_tensor *t, uint32_t chunk,
                             const struct sf_box_range *range, uint64_t elem,
                             const uint64_t *stride, uint64_t off, uint64_t end)
{
	struct left left = { .ndim = t->ndim + 1u };
	struct earlier earlier = { t, elem, off, end, chunk, &left };
	int r = cut_chunk(range, t->ndim, elem, &left, add_left);

	if (r >= 0)
		r = sf_order_query(t, off / elem, (end - 1) / elem + 1, take_out_chunk, &earlier);
	if (r >= 0)
		r = emit_left(e, t, range, elem, stride, off, &left);
	sf_byte_boxes_release(&left.now);
	sf_byte_boxes_release(&left.next);
	return r;
}

int sf_plan_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                   const struct sf_item_layout *layout, uint64_t off, uint64_t len, uint32_t item,
                   struct sf_pieces *pieces, struct sf_error *err)
{
	const struct sf_key *k = &ckpt->key[t->key];
	uint64_t elem = sf_dtype_info(t->dtype)->bytes, stride[SF_DIMS_MAX], end;
	struct emit e = { .pieces = pieces, .n0 = pieces->n };
	struct sf_box_range range;
	struct geometry g;
	int r;

	if (!sf_add(off, len, &end) || end > t->bytes || chunk >= t->nchunks)
		return sf_fail(
			err, -EINVAL,
			"tensor '%.*s': chunk %u, bytes %llu to %llu asked of %llu in %u chunks",
			(int)SF_MIN(k->len, 200u), k->name, chunk, (unsigned long long)off,
			(unsigned long long)end, (unsigned long long)t->bytes, t->nchunks);
	if (!len || !sf_box_range(t, chunk, elem, off, end, &range))
		return 0;
	r = item_strides(ckpt, t, &range.chunk, elem, layout, stride, err);
	if (r < 0)
		return r;
	e.like.item = item;
	e.like.kind = layout->conj || layout->neg ? SF_PIECE_CONVERT : SF_PIECE_BYTES;
	if (t->flags & SF_TENSOR_OVERLAP) {
		r = pieces_of_overlap(&e, t, chunk, &range, elem, stride, off, end);
	} else {
		make_geometry(t, &range.chunk, elem, stride, NULL, NULL, &g);
		g.src0 -= range.chunk.part_off * elem;
		g.dst0 -= off;
		r = emit_range(&e, &g, range.from, range.to);
	}
	if (r >= 0)
		return 0;
	pieces->n = e.n0;
	if (r == -E2BIG)
		return sf_fail(
			err, r,
			"tensor '%.*s': bytes %llu to %llu of chunk %u take more than %u copies",
			(int)SF_MIN(k->len, 200u), k->name, (unsigned long long)off,
			(unsigned long long)end, chunk, PIECES_MAX);
	return sf_fail(err, r, "tensor '%.*s': no memory to plan a read", (int)SF_MIN(k->len, 200u),
	               k->name);
}
