#include "config.h"

#include "base/mem.h"
#include "ckpt/place.h"
#include "read/op.h"

/* The batch's number of the file; that of the next source when it has none of this file yet. */
static uint32_t find_source(struct sf_op *op, uint32_t key, const struct sf_source *given)
{
	const struct sf_op_sources *v = &op->sources;
	uint32_t n = (uint32_t)v->n, i = op->last_source;

	/* the one used last, or one close behind it: column shards take turns */
	for (uint32_t k = 0; k < n; k++, i = i + 1 < n ? i + 1 : 0)
		if (v->at[i].key == key && (!given || v->at[i].src == given))
			return i;
	return n;
}

/* Adds one item; 1: the batch is full. A source comes with its first item: none is without. @given:
 * a part's own, which is open. */
static int add_item_of(struct sf_op *op, struct sf_op_item item, uint32_t key,
                       struct sf_source *given)
{
	item.source = find_source(op, key, given);
	if (op->items.n >= SF_OP_ITEMS || item.source >= op->r->io->batch_open)
		return 1;
	if (item.source == op->sources.n) {
		if (sf_op_sources_push(&op->sources, (struct sf_op_source){ key, given }) < 0)
			return sf_fail(&op->err, -ENOMEM, "no memory for %zu files",
			               op->sources.n + 1);
		if (given)
			sf_source_ref(given);
	}
	if (sf_op_items_push(&op->items, item) < 0)
		return sf_fail(&op->err, -ENOMEM, "no memory for %zu items", op->items.n + 1);
	op->last_source = item.source;
	return 0;
}

static int add_item(struct sf_op *op, struct sf_op_item item, uint32_t key)
{
	return add_item_of(op, item, key, NULL);
}

/* Where the item lies in its stored file. */
static int find(struct sf_op *op, struct sf_op_item *item, uint32_t place, uint64_t off,
                uint64_t len, uint32_t *ret_file)
{
	const bool blob = op->r->ckpt->place[place].form == SF_ITEM_ST_BLOB;
	struct sf_where where;
	int r = 0;

	if (op->r->ckpt->place[place].unreadable)
		r = sf_fail(&op->err, -ENOTSUP, "%s", sf_place_why(op->r->ckpt, place));
	/* a blob begins there, and is longer than the one tensor */
	if (r >= 0)
		r = sf_place_find(op->r->ckpt, place, off, blob ? 0 : len, &where, &op->err);

	if (r < 0) {
		op->bad_file = (uint32_t)(sf_place_file(op->r->ckpt, place) - op->r->ckpt->file);
		return sf_op_fail_item(op, item, r);
	}
	item->off = where.off;
	item->len = len;
	item->room = where.room;
	item->codec = op->r->ckpt->place[place].codec;
	item->streams = op->r->ckpt->place[place].streams;
	if (where.stream) { /* its items have no codec of their own: the builder saw to that */
		item->stream = where.stream;
		item->in_off = where.off;
		item->in_len = len;
		item->off = where.stream->off;
		item->len = where.stream->len;
		item->codec = where.stream->codec;
		item->streams = where.stream->streams;
	}
	*ret_file = where.file;
	return 0;
}

/* Raw items say nothing of themselves: as the format says, or dense. */
static struct sf_item_layout raw_layout(const struct sf_tensor *t, uint32_t chunk, uint64_t len)
{
	const struct sf_chunk_layout *l =
		t->more && t->more->layout ? &t->more->layout[chunk] : NULL;

	if (!l)
		return (struct sf_item_layout){ .payload_len = len, .row_major = true };
	return (struct sf_item_layout){ .payload_len = len,
		                        .row_major = !l->stride,
		                        .conj = l->conj,
		                        .neg = l->neg,
		                        .stride = l->stride };
}

/* A chunk that has no item, and no file. */
static int add_fill(struct sf_op *op, struct sf_op_item item, const uint8_t *fill)
{
	item.source = SF_NONE;
	item.form = SF_ITEM_RAW;
	item.known = true;
	item.layout = (struct sf_item_layout){ .payload_len = UINT64_MAX,
		                               .row_major = true,
		                               .fill = fill };
	if (op->items.n >= SF_OP_ITEMS)
		return 1;
	if (sf_op_items_push(&op->items, item) < 0)
		return sf_fail(&op->err, -ENOMEM, "no memory for %zu items", op->items.n + 1);
	return 0;
}

static int add_chunk(struct sf_op *op, const struct sf_tensor *t, uint32_t chunk)
{
	const struct sf_ckpt *ckpt = op->r->ckpt;
	struct sf_op_item item = { .part = (uint32_t)op->part_at,
		                   .chunk = chunk,
		                   .chunk_at = op->chunk_at };
	uint32_t file;
	int r;

	if (t->place[chunk] == SF_NONE && t->more && t->more->has_fill)
		return add_fill(op, item, t->more->fill);
	if (t->place[chunk] == SF_NONE) {
		sf_fail(&op->err, -EBADMSG, "metadata names no stored item for it");
		return sf_op_fail_item(op, &item, -EBADMSG);
	}
	r = find(op, &item, t->place[chunk], t->off[chunk], t->len[chunk], &file);
	if (r < 0)
		return r;
	item.form = ckpt->place[t->place[chunk]].form;
	if (item.form == SF_ITEM_RAW) {
		item.layout = raw_layout(t, chunk, t->len[chunk]);
		item.known = !item.codec; /* what a decoded item has is seen then */
	} else {
		item.known = sf_layout_get(op->r->layouts, t, chunk, &item.layout);
	}
	return add_item(op, item, file);
}

