#include "config.h"

#include "base/mem.h"
#include "ckpt/box.h"
#include "read/region.h"

struct sf_region sf_region_range(const struct sf_tensor *t, uint64_t first, uint64_t end)
{
	return (struct sf_region){ .t = t, .first = first, .end = end, .ndim = SF_MAX(t->ndim, 1) };
}

struct sf_region sf_region_box(const struct sf_tensor *t, const uint64_t *lo, const uint64_t *hi)
{
	struct sf_region r = { .t = t, .lo = lo, .hi = hi, .ndim = t->ndim };

	if (!t->ndim)
		return sf_region_range(t, 0, 1);
	for (unsigned d = 0; d < t->ndim; d++) {
		r.first = r.first * t->shape[d] + lo[d];
		r.end = r.end * t->shape[d] + hi[d] - 1;
	}
	r.end++;
	return r;
}

uint64_t sf_region_element(const struct sf_region *r, const uint64_t *at)
{
	uint64_t x = 0;

	for (unsigned d = 0; d < r->t->ndim; d++)
		x = x * r->t->shape[d] + at[d];
	return x;
}

uint64_t sf_region_volume(const struct sf_region *r, const uint64_t *lo, const uint64_t *hi)
{
	uint64_t v = 1;

	for (unsigned d = 0; d < r->ndim; d++)
		v *= hi[d] - lo[d];
	return v;
}

static const uint64_t zero[SF_DIMS_MAX], one = 1;

int sf_region_boxes(const struct sf_region *r, sf_region_each *each, void *arg)
{
	if (r->lo)
		return each(arg, r->lo, r->hi);
	if (!r->t->ndim)
		return each(arg, zero, &one);
	return sf_box_cut(r->t->shape, r->ndim, r->first, r->end, each, arg);
}

struct meet {
	const struct sf_region *region;
	const uint64_t *origin; /* of the chunk */
	sf_region_each *each;
	void *arg;
};

/* A box in the chunk's coordinates. */
static int meet_box(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	const struct meet *m = arg;
	const struct sf_region *r = m->region;
	uint64_t from[SF_DIMS_MAX], to[SF_DIMS_MAX];

	for (unsigned d = 0; d < r->ndim; d++) {
		from[d] = lo[d] + m->origin[d];
		to[d] = hi[d] + m->origin[d];
		if (!r->lo)
			continue;
		from[d] = SF_MAX(from[d], r->lo[d]);
		to[d] = SF_MIN(to[d], r->hi[d]);
		if (from[d] >= to[d])
			return 0;
	}
	return m->each(m->arg, from, to);
}

int sf_region_meet(const struct sf_region *r, uint32_t chunk, sf_region_each *each, void *arg)
{
	struct sf_chunk c;
	struct meet m = { r, NULL, each, arg };
	uint64_t from, to;

	if (r->lo) {
		/* not cut to [first, end): of a box that would leave more boxes than there are */
		sf_tensor_chunk(r->t, chunk, &c);
		from = c.part_off;
		to = c.part_off + c.part_len;
	} else if (!sf_region_run(r, chunk, &c, &from, &to)) {
		return 0;
	} else if (!r->t->ndim) {
		return each(arg, zero, &one);
	}
	m.origin = c.origin;
	return sf_box_cut(c.extent, r->ndim, from, to, meet_box, &m);
}

bool sf_region_run(const struct sf_region *range, uint32_t chunk, struct sf_chunk *ret_chunk,
                   uint64_t *ret_from, uint64_t *ret_to)
{
	const struct sf_tensor *t = range->t;
	struct sf_chunk *c = ret_chunk;
	bool inside;

	sf_tensor_chunk(t, chunk, c);
	*ret_from = sf_box_rank(t->shape, c->origin, c->extent, t->ndim, range->first, &inside);
	*ret_to = sf_box_rank(t->shape, c->origin, c->extent, t->ndim, range->end, &inside);
	*ret_from = SF_MAX(*ret_from, c->part_off);
	*ret_to = SF_MIN(*ret_to, c->part_off + c->part_len);
	return *ret_from < *ret_to;
}
