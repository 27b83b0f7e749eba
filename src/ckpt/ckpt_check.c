#include "config.h"

#include <stdio.h>

#include "base/mem.h"
#include "ckpt/box.h"
#include "ckpt/ckpt_check.h"
#include "ckpt/place.h"
#include "ckpt/ckpt_cover.h"

/* of the boxes that one tensor's parts are made of: 256 MiB */
#define PART_COORDS_MAX (UINT64_C(1) << 24)

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
	ret->flags |= SF_TENSOR_HOLE;
	ret->hole = element;
}

static void note_overlap(struct sf_coverage *ret, uint32_t a, uint32_t b)
{
	ret->flags |= SF_TENSOR_OVERLAP;
	ret->a = SF_MIN(a, b);
	ret->b = SF_MAX(a, b);
}

/* Do the parts of equal boxes tile them? One number for each box is left in @id then. */
static bool parts_tile_boxes(const struct sf_tensor *t, uint32_t *id, uint32_t *ret_boxes)
{
	struct part_sort arg = { t };
	uint32_t boxes = 0;

	qsort_r(id, t->norder, sizeof(*id), compare_parts, &arg);
	for (uint32_t i = 0, k; i < t->norder; i = k) {
		uint32_t box = id[i];
		uint64_t at = 0;

		for (k = i; k < t->norder && same_box(t, box, id[k]); k++) {
			if (sf_chunk_part_off(t, id[k]) != at)
				return false;
			at += sf_chunk_part_len(t, id[k]);
		}
		if (at != sf_chunk_volume(t, box))
			return false;
		id[boxes++] = box;
	}
	*ret_boxes = boxes;
	return true;
}

/* Boxes in the dimensions that some chunk cuts, and the chunk each is of. */
struct cut {
	const struct sf_tensor *t;
	struct sf_boxes boxes;
	uint64_t *at;
	uint32_t *chunk, now;
	uint64_t shape[SF_DIMS_MAX], origin[SF_DIMS_MAX];
	uint8_t dim[SF_DIMS_MAX];
};

static void cut_release(struct cut *c)
{
	free(c->at);
	free(c->chunk);
}

static int count_box(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct cut *c = arg;

	(void)lo;
	(void)hi;
	return ++c->boxes.n == SF_NONE ? -E2BIG : 0;
}

static int put_box(void *arg, const uint64_t *lo, const uint64_t *hi)
{
	struct cut *c = arg;
	unsigned ndim = c->boxes.ndim;
	uint64_t *put = c->at + 2 * (size_t)c->boxes.n * ndim;

	for (unsigned k = 0; k < ndim; k++) {
		put[k] = c->origin[c->dim[k]] + lo[c->dim[k]];
		put[ndim + k] = c->origin[c->dim[k]] + hi[c->dim[k]];
	}
	c->chunk[c->boxes.n++] = c->now;
	return 0;
}

/* @whole: chunk @i's box, else the boxes that make up the part of it that its item holds. */
static int each_box(struct cut *c, uint32_t i, bool whole,
                    int (*each)(void *arg, const uint64_t *lo, const uint64_t *hi))
{
	const struct sf_tensor *t = c->t;
	uint64_t extent[SF_DIMS_MAX], from = 0, to = 1;

	for (unsigned d = 0; d < t->ndim; d++) {
		c->origin[d] = sf_chunk_origin(t, i, d);
		to *= extent[d] = sf_chunk_extent(t, i, d);
	}
	if (!whole) {
		from = sf_chunk_part_off(t, i);
		to = from + sf_chunk_part_len(t, i);
	}
	c->now = i;
	return sf_box_cut(extent, t->ndim, from, to, each, c);
}

/* -E2BIG: so many dimensions that the parts' boxes take more memory than a check is worth. */
static int take_cut(const struct sf_tensor *t, const uint32_t *id, uint32_t n, bool whole,
                    struct cut *c)
{
	int r = 0;

