#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/http_retry.h"
#include "store/outage.h"
#include "store/store.h"

#define MS INT64_C(1000000)
/* in times of the first wait (200 ms): */
#define AWAY 10  /* without an answer for so long, it is away */
#define PROBE 25 /* between two that ask whether it is back, at most */
#define HOLD 150 /* it is known to be dead, a failure is news, a line is not said again */
#define SLACK 5  /* a read's deadline counts from a little before its request does */

struct sf_outage {
	struct sf_io *io;
	struct sf_outage *next;
	_Atomic bool failing; /* there was a failure since the last answer */
	_Atomic int waits;
	struct {
		pthread_mutex_t m;
		bool away, probing, leading, ended, said;
		unsigned probes;     /* that failed since it is away */
		int64_t since_ns;    /* the last answer, or what failed first */
		int64_t patience_ns; /* since then reads have waited for it */
		int64_t last_ns;     /* the last failure */
		int64_t next_ns;     /* no probe before that */
		int64_t said_ns;
		struct sf_turn *waits, *follows; /* the oldest first */
		char why[SF_ERROR_MAX];
	} locked;
	char server[];
};

unsigned sf_outage_first_ms(const struct sf_io *io)
{
	return io->retry_ms ? io->retry_ms : SF_HTTP_WAIT_FIRST_MS;
}

int64_t sf_outage_slack_ns(const struct sf_io *io)
{
	return SF_MIN(io->timeout_ms * MS / 8, SLACK * MS * sf_outage_first_ms(io));
}

static int64_t first_ns(const struct sf_outage *o)
{
	return sf_outage_first_ms(o->io) * MS;
}

/* ---- lists ---- */

static void push_locked(struct sf_turn **list, struct sf_turn *t, enum sf_turn_state state)
{
	struct sf_turn *last = NULL;

	for (; *list; list = &(*list)->next)
		last = *list;
	t->prev = last;
	t->next = NULL;
	t->state = state;
	*list = t;
}

static void unlist_locked(struct sf_turn **list, struct sf_turn *t, enum sf_turn_state state)
{
	*(t->prev ? &t->prev->next : list) = t->next;
	if (t->next)
		t->next->prev = t->prev;
	t->prev = t->next = NULL;
	t->state = state;
}

static struct sf_turn *take_all_locked(struct sf_turn **list)
{
	struct sf_turn *all = *list;

	for (struct sf_turn *t = all; t; t = t->next) {
		t->state = SF_TURN_NONE;
		t->not_before_ns = 0;
	}
	*list = NULL;
	return all;
}

static void tell_all(struct sf_turn *all, int r, const char *why)
{
	for (struct sf_turn *t = all, *next; t; t = next) {
		next = t->next; /* its memory may be gone when it was told */
		t->go(t, r, why);
	}
}

static void tell(struct sf_turn *t)
{
	if (t)
		t->go(t, 0, "");
}

/* ---- turns ---- */

/* Who asks next, if nobody does. */
static struct sf_turn *probe_locked(struct sf_outage *o)
{
	struct sf_turn *best = o->locked.waits;
	int64_t now = sf_now_ns(), most_ns = PROBE * first_ns(o), wait_ns;

	if (!best || o->locked.probing)
		return NULL;
	for (struct sf_turn *t = best->next; t; t = t->next)
		if (t->tries < best->tries)
			best = t;
	for (struct sf_turn *t = o->locked.waits; t; t = t->next)
		if (t->end_ns && t->end_ns <= now) /* it only ends */
			best = t;
	wait_ns =
		sf_http_wait_ms(sf_outage_first_ms(o->io), o->locked.probes + 1, sf_http_random()) *
		MS;
	wait_ns = SF_MAX(SF_MIN(wait_ns, most_ns), o->locked.next_ns - now);
	if (best->end_ns && now + wait_ns >= best->end_ns && o->locked.next_ns <= now)
		wait_ns = SF_MAX((best->end_ns - now) / 2, 0);
	best->not_before_ns = now + wait_ns;
	unlist_locked(&o->locked.waits, best, SF_TURN_PROBES);
	o->locked.probing = true;
	return best;
}

void sf_outage_wait(struct sf_outage *o, struct sf_turn *t)
{
	struct sf_turn *next = NULL;
	bool ended, away;

	pthread_mutex_lock(&o->locked.m);
	ended = o->locked.ended;
	away = o->locked.away;
	t->not_before_ns = 0;
	if (!ended && away) {
		push_locked(&o->locked.waits, t, SF_TURN_WAITS);
		next = probe_locked(o);
	}
	pthread_mutex_unlock(&o->locked.m);
	if (ended)
		t->go(t, -ECANCELED, "canceled");
	else if (!away) /* it is back */
		t->go(t, 0, "");
	else
		tell(next);
}

