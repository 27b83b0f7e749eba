#include "config.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "read/op.h"

/* Completions: who goes on with a read that is parked, and how that is called off. */

void sf_op_async_begin(struct sf_op *op)
{
	atomic_store_explicit(&op->pending, 1, memory_order_relaxed);
}

int sf_op_async_end(struct sf_op *op)
{
	return atomic_fetch_sub_explicit(&op->pending, 1, memory_order_acq_rel) == 1
	               ? 0
	               : SF_STEP_WAITS;
}

void sf_op_completed(struct sf_op *op, int r, const struct sf_error *err, uint32_t file)
{
	if (r < 0) {
		pthread_mutex_lock(&op->m);
		if (!op->failed) {
			op->failed = r;
			op->err = *err;
			op->bad_file = file;
		}
		pthread_mutex_unlock(&op->m);
	}
	if (atomic_fetch_sub_explicit(&op->pending, 1, memory_order_acq_rel) == 1)
		op->r->resume(op);
}

/* One that waits its turn for memory goes out of the queue; else that came just now. */
static void cancel_waits(struct sf_op *op)
{
	struct sf_cache_entry *unwanted = NULL;
	struct sf_error err = SF_ERROR_INIT;
	bool item, buffers;

	pthread_mutex_lock(&op->m);
	item = op->waits_for_item &&
	       sf_item_cache_cancel(op->r->items, op->waits_for_item, &unwanted);
	buffers = op->waits_for_buffers && sf_budget_cancel(op->r->io->budget, &op->buffers);
	if (item)
		op->waits_for_item = NULL;
	if (buffers)
		op->waits_for_buffers = false;
	pthread_mutex_unlock(&op->m);
	sf_item_cache_give_up(op->r->items, unwanted);
	if (item)
		sf_op_completed(op, sf_fail(&err, -ECANCELED, "canceled"), &err, SF_NONE);
	if (buffers)
		op->r->resume(op);
}

void sf_op_cancel_io(struct sf_op *op)
{
	pthread_mutex_lock(&op->m);
	for (unsigned i = 0; i < op->nreqs; i++)
		if (op->reqs[i].src && op->reqs[i].src->ops->cancel)
			op->reqs[i].src->ops->cancel(op->reqs[i].src, &op->reqs[i].io);
	pthread_mutex_unlock(&op->m);
	cancel_waits(op);
}

/* It may have ended meanwhile, too: then it waits for nothing. */
void sf_op_cancel_late(struct sf_op *op)
{
	if (atomic_load(&op->claimed))
		cancel_waits(op);
}

void sf_op_clock(struct sf_op *op, bool stands)
{
	int64_t stood = 0;

	if (stands)
		atomic_store(&op->clock_ns, 0);
	else
		atomic_compare_exchange_strong(&op->clock_ns, &stood, sf_now_ns());
}

static void go_on(struct sf_task *task)
{
	struct sf_op *op = sf_container_of(task, struct sf_op, go_on);

	op->r->resume(op);
}

void sf_op_go_on_later(struct sf_op *op)
{
	op->go_on.run = go_on;
	sf_thread_pool_submit(op->r->io->pool, &op->go_on);
}
