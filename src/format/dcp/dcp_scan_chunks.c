#include "config.h"

#include <errno.h>

#include "format/dcp/dcp_scan_take.h"

/* Runs of ChunkStorageMetadata: two torch.Sizes each. */

#define BATCH 4096u /* columns grow by so many chunks at least */
#define DIMS_MAX 16 /* of a record that is passed over; others go through the opcodes */

/* Shared sizes come a thousand times in a row: the last one is kept. */
int dcp_scan_fetch_size(struct dcp_scan *s, const uint8_t **pp, uint64_t *ret)
{
	struct dcp_known_size *last = &s->known_size;
	const uint8_t *p = *pp;
	uint32_t number = dcp_take_get(s, &p);
	uint64_t size[SF_DIMS_MAX];
	int ndim, r;

	if (number == DCP_NONE)
		return -1;
	if (number != last->number) {
		ndim = dcp_scan_coords(s, dcp_scan_get(s, number, &r), size);
		if (r != 0 || ndim < 0 || ndim > DIMS_MAX)
			return -1;
		last->number = number;
		last->ndim = (uint8_t)ndim;
		memcpy(last->at, size, (unsigned)ndim * sizeof(*size));
	}
	memcpy(ret, last->at, last->ndim * sizeof(*ret));
	*pp = p;
	return last->ndim;
}

struct shape {
	struct dcp_fixed head, mid, size, tail;
	bool plain;
};

/* Of the chunk at @p; eight bytes of it are there. */
static bool make_shape(const struct dcp_scan *s, const uint8_t *p, struct shape *x)
{
	static const uint8_t end[] = { 'u', 'b' };

	memset(x, 0, sizeof(*x));
	x->plain = dcp_is_plain(p);
	if (!dcp_add_get(&x->head, s->class_ref[C_CHUNK]) || !dcp_add_begin(&x->head, x->plain) ||
	    !dcp_add_get(&x->head, s->word_ref[W_OFFSETS]) ||
	    !dcp_add_get(&x->mid, s->word_ref[W_SIZES]) ||
	    !dcp_add_get(&x->size, s->class_ref[C_SIZE]) || !dcp_add(&x->tail, end, sizeof(end)))
		return false;
	dcp_seal(&x->head);
	dcp_seal(&x->mid);
	dcp_seal(&x->tail);
	return true;
}

/* One chunk from *pp on: origin, then extent. *ret_seg: how its sizes are found again. False: it is
 * spelt otherwise. */
static inline bool take_chunk(struct dcp_scan *s, const struct shape *x, const uint8_t **pp,
                              uint64_t *box, int *ret_ndim, struct dcp_seg *ret_seg)
{
	const uint8_t *q = dcp_pass_frame(*pp);
	unsigned origin, extent;
	int ndim;

	if (!dcp_take_fixed(&q, &x->head) ||
	    !dcp_take_size(s, &x->size, x->plain, &q, box, ret_ndim, &origin) ||
	    !dcp_take_fixed(&q, &x->mid) ||
	    !dcp_take_size(s, &x->size, x->plain, &q, box + *ret_ndim, &ndim, &extent) ||
	    ndim != *ret_ndim || !dcp_take_fixed(&q, &x->tail))
		return false;
	/* instance, dict, then what the sizes take, the torch.Size last; plain: none of them */
	ret_seg->ndim = (uint8_t)ndim;
	ret_seg->step = (uint8_t)(x->plain ? 0 : 2 + origin + extent);
	ret_seg->origin = (uint8_t)(origin ? 2 + origin - 1 : DCP_SEG_NONE);
	ret_seg->extent = (uint8_t)(extent ? 2 + origin + extent - 1 : DCP_SEG_NONE);
	*pp = q;
	return true;
}

int dcp_scan_chunk_run(struct dcp_scan *s)
{
	struct shape x;
	struct dcp_meta *m = s->m;
	struct dcp_run run = { .chunk0 = (uint32_t)m->item.n, .coord0 = m->coord.n };
	struct dcp_seg seg = { .kind = SEG_CHUNKS }, last = { 0 };
	const uint8_t *p = s->op;
	const struct dcp_item none = { .place = DCP_NONE };
	uint64_t box[2 * DIMS_MAX], any;
	int ndim, r;

	const dcp_value top = s->stack.n ? s->stack.at[s->stack.n - 1] : V_NONE;

	if (!dcp_in_batch_of(s, V_LIST) || (dcp_has(s, 1) && dcp_tag(dcp_made(s, top)) != V_RUN) ||
	    (size_t)(s->end - p) < DCP_SOFT || !make_shape(s, p, &x) ||
	    memcmp(p, x.head.at, x.head.len) != 0)
		return 0;
	for (;; run.count++) {
		r = dcp_room(s, &p);
		if (r < 0)
			return r;
		if (r == 0)
			break;
		if (run.count % BATCH == 0 &&
		    (dcp_items_reserve(&m->item, m->item.n + BATCH) < 0 ||
		     dcp_u32s_reserve(&m->coord, m->coord.n + (size_t)BATCH * 2 * DIMS_MAX) < 0))
			return sf_fail(s->err, -ENOMEM, "dcp '%s': no memory for %zu chunks",
			               s->name, m->item.n);
		if (m->item.n >= DCP_CHUNKS_MAX || s->memo_next >= DCP_OBJECTS_MAX - 8 ||
		    m->coord.n + m->item.n > m->room)
			break; /* the opcodes say it */
		const uint8_t *q = p;
		if (!take_chunk(s, &x, &q, box, &ndim, &seg) || (run.count && ndim != run.ndim))
			break;
		any = 0;
		for (int k = 0; k < 2 * ndim; k++)
			any |= box[k];
		if (any > UINT32_MAX)
			break;
		run.ndim = (uint8_t)ndim;
		if (seg.step && (seg.step != last.step || seg.origin != last.origin)) {
			seg.first = s->memo_next;
			seg.base = m->coord.n;
			if (dcp_segs_push(&s->seg, seg) < 0)
				return dcp_scan_no_memory(s);
			last = seg;
		}
		for (int k = 0; k < 2 * ndim; k++)
			m->coord.at[m->coord.n++] = (uint32_t)box[k];
		m->item.at[m->item.n++] = none;
		s->memo_next += seg.step;
		p = q;
	}
	if (run.count == 0)
		return 0; /* s->p is where it was */
	s->p = p;
	m->facts.passed_over += run.count;
	if (dcp_runs_push(&m->run, run) < 0 || dcp_scan_push(s, dcp_v(V_RUN, m->run.n - 1)) < 0)
		return dcp_scan_no_memory(s);
	return 1;
}
