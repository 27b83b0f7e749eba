#include "config.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "read/op.h"

/*
 * Requests of a read: a window of places. Each place asks for one range after the other: what is
 * there is taken at once, what is not is submitted, and its end goes on with the next range. So as
 * many requests are under way as there are places, whatever their order of coming back, and a read
 * of many small ranges needs memory for a window only: for scratch memory, too, which a request has
 * while it is under way.
 */

/* -ENOMEM */
static int lend_scratch(struct sf_op *op, const struct sf_range *range, struct sf_pages *scratch)
{
	uint64_t need = sf_range_needs(&op->co, range);
	int r;

	if (!need)
		return 0;
	r = sf_page_pool_take(&op->io->pages, need, scratch);
	if (r < 0)
		return r;
	sf_budget_add(op->io->budget, op->kind, scratch->len);
	sf_range_lend(&op->co, range, scratch->at);
	return 0;
}

static void give_scratch(struct sf_op *op, struct sf_pages *scratch)
{
	uint64_t len = scratch->len;

	if (!len)
		return;
	sf_page_pool_give(&op->io->pages, scratch);
	sf_budget_give(op->io->budget, op->kind, len);
}

/* The request has ended with @r: its bytes go to their places. */
static void end_range(struct sf_op *op, const struct sf_range *range, struct sf_pages *scratch,
                      int r)
{
	if (r >= 0 && range->nscatter)
		sf_range_scatter(&op->co, range);
	else if (r < 0 && scratch->len)
		sf_range_unlend(&op->co, range, scratch->at);
	give_scratch(op, scratch);
}

/* As many as the sources like to be asked at once, and as have their scratch memory in an eighth of the
 * budget. */
static unsigned window(const struct sf_op *op)
{
	uint64_t need = 0, most;
	unsigned n = 1;

	for (uint32_t i = 0; i < op->sources.n; i++)
		n = SF_MAX(n, sf_source_hints(op->sources.at[i].src)->inflight);
	for (size_t i = 0; i < op->co.ranges.n; i++)
		need = SF_MAX(need, sf_range_needs(&op->co, &op->co.ranges.at[i]));
	most = need ? SF_MAX(sf_budget_limit(op->io->budget) / 8 / need, 1) : UINT64_MAX;
	return (unsigned)SF_MIN(SF_MIN((uint64_t)n, most), op->co.ranges.n);
}

static int make_places(struct sf_op *op, unsigned n)
{
	struct sf_op_req *reqs;

	if (n <= op->reqs_cap)
		return 0;
	reqs = calloc(n, sizeof(*reqs));
	if (!reqs)
		return sf_fail(&op->err, -ENOMEM, "no memory for %u requests", n);
	pthread_mutex_lock(&op->m); /* whoever cancels it looks there */
	free(op->reqs);
	op->reqs = reqs;
	op->reqs_cap = n;
	pthread_mutex_unlock(&op->m);
	return 0;
}

static void request_done(struct sf_io_req *req, int r);

static int take(const struct sf_op *op, const struct sf_range *range, struct sf_error *err)
{
	return sf_source_try(op->sources.at[range->source].src, range->off,
	                     &op->co.iovs.at[range->iov0], (int)range->niov, range->len,
	                     range->kind, err);
}

/* 1: it has ended, as q->io.r says. Under the lock, so that whoever cancels the read finds all that
 * was submitted, and nothing is submitted after him. */
static int submit(struct sf_op_req *q, const struct sf_range *range)
{
	struct sf_op *op = q->op;
	int r;

	q->io.iov = &op->co.iovs.at[range->iov0];
	q->io.niov = (int)range->niov;
	q->io.kind = range->kind;
	q->io.yields = op->kind == SF_BUDGET_AHEAD;
	q->io.done = request_done;
	q->io.err.msg[0] = '\0';
	q->io.here = false;
	pthread_mutex_lock(&op->m);
	q->io.off = range->off; /* here: who is late looks at it */
	q->io.len = range->len;
	q->src = op->sources.at[range->source].src;
	q->file = op->sources.at[range->source].key;
	q->out = true;
	if (atomic_load(&op->claimed)) {
		q->io.r = sf_fail(&q->io.err, -ECANCELED, "canceled");
		r = 1;
	} else {
		atomic_fetch_add_explicit(&op->pending, 1, memory_order_relaxed);
		r = sf_source_submit(q->src, &q->io);
		if (r) /* not the last one: the place has its own */
			atomic_fetch_sub_explicit(&op->pending, 1, memory_order_relaxed);
	}
	if (r)
		q->out = false;
	pthread_mutex_unlock(&op->m);
	return r;
}

