#include "config.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "read/read_op.h"

/*
 * What a read has for itself: where its bytes go, where they are cast, item headers, spans. A read
 * that may wait takes its buffers from the budget before it takes anything else, waiting if need
 * be; one that may not takes them when it needs them, or is told to wait. What is known only later
 * (headers, spans) is added without a wait. A free op keeps its buffers, charged, for the next
 * read: that one never looks at the budget.
 */

#define ROUND ((uint64_t)0xffff) /* a buffer is a multiple of this and one */

/* Are @bytes more charged? Only a read that must not wait is refused, and then submitted. */
static bool charge(struct sf_op *op, uint64_t bytes)
{
	struct sf_budget *b = op->r->io->budget;
	uint64_t want = op->holds + bytes;

	if (want > op->charged) {
		bytes = want - op->charged;
		if (op->may_wait)
			sf_budget_add(b, op->kind, bytes);
		else if (!sf_budget_take(b, op->kind, bytes))
			return !(op->no_room = true);
		op->charged = want;
	}
	return true;
}

/* Of what was charged, what is not held is given back. */
void sf_op_settle(struct sf_op *op)
{
	if (op->charged > op->holds)
		sf_budget_give(op->r->io->budget, op->kind, op->charged - op->holds);
	op->charged = op->holds;
}

void sf_op_holds(struct sf_op *op, int64_t more)
{
	if (more > 0 && op->holds + (uint64_t)more > op->charged) {
		uint64_t bytes = op->holds + (uint64_t)more - op->charged;
		sf_budget_add(op->r->io->budget, op->kind, bytes);
		op->charged += bytes;
	}
	op->holds += (uint64_t)more;
}

void sf_op_count_scratch(struct sf_op *op)
{
	sf_op_holds(op, (int64_t)op->co.scratch_bytes - (int64_t)op->scratch);
	op->scratch = op->co.scratch_bytes;
}

/* Charged as something else from now on. */
void sf_op_set_kind(struct sf_op *op, enum sf_budget_kind kind)
{
	if (op->kind == kind)
		return;
	if (op->charged) {
		sf_budget_add(op->r->io->budget, kind, op->charged);
		sf_budget_give(op->r->io->budget, op->kind, op->charged);
	}
	op->kind = kind;
}

static void free_buffer(struct sf_op *op, uint8_t **buf, size_t *cap)
{
	free(*buf);
	op->holds -= *cap;
	*buf = NULL;
	*cap = 0;
}

void sf_op_free_buffers(struct sf_op *op)
{
	free_buffer(op, &op->buf, &op->buf_cap);
	free_buffer(op, &op->cast_buf, &op->cast_cap);
}

static uint64_t rounded(uint64_t len)
{
	return len > UINT64_MAX - ROUND ? len : (len + ROUND) & ~ROUND;
}

static uint8_t *buffer(struct sf_op *op, uint64_t len, uint8_t **buf, size_t *cap)
{
	uint64_t want = rounded(len);
	void *p;

	if (*cap >= len)
		return *buf;
	free_buffer(op, buf, cap);
	if (want < len || want > SIZE_MAX || !charge(op, want) ||
	    posix_memalign(&p, 4096, want) != 0)
		return NULL;
	op->holds += want;
	*cap = want;
	return *buf = p;
}

uint8_t *sf_op_dst(struct sf_op *op)
{
	if (!op->dst)
		op->dst = buffer(op, op->len, &op->buf, &op->buf_cap);
	return op->dst;
}

uint8_t *sf_op_cast_buf(struct sf_op *op)
{
	return buffer(op, op->parts.cast_bytes, &op->cast_buf, &op->cast_cap);
}

static void go_on(struct sf_task *task)
{
	sf_op_resume((struct sf_op *)((char *)task - offsetof(struct sf_op, go_on)));
}

void sf_op_go_on_later(struct sf_op *op)
{
	op->go_on.run = go_on;
	sf_thread_pool_submit(op->r->io->pool, &op->go_on);
}

static void granted(struct sf_budget_wait *w)
{
	struct sf_op *op = (struct sf_op *)((char *)w - offsetof(struct sf_op, buffers));

	op->charged += w->bytes;
	sf_op_go_on_later(op);
}

/* The buffers of a read that may wait, as many as it can need. */
int sf_op_take_buffers(struct sf_op *op)
{
	uint64_t want = op->holds, cast = op->parts.cast_bytes;

	op->state = SF_OP_MADE;
	if (!op->may_wait || !op->parts.list.n)
		return 0;
	if (!op->dst && op->buf_cap < op->len)
		want += rounded(op->len) - op->buf_cap;
	if (op->cast_cap < cast)
		want += rounded(cast) - op->cast_cap;
	if (want <= op->charged)
		return 0;
	op->buffers = (struct sf_budget_wait){ .kind = op->kind,
		                               .bytes = want - op->charged,
		                               .holds = op->charged,
		                               .granted = granted };
	if (sf_budget_take(op->r->io->budget, op->kind, op->buffers.bytes)) {
		op->charged = want;
		return 0;
	}
	pthread_mutex_lock(&op->m);
	op->waits_for_buffers = true;
	pthread_mutex_unlock(&op->m);
	atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
	sf_budget_queue(op->r->io->budget, &op->buffers);
	sf_op_cancel_late(op);
	sf_op_unref(op);
	return SF_OP_PARKED;
}

/* Buffers of free ops go to who waits. */
uint64_t sf_reader_reclaim(struct sf_budget_reclaim *rec, uint64_t bytes)
{
	struct sf_reader *r =
		(struct sf_reader *)((char *)rec - offsetof(struct sf_reader, reclaim));
	uint64_t sum = 0;
	struct sf_op *op;

	(void)bytes; /* all of them: they are soon made again */
	pthread_mutex_lock(&r->locked.m);
	op = r->locked.free;
	r->locked.free = NULL;
	r->locked.nfree = 0;
	r->locked.free_bytes = 0;
	pthread_mutex_unlock(&r->locked.m);
	for (struct sf_op *next; op; op = next) {
		next = op->next;
		sum += op->charged;
		sf_op_free(op);
	}
	return sum;
}
