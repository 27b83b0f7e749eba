#include "config.h"

#include <stddef.h>
#include <string.h>

#include "base/mem.h"
#include "read/op.h"

/* first guess at an item's header; torch 2.14 writes about 900 bytes before the payload */
#define HEAD_BYTES 2048
#define HEAD_MAX (UINT64_C(16) << 20) /* of one item */
#define USUAL_MAX 8192                /* a longer one is no ordinary header */

static bool wants_header(const struct sf_op_item *item)
{
	return !item->known && !item->slow && item->form == SF_ITEM_TORCH && !item->codec;
}

static const struct sf_source_hints *hints_of(const struct sf_op *op, const struct sf_op_item *item)
{
	return sf_source_hints(op->sources.at[item->source].src);
}

/* What lies between an item's header and what is wanted of it is read over where it is little: both
 * are asked for at once, and it may be what another read is just asking for. */
static uint64_t head_gap(const struct sf_op *op, const struct sf_op_item *item)
{
	return SF_MIN(hints_of(op, item)->gap_max, UINT64_C(64) << 10);
}

/* Pieces of an item whose layout is not known, as if it were dense. */
static int plan_dense(struct sf_op *op, uint32_t i)
{
	struct sf_op_item *item = &op->items.at[i];
	const struct sf_part *part = &op->parts.list.at[item->part];
	int r;

	op->pieces.n = 0;
	op->window = (struct sf_piece_window){ .most = SF_OP_PIECES_MOST };
	item->layout = (struct sf_item_layout){ .payload_len = item->len, .row_major = true };
	if (part->kind == SF_PART_BOX)
		r = sf_op_plan_box_item(op, part, i);
	else
		r = sf_plan_some_pieces(op->r->ckpt, sf_op_tensor(op, item), item->chunk,
		                        &item->layout, part->off, part->n, i, &op->window,
		                        &op->pieces, &op->err);
	item->layout = (struct sf_item_layout){ 0 };
	op->err.msg[0] = '\0'; /* what is wrong with it is said when it is planned in earnest */
	return r;
}

bool sf_op_wanted(struct sf_op *op, uint32_t i, uint64_t *from, uint64_t *end)
{
	const struct sf_op_item *item = &op->items.at[i];
	uint64_t bytes = 0;

	*from = UINT64_MAX;
	*end = 0;
	if (plan_dense(op, i) < 0 || op->window.more)
		return false;
	for (size_t k = 0; k < op->pieces.n; k++) {
		const struct sf_piece *p = &op->pieces.at[k];
		if (p->count > 1 && p->src_step < 0)
			return false;
		*from = SF_MIN(*from, p->src_off);
		*end = SF_MAX(*end, p->src_off + (p->count - 1) * (uint64_t)p->src_step + p->len);
		bytes += p->len * p->count;
	}
	return bytes && *end <= item->len &&
	       *end - *from <= 2 * bytes + hints_of(op, item)->gap_max;
}

/*
 * Where other items' headers had this length the payload goes where it belongs at once, if that is
 * one run, from @from to @end. Only what turns out to begin elsewhere is moved there (assemble.c).
 * A read that may not wait has its buffer only when it comes to that.
 */
static bool guess_place(struct sf_op *op, struct sf_op_item *item, uint64_t from, uint64_t end)
{
	const uint64_t head = atomic_load_explicit(&op->r->usual_head, memory_order_relaxed);
	const struct sf_piece *p = &op->pieces.at[0];

	if (!head || !op->may_wait || op->pieces.n != 1 || p->count != 1 || p->len < SF_TINY ||
	    from + head >= item->len || !sf_op_part_dst(op, &op->parts.list.at[item->part]))
		return false;
	item->head_len = head;
	item->placed_dst = p->dst_off;
	item->placed_off = head + from;
	item->placed_len = SF_MIN(end - from, item->len - item->placed_off);
	return true;
}

