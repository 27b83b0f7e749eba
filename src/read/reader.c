#include "config.h"

#include <limits.h>
#include <stddef.h>
#include <stdlib.h>
#include <time.h>

#include "base/mem.h"
#include "read/op.h"

#define WAVE_FILES_MAX 256

static uint64_t now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

/* Buffers of free ops go to who waits. */
static uint64_t reclaim(struct sf_budget_reclaim *rec, uint64_t bytes)
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

static void resume(struct sf_op *op);

int sf_reader_new(const struct sf_ckpt *ckpt, struct sf_store *store, struct sf_reader **ret,
                  struct sf_error *err)
{
	struct sf_reader *r = calloc(1, sizeof(*r));
	pthread_condattr_t attr;
	int e;

	if (!r)
		return sf_fail(err, -ENOMEM, "reader: no memory");
	r->ckpt = ckpt;
	r->store = store;
	r->io = store->io;
	/* reads under way hold files beyond the LRU: a few at a time each */
	r->wave_files = SF_MIN(SF_MAX(r->io->max_open / 4, 2u), WAVE_FILES_MAX);
	sf_fd_budget_init(r);
	r->keep_bytes = SF_MIN(sf_budget_limit(r->io->budget) / 8, UINT64_C(64) << 20);
	r->reclaim.reclaim = reclaim;
	r->resume = resume;
	pthread_mutex_init(&r->locked.m, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&r->locked.timer_wakes, &attr);
	pthread_condattr_destroy(&attr);
	pthread_cond_init(&r->locked.all_idle, NULL);
	e = sf_layouts_new(ckpt->nchunks, &r->layouts, err);
	if (e >= 0)
		e = sf_open_files_new(r->io->max_open, &r->files, err);
	if (e >= 0)
		e = sf_item_cache_new(r->io, &r->items, err);
	sf_budget_reclaim_add(r->io->budget, &r->reclaim);
	if (e < 0) {
		sf_reader_free(r);
		return e;
	}
	*ret = r;
	return 0;
}

static void unlist_locked(struct sf_reader *r, struct sf_op *op)
{
	*(op->prev ? &op->prev->next : &r->locked.first) = op->next;
	*(op->next ? &op->next->prev : &r->locked.last) = op->prev;
	op->prev = op->next = NULL;
	op->listed = false;
}

/* To the head of the list: the timer answers it next. */
static void cancel_locked(struct sf_reader *r, struct sf_op *op)
{
	unlist_locked(r, op);
	op->why = -ECANCELED;
	op->deadline_ns = 0;
	op->next = r->locked.first;
	*(op->next ? &op->next->prev : &r->locked.last) = op;
	r->locked.first = op;
	op->listed = true;
	pthread_cond_signal(&r->locked.timer_wakes);
}

static void cancel_all(struct sf_reader *r)
{
	pthread_mutex_lock(&r->locked.m);
	r->locked.canceling = true;
	while (r->locked.last && r->locked.last->why != -ECANCELED)
		cancel_locked(r, r->locked.last);
	pthread_mutex_unlock(&r->locked.m);
}

void sf_reader_free(struct sf_reader *r)
{
	bool timer;

	if (!r)
		return;
	cancel_all(r); /* reads of what a view makes: their loads end with them */
	if (r->items)
		sf_item_cache_end(r->items);
	pthread_mutex_lock(&r->locked.m);
	r->locked.ending = true;
	timer = r->locked.timer_runs;
	pthread_cond_signal(&r->locked.timer_wakes);
	/* late completions of reads that were answered long ago */
	while (r->locked.live)
		pthread_cond_wait(&r->locked.all_idle, &r->locked.m);
	pthread_mutex_unlock(&r->locked.m);
	if (timer)
		pthread_join(r->timer, NULL);
	sf_budget_reclaim_remove(r->io->budget, &r->reclaim);
	for (struct sf_op *op = r->locked.free, *next; op; op = next) {
		next = op->next;
		sf_op_free(op);
	}
	sf_item_cache_free(r->items);
	sf_open_files_free(r->files);
	sf_layouts_free(r->layouts);
	pthread_cond_destroy(&r->locked.timer_wakes);
	pthread_cond_destroy(&r->locked.all_idle);
	pthread_mutex_destroy(&r->locked.m);
	free(r);
}

