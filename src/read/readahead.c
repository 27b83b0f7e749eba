#include "config.h"

#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include "base/budget.h"
#include "base/clock.h"
#include "base/mem.h"
#include "read/readahead.h"
#include "read/streams.h"
#include "store/store.h"

#define PART_LEAST (UINT64_C(1) << 20) /* bytes; and parts end at multiples of it */
#define PART_MOST (UINT64_C(8) << 20)
#define HERE 4 /* reads in a row that tell that the next one needs no server either */

/* Bytes of the file that are read ahead, by a read of their own. */
struct sf_readahead_part {
	struct sf_read rd; /* its iov is one buffer */
	struct sf_readahead *a;
	struct sf_readahead_part *next; /* of the file's, in order of off, none overlap */
	uint64_t used;                  /* bytes that were read of it */
	unsigned refs; /* the list, the read under way, and who is answered from it */
	bool listed, done;
	int r;
};

struct sf_readahead {
	struct sf_reader *r;
	int (*emit)(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
	            struct sf_error *err);
	void *arg;
	struct sf_budget_reclaim reclaim;
	pthread_mutex_t m; /* guards all below, and what parts and reads have of their own */
	unsigned refs;     /* the caller's, of parts, of reads that hold any */
	bool closed;
	struct sf_streams streams;
	struct sf_readahead_part *parts;
	struct sf_readahead_read *waiting;
	unsigned here; /* reads that waited, the last ones in a row, for what lay on this machine */
};

static uint64_t end_of(const struct sf_readahead_part *p)
{
	return p->rd.off + p->rd.len;
}

/* ---- references ---- */

static void unref_file(struct sf_readahead *a)
{
	unsigned left;

	pthread_mutex_lock(&a->m);
	left = --a->refs;
	pthread_mutex_unlock(&a->m);
	if (left)
		return;
	pthread_mutex_destroy(&a->m);
	free(a);
}

/* One reference less; the last one puts it before @gone. */
static void unref_locked(struct sf_readahead_part *p, struct sf_readahead_part **gone)
{
	if (--p->refs)
		return;
	p->next = *gone;
	*gone = p;
}

static void free_parts(struct sf_readahead_part *gone)
{
	for (struct sf_readahead_part *p; (p = gone);) {
		struct sf_readahead *a = p->a;
		gone = p->next;
		sf_read_release(&p->rd);
		free(p);
		unref_file(a);
	}
}

static void unlist_locked(struct sf_readahead *a, struct sf_readahead_part *p,
                          struct sf_readahead_part **gone)
{
	struct sf_readahead_part **at = &a->parts;

	if (!p->listed)
		return;
	while (*at != p)
		at = &(*at)->next;
	*at = p->next;
	p->listed = false;
	unref_locked(p, gone);
}

/* Nobody is answered from it, and it has come. */
static bool is_idle(const struct sf_readahead_part *p)
{
	return p->done && p->refs == 1;
}

/* Lets go of idle parts that no stream comes to; of the last ones first, of others too, until
 * @bytes are gone. */
static uint64_t sweep_locked(struct sf_readahead *a, uint64_t bytes,
                             struct sf_readahead_part **gone)
{
	uint64_t sum = 0;

	for (struct sf_readahead_part *p = a->parts, *next; p; p = next) {
		bool wanted = false;
		next = p->next;
		for (unsigned i = 0; i < SF_STREAMS; i++)
			wanted = wanted || sf_stream_wants(&a->streams.at[i], p->rd.off, end_of(p));
		if (is_idle(p) && (!wanted || p->used >= p->rd.len)) {
			sum += p->rd.len;
			unlist_locked(a, p, gone);
		}
	}
	while (sum < bytes) {
		struct sf_readahead_part *last = NULL;
		for (struct sf_readahead_part *p = a->parts; p; p = p->next)
			if (is_idle(p))
				last = p;
		if (!last)
			break;
		sum += last->rd.len;
		unlist_locked(a, last, gone);
	}
	return sum;
}

