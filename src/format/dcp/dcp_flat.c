#include "config.h"

#include "base/mem.h"
#include "format/dcp/dcp_flat.h"

/* Blocks of equal shape: one more dimension than the tensor, the last of them a block's elements. */
static bool blocks_fit(const struct dcp_meta *m, const struct dcp_tensor *t, struct dcp_flat *f)
{
	const uint64_t *grid = m->dims.at + t->shape0;
	uint64_t numel = 1;

	if (t->ndim != f->ndim + 1)
		return false;
	for (unsigned d = 0; d < f->ndim; d++) {
		if (grid[d] == 0 || f->shape[d] % grid[d] != 0)
			return false;
		f->block[d] = f->shape[d] / grid[d];
		if (!sf_mul(numel, f->block[d], &numel))
			return false;
	}
	return numel == grid[f->ndim];
}

void dcp_flat_init(const struct dcp_meta *m, const struct dcp_tensor *t, struct dcp_flat *ret)
{
	*ret = (struct dcp_flat){ .ndim = t->flat_ndim, .shape = m->dims.at + t->flat_shape0 };
	ret->fits = blocks_fit(m, t, ret);
	for (uint32_t k = 0; k < t->nruns && ret->fits; k++) {
		const struct dcp_run *run = &m->run.at[t->run0 + k];
		for (uint32_t i = 0; i < run->count && ret->fits; i++)
			for (unsigned d = 0; d < ret->ndim; d++)
				ret->fits &= dcp_coord(m, run, i, t->ndim + d) == 1;
	}
}

void dcp_flat_chunk(const struct dcp_flat *f, const uint64_t *stored_origin,
                    const uint64_t *stored_extent, uint64_t *ret_origin, uint64_t *ret_part_off,
                    uint64_t *ret_part_len)
{
	for (unsigned d = 0; d < f->ndim; d++)
		ret_origin[d] = stored_origin[d] * f->block[d];
	*ret_part_off = stored_origin[f->ndim];
	*ret_part_len = stored_extent[f->ndim];
}
