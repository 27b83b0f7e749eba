#include "config.h"

#include "base/mem.h"
#include "read/op.h"

/* What a failure is about: words before its message, and the stored file. */

const struct sf_tensor *sf_op_tensor(const struct sf_op *op, const struct sf_op_item *item)
{
	return &op->r->ckpt->tensor[op->parts.list.at[item->part].index];
}

int sf_op_fail_item(struct sf_op *op, const struct sf_op_item *item, int r)
{
	const struct sf_part *part = &op->parts.list.at[item->part];
	const struct sf_ckpt *ckpt = op->r->ckpt;
	const struct sf_key *k;

	if (op->items.n && item >= op->items.at && item < op->items.at + op->items.n)
		op->bad_file = op->sources.at[item->source].key;
	if (r == -EAGAIN || part->kind == SF_PART_LISTED || part->kind == SF_PART_SOURCE)
		return r;
	k = &ckpt->key[part->kind == SF_PART_TENSOR ? ckpt->tensor[part->index].key
	                                            : ckpt->object[part->index].key];
	if (part->kind == SF_PART_TENSOR)
		return sf_fail_ctx(&op->err, r, "tensor '%.*s', chunk %u",
		                   (int)SF_MIN(k->len, 200u), k->name, item->chunk);
	return sf_fail_ctx(&op->err, r, "object '%.*s'", (int)SF_MIN(k->len, 200u), k->name);
}

int sf_op_fail_at(struct sf_op *op, struct sf_op_item *item, int r)
{
	sf_fail_ctx(&op->err, r, "'%s': item at %llu", op->sources.at[item->source].src->name,
	            (unsigned long long)item->off);
	return sf_op_fail_item(op, item, r);
}