/* A failure: the other places ask for nothing more. */
static void place_failed(struct sf_op_req *q, int r)
{
	struct sf_op *op = q->op;
	const struct sf_op_item *item = &op->items.at[q->item];
	char words[SF_OP_WORDS];

	atomic_store_explicit(&op->io_at, op->co.ranges.n, memory_order_relaxed);
	/* here, not when the step goes on: places of one op do not meet in op->err */
	if (sf_op_words(op, item, words)[0])
		sf_fail_ctx(&q->io.err, r, "%s", words);
	sf_op_completed(op, r, &q->io.err, op->sources.at[item->source].key);
}

/* A request has ended. */
static void note_far(struct sf_op_req *q, int r)
{
	if (r >= 0 && !q->io.here)
		atomic_store_explicit(&q->op->asked_far, true, memory_order_relaxed);
}

/* The place goes on until it waits for a request, which takes it over, or there is nothing left. It
 * is one of op->pending. @tried: its first range was, in vain. */
static void go_on(struct sf_op_req *q, bool tried)
{
	struct sf_op *op = q->op;
	const struct sf_ranges *v = &op->co.ranges;
	size_t i;
	int r;

	while ((i = atomic_fetch_add_explicit(&op->io_at, 1, memory_order_relaxed)) < v->n) {
		q->item = v->at[i].item;
		q->range = i;
		r = lend_scratch(op, &v->at[i], &q->scratch);
		if (r < 0) {
			place_failed(q,
			             sf_fail(&q->io.err, r, "no memory for a request of %llu bytes",
			                     (unsigned long long)v->at[i].len));
			return;
		}
		r = tried ? -EAGAIN : take(op, &v->at[i], &q->io.err);
		tried = false;
		if (r == -EAGAIN) {
			if (!submit(q, &v->at[i]))
				break;
			r = q->io.r;
			note_far(q, r);
		}
		end_range(op, &v->at[i], &q->scratch, r);
		if (r < 0) {
			place_failed(q, r);
			return;
		}
	}
	sf_op_completed(op, 0, NULL, SF_NONE);
}

static void request_done(struct sf_io_req *req, int r)
{
	struct sf_op_req *q = sf_container_of(req, struct sf_op_req, io);

	pthread_mutex_lock(&q->op->m);
	q->out = false;
	pthread_mutex_unlock(&q->op->m);
	note_far(q, r);
	end_range(q->op, &q->op->co.ranges.at[q->range], &q->scratch, r);
	if (r < 0)
		place_failed(q, r);
	else
		go_on(q, false);
}

/* What is there without waiting; 1: from op->io_at on not. */
static int take_there(struct sf_op *op)
{
	const struct sf_ranges *v = &op->co.ranges;
	size_t i = atomic_load_explicit(&op->io_at, memory_order_relaxed);
	int r = 0;

	for (; i < v->n && r == 0; i += r == 0) {
		struct sf_pages scratch = { 0 };

		r = lend_scratch(op, &v->at[i], &scratch);
		if (r < 0)
			return sf_fail(&op->err, r, "no memory for a request of %llu bytes",
			               (unsigned long long)v->at[i].len);
		r = take(op, &v->at[i], &op->err);
		end_range(op, &v->at[i], &scratch, r);
		if (r < 0 && r != -EAGAIN)
			return sf_op_fail_item(op, &op->items.at[v->at[i].item], r);
	}
	atomic_store_explicit(&op->io_at, i, memory_order_relaxed);
	return r == -EAGAIN;
}

int sf_op_io(struct sf_op *op)
{
	int r = take_there(op);
	unsigned n;

	if (r <= 0)
		return r;
	if (!op->may_wait)
		return -EAGAIN;
	n = window(op);
	r = make_places(op, n);
	if (r < 0)
		return r;
	sf_op_async_begin(op);
	for (unsigned i = 0;
	     i < n &&
	     (i == 0 || atomic_load_explicit(&op->io_at, memory_order_relaxed) < op->co.ranges.n);
	     i++) {
		pthread_mutex_lock(&op->m);
		op->reqs[i].op = op;
		op->reqs[i].src = NULL;
		op->nreqs = i + 1;
		pthread_mutex_unlock(&op->m);
		atomic_fetch_add_explicit(&op->pending, 1, memory_order_relaxed);
		go_on(&op->reqs[i], i == 0);
	}
	r = sf_op_async_end(op);
	if (r == 0) {
		pthread_mutex_lock(&op->m);
		op->nreqs = 0;
		pthread_mutex_unlock(&op->m);
	}
	return r;
}
