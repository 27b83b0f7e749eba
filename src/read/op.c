#include "config.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "read/made.h"
#include "read/op.h"

#define FREE_OPS 32 /* of all readers together; their buffers, an eighth of the budget at most: */
#define KEEP_ALL (UINT64_C(64) << 20)
#define KEEP_ELEMS 65536 /* nor is a longer array */

void sf_op_let_batch_go(struct sf_op *op)
{
	for (uint32_t i = 0; i < op->items.n; i++) {
		const struct sf_op_item *item = &op->items.at[i];
		if (item->passed)
			sf_cached_pass(op->r->items, item->mem, item->passed,
			               item->stream ? item->mem->len : item->layout.payload_len);
		else
			sf_cached_unref(op->r->items, item->mem);
	}
	for (uint32_t i = 0; i < op->sources.n; i++)
		sf_source_unref(op->sources.at[i].src);
	op->items.n = op->sources.n = 0;
	op->last_source = 0;
	sf_op_give_files(op);
	sf_op_holds(op, -(int64_t)op->head.len);
	sf_page_pool_give(&op->io->pages, &op->head);
	sf_op_slow_free(op);
	free(op->opens);
	if (op->waits) { /* whoever cancels it now must not find them */
		pthread_mutex_lock(&op->m);
		op->waits_for_item = NULL;
		pthread_mutex_unlock(&op->m);
	}
	free(op->waits);
	op->head_bytes = 0;
	op->opens = NULL;
	op->waits = NULL;
}

static void reset(struct sf_op *op)
{
	sf_op_let_batch_go(op);
	for (size_t i = 0; i < op->leases.n; i++)
		sf_lease_release(&op->leases.at[i].lease);
	for (size_t i = 0; op->parts.nsources && i < op->parts.list.n; i++)
		sf_source_unref(op->parts.list.at[i].src);
	op->parts.nsources = 0;
	op->nlent = 0;
	op->leases.n = op->iovs.n = op->parts.list.n = op->chunks.n = op->pieces.n = 0;
	sf_coalesce_reset(&op->co);
	if (op->pieces.cap > KEEP_ELEMS)
		sf_pieces_release(&op->pieces);
	sf_op_count_scratch(op);
	sf_op_holds(op, -(int64_t)op->literal.cap);
	sf_buf_release(&op->literal);
	op->boxes.n = op->parts.nboxes = 0;
	if (op->made_item)
		sf_cached_unref(op->r->items, op->made_item);
	op->made_item = NULL;
	if (op->made)
		op->made->ops->unref(op->made);
	op->made = NULL;
	op->parts.at = op->parts.cast_bytes = 0;
	op->part_at = op->chunk_at = op->chunk_first = 0;
	op->part_begun = op->alone = false;
	op->failed = 0;
	op->asked_far = false;
	op->nreqs = 0;
	op->dst = op->caller = NULL;
	op->lease0 = 0;
	op->rd = NULL;
	if (op->buf.len + op->cast.len > SF_OP_BUF_KEPT ||
	    (op->kind != SF_BUDGET_BUFFER && op->kind != SF_BUDGET_AHEAD))
		sf_op_free_buffers(op);
	sf_op_set_kind(op, SF_BUDGET_BUFFER);
	sf_op_settle(op);
	if (op->parts.list.cap > KEEP_ELEMS)
		sf_part_list_release(&op->parts.list);
	if (op->chunks.cap > KEEP_ELEMS)
		sf_u32s_release(&op->chunks);
}

static void granted(struct sf_budget_wait *w)
{
	struct sf_op *op = sf_container_of(w, struct sf_op, buffers);

	op->charged += w->bytes;
	sf_op_clock(op, false);
	sf_op_go_on_later(op);
}

/* What its buffers take in all, as many as it can need. */
static uint64_t buffers_of(const struct sf_op *op)
{
	uint64_t want = op->holds, cast = op->parts.cast_bytes;

	if (!op->parts.list.n)
		return 0;
	if (!op->dst && op->buf.len < op->len)
		want += sf_op_rounded(op->len) - op->buf.len;
	if (op->cast.len < cast)
		want += sf_op_rounded(cast) - op->cast.len;
	return want;
}

bool sf_op_wants_buffers(const struct sf_op *op)
{
	return buffers_of(op) > op->charged;
}

