#include "config.h"

#include <pthread.h>

#include "base/mem.h"
#include "read/made.h"
#include "read/op.h"

static struct sf_cache_want want_of(struct sf_reader *r, struct sf_made *m)
{
	return (struct sf_cache_want){ .owner = &r->owner,
		                       .file = SF_NONE,
		                       .off = m->number,
		                       .kind = SF_CACHED_MADE,
		                       .made = m };
}

void sf_made_init(struct sf_reader *r, struct sf_made *m, const struct sf_made_ops *ops,
                  const char *what, uint64_t guess)
{
	m->ops = ops;
	m->what = what;
	m->guess = guess;
	m->number = atomic_fetch_add_explicit(&r->made, 1, memory_order_relaxed);
}

void sf_made_release(struct sf_reader *r, struct sf_made *m)
{
	struct sf_cache_want want = want_of(r, m);

	sf_item_cache_forget(r->items, &want);
}

void sf_made_let_go(struct sf_reader *r, const struct sf_cached *held)
{
	sf_cached_unref(r->items, held);
}

struct waiter {
	struct sf_cache_wait wait;
	pthread_mutex_t m;
	pthread_cond_t c;
	bool done;
	int r;
	const struct sf_cached *item;
};

static void wake(struct sf_cache_wait *wait, int r, const struct sf_cached *item)
{
	struct waiter *w = (struct waiter *)wait;

	pthread_mutex_lock(&w->m);
	w->done = true;
	w->r = r;
	w->item = item;
	pthread_cond_signal(&w->c);
	pthread_mutex_unlock(&w->m);
}

int sf_made_hold(struct sf_reader *r, struct sf_made *m, const struct sf_cached **ret,
                 struct sf_error *err)
{
	struct sf_cache_want want = want_of(r, m);
	struct waiter w = { .wait.done = wake,
		            .m = PTHREAD_MUTEX_INITIALIZER,
		            .c = PTHREAD_COND_INITIALIZER };

	*ret = sf_item_cache_get(r->items, &want);
	if (*ret)
		return 0;
	sf_item_cache_load(r->items, &want, &w.wait, true);
	pthread_mutex_lock(&w.m);
	while (!w.done)
		pthread_cond_wait(&w.c, &w.m);
	pthread_mutex_unlock(&w.m);
	if (w.r < 0)
		return sf_fail(err, w.r, "%s", w.wait.err.msg);
	*ret = w.item;
	return 0;
}

/* ---- as part of a read ---- */

int sf_parts_made(struct sf_parts *p, struct sf_made *m, uint64_t off, uint64_t len)
{
	struct sf_op *op = p->op;

	if (op->made && op->made != m)
		return -ENOTSUP;
	if (!op->made)
		m->ops->ref(m); /* a late completion must not find the view gone */
	op->made = m;
	return sf_parts_add(
		p, (struct sf_part){ .kind = SF_PART_MADE, .len = len, .off = off, .n = len });
}

static void made_done(struct sf_cache_wait *wait, int r, const struct sf_cached *item)
{
	struct sf_op *op = ((struct sf_op_wait *)wait)->op;

	op->made_item = item;
	sf_op_clock(op, false);
	sf_op_completed(op, r, &wait->err, SF_NONE);
}

/* The parts of what the view makes: there, or asked for. No item is held yet. */
int sf_op_ask_made(struct sf_op *op)
{
	struct sf_cache_want want;

	if (!op->made)
		return 0;
	want = want_of(op->r, op->made);
	op->made_item = sf_item_cache_get(op->r->items, &want);
	if (op->made_item)
		return 0;
	if (!op->may_wait)
		return -EAGAIN;
	op->waits = sf_alloc_array(1, sizeof(*op->waits));
	if (!op->waits)
		return sf_fail(&op->err, -ENOMEM, "no memory to wait for %s", op->made->what);
	op->waits[0] = (struct sf_op_wait){ .wait = { .done = made_done }, .op = op };
	pthread_mutex_lock(&op->m);
	op->waits_for_made = op->made->what;
	pthread_mutex_unlock(&op->m);
	/* the reads that making does have deadlines of their own */
	sf_op_clock(op, true);
	sf_op_async_begin(op);
	atomic_fetch_add_explicit(&op->pending, 1, memory_order_relaxed);
	sf_item_cache_load(op->r->items, &want, &op->waits[0].wait, true);
	return sf_op_async_end(op);
}

int sf_op_copy_made(struct sf_op *op)
{
	const struct sf_cached *item = op->made_item;
	uint64_t passed = 0;
	uint8_t *dst;
	int r = 0;

	for (size_t i = 0; item && i < op->parts.list.n && r >= 0; i++) {
		const struct sf_part *part = &op->parts.list.at[i];
		if (part->kind != SF_PART_MADE)
			continue;
		dst = sf_op_dst(op);
		if (!dst)
			r = sf_fail(&op->err, -ENOMEM, "no memory for a read of %llu bytes",
			            (unsigned long long)op->len);
		else if (part->off > item->len || part->n > item->len - part->off)
			r = sf_fail(&op->err, -ESTALE,
			            "%s had more bytes when it was sized: %llu at %llu of %llu now",
			            op->made->what, (unsigned long long)part->n,
			            (unsigned long long)part->off, (unsigned long long)item->len);
		else
			memcpy(dst + part->dst, item->at + part->off, part->n);
		passed += part->n;
	}
	if (item && (r >= 0 || op->no_room)) /* then this read comes back for it */
		sf_cached_pass(op->r->items, item, r < 0 ? 0 : passed, item->len);
	else
		sf_cached_unref(op->r->items, item);
	op->made_item = NULL;
	return r;
}
