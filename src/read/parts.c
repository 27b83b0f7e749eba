#include "config.h"

#include "base/mem.h"
#include "ckpt/ckpt_pick.h"
#include "read/op.h"

/* What a view says a range of its file is made of. */

int sf_parts_add(struct sf_parts *p, struct sf_part part)
{
	if (!part.len)
		return 0;
	if (part.len > p->op->len - p->at)
		return -ERANGE;
	part.dst = p->at;
	p->at += part.len;
	return sf_part_list_push(&p->list, part) < 0 ? -ENOMEM : 0;
}

/* The bytes are kept until the read has its buffer. */
static int put_later(struct sf_parts *p, const void *at, uint64_t len)
{
	struct sf_op *op = p->op;
	struct sf_part part = {
		.kind = SF_PART_BYTES, .len = len, .off = op->literal.len, .n = len
	};
	size_t cap = op->literal.cap;

	if (len > op->len - p->at)
		return -ERANGE;
	sf_buf_add(&op->literal, at, len);
	sf_op_holds(op, (int64_t)(op->literal.cap - cap));
	return sf_buf_check(&op->literal) < 0 ? -ENOMEM : sf_parts_add(p, part);
}

static int put_now(struct sf_parts *p, const void *at, uint64_t len)
{
	uint8_t *dst;

	if (len > p->op->len - p->at)
		return -ERANGE;
	dst = sf_op_dst(p->op);
	if (!dst)
		return -ENOMEM;
	memcpy(dst + p->at, at, len);
	p->at += len;
	return 0;
}

int sf_parts_bytes(struct sf_parts *p, const void *at, uint64_t len)
{
	if (!len)
		return 0;
	return p->op->may_wait ? put_later(p, at, len) : put_now(p, at, len);
}

uint32_t sf_part_source(const struct sf_ckpt *ckpt, uint32_t tensor, enum sf_dtype *cast,
                        uint8_t *ret_via)
{
	const struct sf_tensor *t = &ckpt->tensor[tensor];

	if (*cast == SF_DTYPE_NONE)
		*cast = t->dtype;
	*ret_via = SF_DTYPE_NONE;
	if (!t->more || !t->more->is_cast)
		return tensor;
	if (*cast != (enum sf_dtype)t->dtype)
		*ret_via = t->dtype;
	return t->more->source;
}

/*
 * Of integers whole elements are read, and the range is cut out of them: one whose item is lazily
 * negated needs the bytes below for its carry, and which items are is known only from their
 * headers.
 */
static bool cuts_an_integer(enum sf_dtype dtype, uint64_t off, uint64_t len)
{
	uint64_t elem = sf_dtype_info(dtype)->bytes;

	return sf_dtype_is_int(dtype) && len && (off % elem || (off + len) % elem);
}

int sf_parts_tensor(struct sf_parts *p, uint32_t tensor, uint64_t off, uint64_t len,
                    enum sf_dtype cast)
{
	const struct sf_ckpt *ckpt = p->op->r->ckpt;
	struct sf_part part = {
		.kind = SF_PART_TENSOR, .index = tensor, .len = len, .off = off, .n = len
	};
	const struct sf_tensor *t;

	if (tensor >= ckpt->ntensors)
		return -ERANGE;
	t = &ckpt->tensor[tensor];
	if (t->more && t->more->pick) {
		const struct sf_pick_runs of = sf_pick_runs(ckpt, t->more->pick);
		const struct sf_read_runs runs = { of.first, of.run, of.step, of.count };
		return sf_parts_runs(p, t->more->pick->source, &runs, off, len, cast);
	}
	part.index = sf_part_source(ckpt, tensor, &cast, &part.via);
	t = &ckpt->tensor[part.index];
	if (cast != t->dtype || part.via ||
	    (off <= t->bytes && len <= t->bytes - off && cuts_an_integer(t->dtype, off, len))) {
		uint64_t to = sf_dtype_info(cast)->bytes, from = sf_dtype_info(t->dtype)->bytes,
			 first, end;
		if ((cast != t->dtype &&
		     (!sf_dtype_info(cast)->is_float || !sf_dtype_info(t->dtype)->is_float)) ||
		    off > t->bytes / from * to || len > t->bytes / from * to - off)
			return -ERANGE;
		first = off / to;
		end = (off + len + to - 1) / to;
		part.cast = (uint8_t)cast;
		part.off = first * from;
		part.n = (end - first) * from;
		part.cast_at = p->cast_bytes;
		p->cast_bytes += (part.n + 15) & ~UINT64_C(15);
		part.cast_skip = (uint8_t)(off % to);
	} else if (off > t->bytes || len > t->bytes - off) {
		return -ERANGE;
	}
	return sf_parts_add(p, part);
}

