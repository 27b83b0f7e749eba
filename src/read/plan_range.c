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
