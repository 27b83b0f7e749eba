#include "config.h"

#include <stdio.h>

#include "base/mem.h"
#include "ckpt/box.h"
#include "ckpt/ckpt_check.h"
#include "ckpt/ckpt_cover.h"

static bool same_box(const struct sf_tensor *t, uint32_t a, uint32_t b)
{
	for (unsigned d = 0; d < t->ndim; d++)
		if (sf_chunk_origin(t, a, d) != sf_chunk_origin(t, b, d) ||
		    sf_chunk_extent(t, a, d) != sf_chunk_extent(t, b, d))
			return false;
	return true;
}

/* Cells along each dimension as the walk along each axis from the first cell sees them. */
static bool measure_grid(const struct sf_tensor *t, uint32_t *grid_n)
{
	uint64_t stride = 1;

	for (unsigned d = t->ndim; d-- > 0; stride *= grid_n[d]) {
		uint64_t at = 0;
		uint32_t n = 0;

		for (uint64_t i = 0; at < t->shape[d] && i < t->norder; i += stride, n++) {
			uint32_t c = t->order[i];
			if (sf_chunk_origin(t, c, d) != at)
				return false;
			at += sf_chunk_extent(t, c, d);
		}
		if (at != t->shape[d])
			return false;
		grid_n[d] = n;
	}
	return stride == t->norder;
}

static bool is_grid(const struct sf_tensor *t, uint32_t *grid_n)
{
	uint32_t cell[SF_DIMS_MAX] = { 0 };
	uint64_t stride[SF_DIMS_MAX];

	if (t->part || !t->norder || !measure_grid(t, grid_n))
		return false;
	for (unsigned d = t->ndim; d-- > 0;)
		stride[d] = d + 1 == t->ndim ? 1 : stride[d + 1] * grid_n[d + 1];
	for (uint32_t i = 0; i < t->norder; i++) {
		uint32_t c = t->order[i];
		for (unsigned d = 0; d < t->ndim; d++) {
			uint32_t axis = t->order[cell[d] * stride[d]];
			if (sf_chunk_origin(t, c, d) != sf_chunk_origin(t, axis, d) ||
			    sf_chunk_extent(t, c, d) != sf_chunk_extent(t, axis, d))
				return false;
		}
		for (unsigned d = t->ndim; d-- > 0 && ++cell[d] == grid_n[d];)
			cell[d] = 0;
	}
	return true;
}

struct part_sort {
	const struct sf_tensor *t;
};

static int compare_parts(const void *a, const void *b, void *arg)
{
	const struct sf_tensor *t = ((const struct part_sort *)arg)->t;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	for (unsigned d = 0; d < t->ndim; d++) {
		uint64_t cx = sf_chunk_origin(t, x, d), cy = sf_chunk_origin(t, y, d);
		if (cx != cy)
			return cx < cy ? -1 : 1;
		cx = sf_chunk_extent(t, x, d);
		cy = sf_chunk_extent(t, y, d);
		if (cx != cy)
			return cx < cy ? -1 : 1;
	}
	uint64_t px = sf_chunk_part_off(t, x), py = sf_chunk_part_off(t, y);
	return px != py ? (px < py ? -1 : 1) : (x > y) - (x < y);
}

static void note_hole(struct sf_coverage *ret, uint64_t element)
{
	if (!(ret->flags & SF_TENSOR_HOLE) || element < ret->hole)
		ret->hole = element;
	ret->flags |= SF_TENSOR_HOLE;
}

static void note_overlap(struct sf_coverage *ret, uint32_t a, uint32_t b)
{
	if (ret->flags & SF_TENSOR_OVERLAP)
		return;
	ret->flags |= SF_TENSOR_OVERLAP;
	ret->a = SF_MIN(a, b);
	ret->b = SF_MAX(a, b);
}

/* The parts of equal boxes are ranges that must tile the box; one number for each box is left in
 * @id. */
