#include "config.h"

#include "base/mem.h"
#include "ckpt/ckpt_cover.h"
#include "ckpt/ckpt_order.h"
#include "read/plan_geometry.h"
#include "read/plan_left.h"

/* A box of a tensor, elements [lo, hi). */
struct asked {
	const struct sf_tensor *t;
	const uint64_t *lo, *hi;
	uint64_t first, end; /* the row-major range that it lies in, elements */
};

static void ask(struct asked *a, const struct sf_tensor *t, const uint64_t *lo, const uint64_t *hi)
{
	*a = (struct asked){ t, lo, hi, 0, 0 };
	for (unsigned d = 0; d < t->ndim; d++) {
		a->first = a->first * t->shape[d] + lo[d];
		a->end = a->end * t->shape[d] + hi[d] - 1;
	}
	a->end++;
}

static uint64_t volume_of(unsigned ndim, const uint64_t *lo, const uint64_t *hi)
{
	uint64_t v = 1;

	for (unsigned d = 0; d < ndim; d++)
		v *= hi[d] - lo[d];
	return v;
}

/* Handed over: what a chunk's item holds of the box, as boxes in the tensor's coordinates. */
struct meet {
	const struct asked *asked;
	const uint64_t *origin; /* of the chunk */
	int (*each)(void *arg, const uint64_t *lo, const uint64_t *hi);
	void *arg;
};

static int meet_one(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	const struct meet *m = arg;
	const struct asked *a = m->asked;
	uint64_t from[SF_DIMS_MAX], to[SF_DIMS_MAX];

	for (unsigned d = 0; d < a->t->ndim; d++) {
		from[d] = SF_MAX(lo[d] + m->origin[d], a->lo[d]);
		to[d] = SF_MIN(hi[d] + m->origin[d], a->hi[d]);
		if (from[d] >= to[d])
			return 0;
	}
	return m->each(m->arg, from, to);
}

/* A part of its box is cut into boxes; a nonzero result of @each ends it and is returned. */
static int meet_chunk(const struct asked *a, uint32_t chunk,
                      int (*each)(void *arg, const uint64_t *lo, const uint64_t *hi), void *arg)
{
	const struct sf_tensor *t = a->t;
	struct sf_chunk c;
	struct meet m = { a, NULL, each, arg };

	if (sf_chunk_empty(t, chunk))
		return 0;
	sf_tensor_chunk(t, chunk, &c);
	m.origin = c.origin;
	return sf_box_cut(c.extent, t->ndim, c.part_off, c.part_off + c.part_len, meet_one, &m);
}

/* ---- which chunks ---- */

struct found {
	uint64_t first; /* the first element it has of the box */
	uint32_t chunk;
};
SF_VEC(founds, struct found);

struct gather {
	const struct asked *asked;
	struct founds *found;
	uint64_t held; /* elements, those in several chunks several times */
	struct found now;
	bool any;
};

static int add_box(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct gather *g = arg;
	const struct sf_tensor *t = g->asked->t;
	uint64_t first = 0;

	for (unsigned d = 0; d < t->ndim; d++)
		first = first * t->shape[d] + lo[d];
	g->now.first = g->any ? SF_MIN(g->now.first, first) : first;
	g->any = true;
	g->held += volume_of(t->ndim, lo, hi);
	return 0;
}

static int add_chunk(void *arg, uint32_t chunk)
{
	struct gather *g = arg;

	g->any = false;
	g->now.chunk = chunk;
	meet_chunk(g->asked, chunk, add_box, g);
	return g->any && founds_push(g->found, g->now) < 0 ? -ENOMEM : 0;
}

static int compare(const void *pa, const void *pb)
{
	const struct found *a = pa, *b = pb;

	if (a->first != b->first)
		return a->first < b->first ? -1 : 1;
	return (a->chunk > b->chunk) - (a->chunk < b->chunk);
}

static int add_left(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	return sf_left_add(arg, lo, hi);
}

static const char *key_of(const struct sf_ckpt *ckpt, const struct sf_tensor *t, int *ret_len)
{
	*ret_len = (int)SF_MIN(ckpt->key[t->key].len, 200u);
	return ckpt->key[t->key].name;
}

static int no_memory(const struct sf_ckpt *ckpt, const struct sf_tensor *t, struct sf_error *err)
{
	int len;
	const char *key = key_of(ckpt, t, &len);

	return sf_fail(err, -ENOMEM, "tensor '%.*s': no memory to plan a read", len, key);
}

/* The tensor has a hole somewhere: is it in the box? */
static int check_holes(const struct sf_ckpt *ckpt, const struct asked *a,
                       const struct founds *found, struct sf_error *err)
{
	const struct sf_tensor *t = a->t;
	uint64_t budget = SF_HOLE_BUDGET, elem = sf_dtype_info(t->dtype)->bytes;
	struct sf_left held = { .ndim = t->ndim };
	struct sf_cover cover = { .hole = false };
	int len, r = 0;

	for (size_t i = 0; i < found->n && r >= 0; i++)
		r = meet_chunk(a, found->at[i].chunk, add_left, &held);
	const struct sf_boxes boxes = { t->ndim, held.now.n / (2 * (size_t)t->ndim), held.now.at };
	if (r >= 0)
		r = sf_cover_sweep(&boxes, a->lo, a->hi, false, &budget, &cover);
	sf_left_release(&held);
	if (r >= 0)
		return cover.hole ? sf_plan_fail_hole(ckpt, t, a->first * elem, cover.hole_at, err)
		                  : 0;
	if (r == -ENOMEM)
		return no_memory(ckpt, t, err);
	const char *key = key_of(ckpt, t, &len);
	return sf_fail(err, r,
	               "tensor '%.*s': a box of it lies under %zu chunks too tangled to "
	               "look for holes",
	               len, key, found->n);
}