/* 1: the batch is full, the part goes on in the next. */
static int add_tensor(struct sf_op *op, const struct sf_part *part)
{
	const struct sf_tensor *t = &op->r->ckpt->tensor[part->index];
	int r;

	if (!op->part_begun) {
		op->chunks.n = 0;
		r = part->kind == SF_PART_BOX ? sf_op_plan_box_chunks(op, part)
		                              : sf_plan_chunks(op->r->ckpt, t, part->off, part->n,
		                                               &op->chunks, &op->err);
		if (r < 0)
			return r;
		op->part_begun = true;
		op->chunk_at = op->chunk_first;
		op->chunk_first = 0;
	}
	for (; op->chunk_at < op->chunks.n; op->chunk_at++) {
		r = add_chunk(op, t, op->chunks.at[op->chunk_at]);
		if (r)
			return r;
	}
	op->part_begun = false;
	return 0;
}

static int add_object(struct sf_op *op, const struct sf_part *part)
{
	const struct sf_ckpt *ckpt = op->r->ckpt;
	const struct sf_object *o = &ckpt->object[part->index];
	struct sf_op_item item = { .part = (uint32_t)op->part_at, .chunk = SF_NONE };
	uint32_t file;
	int r;

	if (o->place == SF_NONE) {
		sf_fail(&op->err, -EBADMSG, "metadata names no stored item for it");
		return sf_op_fail_item(op, &item, -EBADMSG);
	}
	r = find(op, &item, o->place, o->off, o->len, &file);
	if (r < 0)
		return r;
	item.form = SF_ITEM_RAW;
	item.known = !item.codec;
	item.layout = (struct sf_item_layout){ .payload_len = o->len, .row_major = true };
	if ((!item.codec || item.stream) && (part->off > o->len || part->n > o->len - part->off)) {
		sf_fail(&op->err, -EBADMSG, "%llu bytes at %llu of an item of %llu",
		        (unsigned long long)part->n, (unsigned long long)part->off,
		        (unsigned long long)o->len);
		return sf_op_fail_item(op, &item, -EBADMSG);
	}
	return add_item(op, item, file);
}

static int add_given(struct sf_op *op, const struct sf_part *part)
{
	struct sf_op_item item = { .part = (uint32_t)op->part_at,
		                   .chunk = SF_NONE,
		                   .form = SF_ITEM_RAW,
		                   .known = true,
		                   .len = part->src->size };

	item.layout = (struct sf_item_layout){ .payload_len = item.len, .row_major = true };
	return add_item_of(op, item, SF_NONE, part->src);
}

static int add_listed(struct sf_op *op, const struct sf_part *part)
{
	const struct sf_ckpt *ckpt = op->r->ckpt;
	struct sf_op_item item = {
		.part = (uint32_t)op->part_at, .chunk = SF_NONE, .form = SF_ITEM_RAW, .known = true
	};

	item.len = ckpt->listing[part->index].info.size;
	item.layout = (struct sf_item_layout){ .payload_len = item.len, .row_major = true };
	return add_item(op, item, ckpt->nfiles + part->index);
}

/* The next items, as many as one batch takes. None: the read has all its bytes. */
int sf_op_next_batch(struct sf_op *op)
{
	int r = 0;

	sf_op_let_batch_go(op);
	op->lease0 = op->leases.n;
	op->item_at = 0;
	op->kept = 0;
	op->piece_skip = 0;

	for (; op->part_at < op->parts.list.n && r == 0; op->part_at += r == 0) {
		const struct sf_part *part = &op->parts.list.at[op->part_at];
		if (part->kind >= SF_PART_MADE)
			continue; /* has no item */
		r = part->kind <= SF_PART_BOX      ? add_tensor(op, part)
		    : part->kind == SF_PART_LISTED ? add_listed(op, part)
		    : part->kind == SF_PART_SOURCE ? add_given(op, part)
		                                   : add_object(op, part);
	}
	return r < 0 ? r : op->items.n ? 0 : SF_STEP_OTHER;
}

void sf_op_cut_batch(struct sf_op *op, uint32_t item)
{
	const struct sf_op_item *first = &op->items.at[item];

	op->part_at = first->part;
	op->chunk_first = first->chunk == SF_NONE ? 0 : first->chunk_at;
	op->part_begun = false; /* its chunks are looked up anew: others may stand there */
	for (size_t i = item; i < op->items.n; i++)
		sf_cached_unref(op->r->items, op->items.at[i].mem);
	op->items.n = item;
}

void sf_op_drop_batch(struct sf_op *op)
{
	for (uint32_t i = 0; i < op->items.n; i++) {
		struct sf_op_item *item = &op->items.at[i];
		if (item->mem && item->codec) /* this read comes back for it */
			sf_cached_pass(op->r->items, item->mem, 0, UINT64_MAX);
		else
			sf_cached_unref(op->r->items, item->mem);
		item->mem = NULL;
		item->passed = 0;
	}
	if (op->items.n)
		sf_op_cut_batch(op, 0);
	for (; op->leases.n > op->lease0; op->leases.n--) {
		struct sf_op_lease *l = &op->leases.at[op->leases.n - 1];
		op->nlent -= (uint32_t)l->count;
		sf_lease_release(&l->lease);
	}
	sf_op_let_batch_go(op);
}
