#include "config.h"

#include "base/mem.h"
#include "read/op.h"
#include "store/guard.h"

/* bytes of a row above which a preadv costs no more than a copy out of a mapping */
#define COPY_ROWS_MAX 8192

/* ---- pieces ---- */

uint8_t *sf_op_part_dst(struct sf_op *op, const struct sf_part *part)
{
	uint8_t *dst;

	if (part->kind == SF_PART_BOX && !part->cast)
		return sf_op_box_dst(op, part);
	if (part->cast) {
		dst = sf_op_cast_buf(op);
		return dst ? dst + part->cast_at : NULL;
	}
	dst = sf_op_dst(op);
	return dst ? dst + part->dst : NULL;
}

static enum sf_fetch_kind fetch_kind(const struct sf_part *part)
{
	return part->kind >= SF_PART_OBJECT ? SF_FETCH_OBJECT : SF_FETCH_TENSOR;
}

/* 1: lent. Bytes that are looked at later, or go to the caller's buffer, are not. */
static int lend(struct sf_op *op, const struct sf_op_item *item, const struct sf_part *part,
                uint64_t base, const struct sf_piece *p)
{
	struct sf_op_lease l = {
		part->dst + p->dst_off, p->len, p->count, (uint64_t)p->dst_step, { 0 }
	};

	if (p->len < SF_LEND_MIN ||
	    (p->count > 1 && (p->src_step != (int64_t)p->len || p->dst_step < p->src_step)) ||
	    p->count > SF_OP_LENT - op->nlent)
		return 0;
	if (sf_source_lend(op->sources.at[item->source].src, base + p->src_off, p->len * p->count,
	                   fetch_kind(part), &l.lease) < 0)
		return 0;
	if (sf_op_leases_push(&op->leases, l) < 0) {
		sf_lease_release(&l.lease);
		return 0;
	}
	op->nlent += (uint32_t)p->count;
	return 1;
}

/*
 * 1: the rows of a column shard, one run in the item, were copied out of the mapped file. No
 * request, no iovec for each row: of 64 column shards a 1 MiB read has 8,192 rows.
 */
static int copy_rows(struct sf_op *op, const struct sf_op_item *item, const struct sf_part *part,
                     uint64_t base, uint8_t *dst, const struct sf_piece *p)
{
	struct sf_lease lease;
	int r;

	if (p->count < 2 || p->src_step != (int64_t)p->len || p->len > COPY_ROWS_MAX ||
	    sf_source_lend(op->sources.at[item->source].src, base + p->src_off, p->len * p->count,
	                   fetch_kind(part), &lease) < 0)
		return 0;
	r = sf_guard_copy_strided(dst + p->dst_off, p->dst_step, lease.at, p->len, p->count);
	sf_lease_release(&lease);
	return r == 0; /* a file that was cut: the ordinary way tells where */
}

/* @src: where the piece's first run is. */
static void copy_piece(uint8_t *dst, const uint8_t *src, const struct sf_piece *p)
{
	for (uint64_t k = 0; k < p->count; k++)
		memcpy(dst + p->dst_off + (int64_t)k * p->dst_step, src + (int64_t)k * p->src_step,
		       p->len);
}

static void copy_from_memory(struct sf_op *op, struct sf_op_item *item, uint8_t *dst)
{
	for (size_t i = 0; i < op->pieces.n; i++) {
		const struct sf_piece *p = &op->pieces.at[i];
		copy_piece(dst, item->bytes + item->layout.payload_off + p->src_off, p);
		item->passed += p->len * p->count;
	}
}

static void advance(struct sf_piece *p, uint64_t n)
{
	p->src_off += n;
	p->dst_off += n;
	p->len -= n;
}

/*
 * What was placed before the layout was known is there, or near: where the payload begins later it
 * moves up, where it begins earlier it makes room for what came with the header. true: all of the
 * piece is there; else *p is what is left.
 */
