#include "config.h"

#include <stddef.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "read/item_cache_priv.h"
#include "read/made.h"

/* Loads: one of an item at a time, begun when its bytes are taken from the budget; who waits for
 * it. */

static void list_add(struct sf_cache_entry **list, struct sf_cache_entry *e)
{
	e->prev = NULL;
	e->next = *list;
	if (e->next)
		e->next->prev = e;
	*list = e;
}

static void list_remove(struct sf_cache_entry **list, struct sf_cache_entry *e)
{
	*(e->prev ? &e->prev->next : list) = e->next;
	if (e->next)
		e->next->prev = e->prev;
	e->prev = e->next = NULL;
}

/* The last one of them: @owner may be gone then. */
static void one_load_less(struct sf_item_cache *c, struct sf_item_owner *owner)
{
	pthread_mutex_lock(&c->locked.m);
	if (--owner->nloads == 0)
		pthread_cond_broadcast(&c->locked.idle);
	pthread_mutex_unlock(&c->locked.m);
}

/* What held it while it was loaded. */
static void let_want_go(struct sf_cache_entry *e)
{
	sf_source_unref(e->want.src);
	e->want.src = NULL;
	if (e->want.made)
		e->want.made->ops->unref(e->want.made);
	e->want.made = NULL;
}

static struct sf_cache_wait *take_waits_locked(struct sf_cache_entry *e)
{
	struct sf_cache_wait *waits = e->waits;

	for (struct sf_cache_wait *w = waits; w; w = w->next)
		w->entry = NULL;
	e->waits = e->last_wait = NULL;
	return waits;
}

static void leave_waits_locked(struct sf_cache_entry *e, struct sf_cache_wait *w)
{
	*(w->prev ? &w->prev->next : &e->waits) = w->next;
	*(w->next ? &w->next->prev : &e->last_wait) = w->prev;
	w->prev = w->next = NULL;
	w->entry = NULL;
}

/* Those who hold other items, or have their bytes: they must not wait for one that waits. */
static struct sf_cache_wait *take_impatient_locked(struct sf_cache_entry *e)
{
	struct sf_cache_wait *taken = NULL;

	for (struct sf_cache_wait *w = e->waits, *next; w; w = next) {
		next = w->next;
		if (w->may_queue)
			continue;
		leave_waits_locked(e, w);
		w->again = true;
		w->next = taken;
		taken = w;
	}
	return taken;
}

static void tell_turn_locked(struct sf_cache_wait *w, const struct sf_cache_entry *e)
{
	if (w->turn && e->want.kind != SF_CACHED_MADE)
		w->turn(w, e->state != SF_ENTRY_QUEUED);
}

static void tell_turns_locked(struct sf_cache_entry *e)
{
	for (struct sf_cache_wait *w = e->waits; w; w = w->next)
		tell_turn_locked(w, e);
}

static void tell(struct sf_cache_wait *w, int r, struct sf_cache_entry *e, const char *why)
{
	for (struct sf_cache_wait *next; w; w = next) {
		next = w->next;
		if (r < 0) {
			sf_fail(&w->err, r, "%s", why);
			w->done(w, r, NULL);
		} else {
			atomic_fetch_add(&e->refs, 1);
			w->done(w, 0, &e->pub);
		}
	}
}

/* Into the LRU or out of the table, then everybody who waits is told. */
static void loaded(struct sf_cache_entry *e, int r)
{
	struct sf_item_cache *c = e->cache;
	struct sf_item_owner *owner = e->want.owner;
	struct sf_cache_wait *waits;
	char why[SF_ERROR_MAX] = "";

	if (r < 0)
		memcpy(why, e->req.err.msg, sizeof(why));
	pthread_mutex_lock(&c->locked.m);
	list_remove(&owner->loading, e);
	waits = take_waits_locked(e);
	if (r < 0) {
		sf_item_table_remove_locked(c, e);
	} else {
		e->state = SF_ENTRY_READY;
		atomic_fetch_add(&c->held, e->held);
		atomic_fetch_add(&e->refs, 1); /* ours, until all are told */
		sf_item_loaded_locked(c, e);
	}
	pthread_mutex_unlock(&c->locked.m);
	let_want_go(e); /* not before: sf_item_cache_end() looks at what is loading */
	tell(waits, r, e, why);
	sf_item_unref(e);
	sf_item_trim(c);
	one_load_less(c, owner);
}

/* The bytes for it are taken; on a thread of the pool. */
static void turn_task(struct sf_task *task)
{
	struct sf_cache_entry *e = sf_container_of(task, struct sf_cache_entry, task);
	struct sf_item_cache *c = e->cache;
	struct sf_item_owner *owner = e->want.owner;
	bool gone;

	pthread_mutex_lock(&c->locked.m);
	gone = e->gone;
	if (!gone) {
		list_remove(&owner->queued, e);
		e->state = SF_ENTRY_LOADING;
		list_add(&owner->loading, e);
		tell_turns_locked(e);
	}
	pthread_mutex_unlock(&c->locked.m);
	if (gone) {
		sf_budget_give(c->io->budget, SF_BUDGET_ITEM, e->turn.bytes);
		let_want_go(e);
		sf_item_unref(e);
		one_load_less(c, owner);
		return;
	}
	sf_charge_init(&e->charge, c->io->budget, SF_BUDGET_ITEM, e->turn.bytes);
	sf_item_load(e);
}

