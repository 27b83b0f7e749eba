#include "config.h"

#include <stddef.h>

#include "base/mem.h"
#include "read/op.h"

static void request_done(struct sf_io_req *req, int r)
{
	struct sf_op_req *q = (struct sf_op_req *)((char *)req - offsetof(struct sf_op_req, io));
	struct sf_op *op = q->op;
	const struct sf_op_item *item = &op->items.at[q->item];

	if (r < 0) {
		/* words about the item are put before the message here: completions of one op do
		 * not meet in op->err */
		char words[SF_OP_WORDS];
		if (op->parts.list.at[item->part].kind == SF_PART_TENSOR)
			sf_fail_ctx(&req->err, r, "%s", sf_op_words(op, item, words));
	}
	sf_op_completed(op, r, &req->err, op->sources.at[item->source].key);
}

static void fill(struct sf_op *op, struct sf_op_req *q, const struct sf_range *range)
{
	q->io.off = range->off;
	q->io.len = range->len;
	q->io.iov = &op->co.iovs.at[range->iov0];
	q->io.niov = (int)range->niov;
	q->io.kind = range->kind;
	q->io.done = request_done;
	q->io.err.msg[0] = '\0';
	q->op = op;
	q->src = op->sources.at[range->source].src;
	q->item = range->item;
}

/*
 * Each range is tried first; what would wait is submitted, a window of requests at a time, so that
 * a read of many small ranges needs memory for a window only.
 */
int sf_op_io(struct sf_op *op)
{
	struct sf_ranges *v = &op->co.ranges;
	uint32_t n = 0;
	int r;

	for (; op->io_at < v->n && n < SF_OP_WINDOW; op->io_at++) {
		const struct sf_range *range = &v->at[op->io_at];
		r = sf_source_try(op->sources.at[range->source].src, range->off,
		                  &op->co.iovs.at[range->iov0], (int)range->niov, range->len,
		                  range->kind, &op->err);
		if (r == 0)
			continue;
		if (r != -EAGAIN)
			return sf_op_fail_item(op, &op->items.at[range->item], r);
		if (!op->may_wait)
			return -EAGAIN;
		if (!op->reqs) {
			struct sf_op_req *reqs = calloc(SF_OP_WINDOW, sizeof(*reqs));
			if (!reqs)
				return sf_fail(&op->err, -ENOMEM, "no memory for requests");
			pthread_mutex_lock(&op->m);
			op->reqs = reqs;
			pthread_mutex_unlock(&op->m);
		}
		fill(op, &op->reqs[n++], range);
	}
	if (!n)
		return 0;
	pthread_mutex_lock(&op->m);
	op->nreqs = n;
	pthread_mutex_unlock(&op->m);
	sf_op_async_begin(op);
	for (uint32_t i = 0; i < n; i++) {
		atomic_fetch_add_explicit(&op->pending, 1, memory_order_relaxed);
		sf_source_submit(op->reqs[i].src, &op->reqs[i].io);
	}
	if (atomic_load(&op->claimed)) /* canceled meanwhile: whoever did that may not have seen
	                                  them all */
		sf_op_cancel_io(op);
	r = sf_op_async_end(op);
	if (r == 0) { /* all came at once: the ranges behind the window */
		pthread_mutex_lock(&op->m);
		op->nreqs = 0;
		pthread_mutex_unlock(&op->m);
		return SF_STEP_AGAIN;
	}
	return r;
}
