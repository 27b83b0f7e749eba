#include "config.h"

#include "base/mem.h"
#include "read/plan_geometry.h"

enum sf_piece_kind sf_piece_kind_of(const struct sf_item_layout *layout)
{
	if (layout->fill)
		return SF_PIECE_FILL;
	return layout->conj || layout->neg ? SF_PIECE_CONVERT : SF_PIECE_BYTES;
}

int sf_item_strides(const struct sf_ckpt *ckpt, const struct sf_tensor *t, const struct sf_chunk *c,
                    uint64_t elem, const struct sf_item_layout *layout, uint64_t *stride,
                    struct sf_error *err)
{
	const struct sf_key *k = &ckpt->key[t->key];
	uint64_t step = elem, need = elem, volume = 1;

	for (unsigned d = t->ndim; d-- > 0; step *= c->extent[d]) {
		stride[d] = step;
		volume *= c->extent[d];
	}
	if (layout->row_major) {
		need = c->part_len * elem;
	} else if (c->part_len != volume) {
		return sf_fail(err, -ENOTSUP,
		               "tensor '%.*s': an item that holds %llu of its box's %llu elements "
		               "is not contiguous",
		               (int)SF_MIN(k->len, 200u), k->name, (unsigned long long)c->part_len,
		               (unsigned long long)volume);
	} else {
		for (unsigned d = 0; d < t->ndim; d++) {
			uint64_t span;
			stride[d] = (uint64_t)layout->stride[d] * elem;
			if (layout->stride[d] < 0 ||
			    !sf_mul((uint64_t)layout->stride[d], elem, &stride[d]) ||
			    !sf_mul(stride[d], c->extent[d] - 1, &span) ||
			    !sf_add(need, span, &need))
				return sf_fail(err, -EBADMSG,
				               "tensor '%.*s': stride %lld of dimension %u in an "
				               "item of %llu bytes",
				               (int)SF_MIN(k->len, 200u), k->name,
				               (long long)layout->stride[d], d,
				               (unsigned long long)layout->payload_len);
		}
	}
	if (need > layout->payload_len)
		return sf_fail(
			err, -EBADMSG,
			"tensor '%.*s': an item's payload has %llu bytes, its box needs %llu",
			(int)SF_MIN(k->len, 200u), k->name, (unsigned long long)layout->payload_len,
			(unsigned long long)need);
	return 0;
}

void sf_geometry_make(struct sf_geometry *g, unsigned ndim, const uint64_t *box, uint64_t elem,
                      const uint64_t *src_stride, const uint64_t *dst_stride)
{
	uint64_t extent[SF_GEOMETRY_DIMS], src[SF_GEOMETRY_DIMS], dst[SF_GEOMETRY_DIMS];
	unsigned n = 1;

	/* from the inside out, so that a dimension joins the one inside it when both sides step
	 * over it whole */
	extent[0] = elem; /* innermost first here */
	src[0] = dst[0] = 1;
	for (unsigned d = ndim; d-- > 0;) {
		if (box[d] == 1)
			continue;
		if (src_stride[d] == src[n - 1] * extent[n - 1] &&
		    dst_stride[d] == dst[n - 1] * extent[n - 1]) {
			extent[n - 1] *= box[d];
			continue;
		}
		extent[n] = box[d];
		src[n] = src_stride[d];
		dst[n++] = dst_stride[d];
	}
	g->ndim = n;
	for (unsigned d = 0; d < n; d++) {
		g->extent[d] = extent[n - 1 - d];
		g->src[d] = src[n - 1 - d];
		g->dst[d] = dst[n - 1 - d];
	}
}

static int push(struct sf_emit *e, uint64_t src, uint64_t dst, uint64_t len, uint64_t count,
                uint64_t src_step, uint64_t dst_step)
{
	struct sf_piece p = e->like;

	if (e->skip) {
		e->skip--;
		return 0;
	}
	if (e->pieces->n - e->n0 >= e->most)
		return SF_EMIT_FULL;
	p.src_off = src;
	p.dst_off = dst;
	p.len = len;
	p.count = count;
	p.src_step = (int64_t)src_step;
	p.dst_step = (int64_t)dst_step;
	return sf_pieces_push(e->pieces, p) < 0 ? -ENOMEM : 0;
}

/* Runs of @run rows are cut into pieces of SF_PIECE_RUNS: the number of the piece that @row is in. */
static uint64_t piece_of(uint64_t run, uint64_t row)
{
	return row / run * ((run - 1) / SF_PIECE_RUNS + 1) + row % run / SF_PIECE_RUNS;
}

/* The first of rows [row, end) that is to be given. */
static uint64_t skip_rows(struct sf_emit *e, uint64_t run, uint64_t row, uint64_t end)
{
	const uint64_t of_run = (run - 1) / SF_PIECE_RUNS + 1;
	uint64_t first = piece_of(run, row), n;

	if (!e->skip)
		return row;
	n = piece_of(run, end - 1) - first + 1;
	if (e->skip >= n) {
		e->skip -= n;
		return end;
	}
	first += e->skip;
	e->skip = 0;
	return first / of_run * run + first % of_run * SF_PIECE_RUNS;
}

/* Rows [row, end) of the innermost dimension, @width bytes each: a piece for each run along the
 * dimension outside it. */
static int emit_rows(struct sf_emit *e, const struct sf_geometry *g, uint64_t row, uint64_t end,
                     uint64_t skip, uint64_t width)
{
	unsigned n = g->ndim, in = n >= 2 ? n - 2 : 0;
	uint64_t at[SF_GEOMETRY_DIMS], rest, src, dst;
	int r = 0;

	row = skip_rows(e, n >= 2 ? g->extent[in] : 1, row, end);
	rest = row;
	for (unsigned d = n - 1; d-- > 0;) {
		at[d] = d ? rest % g->extent[d] : rest;
		rest /= g->extent[d];
	}
	while (row < end && r == 0) {
		uint64_t count = 1;

		src = g->src0 + skip;
		dst = g->dst0 + skip;
		for (unsigned d = 0; d + 1 < n; d++) {
			src += at[d] * g->src[d];
			dst += at[d] * g->dst[d];
		}
		if (n >= 2)
			count = SF_MIN(SF_MIN(g->extent[in] - at[in],
			                      SF_PIECE_RUNS - at[in] % SF_PIECE_RUNS),
			               end - row);
		r = push(e, src, dst, width, count, count > 1 ? g->src[in] : 0,
		         count > 1 ? g->dst[in] : 0);
		row += count;
		if (n < 2)
			break;
		at[in] += count;
		for (unsigned d = in; d > 0 && at[d] == g->extent[d]; d--) {
			at[d] = 0;
			at[d - 1]++;
		}
	}
	return r;
}

int sf_emit_range(struct sf_emit *e, const struct sf_geometry *g, uint64_t from, uint64_t to)
{
	uint64_t width = g->extent[g->ndim - 1], row = from / width, last = to / width,
		 x = from % width;
	int r = 0;

	if (g->ndim == 1)
		return push(e, g->src0 + from, g->dst0 + from, to - from, 1, 0, 0);
	if (x) {
		r = emit_rows(e, g, row, row + 1, x, SF_MIN(width - x, to - from));
		row++;
	}
	if (r == 0 && row < last)
		r = emit_rows(e, g, row, last, 0, width);
	if (r == 0 && row <= last && to % width)
		r = emit_rows(e, g, last, last + 1, 0, to % width);
	return r;
}