static bool take_placed(struct sf_op *op, struct sf_op_item *item, const struct sf_part *part,
                        struct sf_piece *p)
{
	const uint64_t len = item->placed_len;
	const uint64_t want = item->layout.payload_off + p->src_off;
	const uint8_t *head;
	uint8_t *dst;
	uint64_t room, n;

	if (!len || p->count != 1 || p->dst_off != item->placed_dst ||
	    !(dst = sf_op_part_dst(op, part)))
		return false;
	item->placed_len = 0; /* of one piece */
	dst += p->dst_off;
	if (want >= item->placed_off) {
		room = want - item->placed_off;
		n = SF_MIN(p->len, len - SF_MIN(len, room));
		if (room && n)
			memmove(dst, dst + room, n);
		advance(p, n);
		return !p->len;
	}
	room = item->placed_off - want;
	head = sf_op_ahead(op, item, want, &n);
	if (!head || n < room || room >= p->len)
		return false;
	n = SF_MIN(p->len - room, len);
	memmove(dst + room, dst, n);
	memcpy(dst, head, room);
	advance(p, room + n);
	return !p->len;
}

/* What came with the item's header is taken from there: 1 all of the piece; 0: *p is what is left. */
static int copy_ahead(struct sf_op *op, const struct sf_op_item *item, const struct sf_part *part,
                      struct sf_piece *p)
{
	struct sf_piece some = *p;
	uint64_t len;
	const uint8_t *src = sf_op_ahead(op, item, item->layout.payload_off + p->src_off, &len);
	uint8_t *dst;

	if (!src || (p->count > 1 && (p->src_step <= 0 || len < p->len)) ||
	    !(dst = sf_op_part_dst(op, part)))
		return 0;
	if (p->count > 1)
		some.count = SF_MIN(p->count, (len - p->len) / (uint64_t)p->src_step + 1);
	else
		some.len = SF_MIN(p->len, len);
	copy_piece(dst, src, &some);
	if (p->count > 1) {
		p->src_off += some.count * (uint64_t)p->src_step;
		p->dst_off += some.count * (uint64_t)p->dst_step;
		p->count -= some.count;
		return !p->count;
	}
	advance(p, some.len);
	return !p->len;
}

/* Of the item's pieces those behind the @skip first, SF_OP_PIECES_MOST at most; op->window.more: others follow. */
static int plan_item(struct sf_op *op, uint32_t i, uint64_t skip)
{
	const struct sf_op_item *item = &op->items.at[i];
	const struct sf_part *part = &op->parts.list.at[item->part];
	struct sf_piece whole = { .src_off = part->off, .len = part->n, .count = 1, .item = i };

	op->pieces.n = 0;
	op->window = (struct sf_piece_window){ .skip = skip, .most = SF_OP_PIECES_MOST };
	if (part->kind == SF_PART_BOX)
		return sf_op_plan_box_item(op, part, i);
	if (part->kind == SF_PART_TENSOR)
		return sf_plan_some_pieces(op->r->ckpt, &op->r->ckpt->tensor[part->index],
		                           item->chunk, &item->layout, part->off, part->n, i,
		                           &op->window, &op->pieces, &op->err);
	return sf_pieces_push(&op->pieces, whole) < 0
	               ? sf_fail(&op->err, -ENOMEM, "no memory for pieces")
	               : 0;
}

static int no_memory(struct sf_op *op)
{
	return sf_fail(&op->err, -ENOMEM, "no memory for a read of %llu bytes",
	               (unsigned long long)op->len);
}