const struct sf_ckpt *sf_reader_ckpt(const struct sf_reader *r)
{
	return r->ckpt;
}

struct sf_io *sf_reader_io(const struct sf_reader *r)
{
	return r->io;
}

static void give_result(struct sf_op *op, struct sf_read *rd)
{
	rd->iov = op->iovs.at;
	rd->niov = (int)op->iovs.n;
}

static void give_failure(struct sf_op *op, struct sf_read *rd, int e)
{
	sf_fail(&rd->err, e, "%s", op->err.msg);
	rd->file = op->bad_file;
}

int sf_read_try(struct sf_reader *r, struct sf_read *rd)
{
	struct sf_op *op = sf_op_get(r);
	int e;

	rd->iov = NULL;
	rd->niov = 0;
	rd->file = SF_NONE;
	if (!op)
		return sf_fail(&rd->err, -ENOMEM, "no memory for a read");
	atomic_store_explicit(&op->refs, 1, memory_order_relaxed);
	sf_op_steps_begin(op);
	e = sf_op_begin(op, rd);
	if (e >= 0)
		e = sf_op_steps(op);
	if (e >= 0 && sf_op_result(op, rd->buf) < 0)
		e = sf_fail(&op->err, -ENOMEM, "no memory for a read");
	if (e == -ENOMEM && op->no_room)
		e = -EAGAIN;
	if (e < 0) {
		if (e != -EAGAIN)
			give_failure(op, rd, e);
		sf_op_unref(op);
		return e;
	}
	give_result(op, rd);
	atomic_store_explicit(&rd->op, op, memory_order_release);
	return 0;
}

/* ---- reads that wait ---- */

/* The steps have ended. Unless somebody else has answered the read already, this does. */
static void op_end(struct sf_op *op, int e)
{
	struct sf_reader *r = op->r;
	struct sf_read *rd;

	if (!atomic_exchange(&op->claimed, true)) {
		rd = op->rd;
		pthread_mutex_lock(&r->locked.m);
		if (op->listed)
			unlist_locked(r, op);
		pthread_mutex_unlock(&r->locked.m);
		if (e >= 0 && sf_op_result(op, rd->buf) < 0)
			e = sf_fail(&op->err, -ENOMEM, "no memory for a read");
		if (e < 0)
			give_failure(op, rd, e);
		else
			give_result(op, rd);
		rd->done(rd, e);
	}
	sf_op_unref(op);
}

static void run(struct sf_op *op)
{
	int e = sf_op_steps(op);

	if (e != SF_STEP_PARKED)
		op_end(op, e);
}

static void resume(struct sf_op *op)
{
	pthread_mutex_lock(&op->m);
	op->nreqs = 0; /* all have come back */
	op->waits_for_buffers = false;
	op->waits_for_item = NULL;
	pthread_mutex_unlock(&op->m);
	run(op);
}

/* Answers late and cancelled reads in place of their steps, which end on their own when what they
 * wait for comes. */
static void *timer(void *arg)
{
	struct sf_reader *r = arg;

	pthread_mutex_lock(&r->locked.m);
	for (;;) {
		struct sf_op *op = r->locked.first;
		uint64_t now = now_ns();

		if (op && op->deadline_ns <= now) {
			unlist_locked(r, op);
			if (atomic_exchange(&op->claimed, true))
				continue; /* it is just being answered */
			int why = op->why;
			atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
			pthread_mutex_unlock(&r->locked.m);
			struct sf_read *rd = op->rd;
			sf_op_cancel_io(op);
			rd->file = SF_NONE;
			if (why == -ECANCELED)
				sf_fail(&rd->err, why,
				        "the read of %llu bytes at %llu was canceled",
				        (unsigned long long)op->len, (unsigned long long)op->off);
			else
				sf_fail(&rd->err, why,
				        "no answer to a read of %llu bytes at %llu within %u ms",
				        (unsigned long long)op->len, (unsigned long long)op->off,
				        r->io->timeout_ms);
			rd->done(rd, why);
			sf_op_unref(op);
			pthread_mutex_lock(&r->locked.m);
			continue;
		}
		if (r->locked.ending && !op)
			break;
		if (!op || op->deadline_ns == UINT64_MAX) {
			pthread_cond_wait(&r->locked.timer_wakes, &r->locked.m);
			continue;
		}
		struct timespec until = { (time_t)(op->deadline_ns / 1000000000),
			                  (long)(op->deadline_ns % 1000000000) };
		pthread_cond_timedwait(&r->locked.timer_wakes, &r->locked.m, &until);
	}
	pthread_mutex_unlock(&r->locked.m);
	return NULL;
}

