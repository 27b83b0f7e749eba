#include "config.h"

#include <limits.h>
#include <stddef.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/mem.h"
#include "read/op.h"

/*
 * A read from its start to its result. It is tried in the caller's thread first; what would wait is
 * parked, with all that it has by then, and goes on in the thread of whatever it waits for. Its
 * states, and who owns what of it meanwhile: op.h.
 */

#define MS UINT64_C(1000000)

static void give_result(struct sf_op *op, struct sf_read *rd)
{
	rd->iov = op->iovs.at;
	rd->niov = (int)op->iovs.n;
	rd->far = op->asked_far;
}

static void give_failure(struct sf_op *op, struct sf_read *rd, int e)
{
	sf_fail(&rd->err, e, "%s", op->err.msg);
	rd->file = op->bad_file;
}

/* Would it wait? Then the op stays as it is. */
static bool would_wait(const struct sf_op *op, int e)
{
	return e == -EAGAIN || (e == -ENOMEM && op->no_room);
}

int sf_read_start(struct sf_reader *r, struct sf_read *rd)
{
	struct sf_op *op = sf_op_get(r);
	int e;

	rd->iov = NULL;
	rd->niov = 0;
	rd->far = false;
	rd->file = SF_NONE;
	if (!op)
		return sf_fail(&rd->err, -ENOMEM, "no memory for a read");
	atomic_store_explicit(&op->refs, 1, memory_order_relaxed);
	sf_op_steps_begin(op);
	e = sf_op_begin(op, rd);
	if (e >= 0) {
		e = sf_op_steps(op);
		if (would_wait(op, e)) {
			atomic_store_explicit(&rd->op, op, memory_order_release);
			return -EAGAIN;
		}
	}
	if (e >= 0 && sf_op_result(op, rd->buf) < 0)
		e = sf_fail(&op->err, -ENOMEM, "no memory for a read");
	if (e < 0) {
		if (would_wait(op, e)) /* no room for what the view made: from the beginning */
			e = -EAGAIN;
		else
			give_failure(op, rd, e);
		sf_op_unref(op);
		return e;
	}
	give_result(op, rd);
	atomic_store_explicit(&rd->op, op, memory_order_release);
	return 0;
}

/* ---- parked ---- */

