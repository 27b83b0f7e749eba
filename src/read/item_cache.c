#include "config.h"

#include <stddef.h>

#include "base/clock.h"
#include "base/mem.h"
#include "read/item_cache_priv.h"

#define TRIES 64 /* of the oldest are looked at for one that nobody uses */

/* Who reads an item on is waited for as long as it took to load, of which no less and no more than
 * this counts, and so many times as long in all. */
#define MS INT64_C(1000000)
#define KEEP_LEAST (2 * MS)
#define KEEP_NEXT (250 * MS)
#define KEEP_ALL (1000 * MS)
#define KEEP_TIMES 10

static uint64_t reclaim(struct sf_budget_reclaim *r, uint64_t bytes);
static bool timer_due(struct sf_deadline *d);
static void timer_fires(struct sf_deadline *d);

int sf_item_cache_new(struct sf_io *io, struct sf_item_cache **ret, struct sf_error *err)
{
	struct sf_item_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return sf_fail(err, -ENOMEM, "item cache: no memory");
	c->io = io;
	c->refs = 1;
	c->keep.least_ns = KEEP_LEAST;
	c->keep.next_ns = KEEP_NEXT;
	c->keep.all_ns = KEEP_ALL;
	c->timer.due = timer_due;
	c->timer.fire = timer_fires;
	c->reclaim.reclaim = reclaim;
	pthread_mutex_init(&c->locked.m, NULL);
	sf_cond_init(&c->locked.idle);
	sf_budget_reclaim_add(io->budget, &c->reclaim);
	*ret = c;
	return 0;
}

static void cache_unref(struct sf_item_cache *c)
{
	if (atomic_fetch_sub(&c->refs, 1) != 1)
		return;
	pthread_cond_destroy(&c->locked.idle);
	pthread_mutex_destroy(&c->locked.m);
	free(c);
}

void sf_item_cache_free(struct sf_item_cache *c)
{
	if (!c)
		return;
	sf_budget_reclaim_remove(c->io->budget, &c->reclaim);
	pthread_mutex_lock(&c->locked.m);
	c->locked.ended = true; /* the timer is not armed any more */
	pthread_mutex_unlock(&c->locked.m);
	sf_deadlines_remove(c->io->deadlines, &c->timer);
	cache_unref(c);
}

/* ---- the table ---- */

static struct sf_cache_entry **bucket_of(struct sf_item_cache *c, const struct sf_cache_want *w)
{
	uint64_t h = w->off * UINT64_C(0x9e3779b97f4a7c15) + w->file;

	h = (h ^ (uintptr_t)w->owner >> 4) * UINT64_C(0x9e3779b97f4a7c15);

	return &c->locked.bucket[h >> 32 & (SF_ITEM_BUCKETS - 1)];
}

struct sf_cache_entry *sf_item_find_locked(struct sf_item_cache *c, const struct sf_cache_want *w)
{
	struct sf_cache_entry *e = *bucket_of(c, w);

	while (e && (e->want.owner != w->owner || e->want.file != w->file ||
	             e->want.off != w->off || e->want.kind != w->kind || e->want.codec != w->codec))
		e = e->chain;
	return e;
}

void sf_item_table_add_locked(struct sf_item_cache *c, struct sf_cache_entry *e)
{
	struct sf_cache_entry **b = bucket_of(c, &e->want);

	e->chain = *b;
	*b = e;
}

void sf_item_table_remove_locked(struct sf_item_cache *c, struct sf_cache_entry *e)
{
	struct sf_cache_entry **p = bucket_of(c, &e->want);

	while (*p != e)
		p = &(*p)->chain;
	*p = e->chain;
}

/* ---- references ---- */

void sf_item_drop_load(struct sf_cache_entry *e)
{
	sf_charge_unuse(&e->charge, e->in_len);
	free(e->in);
	e->in = NULL;
	e->in_len = 0;
	sf_decoder_free(e->decoder);
	e->decoder = NULL;
}