/* No item: every element is the same. */
static void fill(struct sf_op *op, const struct sf_op_item *item, uint8_t *dst)
{
	const struct sf_part *part = &op->parts.list.at[item->part];
	const uint8_t *element = item->layout.fill;
	const uint64_t elem = sf_dtype_info(op->r->ckpt->tensor[part->index].dtype)->bytes;
	/* mostly zeros */
	const bool even = elem == 1 || memcmp(element, element + 1, elem - 1) == 0;

	for (size_t k = 0; k < op->pieces.n; k++) {
		const struct sf_piece *p = &op->pieces.at[k];
		for (uint64_t j = 0; j < p->count; j++) {
			uint8_t *to = dst + p->dst_off + (int64_t)j * p->dst_step;
			uint64_t at = (p->src_off + j * (uint64_t)p->src_step) % elem;
			if (even)
				memset(to, element[0], p->len);
			for (uint64_t n = 0; n < p->len && !even;
			     n++, at = at + 1 < elem ? at + 1 : 0)
				to[n] = element[at];
		}
	}
}

/* Pieces of what is in memory, or nowhere: copied. */
static int copy_item(struct sf_op *op, struct sf_op_item *item)
{
	const struct sf_part *part = &op->parts.list.at[item->part];
	uint8_t *dst = sf_op_part_dst(op, part);

	if (!dst)
		return no_memory(op);
	if (item->layout.fill)
		fill(op, item, dst);
	else if (part->kind == SF_PART_OBJECT_LEN)
		memcpy(dst, &item->nbytes, 8);
	else
		copy_from_memory(op, item, dst);
	return 0;
}

/* What of the planned pieces need not be asked for is brought to its place; op->kept: the others. */
static void take_pieces(struct sf_op *op, struct sf_op_item *item, bool may_lend)
{
	const struct sf_part *part = &op->parts.list.at[item->part];
	const struct sf_item_layout *lay = &item->layout;
	const uint64_t base = item->off + lay->payload_off;
	uint8_t *dst;

	may_lend = may_lend && !part->cast && !lay->conj && !lay->neg;
	for (size_t k = 0; k < op->pieces.n; k++) {
		struct sf_piece *p = &op->pieces.at[k];
		if (item->placed_len && take_placed(op, item, part, p))
			continue;
		if ((item->head_len || item->mem) && copy_ahead(op, item, part, p))
			continue;
		if (may_lend && lend(op, item, part, base, p))
			continue;
		if (p->count > 1 && op->r->io->guard && (dst = sf_op_part_dst(op, part)) &&
		    copy_rows(op, item, part, base, dst, p))
			continue;
		op->pieces.at[op->kept++] = *p;
	}
}

/* Requests for kept pieces, until there are enough for now. */
static int ask_kept(struct sf_op *op, uint32_t i)
{
	const struct sf_op_item *item = &op->items.at[i];
	const struct sf_part *part = &op->parts.list.at[item->part];
	uint8_t *dst = sf_op_part_dst(op, part);
	size_t done;

	if (!dst || sf_coalesce_some(&op->co, sf_source_hints(op->sources.at[item->source].src),
	                             item->source, i, (uint8_t)fetch_kind(part),
	                             item->off + item->layout.payload_off, dst, op->pieces.at,
	                             op->kept, SF_OP_RUNS_MOST, &done) < 0)
		return no_memory(op);
	op->kept -= done;
	memmove(op->pieces.at, op->pieces.at + done, op->kept * sizeof(*op->pieces.at));
	return 0;
}

/* 1: the item has more pieces. */
static int item_pieces(struct sf_op *op, uint32_t i, bool may_lend)
{
	struct sf_op_item *item = &op->items.at[i];
	const struct sf_item_layout *lay = &item->layout;
	uint64_t room = item->bytes ? item->nbytes : item->len;
	int r = 0;

	if (!lay->fill && (lay->payload_off > room || lay->payload_len > room - lay->payload_off))
		return sf_fail(&op->err, -EBADMSG,
		               "payload of %llu bytes at %llu of an item of %llu",
		               (unsigned long long)lay->payload_len,
		               (unsigned long long)lay->payload_off, (unsigned long long)room);
	if (!op->kept) {
		r = plan_item(op, i, op->piece_skip);
		op->piece_skip += op->pieces.n;
		if (r >= 0 && (lay->fill || item->bytes))
			r = copy_item(op, item);
		else if (r >= 0)
			take_pieces(op, item, may_lend);
	}
	if (r >= 0 && op->kept)
		r = ask_kept(op, i);
	return r < 0 ? r : op->kept || op->window.more;
}