static uint64_t reclaim(struct sf_budget_reclaim *rec, uint64_t bytes)
{
	struct sf_readahead *a = sf_container_of(rec, struct sf_readahead, reclaim);
	struct sf_readahead_part *gone = NULL;
	uint64_t sum;

	pthread_mutex_lock(&a->m);
	sum = sweep_locked(a, bytes ? bytes : UINT64_MAX, &gone);
	for (unsigned i = 0; i < SF_STREAMS && sum; i++)
		sf_stream_refused(&a->streams.at[i], 0);
	pthread_mutex_unlock(&a->m);
	free_parts(gone);
	return sum;
}

/* ---- reads that are answered from parts ---- */

/* The parts under a read, a reference each. 0: not all of it is there or under way. */
static unsigned hold_locked(struct sf_readahead *a, struct sf_readahead_read *q)
{
	uint64_t at = q->rd.off, end = q->rd.off + q->rd.len;
	unsigned n = 0;

	for (struct sf_readahead_part *p = a->parts; p && at < end; p = p->next) {
		if (end_of(p) <= at)
			continue;
		if (p->rd.off > at || n == SF_READAHEAD_SPAN)
			break;
		q->part[n++] = p;
		at = end_of(p);
	}
	if (at < end)
		return 0;
	for (unsigned i = 0; i < n; i++)
		q->part[i]->refs++;
	q->nparts = n;
	if (!q->a)
		a->refs++;
	q->a = a;
	return n;
}

static bool all_done_locked(const struct sf_readahead_read *q)
{
	for (unsigned i = 0; i < q->nparts; i++)
		if (!q->part[i]->done)
			return false;
	return true;
}

/* Its bytes, out of the parts that it holds. A failure of one is not this read's: it may have been
 * of other bytes. */
static int answer_locked(struct sf_readahead_read *q)
{
	uint64_t at = q->rd.off, end = q->rd.off + q->rd.len;

	for (unsigned i = 0; i < q->nparts; i++)
		if (q->part[i]->r < 0)
			return q->part[i]->r;
	q->rd.niov = (int)q->nparts;
	for (unsigned i = 0; i < q->nparts; i++) {
		struct sf_readahead_part *p = q->part[i];
		uint64_t from = at - p->rd.off, n = SF_MIN(end, end_of(p)) - at;
		q->iov[i] = (struct iovec){ (uint8_t *)p->rd.iov->iov_base + from, n };
		p->used += n;
		at += n;
	}
	q->rd.iov = q->iov;
	return 0;
}

/* To the caller's own place, out of the parts, which are held. */
static void put(struct sf_readahead_read *q)
{
	uint8_t *to = q->rd.buf;

	if (!to)
		return;
	for (unsigned i = 0; i < q->nparts; i++) {
		memcpy(to, q->iov[i].iov_base, q->iov[i].iov_len);
		to += q->iov[i].iov_len;
	}
	q->iov[0] = (struct iovec){ q->rd.buf, q->rd.len };
	q->rd.niov = 1;
}

static void let_go_locked(struct sf_readahead_read *q, struct sf_readahead_part **gone)
{
	for (unsigned i = 0; i < q->nparts; i++) {
		struct sf_readahead_part *p = q->part[i];
		unref_locked(p, gone);
		if (p->refs && is_idle(p) && p->used >= p->rd.len)
			unlist_locked(p->a, p, gone);
	}
	q->nparts = 0;
}

static void unwait_locked(struct sf_readahead *a, struct sf_readahead_read *q)
{
	*(q->prev ? &q->prev->next : &a->waiting) = q->next;
	if (q->next)
		q->next->prev = q->prev;
	q->prev = q->next = NULL;
}

/* Those whose parts have all come, chained through next: nobody else answers them any more. */
static struct sf_readahead_read *ready_locked(struct sf_readahead *a)
{
	struct sf_readahead_read *ready = NULL;

	for (struct sf_readahead_read *q = a->waiting, *next; q; q = next) {
		next = q->next;
		if (!all_done_locked(q) || atomic_exchange(&q->claimed, true))
			continue;
		unwait_locked(a, q);
		q->next = ready;
		ready = q;
	}
	return ready;
}

