#include "config.h"

#include <stdio.h>

#include "base/mem.h"
#include "ckpt/place.h"
#include "read/op.h"

/* times the deadline, and at least, that a read waits for memory */
#define TURN_TIMES 10
#define TURN_LEAST_MS UINT64_C(600000)

/* What a failure is about: words before its message, and the stored file. */

const struct sf_tensor *sf_op_tensor(const struct sf_op *op, const struct sf_op_item *item)
{
	return &op->r->ckpt->tensor[op->parts.list.at[item->part].index];
}

uint32_t sf_op_place(const struct sf_op *op, const struct sf_op_item *item, uint64_t *ret_off)
{
	const struct sf_part *part = &op->parts.list.at[item->part];

	if (part->kind <= SF_PART_BOX) {
		const struct sf_tensor *t = sf_op_tensor(op, item);
		*ret_off = t->off[item->chunk];
		return t->place[item->chunk];
	}
	if (part->kind != SF_PART_OBJECT && part->kind != SF_PART_OBJECT_LEN)
		return SF_NONE;
	*ret_off = op->r->ckpt->object[part->index].off;
	return op->r->ckpt->object[part->index].place;
}

const char *sf_op_words(const struct sf_op *op, const struct sf_op_item *item,
                        char text[SF_OP_WORDS])
{
	const struct sf_part *part = &op->parts.list.at[item->part];
	const struct sf_ckpt *ckpt = op->r->ckpt;
	const struct sf_container *members[SF_CONTAINER_DEPTH];
	char name[SF_PLACE_NAME];
	const struct sf_key *k;
	uint64_t off;
	uint32_t place = sf_op_place(op, item, &off);
	int n;

	text[0] = '\0';
	if (part->kind == SF_PART_LISTED || part->kind == SF_PART_SOURCE)
		return text;
	k = &ckpt->key[part->kind <= SF_PART_BOX ? ckpt->tensor[part->index].key
	                                         : ckpt->object[part->index].key];
	if (part->kind <= SF_PART_BOX)
		n = snprintf(text, SF_OP_WORDS, "tensor '%.*s', chunk %u",
		             (int)SF_MIN(k->len, 200u), k->name, item->chunk);
	else
		n = snprintf(text, SF_OP_WORDS, "object '%.*s'", (int)SF_MIN(k->len, 200u),
		             k->name);
	if (place != SF_NONE && sf_place_members(ckpt, place, members))
		snprintf(text + n, SF_OP_WORDS - (size_t)n, " in %s",
		         sf_place_name(ckpt, place, name));
	return text;
}

int sf_op_fail_item(struct sf_op *op, const struct sf_op_item *item, int r)
{
	char words[SF_OP_WORDS];

	if (op->items.n && item >= op->items.at && item < op->items.at + op->items.n)
		op->bad_file = item->source == SF_NONE ? SF_NONE : op->sources.at[item->source].key;
	if (r == -EAGAIN || !sf_op_words(op, item, words)[0])
		return r;
	return sf_fail_ctx(&op->err, r, "%s", words);
}

int sf_op_fail_at(struct sf_op *op, struct sf_op_item *item, int r)
{
	const struct sf_container *members[SF_CONTAINER_DEPTH];
	uint64_t off = item->off;
	uint32_t place = sf_op_place(op, item, &off);

	if (place != SF_NONE && sf_place_members(op->r->ckpt, place, members))
		sf_fail_ctx(&op->err, r, "item at %llu", (unsigned long long)off);
	else
		sf_fail_ctx(&op->err, r, "'%s': item at %llu",
		            op->sources.at[item->source].src->name, (unsigned long long)off);
	return sf_op_fail_item(op, item, r);
}

/* A request that has not come back, of which there may be many. Under the lock. */
static const struct sf_op_req *find_out_locked(const struct sf_op *op)
{
	for (unsigned i = 0; i < op->nreqs; i++)
		if (op->reqs[i].src && op->reqs[i].out)
			return &op->reqs[i];
	return NULL;
}

uint64_t sf_op_turn_ms(const struct sf_io *io)
{
	return io->turn_ms ? io->turn_ms
	                   : SF_MAX((uint64_t)io->timeout_ms * TURN_TIMES, TURN_LEAST_MS);
}

int sf_op_fail_late(struct sf_op *op, struct sf_read *rd)
{
	unsigned long long off = op->off, len = op->len, turn_ms = sf_op_turn_ms(op->io);
	unsigned ms = op->io->timeout_ms;
	const struct sf_op_req *q;
	int r = -ETIMEDOUT;

	pthread_mutex_lock(&op->m);
	if (op->waits_for_made) {
		sf_fail(&rd->err, r,
		        "%s: not made within %llu ms, for a read of %llu bytes at %llu: no room in "
		        "--memory, or what it is made of comes slowly",
		        op->waits_for_made, turn_ms, len, off);
	} else if (!atomic_load(&op->clock_ns)) {
		sf_fail(&rd->err, r,
		        "no room in --memory for a read of %llu bytes at %llu within %llu ms", len,
		        off, turn_ms);
	} else if ((q = find_out_locked(op))) {
		rd->file = q->file;
		sf_fail(&rd->err, r,
		        "'%s': no answer to %llu bytes at %llu, for a read of %llu bytes at %llu, "
		        "within %u ms",
		        q->src->name, (unsigned long long)q->io.len, (unsigned long long)q->io.off,
		        len, off, ms);
	} else {
		sf_fail(&rd->err, r, "no answer to a read of %llu bytes at %llu within %u ms", len,
		        off, ms);
	}
	pthread_mutex_unlock(&op->m);
	return r;
}