static bool is_enough(const struct sf_op *op)
{
	return op->co.ranges.n + op->co.iovs.n + op->co.scatters.n >= SF_OP_RUNS_MOST;
}

int sf_op_make_pieces(struct sf_op *op)
{
	/* With a buffer of the caller's all bytes are put there; rd itself may be gone when the op
	 * was parked. What is lent stays open until the reply is out: not where open files are
	 * counted, and there a mapping made for one read costs more than the copy. */
	bool may_lend = !op->to_caller && !sf_fd_budget_counts(op->r->io->fd_budget);
	int r = 0;

	sf_coalesce_reset(&op->co);
	while (op->item_at < op->items.n && !is_enough(op)) {
		r = item_pieces(op, (uint32_t)op->item_at, may_lend);
		if (r < 0)
			return sf_op_fail_item(op, &op->items.at[op->item_at], r);
		if (r == 0) {
			op->item_at++;
			op->piece_skip = 0;
		}
	}
	sf_op_count_scratch(op);
	op->io_at = 0;
	return 0;
}

/* Lazily conjugated or negated items: signs of the planned pieces are flipped in place. */
static int convert(struct sf_op *op, uint32_t i)
{
	const struct sf_op_item *item = &op->items.at[i];
	const struct sf_part *part = &op->parts.list.at[item->part];
	enum sf_dtype dtype = op->r->ckpt->tensor[part->index].dtype;
	uint8_t *dst = sf_op_part_dst(op, part);
	int r = 0;

	for (size_t k = 0; k < op->pieces.n && r >= 0; k++) {
		const struct sf_piece *p = &op->pieces.at[k];
		for (uint64_t j = 0; j < p->count && r >= 0; j++) {
			uint64_t at = p->dst_off + j * (uint64_t)p->dst_step;
			/* of a box there are whole elements alone */
			uint64_t of = part->kind == SF_PART_BOX ? 0 : part->off + at;
			r = sf_layout_convert(dtype, item->layout.conj, item->layout.neg, dst + at,
			                      of, p->len, &op->err);
		}
	}
	return r;
}

static int convert_item(struct sf_op *op, uint32_t i)
{
	uint64_t skip = 0;
	int r;

	do {
		r = plan_item(op, i, skip);
		skip += op->pieces.n;
		if (r >= 0)
			r = convert(op, i);
	} while (r >= 0 && op->window.more);
	return r;
}

int sf_op_settle_batch(struct sf_op *op)
{
	int r = 0;

	if (op->item_at < op->items.n)
		return SF_STEP_OTHER;
	for (uint32_t i = 0; i < op->items.n && r >= 0; i++) {
		const struct sf_op_item *item = &op->items.at[i];
		if (item->layout.conj || item->layout.neg)
			r = convert_item(op, i);
		if (r < 0)
			return sf_op_fail_item(op, item, r);
	}
	/* What was read is of the version that was loaded only if the file still is. */
	for (uint32_t i = 0; i < op->sources.n; i++) {
		struct sf_op_source *s = &op->sources.at[i];
		r = sf_source_check(s->src, &op->err);
		if (r < 0) {
			sf_open_files_drop(op->r->io->open_files, sf_open_key(op->r->id, s->key),
			                   s->src);
			op->bad_file = s->key;
			return r;
		}
	}
	return 0;
}

/* ---- the end ---- */

/* How elements are cast: by way of another dtype where @via is set. */
struct casting {
	enum sf_dtype from, via, to;
};