int sf_op_take_buffers(struct sf_op *op)
{
	uint64_t want = buffers_of(op);

	if (!op->may_wait || want <= op->charged)
		return 0;
	op->buffers = (struct sf_budget_wait){ .kind = op->kind,
		                               .bytes = want - op->charged,
		                               .holds = op->charged,
		                               .granted = granted };
	if (op->kind == SF_BUDGET_AHEAD) {
		if (!sf_budget_take_spare(op->io->budget, op->kind, op->buffers.bytes))
			return sf_fail(&op->err, -ENOBUFS, "no room for %llu bytes ahead",
			               (unsigned long long)op->len);
		op->charged = want;
		return 0;
	}
	if (sf_budget_take(op->io->budget, op->kind, op->buffers.bytes)) {
		op->charged = want;
		return 0;
	}
	pthread_mutex_lock(&op->m);
	op->waits_for_buffers = true;
	pthread_mutex_unlock(&op->m);
	sf_op_clock(op, true);
	atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
	sf_budget_queue(op->io->budget, &op->buffers);
	sf_op_cancel_late(op);
	sf_op_unref(op);
	return SF_STEP_WAITS;
}

void sf_op_free(struct sf_op *op)
{
	reset(op);
	sf_op_free_buffers(op);
	sf_part_list_release(&op->parts.list);
	sf_op_leases_release(&op->leases);
	sf_iovs_release(&op->iovs);
	sf_u32s_release(&op->chunks);
	sf_u64s_release(&op->boxes);
	sf_op_sources_release(&op->sources);
	sf_op_items_release(&op->items);
	sf_pieces_release(&op->pieces);
	sf_coalesce_release(&op->co);
	sf_op_count_scratch(op);
	sf_op_settle(op);
	free(op->reqs);
	pthread_mutex_destroy(&op->m);
	free(op);
}

static struct sf_op *op_new(struct sf_io *io)
{
	struct sf_op *op = calloc(1, sizeof(*op));

	if (!op)
		return NULL;
	op->io = io;
	op->kind = SF_BUDGET_BUFFER;
	pthread_mutex_init(&op->m, NULL);
	return op;
}

/* An op from the free list, the one used last: its buffer is still in a cache. */
struct sf_op *sf_op_get(struct sf_reader *r)
{
	struct sf_read_shared *s = r->shared;
	struct sf_op *op;

	pthread_mutex_lock(&s->locked.m);
	op = s->locked.free;
	if (op) {
		s->locked.free = op->next;
		s->locked.nfree--;
		s->locked.free_bytes -= op->holds;
	}
	pthread_mutex_unlock(&s->locked.m);
	if (!op) {
		op = op_new(r->io);
		if (!op)
			return NULL;
	}
	op->r = r;
	op->next = NULL;
	atomic_fetch_add_explicit(&r->live, 1, memory_order_relaxed);
	atomic_store_explicit(&op->claimed, false, memory_order_relaxed);
	op->may_wait = false;
	return op;
}

static void op_put(struct sf_op *op)
{
	struct sf_reader *r = op->r;
	struct sf_read_shared *s = r->shared;
	const uint64_t most = SF_MIN(sf_budget_limit(op->io->budget) / 8, KEEP_ALL);
	bool keep;

	reset(op);
	op->r = NULL;
	pthread_mutex_lock(&s->locked.m);
	keep = s->locked.nfree < FREE_OPS && s->locked.free_bytes + op->holds <= most;
	if (keep) {
		op->next = s->locked.free;
		s->locked.free = op;
		s->locked.nfree++;
		s->locked.free_bytes += op->holds;
	}
	pthread_mutex_unlock(&s->locked.m);
	if (!keep)
		sf_op_free(op);
	else if (sf_budget_wanted(r->io->budget))
		s->reclaim.reclaim(&s->reclaim, 0); /* whoever waits has not seen this one */
	pthread_mutex_lock(&r->locked.m);
	if (atomic_fetch_sub_explicit(&r->live, 1, memory_order_release) == 1)
		pthread_cond_broadcast(&r->locked.all_idle);
	pthread_mutex_unlock(&r->locked.m);
}

void sf_op_unref(struct sf_op *op)
{
	if (atomic_fetch_sub_explicit(&op->refs, 1, memory_order_acq_rel) == 1)
		op_put(op);
}