static void turn_came(struct sf_budget_wait *w)
{
	struct sf_cache_entry *e = sf_container_of(w, struct sf_cache_entry, turn);

	e->task.run = turn_task;
	sf_thread_pool_submit(e->cache->io->pool, &e->task);
}

static void queue(struct sf_cache_entry *e, uint64_t bytes)
{
	/* all but turn.queued, which is the budget's: it may be given up just now */
	e->turn.kind = SF_BUDGET_ITEM;
	e->turn.bytes = bytes;
	e->turn.granted = turn_came;
	sf_budget_queue(e->cache->io->budget, &e->turn);
}

static void again(struct sf_cache_entry *e, uint64_t bytes)
{
	struct sf_item_cache *c = e->cache;
	struct sf_item_owner *owner = e->want.owner;
	struct sf_cache_wait *impatient = NULL;
	bool ending;

	pthread_mutex_lock(&c->locked.m);
	ending = owner->ending;
	if (!ending) {
		impatient = take_impatient_locked(e);
		list_remove(&owner->loading, e);
		e->state = SF_ENTRY_QUEUED;
		list_add(&owner->queued, e);
		tell_turns_locked(e);
	}
	pthread_mutex_unlock(&c->locked.m);
	tell(impatient, -EAGAIN, NULL, "no room for an item");
	if (ending)
		loaded(e, sf_fail(&e->req.err, -ECANCELED, "canceled"));
	else
		queue(e, bytes);
}

static struct sf_cache_entry *entry_new(struct sf_item_cache *c, const struct sf_cache_want *want)
{
	struct sf_cache_entry *e = calloc(1, sizeof(*e));

	if (!e)
		return NULL;
	e->cache = c;
	e->loaded = loaded;
	e->again = again;
	e->refs = 1;
	e->want = *want;
	if (want->src)
		sf_source_ref(want->src);
	if (want->made)
		want->made->ops->ref(want->made);
	e->charge.kind = want->kind == SF_CACHED_MADE ? SF_BUDGET_MADE : SF_BUDGET_ITEM;
	return e;
}

static void add_wait_locked(struct sf_cache_entry *e, struct sf_cache_wait *w, bool may_queue)
{
	w->may_queue = may_queue;
	w->next = NULL;
	w->prev = e->last_wait;
	*(w->prev ? &w->prev->next : &e->waits) = w;
	e->last_wait = w;
	w->entry = e;
	tell_turn_locked(w, e);
}

/* Is it in the table? 1: *ret says how the load goes on, *ret_e is a reference when it is there. */
static int join_locked(struct sf_item_cache *c, const struct sf_cache_want *want,
                       struct sf_cache_wait *wait, bool may_queue, enum sf_cache_load *ret,
                       struct sf_cache_entry **ret_e)
{
	struct sf_cache_entry *e = sf_item_find_locked(c, want);

	*ret = SF_CACHE_BEGUN;
	*ret_e = NULL;
	if (!e)
		return 0;
	if (e->state == SF_ENTRY_READY) {
		atomic_fetch_add(&e->refs, 1);
		*ret_e = e;
		return 1;
	}
	if (e->state == SF_ENTRY_QUEUED || want->kind == SF_CACHED_MADE)
		*ret = may_queue ? SF_CACHE_QUEUED : SF_CACHE_FULL;
	if (*ret != SF_CACHE_FULL)
		add_wait_locked(e, wait, may_queue);
	return 1;
}

/* Into the table: it is the load of all who want it. */
static void insert_locked(struct sf_item_cache *c, struct sf_cache_entry *e,
                          struct sf_cache_wait *wait, bool may_queue, bool loading)
{
	struct sf_item_owner *owner = e->want.owner;

	sf_item_table_add_locked(c, e);
	e->state = loading ? SF_ENTRY_LOADING : SF_ENTRY_QUEUED;
	list_add(loading ? &owner->loading : &owner->queued, e);
	add_wait_locked(e, wait, may_queue);
	atomic_fetch_add(&e->refs, 1); /* the load's, then the table's */
	owner->nloads++;
}

/* A load of our own, unless another thread began one meanwhile. */
static enum sf_cache_load begin(struct sf_item_cache *c, struct sf_cache_entry *made,
                                struct sf_cache_wait *wait, bool may_queue,
                                struct sf_cache_entry **ret_there)
{
	bool is_made = made->want.kind == SF_CACHED_MADE, canceled;
	uint64_t claim = is_made ? 0 : sf_item_claim(made);
	bool taken = is_made || sf_budget_take(c->io->budget, SF_BUDGET_ITEM, claim), ours = false;
	enum sf_cache_load r;