static void cast(const struct casting *c, void *dst, const void *src, uint64_t n)
{
	enum { SOME = 256 };
	uint64_t some[SOME]; /* elements of 8 bytes or fewer */
	const uint64_t a = sf_dtype_info(c->from)->bytes, b = sf_dtype_info(c->to)->bytes;

	if (!c->via && c->to == c->from) {
		memcpy(dst, src, n * b);
	} else if (!c->via) {
		sf_dtype_cast(dst, c->to, src, c->from, n);
	} else {
		for (uint64_t i = 0; i < n; i += SOME) {
			const size_t k = SF_MIN(n - i, (uint64_t)SOME);
			sf_dtype_cast(some, c->via, (const uint8_t *)src + i * a, c->from, k);
			sf_dtype_cast((uint8_t *)dst + i * b, c->to, some, c->via, k);
		}
	}
}

static void cast_part(struct sf_op *op, const struct sf_part *part)
{
	const struct casting c = { op->r->ckpt->tensor[part->index].dtype, part->via, part->cast };
	uint64_t a = sf_dtype_info(c.from)->bytes, b = sf_dtype_info(c.to)->bytes, n;
	const uint8_t *src = op->cast.at + part->cast_at;
	uint8_t *dst = op->dst + part->dst, one[16];
	uint64_t left = part->len;

	if (part->cast_skip) {
		n = SF_MIN(b - part->cast_skip, left);
		cast(&c, one, src, 1);
		memcpy(dst, one + part->cast_skip, n);
		dst += n;
		src += a;
		left -= n;
	}
	n = left / b;
	if (n)
		cast(&c, dst, src, n);
	if (left % b) {
		cast(&c, one, src + n * a, 1);
		memcpy(dst + n * b, one, left % b);
	}
}

int sf_op_finish(struct sf_op *op)
{
	for (size_t i = 0; i < op->parts.list.n; i++) {
		const struct sf_part *part = &op->parts.list.at[i];
		if (!part->cast && part->kind != SF_PART_BYTES)
			continue;
		uint8_t *dst = sf_op_dst(op);
		if (!dst)
			return sf_fail(&op->err, -ENOMEM, "no memory for a read of %llu bytes",
			               (unsigned long long)op->len);
		if (part->kind == SF_PART_BYTES)
			memcpy(dst + part->dst, op->literal.at + part->off, part->n);
		else
			cast_part(op, part);
	}
	return 0;
}

static int add_iov(struct sf_op *op, const void *at, uint64_t len)
{
	return len ? sf_iovs_push(&op->iovs, (struct iovec){ (void *)at, len }) : 0;
}

/*
 * The read in order: lent runs, and what is between them out of the buffer. A lease is a queue of
 * runs in order, so the next run is the first of one of them: few leases, or few runs, so looking
 * at all of them costs least.
 */
static int lay_out(struct sf_op *op)
{
	struct sf_op_lease *l = op->leases.at;
	size_t n = op->leases.n;
	uint64_t at = 0;

	while (n) {
		size_t k = 0;
		for (size_t i = 1; i < n; i++)
			if (l[i].dst < l[k].dst)
				k = i;
		if (add_iov(op, op->dst ? op->dst + at : NULL, l[k].dst - at) < 0 ||
		    add_iov(op, l[k].lease.at, l[k].len) < 0)
			return -ENOMEM;
		at = l[k].dst + l[k].len;
		l[k].lease.at = (const uint8_t *)l[k].lease.at + l[k].len;
		l[k].dst += l[k].step;
		if (--l[k].count == 0) { /* behind the others: it is still to be let go */
			struct sf_op_lease done = l[k];
			l[k] = l[--n];
			l[n] = done;
		}
	}
	return add_iov(op, op->dst ? op->dst + at : NULL, op->len - at) < 0 ? -ENOMEM : 0;
}

int sf_op_result(struct sf_op *op, void *buf)
{
	if (op->parts.nboxes) {
		sf_op_place_boxes(op);
		return 0;
	}
	if (!buf)
		return lay_out(op);
	if (op->dst && op->dst != buf)
		memcpy(buf, op->dst, op->len);
	return add_iov(op, buf, op->len) < 0 ? -ENOMEM : 0;
}