bool sf_outage_lead(struct sf_outage *o, struct sf_turn *t)
{
	bool leads;

	pthread_mutex_lock(&o->locked.m);
	leads = !o->locked.leading;
	t->not_before_ns = 0;
	if (leads) {
		t->state = SF_TURN_LEADS;
		o->locked.leading = true;
	} else {
		push_locked(&o->locked.follows, t, SF_TURN_FOLLOWS);
	}
	pthread_mutex_unlock(&o->locked.m);
	return leads;
}

bool sf_outage_leave(struct sf_outage *o, struct sf_turn *t)
{
	bool was = true;

	pthread_mutex_lock(&o->locked.m);
	if (t->state == SF_TURN_WAITS)
		unlist_locked(&o->locked.waits, t, SF_TURN_NONE);
	else if (t->state == SF_TURN_FOLLOWS)
		unlist_locked(&o->locked.follows, t, SF_TURN_NONE);
	else
		was = false;
	pthread_mutex_unlock(&o->locked.m);
	return was;
}

void sf_outage_over(struct sf_outage *o, struct sf_turn *t, int r, const char *why)
{
	struct sf_turn *next = NULL, *all = NULL;

	pthread_mutex_lock(&o->locked.m);
	if (t->state == SF_TURN_PROBES) {
		o->locked.probing = false;
		next = probe_locked(o);
	} else if (t->state == SF_TURN_LEADS) {
		o->locked.leading = false;
		if (r < 0)
			all = take_all_locked(&o->locked.follows);
		next = o->locked.follows;
		if (next) {
			unlist_locked(&o->locked.follows, next, SF_TURN_LEADS);
			o->locked.leading = true;
		}
	}
	t->state = SF_TURN_NONE;
	pthread_mutex_unlock(&o->locked.m);
	tell(next);
	tell_all(all, r, why);
}

void sf_outage_end(struct sf_outage *o)
{
	struct sf_turn *waits, *follows;

	pthread_mutex_lock(&o->locked.m);
	o->locked.ended = true;
	waits = take_all_locked(&o->locked.waits);
	follows = take_all_locked(&o->locked.follows);
	pthread_mutex_unlock(&o->locked.m);
	tell_all(waits, -ECANCELED, "canceled");
	tell_all(follows, -ECANCELED, "canceled");
}

/* ---- how the server is ---- */

/* Is it to be said? */
static bool away_locked(struct sf_outage *o, int64_t now)
{
	if (o->locked.away)
		return false;
	o->locked.away = true;
	o->locked.probes = 0;
	o->locked.said = !o->locked.said_ns || now - o->locked.said_ns > HOLD * first_ns(o);
	if (o->locked.said)
		o->locked.said_ns = now;
	return o->locked.said;
}

static void say_away(struct sf_outage *o, const char *why)
{
	sf_log(o->io->log, SF_LOG_WARN, "%s does not answer, waiting for it: %s", o->server, why);
}

bool sf_outage_failed(struct sf_outage *o, int64_t sent_ns, int64_t after_ms, const char *why)
{
	const int64_t now = sf_now_ns(), hold = HOLD * first_ns(o);
	bool say = false, away;

	pthread_mutex_lock(&o->locked.m);
	if (!atomic_exchange(&o->failing, true) || sent_ns - o->locked.last_ns > hold) {
		/* nobody has asked for long: it may have been there meanwhile */
		if (!o->locked.away)
			o->locked.since_ns = sent_ns;
		o->locked.patience_ns = sent_ns;
	}
	if (now - o->locked.patience_ns > o->io->timeout_ms * MS + hold)
		o->locked.patience_ns = sent_ns;
	o->locked.last_ns = now;
	snprintf(o->locked.why, sizeof(o->locked.why), "%s", why);
	if (after_ms > 0)
		o->locked.next_ns = SF_MAX(o->locked.next_ns, now + after_ms * MS);
	if (o->locked.away)
		o->locked.probes++;
	else if (now - o->locked.since_ns >= AWAY * first_ns(o))
		say = away_locked(o, now);
	away = o->locked.away;
	pthread_mutex_unlock(&o->locked.m);
	if (say)
		say_away(o, why);
	return away;
}