	if (!taken && !may_queue)
		return SF_CACHE_FULL;
	pthread_mutex_lock(&c->locked.m);
	canceled = made->want.owner->ending;
	if (!canceled && !join_locked(c, &made->want, wait, may_queue, &r, ret_there)) {
		ours = true;
		insert_locked(c, made, wait, may_queue, taken);
		r = is_made || !taken ? SF_CACHE_QUEUED : SF_CACHE_BEGUN;
	}
	pthread_mutex_unlock(&c->locked.m);
	if (!ours && taken && claim)
		sf_budget_give(c->io->budget, SF_BUDGET_ITEM, claim);
	if (canceled) {
		wait->done(wait, sf_fail(&wait->err, -ECANCELED, "canceled"), NULL);
		return SF_CACHE_BEGUN;
	}
	if (!ours)
		return r;
	if (taken) {
		if (!is_made)
			sf_charge_init(&made->charge, c->io->budget, SF_BUDGET_ITEM, claim);
		sf_item_load(made);
	} else {
		queue(made, claim);
	}
	return r;
}

enum sf_cache_load sf_item_cache_load(struct sf_item_cache *c, const struct sf_cache_want *want,
                                      struct sf_cache_wait *wait, bool may_queue)
{
	struct sf_cache_entry *made, *there = NULL;
	enum sf_cache_load r;
	int known;

	pthread_mutex_lock(&c->locked.m);
	known = join_locked(c, want, wait, may_queue, &r, &there);
	pthread_mutex_unlock(&c->locked.m);
	if (!known) {
		made = entry_new(c, want);
		if (!made) {
			wait->done(wait, sf_fail(&wait->err, -ENOMEM, "no memory for an item"),
			           NULL);
			return SF_CACHE_BEGUN;
		}
		r = begin(c, made, wait, may_queue, &there);
		if (atomic_load(&made->refs) == 1)
			let_want_go(made);
		sf_item_unref(made);
	}
	if (there)
		wait->done(wait, 0, &there->pub);
	return r;
}

/* It is out of the table. */
void sf_item_cache_give_up(struct sf_item_cache *c, struct sf_cache_entry *e)
{
	struct sf_item_owner *owner;

	if (!e)
		return;
	owner = e->want.owner;
	if (!sf_budget_cancel(c->io->budget, &e->turn)) {
		sf_item_unref(e); /* turn_task() sees that it is gone */
		return;
	}
	let_want_go(e);
	sf_item_unref(e);
	sf_item_unref(e);
	one_load_less(c, owner);
}

/* For sf_item_cache_give_up(), which may come behind its turn: with a reference. */
static void take_out_locked(struct sf_item_cache *c, struct sf_cache_entry *e)
{
	sf_item_table_remove_locked(c, e);
	list_remove(&e->want.owner->queued, e);
	e->gone = true;
	atomic_fetch_add(&e->refs, 1);
}

bool sf_item_cache_cancel(struct sf_item_cache *c, struct sf_cache_wait *wait,
                          struct sf_cache_entry **ret_unwanted)
{
	struct sf_cache_entry *e;
	bool waited;

	*ret_unwanted = NULL;

	pthread_mutex_lock(&c->locked.m);
	e = wait->entry;
	waited = e && e->state == SF_ENTRY_QUEUED;
	if (waited) {
		leave_waits_locked(e, wait);
		if (!e->waits) {
			take_out_locked(c, e);
			*ret_unwanted = e;
		}
	}
	pthread_mutex_unlock(&c->locked.m);
	return waited;
}

/* ---- the end ---- */

/* Again and again: a load that is just about to submit its next request has nothing to cancel yet. */
static void cancel_loading_locked(struct sf_item_cache *c, struct sf_item_owner *owner)
{
	struct timespec until;

	for (struct sf_cache_entry *e = owner->loading; e; e = e->next)
		if (e->want.src && e->want.src->ops->cancel)
			e->want.src->ops->cancel(e->want.src, &e->req);
	until = sf_until_ms(CLOCK_MONOTONIC, 5);
	pthread_cond_timedwait(&c->locked.idle, &c->locked.m, &until);
}

void sf_item_cache_end(struct sf_item_cache *c, struct sf_item_owner *owner)
{
	pthread_mutex_lock(&c->locked.m);
	owner->ending = true;
	while (owner->nloads) {
		struct sf_cache_entry *e = owner->queued;
		if (!e) {
			cancel_loading_locked(c, owner);
			continue;
		}
		struct sf_cache_wait *waits = take_waits_locked(e);
		take_out_locked(c, e);
		pthread_mutex_unlock(&c->locked.m);
		tell(waits, -ECANCELED, NULL, "canceled");
		sf_item_cache_give_up(c, e);
		pthread_mutex_lock(&c->locked.m);
	}
	pthread_mutex_unlock(&c->locked.m);
}
