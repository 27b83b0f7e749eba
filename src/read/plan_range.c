#include "config.h"

#include "base/mem.h"
#include "read/plan_priv.h"

/* Bytes of the box before byte @x of the tensor. */
static uint64_t rank_bytes(const struct sf_tensor *t, const struct sf_chunk *c, uint64_t elem,
                           uint64_t x)
{
	bool inside;
	uint64_t r = sf_box_rank(t->shape, c->origin, c->extent, t->ndim, x / elem, &inside) * elem;

	return inside ? r + x % elem : r;
}

bool sf_box_range(const struct sf_tensor *t, uint32_t chunk, uint64_t elem, uint64_t off,
                  uint64_t end, struct sf_box_range *ret)
{
	struct sf_chunk *c = &ret->chunk;

	sf_tensor_chunk(t, chunk, c);
	if (!c->part_len || sf_chunk_empty(t, chunk))
		return false;
	ret->from = SF_MAX(rank_bytes(t, c, elem, off), c->part_off * elem);
	ret->to = SF_MIN(rank_bytes(t, c, elem, end), (c->part_off + c->part_len) * elem);
	return ret->from < ret->to;
}

uint64_t sf_box_byte(const struct sf_tensor *t, const struct sf_chunk *c, uint64_t elem, uint64_t r)
{
	uint64_t x = 0, step = 1, e = r / elem;

	for (unsigned d = t->ndim; d-- > 0; step *= t->shape[d]) {
		x += (c->origin[d] + (d ? e % c->extent[d] : e)) * step;
		e /= c->extent[d];
	}
	return x * elem + r % elem;
}

struct cut {
	const uint64_t *extent, *below; /* below[d]: elements of dimensions d + 1.. */
	unsigned ndim;
	int (*each)(void *arg, const uint64_t *lo, const uint64_t *hi);
	void *arg;
	uint64_t lo[SF_DIMS_MAX + 1], hi[SF_DIMS_MAX + 1];
};

/* Coordinates before @d are set; [from, to) counts elements of dimensions @d... */
static int cut_from(struct cut *c, unsigned d, uint64_t from, uint64_t to)
{
	uint64_t step, first, last;
	int r = 0;

	if (d == c->ndim)
		return c->each(c->arg, c->lo, c->hi);
	step = c->below[d];
	first = from / step;
	last = to / step;
	if (from % step) {
		uint64_t end = SF_MIN(to, (first + 1) * step);
		c->lo[d] = first;
		c->hi[d] = first + 1;
		r = cut_from(c, d + 1, from % step, end - first * step);
		first++;
	}
	if (!r && first < last) {
		c->lo[d] = first;
		c->hi[d] = last;
		for (unsigned k = d + 1; k < c->ndim; k++) {
			c->lo[k] = 0;
			c->hi[k] = c->extent[k];
		}
		r = c->each(c->arg, c->lo, c->hi);
	}
	if (!r && first <= last && to % step) {
		c->lo[d] = last;
		c->hi[d] = last + 1;
		r = cut_from(c, d + 1, 0, to % step);
	}
	return r;
}

int sf_box_cut(const uint64_t *extent, unsigned ndim, uint64_t from, uint64_t to,
               int (*each)(void *arg, const uint64_t *lo, const uint64_t *hi), void *arg)
{
	uint64_t below[SF_DIMS_MAX + 1], step = 1;
	struct cut c = { .extent = extent, .below = below, .ndim = ndim, .each = each, .arg = arg };

	if (from >= to)
		return 0;
	for (unsigned d = ndim; d-- > 0; step *= extent[d])
		below[d] = step;
	return cut_from(&c, 0, from, to);
}