static void answer_all(struct sf_readahead *a, struct sf_readahead_read *ready)
{
	for (struct sf_readahead_read *q; (q = ready);) {
		struct sf_readahead_part *gone = NULL;
		int r;
		ready = q->next;
		q->next = NULL;
		sf_deadlines_remove(sf_reader_io(a->r)->deadlines, &q->deadline);
		pthread_mutex_lock(&a->m);
		r = answer_locked(q);
		if (r < 0)
			let_go_locked(q, &gone);
		pthread_mutex_unlock(&a->m);
		free_parts(gone);
		if (r == 0) {
			put(q);
			q->rd.done(&q->rd, 0);
		} else if (atomic_load(&q->canceled)) {
			q->rd.done(&q->rd, sf_fail(&q->rd.err, -ECANCELED, "canceled"));
		} else {
			sf_read_park(a->r, &q->rd); /* by itself, and with its own message */
		}
	}
}

/* ---- parts ---- */

/* A read that waited has its bytes. */
static void note_locked(struct sf_readahead *a, const struct sf_read *rd)
{
	a->here = rd->far ? 0 : a->here + 1;
	for (unsigned i = 0; i < SF_STREAMS && a->here >= HERE; i++)
		sf_stream_rest(&a->streams.at[i]);
}

/* A part's read has ended. */
static void part_done(struct sf_read *rd, int r)
{
	struct sf_readahead_part *p = sf_container_of(rd, struct sf_readahead_part, rd),
				 *gone = NULL;
	struct sf_readahead *a = p->a;
	struct sf_readahead_read *ready;
	struct sf_stream *s;

	pthread_mutex_lock(&a->m);
	a->refs++;
	if (r < 0 && r != -ENOBUFS && (s = sf_streams_near(&a->streams, rd->off)))
		sf_stream_refused(s, 0);
	if (r >= 0)
		note_locked(a, rd);
	p->done = true;
	p->r = r < 0 ? r : rd->niov == 1 ? 0 : -EIO;
	ready = ready_locked(a);
	if (p->r < 0 || a->closed || (p->refs == 2 && sf_budget_wanted(sf_reader_io(a->r)->budget)))
		unlist_locked(a, p, &gone);
	unref_locked(p, &gone);
	pthread_mutex_unlock(&a->m);
	answer_all(a, ready);
	free_parts(gone);
	unref_file(a);
}

/* Bytes [off, off+len) as a part of the list. NULL: no memory. */
static struct sf_readahead_part *part_locked(struct sf_readahead *a, uint64_t off, uint64_t len)
{
	struct sf_readahead_part *p = calloc(1, sizeof(*p)), **at = &a->parts;

	if (!p)
		return NULL;
	p->rd = (struct sf_read){ .emit = a->emit,
		                  .arg = a->arg,
		                  .off = off,
		                  .len = len,
		                  .ahead = true,
		                  .done = part_done };
	p->a = a;
	p->refs = 3; /* the list's, its read's, ours */
	p->listed = true;
	a->refs++;
	while (*at && (*at)->rd.off < off)
		at = &(*at)->next;
	p->next = *at;
	*at = p;
	return p;
}

/* Moves @s's end over what is there already. */
static void skip_parts_locked(const struct sf_readahead *a, struct sf_stream *s, uint64_t *ret_room)
{
	*ret_room = UINT64_MAX;
	s->end = SF_MAX(s->end, s->next);
	for (const struct sf_readahead_part *p = a->parts; p; p = p->next) {
		if (p->rd.off > s->end) {
			*ret_room = p->rd.off - s->end;
			return;
		}
		s->end = SF_MAX(s->end, end_of(p));
	}
}

/* The next part of the stream at @off; NULL: it has all that it may. */
static struct sf_readahead_part *next_part_locked(struct sf_readahead *a, uint64_t off,
                                                  struct sf_stream **ret)
{
	struct sf_stream *s = sf_streams_near(&a->streams, off);
	uint64_t len, room, until;
	struct sf_readahead_part *p;

