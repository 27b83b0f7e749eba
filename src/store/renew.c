#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "store/http_retry.h"
#include "store/renew.h"

#define AHEAD_S INT64_C(900)     /* before the end */
#define PAUSE_MOST_S INT64_C(60) /* between two fetches */
#define AWAY_PAUSE_S INT64_C(5) /* after whoever gives them was away for as long as anybody waits */
#define NAP_MOST 25             /* times the first wait: between two, meanwhile */
#define MS INT64_C(1000000)

struct sf_renew {
	const struct sf_renew_ops *ops;
	void *arg;
	struct sf_cloud_env env, outside; /* env asks by way of ask() below */
	_Atomic bool stop;
	struct {
		pthread_mutex_t m;
		pthread_cond_t fetched, nap;
		struct sf_renew_wait *waits;
		unsigned getters;       /* who wait in sf_renew_get */
		int64_t getters_end_ns; /* the last one's end */
		bool had;               /* there was a value */
		bool gave_up;     /* the last fetches were repeated until nobody waited any more */
		unsigned tries;   /* in vain, of the repeated ones */
		int64_t since_ns; /* when those began */
		void *value;      /* NULL: none */
		int64_t expires;
		bool dropped;    /* the value is no good, whatever its time */
		bool fetching;   /* the thread is at it */
		bool started;    /* there is a thread to be joined */
		int64_t again;   /* no fetch before that; not looked at while pause_s is 0 */
		int64_t pause_s; /* how long it is from the last fetch until then */
		uint64_t fetches;
		int r; /* of the last fetch */
		struct sf_error err;
		pthread_t thread;
	} locked;
};

/* Asked until nobody wants to know any more, or all of the time is over. */
static int ask(void *arg, const struct sf_http_ask *what, struct sf_http_answer *ret,
               struct sf_error *err)
{
	struct sf_renew *r = arg;
	struct sf_http_ask one = *what;
	int64_t end_ns = r->env.end_ns;
	int64_t left_ms = end_ns ? (end_ns - sf_now_ns()) / 1000000 : INT64_MAX;

	if (left_ms <= 0)
		return sf_fail(err, -ETIMEDOUT, "no credentials within %u ms", r->env.timeout_ms);
	one.stop = &r->stop;
	if (end_ns && (!one.timeout_ms || left_ms < one.timeout_ms))
		one.timeout_ms = (unsigned)left_ms;
	return r->outside.ask(r->outside.ask_arg, &one, ret, err);
}

int sf_renew_new(const struct sf_renew_ops *ops, const struct sf_cloud_env *env, void *arg,
                 struct sf_renew **ret, struct sf_error *err)
{
	struct sf_renew *r = calloc(1, sizeof(*r));

	if (!r)
		return sf_fail(err, -ENOMEM, "no memory for credentials");
	r->ops = ops;
	r->arg = arg;
	r->outside = r->env = *env;
	r->env.ask = ask;
	r->env.ask_arg = r;
	r->env.stop = &r->stop;
	pthread_mutex_init(&r->locked.m, NULL);
	pthread_cond_init(&r->locked.fetched, NULL);
	sf_cond_init(&r->locked.nap);
	*ret = r;
	return 0;
}

static void let_go(const struct sf_renew *r, void *value)
{
	if (!value)
		return;
	r->ops->release(value);
	free(value);
}

static int64_t now_of(const struct sf_renew *r)
{
	return r->env.now(r->env.arg);
}

void sf_renew_free(struct sf_renew *r)
{
	if (!r)
		return;
	pthread_mutex_lock(&r->locked.m);
	r->stop = true;
	pthread_cond_broadcast(&r->locked.nap);
	pthread_mutex_unlock(&r->locked.m);
	if (r->locked.started)
		pthread_join(r->locked.thread, NULL);
	let_go(r, r->locked.value);
	pthread_cond_destroy(&r->locked.nap);
	pthread_cond_destroy(&r->locked.fetched);
	pthread_mutex_destroy(&r->locked.m);
	free(r);
}