void sf_outage_spent(struct sf_outage *o)
{
	char why[SF_ERROR_MAX];
	bool say;

	pthread_mutex_lock(&o->locked.m);
	/* an answer since then: what has just failed is only one of many, and waits for its turn */
	if (!atomic_exchange(&o->failing, true))
		o->locked.since_ns = o->locked.patience_ns = o->locked.last_ns = sf_now_ns();
	say = away_locked(o, sf_now_ns());
	memcpy(why, o->locked.why, sizeof(why));
	pthread_mutex_unlock(&o->locked.m);
	if (say)
		say_away(o, why);
}

void sf_outage_answered(struct sf_outage *o)
{
	struct sf_turn *waits, *follows;
	int64_t since;
	bool say;

	if (!atomic_load_explicit(&o->failing, memory_order_relaxed))
		return;
	pthread_mutex_lock(&o->locked.m);
	atomic_store(&o->failing, false);
	say = o->locked.away && o->locked.said;
	since = o->locked.since_ns;
	o->locked.away = o->locked.said = false;
	o->locked.next_ns = 0;
	waits = take_all_locked(&o->locked.waits);
	follows = take_all_locked(&o->locked.follows);
	pthread_mutex_unlock(&o->locked.m);
	if (say)
		sf_log(o->io->log, SF_LOG_WARN, "%s answers again, after %.0f s", o->server,
		       (double)(sf_now_ns() - since) / 1e9);
	tell_all(waits, 0, "");
	tell_all(follows, 0, "");
}

bool sf_outage_dead(struct sf_outage *o)
{
	const int64_t timeout = o->io->timeout_ms * MS, first = first_ns(o), now = sf_now_ns();
	int64_t waited;
	bool dead;

	if (!timeout || !atomic_load_explicit(&o->failing, memory_order_relaxed))
		return false;
	pthread_mutex_lock(&o->locked.m);
	waited = now - o->locked.patience_ns;
	dead = o->locked.away && now - o->locked.last_ns < HOLD * first &&
	       waited >= timeout - sf_outage_slack_ns(o->io) &&
	       waited < timeout + SF_MIN(timeout, HOLD * first);
	pthread_mutex_unlock(&o->locked.m);
	return dead;
}

void sf_outage_count(struct sf_outage *o, int n)
{
	atomic_fetch_add_explicit(&o->waits, n, memory_order_relaxed);
}

void sf_outage_look(struct sf_outage *o, struct sf_outage_look *ret)
{
	ret->server = o->server;
	pthread_mutex_lock(&o->locked.m);
	ret->away = o->locked.away;
	ret->for_s = (uint64_t)SF_MAX(sf_now_ns() - o->locked.since_ns, 0) / SF_NS_PER_S;
	memcpy(ret->why, o->locked.why, sizeof(ret->why));
	pthread_mutex_unlock(&o->locked.m);
	ret->waits = (uint64_t)SF_MAX(atomic_load_explicit(&o->waits, memory_order_relaxed), 0);
}

/* ---- the servers of a process ---- */

struct sf_outage *sf_outage_first(const struct sf_counters *c)
{
	return atomic_load_explicit(&c->outages, memory_order_acquire);
}

struct sf_outage *sf_outage_next(const struct sf_outage *o)
{
	return o->next;
}

struct sf_outage *sf_outage_of(struct sf_io *io, const char *url)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* makes them one at a time */
	const char *at = strstr(url, "://");
	size_t n = (size_t)((at ? at + 3 : url) - url);
	struct sf_outage *o;

	n += strcspn(url + n, "/?#");
	pthread_mutex_lock(&one);
	for (o = sf_outage_first(&io->counters); o; o = o->next)
		if (strlen(o->server) == n && memcmp(o->server, url, n) == 0)
			break;
	if (!o && (o = calloc(1, sizeof(*o) + n + 1))) {
		o->io = io;
		memcpy(o->server, url, n);
		pthread_mutex_init(&o->locked.m, NULL);
		o->next = sf_outage_first(&io->counters);
		atomic_store_explicit(&io->counters.outages, o, memory_order_release);
	}
	pthread_mutex_unlock(&one);
	return o;
}

void sf_outages_free(struct sf_io *io)
{
	for (struct sf_outage *o = sf_outage_first(&io->counters), *next; o; o = next) {
		next = o->next;
		pthread_mutex_destroy(&o->locked.m);
		free(o);
	}
	io->counters.outages = NULL;
}
