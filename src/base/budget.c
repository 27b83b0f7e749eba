#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>

#include "base/budget.h"
#include "base/mem.h"

#define CHARGE_STEP (UINT64_C(256) << 10) /* bytes a charge takes at least when it needs more */

struct sf_budget {
	_Atomic uint64_t limit;
	_Atomic uint64_t waiting; /* written under the lock */
	struct {
		pthread_mutex_t m;
		uint64_t held, most, waits;
		uint64_t wanted; /* bytes of all who wait */
		struct {
			uint64_t held;
			uint64_t by_waiters; /* of held */
			struct sf_budget_wait *first, *last;
		} kind[SF_BUDGET_NKINDS];
	} locked;
	/* held while they are called, so that none goes meanwhile; taken before any other lock */
	pthread_mutex_t reclaim_m;
	struct sf_budget_reclaim *reclaim;
};

int sf_budget_new(uint64_t limit, struct sf_budget **ret, struct sf_error *err)
{
	struct sf_budget *b = calloc(1, sizeof(*b));

	if (!b)
		return sf_fail(err, -ENOMEM, "budget: no memory");
	atomic_init(&b->limit, SF_MAX(limit, UINT64_C(1)));
	pthread_mutex_init(&b->locked.m, NULL);
	pthread_mutex_init(&b->reclaim_m, NULL);
	*ret = b;
	return 0;
}

void sf_budget_free(struct sf_budget *b)
{
	if (!b)
		return;
	pthread_mutex_destroy(&b->locked.m);
	pthread_mutex_destroy(&b->reclaim_m);
	free(b);
}

uint64_t sf_budget_limit(const struct sf_budget *b)
{
	return atomic_load_explicit(&b->limit, memory_order_relaxed);
}

bool sf_budget_wanted(const struct sf_budget *b)
{
	return atomic_load(&b->waiting) > 0;
}

/* ---- who gets how much ---- */

static bool fits_locked(const struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes)
{
	uint64_t limit = sf_budget_limit(b), held = b->locked.held,
		 ours = b->locked.kind[kind].held;

	if (ours <= b->locked.kind[kind].by_waiters)
		return true;
	if (kind == SF_BUDGET_BUFFER && (ours > limit / 2 || bytes > limit / 2 - ours))
		return false;
	if (kind == SF_BUDGET_AHEAD && (ours > limit / 4 || bytes > limit / 4 - ours))
		return false;
	return held <= limit && bytes <= limit - held;
}

/* What is missing for all who wait, and @bytes more. */
static uint64_t missing_locked(const struct sf_budget *b, uint64_t bytes)
{
	uint64_t limit = sf_budget_limit(b), want;

	if (!sf_add(b->locked.held, b->locked.wanted, &want) || !sf_add(want, bytes, &want))
		want = UINT64_MAX;
	return want > limit ? want - limit : 0;
}

static void take_locked(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes)
{
	b->locked.kind[kind].held += bytes;
	b->locked.held += bytes;
	b->locked.most = SF_MAX(b->locked.most, b->locked.held);
}

static void unlink_locked(struct sf_budget *b, struct sf_budget_wait *w)
{
	*(w->prev ? &w->prev->next : &b->locked.kind[w->kind].first) = w->next;
	*(w->next ? &w->next->prev : &b->locked.kind[w->kind].last) = w->prev;
	w->prev = w->next = NULL;
	w->queued = false;
	b->locked.wanted -= w->bytes;
	b->locked.kind[w->kind].by_waiters -= w->holds;
	atomic_fetch_sub(&b->waiting, 1);
}

/* Whose turn has come: chained through next, to be told when the lock is not held. */
static struct sf_budget_wait *turns_locked(struct sf_budget *b)
{
	struct sf_budget_wait *granted = NULL, **last = &granted, *w;

	/* the last kinds first: others wait for those who hold the kinds before */
	for (int kind = SF_BUDGET_NKINDS - 1; kind >= 0 && sf_budget_wanted(b); kind--)
		while ((w = b->locked.kind[kind].first) && fits_locked(b, w->kind, w->bytes)) {
			unlink_locked(b, w);
			take_locked(b, w->kind, w->bytes);
			*last = w;
			last = &w->next;
		}
	return granted;
}