	*c = (struct cut){ .t = t };
	for (unsigned d = 0; d < t->ndim; d++)
		for (uint32_t i = 0; i < n; i++)
			if (!whole || sf_chunk_extent(t, id[i], d) != t->shape[d]) {
				c->dim[c->boxes.ndim] = (uint8_t)d;
				c->shape[c->boxes.ndim++] = t->shape[d];
				break;
			}
	c->boxes.n = n;
	if (!whole) {
		c->boxes.n = 0;
		for (uint32_t i = 0; i < n && r >= 0; i++)
			r = each_box(c, id[i], false, count_box);
		if (r < 0 || c->boxes.n * (uint64_t)c->boxes.ndim > PART_COORDS_MAX)
			return -E2BIG;
	}
	c->at = sf_alloc_array((size_t)c->boxes.n * 2, c->boxes.ndim * sizeof(*c->at));
	c->chunk = sf_alloc_array(c->boxes.n, sizeof(*c->chunk));
	if (!c->at || !c->chunk)
		return -ENOMEM;
	c->boxes.at = c->at;
	c->boxes.n = 0;
	for (uint32_t i = 0; i < n && r >= 0; i++)
		r = each_box(c, id[i], whole, put_box);
	return r;
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

/* Chunks @id of a tensor that is no grid. @whole: their boxes, whatever part their items hold. */
static int check_boxes(const struct sf_tensor *t, const uint32_t *id, uint32_t n, bool whole,
                       uint64_t *budget, struct sf_coverage *ret)
{
	SF_CLEANUP(cut_release) struct cut cut;
	const uint64_t zero[SF_DIMS_MAX] = { 0 };
	uint64_t first[SF_DIMS_MAX];
	struct sf_cover cover = { .hole = false };
	uint64_t all = UINT64_MAX;
	bool first_is_hole = false;
	int tiles = 0, r = take_cut(t, id, n, whole, &cut);

	if (r == -ENOMEM)
		return r;
	if (r >= 0 && cut.boxes.ndim > 1) {
		tiles = sf_cover_corners(&cut.boxes, cut.shape, &first_is_hole, first);
		if (tiles == 1 || tiles == -ENOMEM)
			return tiles == 1 ? 0 : tiles;
	}
	/* one dimension is O(n log n) and always exact: what other tensors spent does not matter */
	if (r >= 0)
		r = sf_cover_sweep(&cut.boxes, zero, cut.shape, true,
		                   cut.boxes.ndim > 1 ? budget : &all, &cover);
	if (r == -ENOMEM)
		return r;
	if (tiles == 0 && cut.boxes.ndim > 1 && first_is_hole)
		note_hole(ret, cut_element(t, &cut, first));
	else if (cover.hole)
		note_hole(ret, cut_element(t, &cut, cover.hole_at));
	if (cover.overlap)
		note_overlap(ret, cut.chunk[cover.a], cut.chunk[cover.b]);
	if (r < 0) { /* a tangle: readers look themselves */
		if (!(ret->flags & SF_TENSOR_HOLE))
			note_hole(ret, UINT64_MAX);
		if (!(ret->flags & SF_TENSOR_OVERLAP))
			note_overlap(ret, id[0], id[0]);
	}
	return 0;
}

/* Boxes whose parts tile them are looked at whole: parts alone are many more boxes. */
static int check_parts(const struct sf_tensor *t, uint64_t *budget, struct sf_coverage *ret)
{
	SF_FREE uint32_t *id = sf_alloc_array(t->norder, sizeof(*id));
	uint32_t boxes;

	if (!id)
		return -ENOMEM;
	memcpy(id, t->order, t->norder * sizeof(*id));
	if (parts_tile_boxes(t, id, &boxes)) {
		int r = check_boxes(t, id, boxes, true, budget, ret);
		if (r < 0 || !ret->flags)
			return r;
		ret->flags = 0; /* which parts overlap is told below */
	}
	return check_boxes(t, t->order, t->norder, false, budget, ret);
}

int sf_check_cover(const struct sf_tensor *t, uint64_t *budget, struct sf_coverage *ret)
{
	uint64_t numel = 1, held = 0;
	int r;

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
	r = t->part ? check_parts(t, budget, ret)
	            : check_boxes(t, t->order, t->norder, true, budget, ret);
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
	struct sf_where where;
	uint64_t bytes;

	*ret = (struct sf_item_check){ .code = "missing-item", .ckpt = ckpt, .place = place };
	if (place == SF_NONE)
		return false;
	p = &ckpt->place[place];
	bytes = p->form == SF_ITEM_ST_BLOB ? 1 : len; /* its own length is not known */
	ret->file = sf_place_file(ckpt, place);
	if (ret->file->missing) {
		ret->code = "missing-file";
		return false;
	}
	if (sf_place_find(ckpt, place, off, bytes, &where, NULL) < 0) {
		ret->code = "outside-member";
		if (!sf_add(off, bytes, &ret->end))
			ret->end = UINT64_MAX;
		return false;
	}
	if (where.stream) /* all of it is needed; its end fits: the builder saw to that */
		ret->end = where.stream->off + where.stream->len;
	else if (!sf_add(where.off, bytes, &ret->end))
		ret->end = UINT64_MAX;
	if (ret->end > ret->file->info.size || ret->end == UINT64_MAX) {
		ret->code = "truncated-file";
		return false;
	}
	if (p->form == SF_ITEM_RAW && p->codec == SF_CODEC_NONE && !p->unreadable && len < want) {
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
	char name[SF_PLACE_NAME];
	struct sf_where at;

	if (!c->file)
		snprintf(text, SF_ERROR_MAX, "metadata names no stored item for it");
	else if (c->file->odd)
		snprintf(text, SF_ERROR_MAX, "%s", c->file->odd);
	else if (c->file->missing)
		snprintf(text, SF_ERROR_MAX, "file '%s' is missing", c->file->name);
	else if (strcmp(c->code, "short-item") == 0)
		snprintf(text, SF_ERROR_MAX,
		         "file '%s': the item at offset %llu has %llu bytes, its box needs %llu",
		         sf_place_name(c->ckpt, c->place, name), o, l, end);
	else if (strcmp(c->code, "outside-member") == 0)
		snprintf(text, SF_ERROR_MAX,
		         "member '%s' has %llu bytes, the item at offset %llu of %llu bytes ends "
		         "at %llu",
		         sf_place_name(c->ckpt, c->place, name),
		         (unsigned long long)sf_place_where(c->ckpt, c->place, 0).room, o, l, end);
	else if ((at = sf_place_where(c->ckpt, c->place, off)).stream)
		snprintf(text, SF_ERROR_MAX,
		         "file '%s' has %llu bytes, the %s stream at offset %llu of %llu bytes "
		         "ends at %llu",
		         c->file->name, (unsigned long long)c->file->info.size,
		         sf_codec_info(at.stream->codec)->name, (unsigned long long)at.stream->off,
		         (unsigned long long)at.stream->len, end);
	else
		snprintf(text, SF_ERROR_MAX,
		         "file '%s' has %llu bytes, the item at offset %llu of %llu bytes ends at "
		         "%llu",
		         c->file->name, (unsigned long long)c->file->info.size,
		         (unsigned long long)at.off, l, end);
}

/* Bytes that a raw item of chunk @i must have: of its box, as it lies. */
static uint64_t raw_bytes(const struct sf_tensor *t, uint32_t i)
{
	const struct sf_chunk_layout *l = t->more && t->more->layout ? &t->more->layout[i] : NULL;
	const uint64_t elem = sf_dtype_info(sf_tensor_stored(t))->bytes;
	uint64_t span = 1;

	if (!l || !l->stride || sf_chunk_empty(t, i))
		return sf_chunk_part_len(t, i) * elem;
	for (unsigned d = 0; d < t->ndim; d++) /* fits: the builder saw to that */
		span += (uint64_t)l->stride[d] * (sf_chunk_extent(t, i, d) - 1);
	return span * elem;
}

bool sf_check_chunk(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t i,
                    struct sf_item_check *ret)
{
	bool raw = t->place[i] != SF_NONE && ckpt->place[t->place[i]].form == SF_ITEM_RAW;
	uint64_t want = raw ? raw_bytes(t, i) : 0;

	if (t->place[i] == SF_NONE && t->more && t->more->has_fill) {
		*ret = (struct sf_item_check){ .ckpt = ckpt, .place = SF_NONE };
		return true;
	}
	return sf_check_item(ckpt, t->place[i], t->off[i], t->len[i], want, ret) ||
	       sf_chunk_empty(t, i);
}

unsigned sf_check_items(const struct sf_ckpt *ckpt, const struct sf_tensor *t,
                        struct sf_bad_items ret[SF_BAD_KINDS])
{
	unsigned n = 0, k;

	for (uint32_t i = 0; i < t->nchunks; i++) {
		struct sf_item_check c;

		if (sf_check_chunk(ckpt, t, i, &c))
			continue;
		for (k = 0; k < n && strcmp(ret[k].c.code, c.code) != 0; k++)
			;
		if (k == n)
			ret[n++] = (struct sf_bad_items){ .c = c, .chunk = i };
		ret[k].n++;
	}
	return n;
}

void sf_check_items_text(const struct sf_tensor *t, const struct sf_bad_items *bad,
                         char text[SF_BAD_TEXT])
{
	char item[SF_ERROR_MAX], more[48] = "";
	uint32_t i = bad->chunk;

	sf_check_item_text(&bad->c, t->off[i], t->len[i], item);
	if (bad->n > 1)
		snprintf(more, sizeof(more), " (and %u chunks more)", bad->n - 1);
	snprintf(text, SF_BAD_TEXT, "chunk %u: %s%s", i, item, more);
}
