#include "config.h"

#include "base/mem.h"
#include "read/op.h"
#include "read/plan_geometry.h"

/*
 * Boxes of tensors, to places of the caller's. What need not wait goes straight there. A parked
 * read's requests may end after it was answered, so its bytes go to op->dst first: dense, the
 * dimensions in the order in which the places have them, so that a dense array of whatever order is
 * one copy at the end. Casts go that way too.
 */

struct box {
	unsigned ndim;
	const uint64_t *lo, *hi; /* elements */
	const int64_t *stride;   /* bytes, of the places */
};

static struct box box_of(const struct sf_op *op, const struct sf_part *part)
{
	unsigned n = op->r->ckpt->tensor[part->index].ndim;
	const uint64_t *at = op->boxes.at + part->box;

	return (struct box){ n, at, at + n, (const int64_t *)(at + 2 * (size_t)n) };
}

static bool is_staged(const struct sf_op *op, const struct sf_part *part)
{
	return part->cast || (size_t)(part - op->parts.list.at) >= op->staged_from;
}

static uint64_t magnitude(int64_t v)
{
	return v < 0 ? -(uint64_t)v : (uint64_t)v;
}

/* The dimensions, widest steps of the places first; row-major among equals. */
static void order_of(const struct box *b, unsigned *order)
{
	for (unsigned d = 0; d < b->ndim; d++) {
		unsigned i = d;
		for (; i && magnitude(b->stride[order[i - 1]]) < magnitude(b->stride[d]); i--)
			order[i] = order[i - 1];
		order[i] = d;
	}
}

/* Steps in op->dst: dense, in that order. */
static void staged_steps(const struct box *b, uint64_t elem, int64_t *stride)
{
	unsigned order[SF_DIMS_MAX];

	order_of(b, order);
	for (unsigned i = b->ndim; i-- > 0;) {
		unsigned d = order[i];
		stride[d] = (int64_t)elem;
		elem *= b->hi[d] - b->lo[d];
	}
}

/* Bytes from the lowest place to that of the first element: steps may be negative. */
static uint64_t below(const struct box *b)
{
	uint64_t sum = 0;

	for (unsigned d = 0; d < b->ndim; d++)
		if (b->stride[d] < 0)
			sum += (b->hi[d] - b->lo[d] - 1) * magnitude(b->stride[d]);
	return sum;
}

/* A box of a part of another tensor: boxes of that one, one for each group of rows that it meets. */
static int pick_box(struct sf_parts *p, const struct sf_tensor *t, const struct sf_read_box *box,
                    enum sf_dtype cast)
{
	const struct sf_tensor_pick *of = t->more->pick;
	const unsigned lead = of->stacked ? 1 : 0;
	uint64_t origin[SF_DIMS_MAX], extent[SF_DIMS_MAX], n;
	int64_t stride[SF_DIMS_MAX];
	const struct sf_read_box one = { origin, extent, box->at, stride };
	int r = 0;

	origin[0] = of->index;
	extent[0] = 1;
	stride[0] = 0;
	for (unsigned d = 0; d < t->ndim; d++) {
		if (box->origin[d] > t->shape[d] || box->extent[d] > t->shape[d] - box->origin[d])
			return -ERANGE;
		origin[lead + d] = box->origin[d];
		extent[lead + d] = box->extent[d];
		stride[lead + d] = box->stride[d];
	}
	if (!of->rows)
		return sf_parts_box(p, of->source, &one, cast);
	for (uint64_t i = 0; i < box->extent[0] && r >= 0; i += n) {
		const uint64_t row = box->origin[0] + i, in = row % of->rows;
		const struct sf_read_box some = { origin, extent,
			                          (uint8_t *)box->at + (int64_t)i * box->stride[0],
			                          stride };
		n = SF_MIN(of->rows - in, box->extent[0] - i);
		origin[lead] = row / of->rows * of->period + of->first + in;
		extent[lead] = n;
		r = sf_parts_box(p, of->source, &some, cast);
	}
	return r;
}

int sf_parts_box(struct sf_parts *p, uint32_t tensor, const struct sf_read_box *box,
                 enum sf_dtype cast)
{
	struct sf_op *op = p->op;
	const struct sf_ckpt *ckpt = op->r->ckpt;
	struct sf_part part = {
		.kind = SF_PART_BOX, .index = tensor, .place = box->at, .box = op->boxes.n
	};
	const struct sf_tensor *t;
	uint64_t n = 1;
	int r;