static void tell(struct sf_budget_wait *w)
{
	for (struct sf_budget_wait *next; w; w = next) {
		next = w->next;
		w->next = NULL;
		w->granted(w); /* may be gone now */
	}
}

static void reclaim(struct sf_budget *b, uint64_t bytes)
{
	pthread_mutex_lock(&b->reclaim_m);
	for (struct sf_budget_reclaim *r = b->reclaim; r; r = r->next) {
		uint64_t n = r->reclaim(r, bytes);
		bytes -= SF_MIN(n, bytes);
	}
	pthread_mutex_unlock(&b->reclaim_m);
}

bool sf_budget_take(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes)
{
	for (int again = 0;; again++) {
		bool others, fits;
		uint64_t missing;

		pthread_mutex_lock(&b->locked.m);
		others = b->locked.kind[kind].first != NULL;
		fits = !others && fits_locked(b, kind, bytes);
		missing = missing_locked(b, bytes);
		if (fits)
			take_locked(b, kind, bytes);
		pthread_mutex_unlock(&b->locked.m);
		if (fits || others || again)
			return fits;
		reclaim(b, missing);
	}
}

bool sf_budget_take_spare(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes)
{
	bool fits;

	pthread_mutex_lock(&b->locked.m);
	fits = !sf_budget_wanted(b) && fits_locked(b, kind, bytes);
	if (fits)
		take_locked(b, kind, bytes);
	pthread_mutex_unlock(&b->locked.m);
	return fits;
}

void sf_budget_add(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes)
{
	pthread_mutex_lock(&b->locked.m);
	take_locked(b, kind, bytes);
	pthread_mutex_unlock(&b->locked.m);
}

void sf_budget_give(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes)
{
	struct sf_budget_wait *granted;

	pthread_mutex_lock(&b->locked.m);
	b->locked.kind[kind].held -= bytes;
	b->locked.held -= bytes;
	granted = turns_locked(b);
	pthread_mutex_unlock(&b->locked.m);
	tell(granted);
}

void sf_budget_set_limit(struct sf_budget *b, uint64_t limit)
{
	struct sf_budget_wait *granted;

	pthread_mutex_lock(&b->locked.m);
	atomic_store_explicit(&b->limit, SF_MAX(limit, UINT64_C(1)), memory_order_relaxed);
	granted = turns_locked(b);
	pthread_mutex_unlock(&b->locked.m);
	tell(granted);
}

/* ---- waiting ---- */

void sf_budget_queue(struct sf_budget *b, struct sf_budget_wait *w)
{
	struct sf_budget_wait *granted;
	uint64_t missing;
	bool waits;

	w->next = NULL;
	pthread_mutex_lock(&b->locked.m);
	w->prev = b->locked.kind[w->kind].last;
	*(w->prev ? &w->prev->next : &b->locked.kind[w->kind].first) = w;
	b->locked.kind[w->kind].last = w;
	w->queued = true;
	b->locked.wanted += w->bytes;
	b->locked.kind[w->kind].by_waiters += w->holds;
	atomic_fetch_add(&b->waiting, 1);
	granted = turns_locked(b);
	waits = w->queued;
	b->locked.waits += waits;
	missing = missing_locked(b, 0);
	pthread_mutex_unlock(&b->locked.m);
	tell(granted); /* it may be one of them, and gone now */
	if (waits)
		reclaim(b, missing); /* gives, and so comes to turns */
}

bool sf_budget_cancel(struct sf_budget *b, struct sf_budget_wait *w)
{
	struct sf_budget_wait *granted = NULL;
	bool waited;

	pthread_mutex_lock(&b->locked.m);
	waited = w->queued;
	if (waited) {
		unlink_locked(b, w);
		granted = turns_locked(b); /* those behind it may want less */
	}
	pthread_mutex_unlock(&b->locked.m);
	tell(granted);
	return waited;
}

struct sleeper {
	struct sf_budget_wait wait;
	pthread_mutex_t m;
	pthread_cond_t c;
	bool granted;
};