int sf_plan_box_chunks(const struct sf_ckpt *ckpt, const struct sf_tensor *t, const uint64_t *lo,
                       const uint64_t *hi, struct sf_u32s *chunks, struct sf_error *err)
{
	SF_CLEANUP(founds_release) struct founds found = { 0 };
	SF_CLEANUP(sf_u32s_release) struct sf_u32s cells = { 0 };
	struct asked a;
	struct gather g = { .asked = &a, .found = &found };
	int r = 0;

	ask(&a, t, lo, hi);
	if (t->flags & SF_TENSOR_GRID) {
		r = sf_plan_cells(t, lo, hi, &cells);
		for (size_t i = 0; i < cells.n && r >= 0; i++)
			r = add_chunk(&g, cells.at[i]);
	} else {
		r = sf_order_query(t, a.first, a.end, add_chunk, &g);
	}
	if (r >= 0)
		r = sf_u32s_reserve(chunks, chunks->n + found.n);
	if (r < 0)
		return no_memory(ckpt, t, err);
	if (t->flags & SF_TENSOR_HOLE &&
	    (t->flags & SF_TENSOR_OVERLAP || g.held != volume_of(t->ndim, lo, hi))) {
		r = check_holes(ckpt, &a, &found, err);
		if (r < 0)
			return r;
	}
	if (found.n)
		qsort(found.at, found.n, sizeof(*found.at), compare);
	for (size_t i = 0; i < found.n; i++)
		chunks->at[chunks->n++] = found.at[i].chunk;
	return 0;
}

/* ---- by what copies ---- */

struct earlier {
	const struct asked *asked;
	struct sf_left *left;
	uint32_t chunk;
};

static int take_box(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	return sf_left_take(arg, lo, hi);
}

static int take_chunk(void *arg, uint32_t chunk)
{
	struct earlier *e = arg;

	return chunk < e->chunk && e->left->now.n ? meet_chunk(e->asked, chunk, take_box, e->left)
	                                          : 0;
}

/* One box of what the chunk gives. */
static int emit_box(struct sf_emit *e, const struct asked *a, const struct sf_chunk *c,
                    const uint64_t *stride, const int64_t *dst_stride, const uint64_t *lo,
                    const uint64_t *hi)
{
	const struct sf_tensor *t = a->t;
	uint64_t elem = sf_dtype_info(t->dtype)->bytes, extent[SF_DIMS_MAX], dst[SF_DIMS_MAX];
	struct sf_geometry g;
	uint64_t src0 = 0, dst0 = 0;

	for (unsigned d = 0; d < t->ndim; d++) {
		extent[d] = hi[d] - lo[d];
		dst[d] = (uint64_t)dst_stride[d];
		src0 += (lo[d] - c->origin[d]) * stride[d];
		dst0 += (lo[d] - a->lo[d]) * dst[d];
	}
	sf_geometry_make(&g, t->ndim, extent, elem, stride, dst);
	g.src0 = src0 - c->part_off * elem;
	g.dst0 = dst0;
	return sf_emit_range(e, &g, 0, volume_of(t->ndim, lo, hi) * elem);
}

int sf_plan_box_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                       const struct sf_item_layout *layout, const uint64_t *lo, const uint64_t *hi,
                       const int64_t *dst_stride, uint32_t item, struct sf_pieces *pieces,
                       struct sf_error *err)
{
	struct sf_emit e = { .pieces = pieces,
		             .n0 = pieces->n,
		             .like = { .item = item, .kind = sf_piece_kind_of(layout) } };
	struct sf_left left = { .ndim = t->ndim };
	uint64_t stride[SF_DIMS_MAX];
	struct asked a;
	struct earlier earlier = { &a, &left, chunk };
	struct sf_chunk c;
	int len, r;

	ask(&a, t, lo, hi);
	r = meet_chunk(&a, chunk, add_left, &left);
	if (r >= 0 && !left.now.n)
		return 0;
	sf_tensor_chunk(t, chunk, &c);
	if (r >= 0) {
		r = sf_item_strides(ckpt, t, &c, sf_dtype_info(t->dtype)->bytes, layout, stride,
		                    err);
		if (r < 0) {
			sf_left_release(&left);
			return r;
		}
	}
	if (r >= 0 && t->flags & SF_TENSOR_OVERLAP)
		r = sf_order_query(t, a.first, a.end, take_chunk, &earlier);
	for (size_t i = 0; i < left.now.n && r >= 0; i += 2 * (size_t)left.ndim)
		r = emit_box(&e, &a, &c, stride, dst_stride, left.now.at + i,
		             left.now.at + i + left.ndim);
	sf_left_release(&left);
	if (r >= 0)
		return 0;
	pieces->n = e.n0;
	if (r == -ENOMEM)
		return no_memory(ckpt, t, err);
	const char *key = key_of(ckpt, t, &len);
	return sf_fail(err, r, "tensor '%.*s': a box of chunk %u takes more than %u copies", len,
	               key, chunk, SF_PIECES_MAX);
}