void sf_item_drop(struct sf_cache_entry *e)
{
	sf_item_drop_load(e);
	sf_pages_release(&e->pages);
	sf_charge_unuse(&e->charge, e->begun ? e->pub.len : 0);
	free(e->begun);
	e->begun = NULL;
	if (e->want.kind == SF_CACHED_MADE)
		sf_buf_release(&e->out);
	e->out = (struct sf_buf){ 0 };
	sf_map_release(&e->pub.names);
	sf_arena_release(&e->arena);
	e->pub = (struct sf_cached){ 0 };
	e->pos = 0;
}

static void entry_free(struct sf_cache_entry *e)
{
	struct sf_budget *b = e->cache->io->budget;
	enum sf_budget_kind kind = e->charge.kind;
	uint64_t held = e->held;

	sf_item_drop(e);
	sf_source_unref(e->want.src);
	free(e);
	if (held)
		sf_budget_give(b, kind, held);
}

void sf_item_unref(struct sf_cache_entry *e)
{
	if (atomic_fetch_sub(&e->refs, 1) == 1)
		entry_free(e);
}

/* Out of the table; the caller lets it go. */
static void leave_locked(struct sf_item_cache *c, struct sf_cache_entry *e)
{
	sf_lru_remove(&c->locked.lru, &e->lru);
	sf_item_table_remove_locked(c, e);
	atomic_fetch_sub(&c->held, e->held);
}

/* What is kept is looked at again at @at_ns. false: it will not be. */
static bool arm_locked(struct sf_item_cache *c, int64_t now, int64_t at_ns)
{
	unsigned ms = (unsigned)((at_ns - now) / MS + 1);

	if (c->locked.ended)
		return true;
	if (c->locked.armed) { /* or it goes off just now, and looks itself */
		sf_deadlines_sooner(c->io->deadlines, &c->timer, ms);
		return true;
	}
	c->locked.armed = sf_deadlines_add(c->io->deadlines, &c->timer, NULL, ms) >= 0;
	return c->locked.armed;
}

/*
 * Takes one that nobody uses out of the table, the oldest of those looked at; the caller lets it
 * go. Every reference but the table's comes from a look-up under the lock: at 1 nobody can take
 * another.
 */
static struct sf_cache_entry *evict_locked(struct sf_item_cache *c)
{
	struct sf_lru_link *l = c->locked.lru.oldest, *newer;
	int64_t now = sf_now_ns(), kept = INT64_MAX;

	for (int i = 0; i < TRIES && l; i++, l = newer) {
		struct sf_cache_entry *e = sf_container_of(l, struct sf_cache_entry, lru);
		newer = l->newer;
		if (atomic_load(&e->refs) > 1) {
			/* used: out of the way of the next look */
			sf_lru_touch(&c->locked.lru, l);
		} else if (e->keep_ns > now && !c->locked.no_timer) {
			kept = SF_MIN(kept, e->keep_ns);
		} else {
			leave_locked(c, e);
			return e;
		}
	}
	if (kept == INT64_MAX || arm_locked(c, now, kept))
		return NULL;
	c->locked.no_timer = true; /* no thread for it: nothing is kept */
	return evict_locked(c);
}

static uint64_t reclaim(struct sf_budget_reclaim *r, uint64_t bytes)
{
	struct sf_item_cache *c = sf_container_of(r, struct sf_item_cache, reclaim);
	uint64_t sum = 0;

	while (sum < bytes) {
		pthread_mutex_lock(&c->locked.m);
		struct sf_cache_entry *e = evict_locked(c);
		pthread_mutex_unlock(&c->locked.m);
		if (!e)
			break;
		sum += e->held;
		sf_item_unref(e);
	}
	return sum;
}

static bool too_much(const struct sf_item_cache *c)
{
	return atomic_load_explicit(&c->held, memory_order_relaxed) >
	               sf_budget_limit(c->io->budget) / 2 ||
	       sf_budget_wanted(c->io->budget);
}

/* What nobody uses goes, as long as there is too much of it. */
void sf_item_trim(struct sf_item_cache *c)
{
	while (too_much(c)) {
		pthread_mutex_lock(&c->locked.m);
		struct sf_cache_entry *e = evict_locked(c);
		pthread_mutex_unlock(&c->locked.m);
		if (!e)
			break;
		sf_item_unref(e);
	}
}

