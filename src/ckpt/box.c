#include "config.h"

#include "base/mem.h"
#include "ckpt/box.h"

struct cut {
	const uint64_t *extent, *below; /* below[d]: elements of dimensions d + 1.. */
	unsigned ndim;
	int (*each)(void *arg, const uint64_t *lo, const uint64_t *hi);
	void *arg;
	uint64_t lo[SF_DIMS_MAX], hi[SF_DIMS_MAX + 1];
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
	uint64_t below[SF_DIMS_MAX], step = 1;
	struct cut c = { .extent = extent, .below = below, .ndim = ndim, .each = each, .arg = arg };

	if (from >= to)
		return 0;
	for (unsigned d = ndim; d-- > 0; step *= extent[d])
		below[d] = step;
	return cut_from(&c, 0, from, to);
}
