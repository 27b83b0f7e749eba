#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "read/op.h"

/*
 * What a read has for itself: where its bytes go, where they are cast, item headers, spans. A read
 * that may wait takes its buffers from the budget before it takes anything else, waiting if need
 * be; one that may not takes them when it needs them, or is told to wait. What is known only later
 * (headers, spans) is added without a wait. A free op keeps its buffers, charged, for the next
 * read: that one never looks at the budget.
 */

#define ROUND ((uint64_t)0xffff) /* a buffer is a multiple of this and one */

static bool has_whole_item(const struct sf_op *op)
{
	for (uint32_t i = 0; i < op->items.n; i++)
		if (op->items.at[i].mem && op->items.at[i].codec)
			return true;
	return op->made_item != NULL;
}

/* One that found its item need not wait behind those who wait for theirs. */
static bool take(struct sf_op *op, uint64_t bytes)
{
	struct sf_budget *b = op->io->budget;

	if (sf_budget_take(b, op->kind, bytes))
		return true;
	if (op->kind != SF_BUDGET_BUFFER || !has_whole_item(op))
		return false;
	sf_op_set_kind(op, SF_BUDGET_READY);
	return sf_budget_take(b, op->kind, bytes);
}

/* Are @bytes more charged? Only a read that must not wait is refused, and then submitted. */
static bool charge(struct sf_op *op, uint64_t bytes)
{
	struct sf_budget *b = op->io->budget;
	uint64_t want = op->holds + bytes;

	if (want > op->charged) {
		bytes = want - op->charged;
		if (op->may_wait)
			sf_budget_add(b, op->kind, bytes);
		else if (!take(op, bytes))
			return !(op->no_room = true);
		op->charged = want;
	}
	return true;
}

/* Of what was charged, what is not held is given back. */
void sf_op_settle(struct sf_op *op)
{
	if (op->charged > op->holds)
		sf_budget_give(op->io->budget, op->kind, op->charged - op->holds);
	op->charged = op->holds;
}

void sf_op_holds(struct sf_op *op, int64_t more)
{
	if (more > 0 && op->holds + (uint64_t)more > op->charged) {
		uint64_t bytes = op->holds + (uint64_t)more - op->charged;
		sf_budget_add(op->io->budget, op->kind, bytes);
		op->charged += bytes;
	}
	op->holds += (uint64_t)more;
}

void sf_op_count_scratch(struct sf_op *op)
{
	const uint64_t bytes = sf_coalesce_bytes(&op->co) + op->pieces.cap * sizeof(*op->pieces.at);

	sf_op_holds(op, (int64_t)bytes - (int64_t)op->scratch);
	op->scratch = bytes;
}

/* Charged as something else from now on. */
void sf_op_set_kind(struct sf_op *op, enum sf_budget_kind kind)
{
	if (op->kind == kind)
		return;
	if (op->charged) {
		sf_budget_add(op->io->budget, kind, op->charged);
		sf_budget_give(op->io->budget, op->kind, op->charged);
	}
	op->kind = kind;
}

static void free_buffer(struct sf_op *op, struct sf_pages *p)
{
	op->holds -= p->len;
	if (p->mapped)
		sf_op_settle(op); /* what is kept of it is charged to the pool */
	sf_page_pool_give(&op->io->pages, p);
}

void sf_op_free_buffers(struct sf_op *op)
{
	free_buffer(op, &op->buf);
	free_buffer(op, &op->cast);
}

uint64_t sf_op_rounded(uint64_t len)
{
	return len > UINT64_MAX - ROUND ? len : (len + ROUND) & ~ROUND;
}

/* What reads are cut to is kept with its op; what is larger is pages that others may have next. */
static int allocate(struct sf_op *op, uint64_t len, struct sf_pages *ret)
{
	void *p;

	if (len > SF_OP_BUF_KEPT)
		return sf_page_pool_take(&op->io->pages, len, ret);
	if (posix_memalign(&p, 4096, len) != 0)
		return -ENOMEM;
	*ret = (struct sf_pages){ .at = p, .len = len };
	return 0;
}

static uint8_t *buffer(struct sf_op *op, uint64_t len, struct sf_pages *p)
{
	uint64_t want = sf_op_rounded(len);

	if (p->len >= len && p->at)
		return p->at;
	free_buffer(op, p);
	if (want < len || want > SIZE_MAX || !charge(op, want) || allocate(op, want, p) < 0)
		return NULL;
	sf_op_holds(op, (int64_t)p->len);
	return p->at;
}

uint8_t *sf_op_dst(struct sf_op *op)
{
	if (!op->dst)
		op->dst = op->caller ? op->caller : buffer(op, op->len, &op->buf);
	return op->dst;
}

int sf_op_leave_caller(struct sf_op *op)
{
	const uint8_t *from = op->caller && op->dst == op->caller ? op->caller : NULL;

	op->caller = NULL; /* a late completion must not find it gone */
	if (!from)
		return 0;
	op->dst = NULL;
	if (!sf_op_dst(op))
		return -ENOMEM;
	memcpy(op->dst, from, op->len);
	sf_coalesce_move(&op->co, from, op->len, op->dst);
	return 0;
}

uint8_t *sf_op_cast_buf(struct sf_op *op)
{
	return buffer(op, op->parts.cast_bytes, &op->cast);
}