static uint32_t check_parts(const struct sf_tensor *t, uint32_t *id, struct sf_coverage *ret)
{
	struct part_sort arg = { t };
	uint32_t boxes = 0;

	qsort_r(id, t->norder, sizeof(*id), compare_parts, &arg);
	for (uint32_t i = 0, k; i < t->norder; i = k) {
		uint64_t at = 0;
		uint32_t reaches = id[i], box = id[i];

		for (k = i; k < t->norder && same_box(t, box, id[k]); k++) {
			uint64_t off = sf_chunk_part_off(t, id[k]),
				 end = off + sf_chunk_part_len(t, id[k]);
			if (off > at)
				note_hole(ret, sf_chunk_element(t, box, at));
			else if (off < at)
				note_overlap(ret, reaches, id[k]);
			if (end > at) {
				at = end;
				reaches = id[k];
			}
		}
		if (at < sf_chunk_volume(t, box))
			note_hole(ret, sf_chunk_element(t, box, at));
		id[boxes++] = box;
	}
	return boxes;
}

/* Boxes @id in the dimensions that some box cuts. */
struct cut {
	struct sf_boxes boxes;
	uint64_t shape[SF_DIMS_MAX];
	uint8_t dim[SF_DIMS_MAX];
};

static uint64_t *take_cut(const struct sf_tensor *t, const uint32_t *id, uint32_t n, struct cut *c)
{
	uint64_t *at, *put;

	*c = (struct cut){ .boxes.n = n };
	for (unsigned d = 0; d < t->ndim; d++)
		for (uint32_t i = 0; i < n; i++)
			if (sf_chunk_extent(t, id[i], d) != t->shape[d]) {
				c->dim[c->boxes.ndim] = (uint8_t)d;
				c->shape[c->boxes.ndim++] = t->shape[d];
				break;
			}
	at = put = sf_alloc_array((size_t)n * 2, c->boxes.ndim * sizeof(*at));
	if (!at)
		return NULL;
	for (uint32_t i = 0; i < n; i++) {
		for (unsigned k = 0; k < c->boxes.ndim; k++)
			*put++ = sf_chunk_origin(t, id[i], c->dim[k]);
		for (unsigned k = 0; k < c->boxes.ndim; k++)
			*put++ = sf_chunk_origin(t, id[i], c->dim[k]) +
			         sf_chunk_extent(t, id[i], c->dim[k]);
	}
	c->boxes.at = at;
	return at;
}

static uint64_t cut_element(const struct sf_tensor *t, const struct cut *c, const uint64_t *at)
{
	uint64_t x = 0;

	for (unsigned d = 0, k = 0; d < t->ndim; d++) {
		x *= t->shape[d];
		if (k < c->boxes.ndim && c->dim[k] == d)
			x += at[k++];
	}
	return x;
}

/* Different boxes of a tensor that is no grid. */
static int check_boxes(const struct sf_tensor *t, const uint32_t *id, uint32_t n, uint64_t *budget,
                       struct sf_coverage *ret)
{
	struct cut cut;
	SF_FREE uint64_t *at = take_cut(t, id, n, &cut);
	const uint64_t zero[SF_DIMS_MAX] = { 0 };
	uint64_t first[SF_DIMS_MAX];
	struct sf_cover cover;
	uint64_t all = UINT64_MAX;
	bool first_is_hole = false;
	int tiles = 0, r;

	if (!at)
		return -ENOMEM;
	if (cut.boxes.ndim > 1) {
		tiles = sf_cover_corners(&cut.boxes, cut.shape, &first_is_hole, first);
		if (tiles == 1 || tiles == -ENOMEM)
			return tiles == 1 ? 0 : tiles;
	}
	/* one dimension is O(n log n) and always exact: what other tensors spent does not matter */
	r = sf_cover_sweep(&cut.boxes, zero, cut.shape, true, cut.boxes.ndim > 1 ? budget : &all,
	                   &cover);
	if (r == -ENOMEM)
		return r;
	if (tiles == 0 && cut.boxes.ndim > 1 && first_is_hole)
		note_hole(ret, cut_element(t, &cut, first));
	else if (cover.hole)
		note_hole(ret, cut_element(t, &cut, cover.hole_at));
	if (cover.overlap)
		note_overlap(ret, id[cover.a], id[cover.b]);
	if (r < 0) { /* a tangle: readers look themselves */
		if (!(ret->flags & SF_TENSOR_HOLE))
			note_hole(ret, UINT64_MAX);
		note_overlap(ret, id[0], id[0]);
	}
	return 0;
}