int sf_parts_runs(struct sf_parts *p, uint32_t tensor, const struct sf_read_runs *runs,
                  uint64_t off, uint64_t len, enum sf_dtype cast)
{
	const struct sf_ckpt *ckpt = p->op->r->ckpt;
	uint64_t elem, run, bytes;
	int r = 0;

	if (tensor >= ckpt->ntensors)
		return -ERANGE;
	elem = sf_dtype_info(cast ? cast : (enum sf_dtype)ckpt->tensor[tensor].dtype)->bytes;
	if (!sf_mul(runs->run, elem, &run) || !sf_mul(run, runs->count, &bytes) || off > bytes ||
	    len > bytes - off)
		return -ERANGE;
	while (len && r >= 0) {
		const uint64_t in = off % run, n = SF_MIN(run - in, len);
		r = sf_parts_tensor(p, tensor, (runs->first + off / run * runs->step) * elem + in,
		                    n, cast);
		off += n;
		len -= n;
	}
	return r;
}

int sf_parts_listed(struct sf_parts *p, uint32_t listed, uint64_t off, uint64_t len)
{
	if (listed >= p->op->r->ckpt->nlisting)
		return -ERANGE;
	return sf_parts_add(p, (struct sf_part){ .kind = SF_PART_LISTED,
	                                         .index = listed,
	                                         .len = len,
	                                         .off = off,
	                                         .n = len });
}

int sf_parts_source(struct sf_parts *p, struct sf_source *src, uint64_t off, uint64_t len)
{
	int r = sf_parts_add(
		p, (struct sf_part){
			   .kind = SF_PART_SOURCE, .len = len, .off = off, .n = len, .src = src });

	if (r >= 0 && len) {
		sf_source_ref(src);
		p->nsources++;
	}
	return r;
}

int sf_parts_object(struct sf_parts *p, uint32_t object, uint64_t off, uint64_t len)
{
	if (object >= p->op->r->ckpt->nobjects)
		return -ERANGE;
	return sf_parts_add(p, (struct sf_part){ .kind = SF_PART_OBJECT,
	                                         .index = object,
	                                         .len = len,
	                                         .off = off,
	                                         .n = len });
}

int sf_parts_object_len(struct sf_parts *p, uint32_t object)
{
	const struct sf_ckpt *ckpt = p->op->r->ckpt;
	const struct sf_object *o;

	if (object >= ckpt->nobjects)
		return -ERANGE;
	o = &ckpt->object[object];
	if (o->place != SF_NONE && ckpt->place[o->place].codec == SF_CODEC_NONE &&
	    !ckpt->place[o->place].unreadable)
		return sf_parts_bytes(p, &o->len, sizeof(o->len));
	return sf_parts_add(
		p, (struct sf_part){ .kind = SF_PART_OBJECT_LEN, .index = object, .len = 8 });
}

int sf_op_begin(struct sf_op *op, struct sf_read *rd)
{
	int r;

	op->rd = rd;
	op->off = rd->off;
	op->len = rd->len;
	op->to_caller = rd->buf != NULL || rd->ahead;
	op->parts.op = op;
	op->dst = NULL;
	op->caller = op->may_wait ? NULL : rd->buf;
	op->no_room = false;
	op->staged_from = op->may_wait ? 0 : SIZE_MAX;
	sf_op_set_kind(op, rd->ahead   ? SF_BUDGET_AHEAD
	                   : rd->inner ? SF_BUDGET_INNER
	                               : SF_BUDGET_BUFFER);
	op->err.msg[0] = '\0';
	op->bad_file = SF_NONE;
	r = rd->emit(rd->arg, rd->off, rd->len, &op->parts, &op->err);
	if (r < 0)
		return op->err.msg[0]
		               ? r
		               : sf_fail(&op->err, r,
		                         "a view's parts of %llu bytes at %llu were refused",
		                         (unsigned long long)rd->len, (unsigned long long)rd->off);
	if (op->parts.at != rd->len)
		return sf_fail(&op->err, -EIO, "a view gave %llu of %llu bytes at %llu",
		               (unsigned long long)op->parts.at, (unsigned long long)rd->len,
		               (unsigned long long)rd->off);
	return 0;
}