static bool good_locked(const struct sf_renew *r, int64_t now)
{
	return r->locked.value && !r->locked.dropped &&
	       (!r->locked.expires || now < r->locked.expires);
}

/* Is the last fetch so long ago that there may be another? A clock that was set back is no reason
 * to wait longer than ever. */
static bool rested_locked(const struct sf_renew *r, int64_t now)
{
	return !r->locked.pause_s || now >= r->locked.again ||
	       now < r->locked.again - r->locked.pause_s;
}

static void tell(struct sf_renew_wait *waits, int r, const char *why)
{
	for (struct sf_renew_wait *w = waits, *next; w; w = next) {
		next = w->next; /* its memory may be gone when it was told */
		w->ready(w, r, why);
	}
}

static struct sf_renew_wait *take_waits_locked(struct sf_renew *r)
{
	struct sf_renew_wait *waits = r->locked.waits;

	for (struct sf_renew_wait *w = waits; w; w = w->next)
		w->listed = false;
	r->locked.waits = NULL;
	return waits;
}

/* *ret_now: when it was over. */
static int load(struct sf_renew *r, void **ret, int64_t *ret_expires, int64_t *ret_now,
                struct sf_error *err)
{
	void *value = calloc(1, r->ops->size);
	int e;

	r->env.end_ns = r->env.timeout_ms ? sf_now_ns() + (int64_t)r->env.timeout_ms * 1000000 : 0;
	e = value ? r->ops->load(r->arg, &r->env, value, ret_expires, err)
	          : sf_fail(err, -ENOMEM, "no memory for credentials");

	*ret_now = now_of(r);
	if (e < 0) {
		free(value);
		return e;
	}
	if (*ret_expires && *ret_now >= *ret_expires) {
		e = sf_fail(err, -EKEYEXPIRED, "%s gave credentials that expired %lld s ago",
		            r->ops->from(value), (long long)(*ret_now - *ret_expires));
		let_go(r, value);
		return e;
	}
	*ret = value;
	return 0;
}

/* May a fetch that failed so do better soon? */
static bool may_pass(int e)
{
	return e != -EACCES && e != -EINVAL && e != -ENOTSUP && e != -ENOKEY &&
	       e != -EKEYREJECTED && e != -ENOMEM && e != -ECANCELED;
}

/* What the fetch gave; returns the value before, to be let go of. */
static void *put_locked(struct sf_renew *r, int result, void *value, int64_t expires, int64_t now,
                        const struct sf_error *err)
{
	void *old = NULL;

	if (result >= 0) {
		old = r->locked.value;
		r->locked.value = value;
		r->locked.expires = expires;
		r->locked.dropped = r->locked.gave_up = false;
		r->locked.had = true;
		r->locked.tries = 0;
		/* some give what ends within the quarter of an hour: not asked at every request */
		r->locked.pause_s = PAUSE_MOST_S;
	} else {
		r->locked.pause_s =
			r->locked.r < 0 ? SF_MIN(2 * r->locked.pause_s, PAUSE_MOST_S) : 1;
	}
	r->locked.again = now + r->locked.pause_s;
	r->locked.r = result;
	r->locked.err = *err;
	r->locked.fetches++;
	return old;
}

/* Those whose end comes before @until_ns leave the list. */
static struct sf_renew_wait *take_late_locked(struct sf_renew *r, int64_t until_ns)
{
	struct sf_renew_wait *late = NULL, *next;

	for (struct sf_renew_wait *w = r->locked.waits; w; w = next) {
		next = w->next;
		if (w->end_ns > until_ns)
			continue;
		*(w->prev ? &w->prev->next : &r->locked.waits) = w->next;
		if (w->next)
			w->next->prev = w->prev;
		w->listed = false;
		w->next = late;
		late = w;
	}
	return late;
}

/* How long until the next of the repeated ones, at random up to a time that doubles. */
static int64_t nap_ns(const struct sf_renew *r, unsigned tries)
{
	const unsigned first = SF_MAX(r->env.retry_ms, 1u);
	const unsigned ms = sf_http_wait_ms(first, tries, sf_http_random());

	return (int64_t)(first / 4 + SF_MIN(ms, NAP_MOST * first)) * MS;
}