	if (!s || !s->window || a->closed)
		return NULL;
	skip_parts_locked(a, s, &room);
	until = a->streams.size - SF_MIN(a->streams.size, s->next);
	until = s->next + SF_MIN(until, s->window);
	len = SF_MIN(SF_MAX(s->window / 4, PART_LEAST), PART_MOST);
	/* whole parts; the file's last one may be short */
	if (s->end >= until || (until - s->end < len && until < a->streams.size))
		return NULL;
	len -= (s->end + len) % PART_LEAST;
	len = SF_MIN(SF_MIN(len ? len : PART_LEAST, room), a->streams.size - s->end);
	p = part_locked(a, s->end, len);
	if (p)
		s->end += len;
	*ret = s;
	return p;
}

/* Asks for what the stream at @off comes to next. */
static void ask_ahead(struct sf_readahead *a, uint64_t off)
{
	struct sf_readahead_part *p, *gone = NULL;
	struct sf_stream *s;
	bool failed = false;

	pthread_mutex_lock(&a->m);
	sweep_locked(a, 0, &gone);
	while (!failed && (p = next_part_locked(a, off, &s))) {
		uint64_t part = p->rd.len, at = p->rd.off;
		pthread_mutex_unlock(&a->m);
		sf_read_park(a->r, &p->rd);
		pthread_mutex_lock(&a->m);
		failed = p->r < 0;
		if (p->r == -ENOBUFS && (s = sf_streams_near(&a->streams, off))) {
			sf_stream_refused(s, part);
			if (s->end == at + part)
				s->end = at;
		}
		unref_locked(p, &gone);
	}
	pthread_mutex_unlock(&a->m);
	free_parts(gone);
}

/* ---- what others call ---- */

struct sf_readahead *sf_readahead_new(struct sf_reader *r,
                                      int (*emit)(void *arg, uint64_t off, uint64_t len,
                                                  struct sf_parts *p, struct sf_error *err),
                                      void *arg, uint64_t size)
{
	struct sf_readahead *a = calloc(1, sizeof(*a));

	if (!a)
		return NULL;
	a->r = r;
	a->emit = emit;
	a->arg = arg;
	a->reclaim.reclaim = reclaim;
	a->refs = 1;
	a->streams.size = size;
	pthread_mutex_init(&a->m, NULL);
	sf_budget_reclaim_add(sf_reader_io(r)->budget, &a->reclaim);
	return a;
}

void sf_readahead_close(struct sf_readahead *a)
{
	struct sf_readahead_part *gone = NULL;

	if (!a)
		return;
	sf_budget_reclaim_remove(sf_reader_io(a->r)->budget, &a->reclaim);
	pthread_mutex_lock(&a->m);
	a->closed = true;
	for (struct sf_readahead_part *p = a->parts, *next; p; p = next) {
		next = p->next;
		if (!p->done)
			sf_read_cancel(a->r, &p->rd);
		else
			unlist_locked(a, p, &gone);
	}
	pthread_mutex_unlock(&a->m);
	free_parts(gone);
	unref_file(a);
}

static uint64_t most(const struct sf_readahead *a)
{
	const uint64_t limit = sf_budget_limit(sf_reader_io(a->r)->budget);

	/* a quarter is all that may be held for it, headers and what is rounded up as well */
	return SF_MIN(sf_reader_ahead(a->r), limit / 4 - limit / 32);
}

int sf_readahead_start(struct sf_readahead *a, struct sf_reader *r, struct sf_readahead_read *q)
{
	bool more = false;
	int e = -EAGAIN;

	if (!a || !sf_reader_ahead(r))
		return sf_read_start(r, &q->rd);
	pthread_mutex_lock(&a->m);
	sf_streams_note(&a->streams, q->rd.off, q->rd.len);
	if (hold_locked(a, q) && all_done_locked(q)) {
		e = answer_locked(q);
		more = e == 0;
	}
	pthread_mutex_unlock(&a->m);
	if (more) {
		put(q);
		ask_ahead(a, q->rd.off);
	}
	if (!q->nparts)
		return sf_read_start(r, &q->rd);
	return e == 0 ? 0 : -EAGAIN;
}

/* It is canceled while it waits for parts. */
static bool due(struct sf_deadline *d)
{
	struct sf_readahead_read *q = sf_container_of(d, struct sf_readahead_read, deadline);

	return !atomic_exchange(&q->claimed, true);
}

