#include "config.h"

#include "base/mem.h"
#include "view/pt/pt_blocks.h"

unsigned sf_pt_block_shape(const struct sf_tensor *t, uint64_t ret[SF_DIMS_MAX])
{
	ret[t->ndim] = 1;
	for (unsigned d = 0; d < t->ndim; d++) {
		ret[d] = t->more->grid[d];
		ret[t->ndim] *= t->shape[d] / ret[d];
	}
	return t->ndim + 1u;
}

/* How many dimensions from the front on @run does not cover: it is a block's elements along those behind. */
static unsigned run_of(const struct sf_tensor *t, uint64_t *ret_run)
{
	unsigned d = t->ndim;

	*ret_run = 1;
	while (d > 0) {
		d--;
		*ret_run *= t->shape[d] / t->more->grid[d];
		if (t->more->grid[d] !=
		    1) /* the next of the tensor's elements is another block's */
			break;
	}
	return d;
}

/* The number in the dense tensor of run @i's first element: blocks in order, in each of them its runs. */
static uint64_t first_of(const struct sf_tensor *t, unsigned ndim, uint64_t i)
{
	const uint64_t *grid = t->more->grid;
	uint64_t at[SF_DIMS_MAX], x = 0;

	for (unsigned d = ndim; d-- > 0;) {
		at[d] = i % (t->shape[d] / grid[d]);
		i /= t->shape[d] / grid[d];
	}
	for (unsigned d = t->ndim; d-- > 0;) {
		const uint64_t block = t->shape[d] / grid[d];
		at[d] = (d < ndim ? at[d] : 0) + i % grid[d] * block;
		i /= grid[d];
	}
	for (unsigned d = 0; d < t->ndim; d++)
		x = x * t->shape[d] + at[d];
	return x;
}

int sf_pt_block_parts(struct sf_parts *parts, uint32_t tensor, const struct sf_tensor *t,
                      uint64_t off, uint64_t len, enum sf_dtype cast)
{
	const uint64_t elem = sf_dtype_info(cast ? cast : (enum sf_dtype)t->dtype)->bytes;
	uint64_t run;
	const unsigned ndim = run_of(t, &run);
	int r = 0;

	run *= elem;
	while (len && run && r >= 0) {
		const uint64_t in = off % run, n = SF_MIN(run - in, len);
		r = sf_parts_tensor(parts, tensor, first_of(t, ndim, off / run) * elem + in, n,
		                    cast);
		off += n;
		len -= n;
	}
	return r;
}