static void nap_locked(struct sf_renew *r, int64_t until_ns)
{
	const struct timespec at = { until_ns / (int64_t)SF_NS_PER_S,
		                     until_ns % (int64_t)SF_NS_PER_S };

	while (!r->stop && sf_now_ns() < until_ns)
		pthread_cond_timedwait(&r->locked.nap, &r->locked.m, &at);
}

/*
 * After a fetch that failed: true: there is to be another at *ret_until_ns, for those who have the
 * time. *ret_late: who have not, or all.
 */
static bool goes_on_locked(struct sf_renew *r, int result, int64_t *ret_until_ns,
                           struct sf_renew_wait **ret_late)
{
	bool wanted = r->locked.waits || r->locked.getters;

	if (result >= 0 || !r->locked.had || !r->env.timeout_ms || !may_pass(result) || r->stop) {
		*ret_late = take_waits_locked(r);
		return false;
	}
	if (!r->locked.tries++)
		r->locked.since_ns = sf_now_ns();
	*ret_until_ns = sf_now_ns() + nap_ns(r, r->locked.tries);
	*ret_late = take_late_locked(r, *ret_until_ns);
	if (r->locked.waits || (r->locked.getters && r->locked.getters_end_ns > *ret_until_ns))
		return true;
	if (wanted) { /* in vain for as long as anybody waits: the next ones need not */
		r->locked.gave_up = true;
		r->locked.pause_s = AWAY_PAUSE_S;
		r->locked.again = now_of(r) + AWAY_PAUSE_S;
	}
	return false;
}

/* The error of the last fetch, and how many there were. */
static int say_locked(const struct sf_renew *r, struct sf_error *err)
{
	if (r->locked.tries < 2)
		return sf_fail(err, r->locked.r, "%s", r->locked.err.msg);
	return sf_fail(err, r->locked.r, "%s (asked %u times in %.1f s)", r->locked.err.msg,
	               r->locked.tries, (double)(sf_now_ns() - r->locked.since_ns) / 1e9);
}

/* One fetch and what comes of it. True: another is to follow, at *ret_until_ns. */
static bool fetch_one(struct sf_renew *r, int64_t *ret_until_ns)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_renew_wait *waits = NULL;
	void *value = NULL, *old;
	int64_t expires = 0, now;
	int result = load(r, &value, &expires, &now, &err);
	bool more;

	pthread_mutex_lock(&r->locked.m);
	old = put_locked(r, result, value, expires, now, &err);
	more = goes_on_locked(r, result, ret_until_ns, &waits);
	if (result < 0)
		say_locked(r, &err);
	r->locked.fetching = more;
	pthread_cond_broadcast(&r->locked.fetched);
	pthread_mutex_unlock(&r->locked.m);
	let_go(r, old);
	tell(waits, SF_MIN(result, 0), err.msg);
	return more;
}

static void *fetch(void *arg)
{
	struct sf_renew *r = arg;
	int64_t until_ns = 0;
	bool stop;

	/* one failed just now, and nobody waited: some time goes by all the same */
	pthread_mutex_lock(&r->locked.m);
	if (r->locked.tries)
		until_ns = sf_now_ns() + nap_ns(r, r->locked.tries);
	pthread_mutex_unlock(&r->locked.m);
	do {
		pthread_mutex_lock(&r->locked.m);
		nap_locked(r, until_ns);
		pthread_mutex_unlock(&r->locked.m);
		stop = !fetch_one(r, &until_ns);
	} while (!stop);
	return NULL;
}

static int begin_locked(struct sf_renew *r, struct sf_error *err)
{
	int e;

	if (r->locked.started) /* it has nothing to do any more than to tell those who waited */
		pthread_join(r->locked.thread, NULL);
	e = sf_thread_start(&r->locked.thread, fetch, r);
	r->locked.started = e >= 0;
	r->locked.fetching = e >= 0;
	return e < 0 ? sf_fail(err, e, "no thread to fetch credentials: %s", strerror(-e)) : 0;
}