int sf_check_cover(const struct sf_tensor *t, uint64_t *budget, struct sf_coverage *ret)
{
	uint64_t numel = 1, held = 0;
	int r = 0;

	*ret = (struct sf_coverage){ .flags = 0 };
	for (unsigned d = 0; d < t->ndim; d++)
		if (t->shape[d] == 0)
			return 0; /* no element, nothing to hold */
	for (unsigned d = 0; d < t->ndim; d++)
		numel *= t->shape[d];
	if (!t->norder) {
		ret->missing = numel;
		note_hole(ret, 0);
		return 0;
	}
	if (is_grid(t, ret->grid_n)) {
		ret->flags = SF_TENSOR_GRID;
		return 0;
	}
	if (t->part) {
		SF_FREE uint32_t *id = sf_alloc_array(t->norder, sizeof(*id));
		if (!id)
			return -ENOMEM;
		memcpy(id, t->order, t->norder * sizeof(*id));
		uint32_t n = check_parts(t, id, ret);
		r = check_boxes(t, id, n, budget, ret);
	} else {
		r = check_boxes(t, t->order, t->norder, budget, ret);
	}
	if (r < 0 || (ret->flags & (SF_TENSOR_HOLE | SF_TENSOR_OVERLAP)) != SF_TENSOR_HOLE)
		return r;
	for (uint32_t i = 0; i < t->norder; i++)
		held += sf_chunk_part_len(t, t->order[i]);
	ret->missing = numel - held;
	return 0;
}

bool sf_check_item(const struct sf_ckpt *ckpt, uint32_t place, uint64_t off, uint64_t len,
                   uint64_t want, struct sf_item_check *ret)
{
	const struct sf_place *p;

	*ret = (struct sf_item_check){ .code = "missing-item" };
	if (place == SF_NONE)
		return false;
	p = &ckpt->place[place];
	ret->file = &ckpt->file[p->file];
	if (!sf_add(off, p->form == SF_ITEM_ST_BLOB ? 1 : len, &ret->end))
		ret->end = UINT64_MAX;
	if (ret->file->missing) {
		ret->code = "missing-file";
		return false;
	}
	if (ret->end > ret->file->info.size || ret->end == UINT64_MAX) {
		ret->code = "truncated-file";
		return false;
	}
	if (p->form == SF_ITEM_RAW && p->transform == SF_TRANSFORM_NONE && len < want) {
		ret->code = "short-item";
		ret->end = want;
		return false;
	}
	ret->code = NULL;
	return true;
}

void sf_check_item_text(const struct sf_item_check *c, uint64_t off, uint64_t len,
                        char text[SF_ERROR_MAX])
{
	unsigned long long o = off, l = len, end = c->end;

	if (!c->file)
		snprintf(text, SF_ERROR_MAX, "metadata names no stored item for it");
	else if (c->file->missing)
		snprintf(text, SF_ERROR_MAX, "file '%s' is missing", c->file->name);
	else if (strcmp(c->code, "short-item") == 0)
		snprintf(text, SF_ERROR_MAX,
		         "file '%s': the item at offset %llu has %llu bytes, its box needs %llu",
		         c->file->name, o, l, end);
	else
		snprintf(text, SF_ERROR_MAX,
		         "file '%s' has %llu bytes, the item at offset %llu of %llu bytes ends at "
		         "%llu",
		         c->file->name, (unsigned long long)c->file->info.size, o, l, end);
}