/* Takes what it needs to fire, under the lock of deadlines. */
static bool timer_due(struct sf_deadline *d)
{
	atomic_fetch_add(&sf_container_of(d, struct sf_item_cache, timer)->refs, 1);
	return true;
}

static void timer_fires(struct sf_deadline *d)
{
	struct sf_item_cache *c = sf_container_of(d, struct sf_item_cache, timer);

	pthread_mutex_lock(&c->locked.m);
	c->locked.armed = false;
	pthread_mutex_unlock(&c->locked.m);
	sf_item_trim(c);
	cache_unref(c);
}

void sf_item_loaded_locked(struct sf_item_cache *c, struct sf_cache_entry *e)
{
	int64_t now = sf_now_ns();

	e->took_ns = SF_MAX(now - e->began_ns, c->keep.least_ns);
	e->keep_last_ns = now + KEEP_TIMES * SF_MIN(e->took_ns, c->keep.all_ns);
	sf_lru_add(&c->locked.lru, &e->lru);
}

void sf_cached_pass(struct sf_item_cache *c, const struct sf_cached *item, uint64_t bytes,
                    uint64_t len)
{
	struct sf_cache_entry *e = (struct sf_cache_entry *)item;

	pthread_mutex_lock(&c->locked.m);
	e->passed += bytes;
	if (e->passed < len) {
		e->keep_ns =
			SF_MIN(sf_now_ns() + SF_MIN(e->took_ns, c->keep.next_ns), e->keep_last_ns);
	} else {
		e->passed = 0;
		e->keep_ns = 0;
	}
	pthread_mutex_unlock(&c->locked.m);
	sf_cached_unref(c, item);
}

const struct sf_cached *sf_cached_ref(const struct sf_cached *item)
{
	atomic_fetch_add(&((struct sf_cache_entry *)item)->refs, 1);
	return item;
}

void sf_cached_unref(struct sf_item_cache *c, const struct sf_cached *item)
{
	struct sf_cache_entry *e = (struct sf_cache_entry *)item;
	uint32_t refs;

	if (!e)
		return;
	refs = atomic_fetch_sub(&e->refs, 1);
	if (refs == 1)
		entry_free(e);
	else if (refs == 2 && too_much(c)) /* whoever waits may have it now */
		sf_item_trim(c);
}

const struct sf_cached *sf_item_cache_get(struct sf_item_cache *c, const struct sf_cache_want *want)
{
	struct sf_cache_entry *e;

	pthread_mutex_lock(&c->locked.m);
	e = sf_item_find_locked(c, want);
	if (e && e->state == SF_ENTRY_READY) {
		atomic_fetch_add(&e->refs, 1);
		sf_lru_touch(&c->locked.lru, &e->lru);
	} else {
		e = NULL;
	}
	pthread_mutex_unlock(&c->locked.m);
	return e ? &e->pub : NULL;
}

void sf_item_cache_forget(struct sf_item_cache *c, const struct sf_cache_want *want)
{
	struct sf_cache_entry *e;

	pthread_mutex_lock(&c->locked.m);
	e = sf_item_find_locked(c, want);
	if (e && e->state == SF_ENTRY_READY && atomic_load(&e->refs) == 1)
		leave_locked(c, e);
	else
		e = NULL;
	pthread_mutex_unlock(&c->locked.m);
	if (e)
		sf_item_unref(e);
}

void sf_item_cache_drop(struct sf_item_cache *c, struct sf_item_owner *owner)
{
	struct sf_cache_entry *gone = NULL, *e;

	pthread_mutex_lock(&c->locked.m);
	for (struct sf_lru_link *l = c->locked.lru.newest, *older; l; l = older) {
		older = l->older;
		e = sf_container_of(l, struct sf_cache_entry, lru);
		if (e->want.owner != owner)
			continue;
		leave_locked(c, e);
		e->chain = gone;
		gone = e;
	}
	pthread_mutex_unlock(&c->locked.m);
	while ((e = gone)) {
		gone = e->chain;
		sf_item_unref(e);
	}
}