/* 0: there is a good value. -EAGAIN: it is being fetched. */
static int want_locked(struct sf_renew *r, struct sf_error *err)
{
	int64_t now = now_of(r);
	bool good = good_locked(r, now);
	int e;

	if (r->locked.fetching)
		return good ? 0 : -EAGAIN;
	if (good) {
		/* one who begins it, and nobody waits */
		if (r->locked.expires && now >= r->locked.expires - AHEAD_S &&
		    rested_locked(r, now))
			begin_locked(r, NULL);
		return 0;
	}
	/* where fetches are repeated, only what was for good, or in vain for long, ends others too */
	if (r->locked.r < 0 && !rested_locked(r, now) &&
	    (!r->locked.tries || r->locked.gave_up || !may_pass(r->locked.r)))
		return say_locked(r, err);
	if (r->locked.gave_up)
		r->locked.tries = 0;
	r->locked.gave_up = false;
	e = begin_locked(r, err);
	return e < 0 ? e : -EAGAIN;
}

static int give_locked(struct sf_renew *r, void *ret, struct sf_error *err)
{
	return r->ops->copy(r->locked.value, ret) < 0
	               ? sf_fail(err, -ENOMEM, "no memory for credentials")
	               : 0;
}

int sf_renew_try(struct sf_renew *r, void *ret, struct sf_error *err)
{
	int e;

	pthread_mutex_lock(&r->locked.m);
	e = want_locked(r, err);
	if (e == 0)
		e = give_locked(r, ret, err);
	pthread_mutex_unlock(&r->locked.m);
	return e;
}

/* Until a fetch has given a value, or was in vain and is not repeated, or the time is over. */
static int wait_locked(struct sf_renew *r, struct sf_error *err)
{
	const int64_t end_ns = sf_now_ns() + (int64_t)r->env.timeout_ms * MS;
	/* what that fetch says holds for all who wait for it, an error too */
	uint64_t before = r->locked.fetches;
	int e;

	r->locked.getters++;
	r->locked.getters_end_ns = SF_MAX(r->locked.getters_end_ns, end_ns);
	do {
		while (r->locked.fetches == before)
			pthread_cond_wait(&r->locked.fetched, &r->locked.m);
		before = r->locked.fetches;
		e = r->locked.r;
	} while (e < 0 && r->locked.fetching && sf_now_ns() < end_ns);
	r->locked.getters--;
	return e < 0 ? say_locked(r, err) : 0;
}

int sf_renew_get(struct sf_renew *r, void *ret, struct sf_error *err)
{
	int e;

	pthread_mutex_lock(&r->locked.m);
	e = want_locked(r, err);
	if (e == -EAGAIN)
		e = wait_locked(r, err);
	if (e == 0)
		e = give_locked(r, ret, err);
	pthread_mutex_unlock(&r->locked.m);
	return e;
}

void sf_renew_park(struct sf_renew *r, struct sf_renew_wait *w)
{
	bool now;

	pthread_mutex_lock(&r->locked.m);
	now = !r->locked.fetching;
	w->listed = !now;
	w->prev = NULL;
	w->next = NULL;
	if (!now) {
		w->next = r->locked.waits;
		if (w->next)
			w->next->prev = w;
		r->locked.waits = w;
	}
	pthread_mutex_unlock(&r->locked.m);
	if (now)
		w->ready(w, 0, "");
}

bool sf_renew_leave(struct sf_renew *r, struct sf_renew_wait *w)
{
	bool was;

	pthread_mutex_lock(&r->locked.m);
	was = w->listed;
	if (was) {
		*(w->prev ? &w->prev->next : &r->locked.waits) = w->next;
		if (w->next)
			w->next->prev = w->prev;
		w->listed = false;
	}
	pthread_mutex_unlock(&r->locked.m);
	return was;
}

void sf_renew_drop(struct sf_renew *r, bool (*is_it)(const void *value, const void *arg),
                   const void *arg)
{
	pthread_mutex_lock(&r->locked.m);
	if (r->locked.value && is_it(r->locked.value, arg))
		r->locked.dropped = true;
	pthread_mutex_unlock(&r->locked.m);
}