static void wake(struct sf_budget_wait *w)
{
	struct sleeper *s = sf_container_of(w, struct sleeper, wait);

	pthread_mutex_lock(&s->m);
	s->granted = true;
	pthread_cond_signal(&s->c);
	pthread_mutex_unlock(&s->m);
}

void sf_budget_wait(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes)
{
	struct sleeper s = { .wait = { .kind = kind, .bytes = bytes, .granted = wake },
		             .m = PTHREAD_MUTEX_INITIALIZER,
		             .c = PTHREAD_COND_INITIALIZER };

	if (sf_budget_take(b, kind, bytes))
		return;
	sf_budget_queue(b, &s.wait);
	pthread_mutex_lock(&s.m);
	while (!s.granted)
		pthread_cond_wait(&s.c, &s.m);
	pthread_mutex_unlock(&s.m);
}

/* ---- who keeps what could be had again ---- */

void sf_budget_reclaim_add(struct sf_budget *b, struct sf_budget_reclaim *r)
{
	pthread_mutex_lock(&b->reclaim_m);
	r->prev = NULL;
	r->next = b->reclaim;
	if (r->next)
		r->next->prev = r;
	b->reclaim = r;
	pthread_mutex_unlock(&b->reclaim_m);
}

void sf_budget_reclaim_remove(struct sf_budget *b, struct sf_budget_reclaim *r)
{
	pthread_mutex_lock(&b->reclaim_m);
	*(r->prev ? &r->prev->next : &b->reclaim) = r->next;
	if (r->next)
		r->next->prev = r->prev;
	pthread_mutex_unlock(&b->reclaim_m);
}

void sf_budget_stat(struct sf_budget *b, struct sf_budget_stat *ret)
{
	pthread_mutex_lock(&b->locked.m);
	*ret = (struct sf_budget_stat){ .limit = sf_budget_limit(b),
		                        .held = b->locked.held,
		                        .most = b->locked.most,
		                        .waits = b->locked.waits,
		                        .waiting = atomic_load(&b->waiting) };
	pthread_mutex_unlock(&b->locked.m);
}

/* ---- charges ---- */

void sf_charge_init(struct sf_charge *c, struct sf_budget *b, enum sf_budget_kind kind,
                    uint64_t taken)
{
	*c = (struct sf_charge){ .budget = b, .kind = kind, .taken = taken };
}

void sf_charge_begin(struct sf_charge *c, struct sf_budget *b, enum sf_budget_kind kind,
                     uint64_t bytes)
{
	sf_charge_init(c, b, kind, SF_MIN(SF_MAX(bytes, UINT64_C(1)), sf_budget_limit(b)));
	sf_budget_wait(b, kind, c->taken);
}

bool sf_charge_use(struct sf_charge *c, uint64_t bytes)
{
	uint64_t want, more;

	if (!c || !c->budget)
		return true;
	if (!sf_add(c->used, bytes, &want))
		want = UINT64_MAX;
	if (want > c->taken) {
		uint64_t limit = sf_budget_limit(c->budget);
		more = SF_MIN(SF_MAX(want - c->taken, CHARGE_STEP),
		              limit - SF_MIN(limit, c->taken));
		if (want > limit || !sf_budget_take(c->budget, c->kind, more)) {
			c->refused = SF_MAX(c->refused, want);
			return false;
		}
		c->taken += more;
	}
	c->used = want;
	return true;
}

void sf_charge_unuse(struct sf_charge *c, uint64_t bytes)
{
	if (c && c->budget)
		c->used -= bytes;
}

void sf_charge_end(struct sf_charge *c, uint64_t keep)
{
	if (c->budget && c->taken > keep)
		sf_budget_give(c->budget, c->kind, c->taken - keep);
	else if (c->budget && c->taken < keep)
		sf_budget_add(c->budget, c->kind, keep - c->taken);
}

uint64_t sf_charge_next(const struct sf_charge *c)
{
	uint64_t limit = c->budget ? sf_budget_limit(c->budget) : 0;

	if (!c->refused || c->refused > limit)
		return 0;
	return c->refused <= limit / 2 ? c->refused * 2 : limit;
}