	if (tensor >= ckpt->ntensors || p->list.n != p->nboxes || (p->at && !p->nboxes))
		return -ERANGE;
	t = &ckpt->tensor[tensor];
	if (t->more && t->more->pick)
		return pick_box(p, t, box, cast);
	part.index = sf_part_source(ckpt, tensor, &cast, &part.via);
	t = &ckpt->tensor[part.index];
	if (cast != t->dtype || part.via) {
		if (!sf_dtype_info(cast)->is_float || !sf_dtype_info(t->dtype)->is_float)
			return -ERANGE;
		part.cast = (uint8_t)cast;
	}
	for (unsigned d = 0; d < t->ndim; d++) {
		if (box->origin[d] > t->shape[d] || box->extent[d] > t->shape[d] - box->origin[d])
			return -ERANGE;
		n *= box->extent[d];
	}
	if (!n)
		return 0;
	if (sf_u64s_reserve(&op->boxes, op->boxes.n + 3 * (size_t)t->ndim) < 0)
		return -ENOMEM;
	part.n = n * sf_dtype_info(t->dtype)->bytes;
	if (!sf_mul(n, sf_dtype_info(cast)->bytes, &part.len))
		return -ERANGE;
	part.cast_at = p->cast_bytes;
	r = sf_parts_add(p, part);
	if (r < 0)
		return r;
	if (part.cast)
		p->cast_bytes += (part.n + 15) & ~UINT64_C(15);
	p->nboxes++;
	op->to_caller = true; /* nothing is lent */
	for (unsigned d = 0; d < t->ndim; d++)
		op->boxes.at[op->boxes.n++] = box->origin[d];
	for (unsigned d = 0; d < t->ndim; d++)
		op->boxes.at[op->boxes.n++] = box->origin[d] + box->extent[d];
	for (unsigned d = 0; d < t->ndim; d++)
		op->boxes.at[op->boxes.n++] = (uint64_t)box->stride[d];
	return 0;
}

int sf_op_plan_box_chunks(struct sf_op *op, const struct sf_part *part)
{
	const struct sf_ckpt *ckpt = op->r->ckpt;
	const struct sf_tensor *t = &ckpt->tensor[part->index];
	const struct box b = box_of(op, part);

	return sf_plan_box_chunks(ckpt, t, b.lo, b.hi, &op->chunks, &op->err);
}

int sf_op_plan_box_item(struct sf_op *op, const struct sf_part *part, uint32_t item)
{
	const struct sf_ckpt *ckpt = op->r->ckpt;
	const struct sf_tensor *t = &ckpt->tensor[part->index];
	const struct sf_op_item *of = &op->items.at[item];
	const struct box b = box_of(op, part);
	int64_t steps[SF_DIMS_MAX];
	bool staged = is_staged(op, part);
	uint64_t more;
	int r;

	if (staged)
		staged_steps(&b, sf_dtype_info(t->dtype)->bytes, steps);
	r = sf_plan_some_box_pieces(ckpt, t, of->chunk, &of->layout, b.lo, b.hi,
	                            staged ? steps : b.stride, item, &op->window, &op->pieces,
	                            &op->err);
	/* counted from the lowest place: sf_op_box_dst */
	more = staged ? 0 : below(&b);
	for (size_t i = 0; i < op->pieces.n && more; i++)
		op->pieces.at[i].dst_off += more;
	return r;
}

uint8_t *sf_op_box_dst(struct sf_op *op, const struct sf_part *part)
{
	const struct box b = box_of(op, part);
	uint8_t *dst;

	if (!is_staged(op, part))
		return part->place - below(&b);
	dst = sf_op_dst(op);
	return dst ? dst + part->dst : NULL;
}

void sf_op_stage_boxes(struct sf_op *op)
{
	/* a part that is not whole: all of it, so that all of it is in op->dst at the end */
	op->chunk_first = 0;
	op->part_begun = false;
	op->staged_from = op->part_at;
}

/* ---- the result ---- */

static void copy(uint8_t *dst, int64_t dst_step, const uint8_t *src, int64_t src_step, uint64_t len,
                 uint64_t count)
{
	for (uint64_t i = 0; i < count; i++)
		memcpy(dst + (int64_t)i * dst_step, src + (int64_t)i * src_step, len);
}

static void place(const struct sf_op *op, const struct sf_part *part)
{
	const struct sf_tensor *t = &op->r->ckpt->tensor[part->index];
	const struct box b = box_of(op, part);
	uint64_t extent[SF_DIMS_MAX], from[SF_DIMS_MAX], to[SF_DIMS_MAX],
		at[SF_GEOMETRY_DIMS] = { 0 };
	uint64_t elem = sf_dtype_info(part->cast ? part->cast : t->dtype)->bytes, count;
	unsigned order[SF_DIMS_MAX], n, d;
	int64_t steps[SF_DIMS_MAX];
	struct sf_geometry g;

	order_of(&b, order);
	staged_steps(&b, elem, steps);
	for (unsigned i = 0; i < b.ndim; i++) {
		extent[i] = b.hi[order[i]] - b.lo[order[i]];
		from[i] = (uint64_t)steps[order[i]];
		to[i] = (uint64_t)b.stride[order[i]];
	}
	sf_geometry_make(&g, b.ndim, extent, elem, from, to);
	/* the two innermost dimensions at a time, the others as an odometer does */
	n = g.ndim > 2 ? g.ndim - 2 : 0;
	count = g.ndim > 1 ? g.extent[n] : 1;
	do {
		int64_t src = (int64_t)part->dst, dst = 0;
		for (unsigned i = 0; i < n; i++) {
			src += (int64_t)(at[i] * g.src[i]);
			dst += (int64_t)(at[i] * g.dst[i]);
		}
		copy(part->place + dst, (int64_t)(count > 1 ? g.dst[n] : 0), op->dst + src,
		     (int64_t)(count > 1 ? g.src[n] : 0), g.extent[g.ndim - 1], count);
		for (d = n; d > 0 && ++at[d - 1] == g.extent[d - 1]; d--)
			at[d - 1] = 0;
	} while (d > 0);
}

void sf_op_place_boxes(struct sf_op *op)
{
	for (size_t i = 0; i < op->parts.list.n; i++)
		if (is_staged(op, &op->parts.list.at[i]))
			place(op, &op->parts.list.at[i]);
}