/*
 * Of a source that is far: what is wanted of the payload comes along, so that an item that was
 * never seen costs one round trip. Where the payload begins is not known yet, but that it is dense
 * is as good as sure; what is wrong with the guess is fetched when the layout is known.
 */
static void guess(struct sf_op *op, uint32_t i)
{
	struct sf_op_item *item = &op->items.at[i];
	const struct sf_source_hints *hints = hints_of(op, item);
	uint64_t from, end;

	item->head_len = SF_MIN(item->len, hints->head_guess);
	if (!sf_op_wanted(op, i, &from, &end) || guess_place(op, item, from, end))
		return;
	end = SF_MIN(item->len, end + hints->head_guess);
	if (from <= item->head_len + head_gap(op, item)) {
		item->head_len = SF_MAX(item->head_len, end);
	} else {
		item->ahead_off = from;
		item->ahead_len = end - from;
	}
}

const uint8_t *sf_op_ahead(const struct sf_op *op, const struct sf_op_item *item, uint64_t at,
                           uint64_t *ret_len)
{
	if (item->mem && item->form == SF_ITEM_ST_BLOB) {
		*ret_len = item->mem->len - SF_MIN(at, item->mem->len);
		return *ret_len ? item->mem->at + at : NULL;
	}
	if (!item->head_len || !hints_of(op, item)->head_guess)
		return NULL;
	if (at < item->head_len) {
		*ret_len = item->head_len - at;
		return op->head.at + item->head_at + at;
	}
	if (at >= item->ahead_off && at - item->ahead_off < item->ahead_len) {
		*ret_len = item->ahead_len - (at - item->ahead_off);
		return op->head.at + item->ahead_at + (at - item->ahead_off);
	}
	return NULL;
}

static int no_memory(struct sf_op *op, size_t n)
{
	return sf_fail(&op->err, -ENOMEM, "no memory for %zu item headers", n);
}

/* Places in op->head behind what is there. *ret: how many items want their header. */
static int place_headers(struct sf_op *op, size_t *ret)
{
	uint64_t bytes = op->head_bytes;
	struct sf_pages head;
	size_t n = 0;

	for (uint32_t i = 0; i < op->items.n; i++) {
		struct sf_op_item *item = &op->items.at[i];
		bool first = !item->head_len;
		if (!wants_header(item))
			continue;
		if (first && hints_of(op, item)->head_guess)
			guess(op, i);
		else if (first)
			item->head_len = SF_MIN(item->len, HEAD_BYTES);
		if (!item->head_len) {
			sf_fail(&op->err, -EBADMSG, "item at %llu has no bytes",
			        (unsigned long long)item->off);
			return sf_op_fail_item(op, item, -EBADMSG);
		}
		item->head_at = bytes;
		bytes += item->head_len;
		if (first) {
			item->ahead_at = bytes;
			bytes += item->ahead_len;
		}
		n++;
	}
	*ret = n;
	if (!n)
		return 0;
	if (sf_page_pool_take(&op->io->pages, bytes, &head) < 0)
		return no_memory(op, n);
	if (op->head_bytes)
		memcpy(head.at, op->head.at, op->head_bytes);
	sf_op_holds(op, (int64_t)head.len - (int64_t)op->head.len);
	sf_page_pool_give(&op->io->pages, &op->head);
	op->head = head;
	op->head_bytes = bytes;
	return 0;
}

/* Where what is placed goes, as bytes from op->head on, modulo 2^64. */
static uint64_t from_head(struct sf_op *op, const struct sf_op_item *item)
{
	const uint8_t *dst = sf_op_part_dst(op, &op->parts.list.at[item->part]);

	return (uintptr_t)dst + item->placed_dst - (uintptr_t)op->head.at;
}