/* The steps have ended. Unless somebody else has answered the read already, this does. */
static void op_end(struct sf_op *op, int e)
{
	struct sf_read *rd;

	if (!atomic_exchange(&op->claimed, true)) {
		rd = op->rd;
		sf_deadlines_remove(op->r->io->deadlines, &op->deadline);
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

	if (e != SF_STEP_WAITS)
		op_end(op, e);
}

void sf_read_resume(struct sf_op *op)
{
	pthread_mutex_lock(&op->m);
	op->nreqs = 0; /* all have come back */
	op->waits_for_buffers = false;
	op->waits_for_made = NULL;
	op->waits_for_item = NULL;
	pthread_mutex_unlock(&op->m);
	run(op);
}

static struct sf_op *op_of(struct sf_deadline *d)
{
	return sf_container_of(d, struct sf_op, deadline);
}

/*
 * A read that waits for memory waits for other readers, not for a store: its deadline counts from
 * when its turn comes. How long that may take in all has a bound of its own.
 */
static bool has_time(struct sf_op *op, uint64_t *ret_until)
{
	uint64_t now = (uint64_t)sf_now_ns(), since = (uint64_t)atomic_load(&op->clock_ns);
	uint64_t timeout = (uint64_t)op->io->timeout_ms * MS;

	*ret_until =
		since ? since + timeout
		      : SF_MIN(now + timeout, (uint64_t)op->parked_ns + sf_op_turn_ms(op->io) * MS);
	return *ret_until > now;
}

static bool is_late(struct sf_deadline *d)
{
	struct sf_op *op = op_of(d);
	uint64_t until;

	if (!d->expedited && has_time(op, &until)) {
		d->at_ns = until;
		return false;
	}
	if (atomic_exchange(&op->claimed, true))
		return false; /* it is just being answered */
	atomic_fetch_add_explicit(&op->refs, 1, memory_order_relaxed);
	return true;
}

/* Answers a late or cancelled read in place of its steps. */
static void answer_late(struct sf_deadline *d)
{
	struct sf_op *op = op_of(d);
	struct sf_read *rd = op->rd;
	int why;

	rd->file = SF_NONE;
	why = !d->expedited
	              ? sf_op_fail_late(op, rd)
	              : sf_fail(&rd->err, -ECANCELED, "the read of %llu bytes at %llu was canceled",
	                        (unsigned long long)op->len, (unsigned long long)op->off);
	sf_op_cancel_io(op);
	rd->done(rd, why);
	sf_op_unref(op);
}

static int begin_deadline(struct sf_op *op)
{
	struct sf_reader *r = op->r;
	unsigned ms = r->io->timeout_ms;
	bool ending;
	int e;

	op->parked_ns = sf_now_ns();
	if (op->rd->since_ns && ms) {
		int64_t waited = (op->parked_ns - op->rd->since_ns) / (int64_t)MS;
		ms = (unsigned)SF_MAX((int64_t)ms - SF_MAX(waited, 0), 1);
		op->parked_ns = op->rd->since_ns;
	}
	atomic_store(&op->clock_ns, op->parked_ns);
	op->deadline.due = is_late;
	op->deadline.fire = answer_late;
	e = sf_deadlines_add(r->io->deadlines, &op->deadline, r, ms);
	if (e < 0)
		return sf_fail(&op->err, e, "no thread for deadlines");
	pthread_mutex_lock(&r->locked.m);
	ending = r->locked.ending;
	pthread_mutex_unlock(&r->locked.m);
	if (ending || atomic_load(&r->io->stop)) /* whoever ends the reader may not have seen it */
		sf_deadlines_expedite(r->io->deadlines, &op->deadline);
	return 0;
}

/* An op that was started, or a new one, made ready to wait. */
static int make_ready(struct sf_op *op, struct sf_read *rd, bool started)
{
	op->may_wait = true;
	op->no_room = false;
	op->err.msg[0] = '\0';
	op->rd = rd;
	if (!started) {
		sf_op_steps_begin(op);
		return sf_op_begin(op, rd);
	}
	if (sf_op_leave_caller(op) < 0)
		return sf_fail(&op->err, -ENOMEM, "no memory for a read of %llu bytes",
		               (unsigned long long)op->len);
	if (op->parts.nboxes) {
		sf_op_drop_batch(op);
		sf_op_stage_boxes(op);
		sf_op_steps_begin(op);
	}
	/* a read waits for its buffers before it holds anything else: what it had so far is let go
	 * and looked up anew */
	if (sf_op_wants_buffers(op)) {
		sf_op_drop_batch(op);
		sf_op_steps_begin(op);
	}
	return 0;
}

void sf_read_park(struct sf_reader *r, struct sf_read *rd)
{
	struct sf_op *op = atomic_load_explicit(&rd->op, memory_order_relaxed);
	bool started = op != NULL;
	int e;

	if (!op)
		op = sf_op_get(r);
	rd->iov = NULL;
	rd->niov = 0;
	rd->file = SF_NONE;
	if (!op) {
		rd->done(rd, sf_fail(&rd->err, -ENOMEM, "no memory for a read"));
		return;
	}
	atomic_store_explicit(&op->refs, 2, memory_order_relaxed);
	e = make_ready(op, rd, started);
	atomic_store_explicit(&rd->op, op, memory_order_release);
	/* from here a cancel finds it, or its deadline: rd may be gone */
	if (e >= 0)
		e = begin_deadline(op);
	if (e < 0)
		op_end(op, e);
	else
		run(op);
}

void sf_read_cancel(struct sf_reader *r, struct sf_read *rd)
{
	struct sf_op *op = atomic_load_explicit(&rd->op, memory_order_acquire);

	if (op)
		sf_deadlines_expedite(r->io->deadlines, &op->deadline);
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
	int e = sf_read_start(r, rd);

	if (e != -EAGAIN)
		return e;
	rd->done = wake;
	rd->priv = &w;
	sf_read_park(r, rd);
	pthread_mutex_lock(&w.m);
	while (!w.done)
		pthread_cond_wait(&w.c, &w.m);
	pthread_mutex_unlock(&w.m);
	rd->done = done;
	rd->priv = priv;
	return w.r;
}