static void fire(struct sf_deadline *d)
{
	struct sf_readahead_read *q = sf_container_of(d, struct sf_readahead_read, deadline);

	pthread_mutex_lock(&q->a->m); /* and whoever put it there has left */
	unwait_locked(q->a, q);
	pthread_mutex_unlock(&q->a->m);
	q->rd.file = SF_NONE;
	q->rd.done(&q->rd,
	           sf_fail(&q->rd.err, -ECANCELED, "the read of %llu bytes at %llu was canceled",
	                   (unsigned long long)q->rd.len, (unsigned long long)q->rd.off));
}

/* true: it waits, and may be gone. Its time is that of the parts. */
static bool wait_locked(struct sf_readahead *a, struct sf_readahead_read *q)
{
	q->deadline.due = due;
	q->deadline.fire = fire;
	if (all_done_locked(q) ||
	    sf_deadlines_add(sf_reader_io(a->r)->deadlines, &q->deadline, a->r, 0) < 0)
		return false;
	q->next = a->waiting;
	if (q->next)
		q->next->prev = q;
	a->waiting = q;
	return true;
}

void sf_readahead_park(struct sf_readahead *a, struct sf_reader *r, struct sf_readahead_read *q)
{
	const uint64_t off = q->rd.off, len = q->rd.len;
	struct sf_stream *s;
	bool waits = false, held;

	if (!a || !sf_reader_ahead(r)) {
		sf_read_park(r, &q->rd);
		return;
	}
	pthread_mutex_lock(&a->m);
	a->refs++;
	s = sf_streams_near(&a->streams, off);
	if (s && a->here < HERE)
		sf_stream_stalled(s, len, most(a));
	held = q->nparts;
	q->waits_alone = !held;
	if (!q->a) {
		q->a = a;
		a->refs++;
	}
	q->rd.since_ns = held ? sf_now_ns() : 0;
	if (held)
		waits = wait_locked(a, q);
	pthread_mutex_unlock(&a->m);
	/* who waits may be answered already */
	if (held && !waits)
		answer_all(a, q);
	else if (!held)
		sf_read_park(r, &q->rd);
	ask_ahead(a, off);
	unref_file(a);
}

struct waited {
	pthread_mutex_t m;
	pthread_cond_t c;
	bool done;
	int r;
};

static void wake(struct sf_read *rd, int r)
{
	struct waited *w = rd->priv;

	pthread_mutex_lock(&w->m);
	w->done = true;
	w->r = r;
	pthread_cond_signal(&w->c);
	pthread_mutex_unlock(&w->m);
}

int sf_readahead_wait(struct sf_readahead *a, struct sf_reader *r, struct sf_readahead_read *q)
{
	struct waited w = { .m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER };
	int e = sf_readahead_start(a, r, q);

	if (e != -EAGAIN)
		return e;
	q->rd.done = wake;
	q->rd.priv = &w;
	sf_readahead_park(a, r, q);
	pthread_mutex_lock(&w.m);
	while (!w.done)
		pthread_cond_wait(&w.c, &w.m);
	pthread_mutex_unlock(&w.m);
	pthread_mutex_destroy(&w.m);
	pthread_cond_destroy(&w.c);
	return w.r;
}

void sf_readahead_cancel(struct sf_reader *r, struct sf_readahead_read *q)
{
	atomic_store(&q->canceled, true);
	sf_deadlines_expedite(sf_reader_io(r)->deadlines, &q->deadline);
	sf_read_cancel(r, &q->rd);
}

void sf_readahead_release(struct sf_readahead_read *q)
{
	struct sf_readahead *a = SF_STEAL(q->a);
	struct sf_readahead_part *gone = NULL;

	if (a) {
		pthread_mutex_lock(&a->m);
		if (q->waits_alone && q->rd.iov)
			note_locked(a, &q->rd);
		pthread_mutex_unlock(&a->m);
	}
	sf_read_release(&q->rd);
	if (!a)
		return;
	pthread_mutex_lock(&a->m);
	let_go_locked(q, &gone);
	pthread_mutex_unlock(&a->m);
	free_parts(gone);
	unref_file(a);
}
