/* Arithmetic on chunk boxes: coordinates out of the columns, row-major numbers of elements, ranges
 * of a box. */
#ifndef SF_CKPT_BOX_H
#define SF_CKPT_BOX_H

#include "ckpt/ckpt.h"

/*
 * Everything here is unchecked: the builder has seen to it that origin + extent ≤ shape and that
 * the elements of a tensor (so of any box in it) fit 64 bits.
 */

static inline uint64_t sf_coord(const void *column, bool wide, size_t at)
{
	return wide ? ((const uint64_t *)column)[at] : ((const uint32_t *)column)[at];
}

static inline uint64_t sf_chunk_origin(const struct sf_tensor *t, uint32_t i, unsigned d)
{
	return sf_coord(t->origin, t->wide, (size_t)i * t->ndim + d);
}

static inline uint64_t sf_chunk_extent(const struct sf_tensor *t, uint32_t i, unsigned d)
{
	return sf_coord(t->extent, t->wide, (size_t)i * t->ndim + d);
}

/* elements of the box, whatever part of it the item holds */
static inline uint64_t sf_chunk_volume(const struct sf_tensor *t, uint32_t i)
{
	uint64_t v = 1;

	for (unsigned d = 0; d < t->ndim; d++)
		v *= sf_chunk_extent(t, i, d);
	return v;
}

static inline uint64_t sf_chunk_part_off(const struct sf_tensor *t, uint32_t i)
{
	return t->part ? t->part[2 * (size_t)i] : 0;
}

/* elements the item holds */
static inline uint64_t sf_chunk_part_len(const struct sf_tensor *t, uint32_t i)
{
	return t->part ? t->part[2 * (size_t)i + 1] : sf_chunk_volume(t, i);
}

static inline bool sf_chunk_empty(const struct sf_tensor *t, uint32_t i)
{
	for (unsigned d = 0; d < t->ndim; d++)
		if (sf_chunk_extent(t, i, d) == 0)
			return true;
	return t->part && t->part[2 * (size_t)i + 1] == 0;
}

/* The tensor's row-major number of element @r (row-major too) of chunk @i's box. */
static inline uint64_t sf_chunk_element(const struct sf_tensor *t, uint32_t i, uint64_t r)
{
	uint64_t x = 0, step = 1;

	for (unsigned d = t->ndim; d-- > 0;) {
		uint64_t c = sf_chunk_origin(t, i, d), e = sf_chunk_extent(t, i, d);
		if (r) {
			c += r % e;
			r /= e;
		}
		x += c * step;
		step *= t->shape[d];
	}
	return x;
}

/* First element a non-empty chunk's item holds, and one past the last, in the tensor's row-major
 * order. */
static inline uint64_t sf_chunk_first(const struct sf_tensor *t, uint32_t i)
{
	return sf_chunk_element(t, i, sf_chunk_part_off(t, i));
}

static inline uint64_t sf_chunk_end(const struct sf_tensor *t, uint32_t i)
{
	return sf_chunk_element(t, i, sf_chunk_part_off(t, i) + sf_chunk_part_len(t, i) - 1) + 1;
}

/*
 * How many elements of the box come before element @x of the tensor? The elements of a box that lie
 * in a row-major range of the tensor are a range of the box's own row-major order: both ends are
 * found with this. *ret_inside: @x itself is in the box.
 */
static inline uint64_t sf_box_rank(const uint64_t *shape, const uint64_t *origin,
                                   const uint64_t *extent, unsigned ndim, uint64_t x,
                                   bool *ret_inside)
{
	uint64_t c[SF_DIMS_MAX], r = 0;

	*ret_inside = false;
	if (!ndim) {
		*ret_inside = x == 0;
		return x != 0;
	}
	for (unsigned d = ndim - 1; d > 0; d--) {
		c[d] = x % shape[d];
		x /= shape[d];
	}
	c[0] = x; /* shape[0] when x is the end of the tensor */
	for (unsigned d = 0; d < ndim; d++) {
		if (c[d] - origin[d] <
		    extent[d]) { /* wraps to a huge number when before the origin */
			r = r * extent[d] + (c[d] - origin[d]);
			continue;
		}
		if (c[d] > origin[d])
			r++; /* past the box here: this row of dimensions d.. is behind us whole,
			        else all of it is ahead */
		for (unsigned k = d; k < ndim; k++)
			r *= extent[k];
		return r;
	}
	*ret_inside = true;
	return r;
}

/*
 * sf_box_cut - a range [from, to) of a box's row-major order as boxes, at most 2 ndim - 1 of them,
 * in order.
 *
 * @extent: of @ndim dimensions; each box is handed over as the first and one past the last
 * coordinate. A nonzero result of
 * @each ends it and is returned.
 */
int sf_box_cut(const uint64_t *extent, unsigned ndim, uint64_t from, uint64_t to,
               int (*each)(void *arg, const uint64_t *lo, const uint64_t *hi), void *arg);

#endif