/* Into the list by deadline: all have the same time, so at its end. */
static int list(struct sf_op *op)
{
	struct sf_reader *r = op->r;
	int e = 0;

	op->deadline_ns =
		r->io->timeout_ms ? now_ns() + (uint64_t)r->io->timeout_ms * 1000000 : UINT64_MAX;
	op->why = -ETIMEDOUT;
	pthread_mutex_lock(&r->locked.m);
	if (!r->locked.timer_runs) {
		e = sf_thread_start(&r->timer, timer, r);
		r->locked.timer_runs = e == 0;
	}
	if (!e) {
		op->prev = r->locked.last;
		op->next = NULL;
		*(op->prev ? &op->prev->next : &r->locked.first) = op;
		r->locked.last = op;
		op->listed = true;
		if (r->locked.canceling)
			cancel_locked(r, op);
		else if (r->locked.first == op)
			pthread_cond_signal(&r->locked.timer_wakes);
	}
	pthread_mutex_unlock(&r->locked.m);
	return e;
}

void sf_read_submit(struct sf_reader *r, struct sf_read *rd)
{
	struct sf_op *op = sf_op_get(r);
	int e;

	rd->iov = NULL;
	rd->niov = 0;
	rd->file = SF_NONE;
	if (!op) {
		rd->done(rd, sf_fail(&rd->err, -ENOMEM, "no memory for a read"));
		return;
	}
	atomic_store_explicit(&op->refs, 2, memory_order_relaxed);
	op->may_wait = true;
	sf_op_steps_begin(op);
	e = sf_op_begin(op, rd);
	atomic_store_explicit(&rd->op, op, memory_order_release);
	/* from here a cancel finds it, or its deadline: rd may be gone */
	if (e >= 0) {
		e = list(op);
		if (e < 0)
			sf_fail(&op->err, e, "no thread for deadlines");
	}
	if (e < 0)
		op_end(op, e);
	else
		run(op);
}

void sf_read_cancel(struct sf_reader *r, struct sf_read *rd)
{
	struct sf_op *op = atomic_load_explicit(&rd->op, memory_order_acquire);

	if (!op)
		return;
	pthread_mutex_lock(&r->locked.m);
	if (op->listed)
		cancel_locked(r, op);
	pthread_mutex_unlock(&r->locked.m);
}

void sf_read_release(struct sf_read *rd)
{
	struct sf_op *op = atomic_exchange_explicit(&rd->op, NULL, memory_order_acq_rel);

	rd->iov = NULL;
	rd->niov = 0;
	if (op)
		sf_op_unref(op);
}

struct waiter {
	pthread_mutex_t m;
	pthread_cond_t c;
	bool done;
	int r;
};

static void wake(struct sf_read *rd, int r)
{
	struct waiter *w = rd->priv;

	pthread_mutex_lock(&w->m);
	w->done = true;
	w->r = r;
	pthread_cond_signal(&w->c);
	pthread_mutex_unlock(&w->m);
}

int sf_read_wait(struct sf_reader *r, struct sf_read *rd)
{
	struct waiter w = { .m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER };
	void (*done)(struct sf_read *, int) = rd->done;
	void *priv = rd->priv;
	int e = sf_read_try(r, rd);

	if (e != -EAGAIN)
		return e;
	rd->done = wake;
	rd->priv = &w;
	sf_read_submit(r, rd);
	pthread_mutex_lock(&w.m);
	while (!w.done)
		pthread_cond_wait(&w.c, &w.m);
	pthread_mutex_unlock(&w.m);
	rd->done = done;
	rd->priv = priv;
	return w.r;
}