/* Headers of the items whose layout is not known, neighbours in one request. */
int sf_op_ask_headers(struct sf_op *op)
{
	const uint64_t there = op->head_bytes; /* what is at or behind it is to be fetched */
	size_t n = 0;
	int r = place_headers(op, &n);

	if (r < 0 || !n)
		return r;
	sf_coalesce_reset(&op->co);
	for (uint32_t i = 0, k; i < op->items.n; i = k) {
		struct sf_source_hints hints;
		k = i + 1;
		if (op->items.at[i].source == SF_NONE)
			continue;
		hints = *hints_of(op, &op->items.at[i]);
		hints.gap_max = head_gap(op, &op->items.at[i]);
		op->pieces.n = 0;
		for (k = i; k < op->items.n && op->items.at[k].source == op->items.at[i].source;
		     k++) {
			const struct sf_op_item *item = &op->items.at[k];
			struct sf_piece p = { .src_off = item->off,
				              .dst_off = item->head_at,
				              .len = item->head_len,
				              .count = 1 };
			if (!wants_header(item))
				continue;
			if (sf_pieces_push(&op->pieces, p) < 0)
				return no_memory(op, n);
			if (item->ahead_at < there) /* the header alone, which is longer */
				continue;
			p.src_off = item->off + item->ahead_off;
			p.dst_off = item->ahead_at;
			p.len = item->ahead_len;
			if (p.len && sf_pieces_push(&op->pieces, p) < 0)
				return no_memory(op, n);
			p.src_off = item->off + item->placed_off;
			p.dst_off = from_head(op, item);
			p.len = item->placed_len;
			if (p.len && sf_pieces_push(&op->pieces, p) < 0)
				return no_memory(op, n);
		}
		if (sf_coalesce(&op->co, &hints, op->items.at[i].source, i,
		                hints.head_guess ? SF_FETCH_TENSOR : SF_FETCH_HEADER, 0,
		                op->head.at, op->pieces.at, op->pieces.n) < 0)
			return no_memory(op, n);
	}
	sf_op_count_scratch(op);
	op->io_at = 0;
	return SF_STEP_OTHER;
}

int sf_op_publish(struct sf_op *op, struct sf_op_item *item, const struct sf_torch_item *head)
{
	const struct sf_tensor *t = sf_op_tensor(op, item);
	int64_t stride[SF_DIMS_MAX];
	struct sf_item_layout lay;
	struct sf_chunk c;
	int r;

	sf_tensor_chunk(t, item->chunk, &c);
	r = sf_layout_from_item(op->r->ckpt, t, &c, head, stride, &lay, &op->err);
	if (r < 0)
		return r;
	r = sf_layout_put(op->r->layouts, t, item->chunk, &lay);
	if (r < 0)
		return sf_fail(&op->err, r, "no memory for its layout");
	item->known = sf_layout_get(op->r->layouts, t, item->chunk, &item->layout);
	if (lay.payload_off <= USUAL_MAX &&
	    lay.payload_off > atomic_load_explicit(&op->r->usual_head, memory_order_relaxed))
		atomic_store_explicit(&op->r->usual_head, (uint32_t)lay.payload_off,
		                      memory_order_relaxed); /* a hint: the last one may win */
	return 0;
}

int sf_op_parse_headers(struct sf_op *op)
{
	bool more = false;

	for (uint32_t i = 0; i < op->items.n; i++) {
		struct sf_op_item *item = &op->items.at[i];
		struct sf_torch_item head;
		uint64_t need = 0;
		int r;

		if (!wants_header(item))
			continue;
		r = sf_torch_item_head(op->head.at + item->head_at, item->head_len, item->len,
		                       &head, &need, &op->err);
		if (r == 0) {
			r = sf_op_publish(op, item, &head);
		} else if (r == -EAGAIN && need > item->head_len && need <= item->len &&
		           need <= HEAD_MAX) {
			item->head_len = need;
			more = true;
			r = 0;
		} else if (r == -EAGAIN || r == -ENOTSUP) {
			item->slow = true;
			r = 0;
		}
		if (r < 0)
			return sf_op_fail_at(op, item, r);
	}
	op->err.msg[0] = '\0';
	return more ? SF_STEP_OTHER : 0;
}
