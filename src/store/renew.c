#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "store/renew.h"

#define AHEAD_S INT64_C(900)     /* before the end */
#define PAUSE_MOST_S INT64_C(60) /* between two fetches */

struct sf_renew {
	const struct sf_renew_ops *ops;
	void *arg;
	struct sf_cloud_env env, outside; /* env asks by way of ask() below */
	_Atomic bool stop;
	struct {
		pthread_mutex_t m;
		pthread_cond_t fetched;
		struct sf_renew_wait *waits;
		void *value; /* NULL: none */
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
	r->stop = true;
	if (r->locked.started)
		pthread_join(r->locked.thread, NULL);
	let_go(r, r->locked.value);
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

static void *fetch(void *arg)
{
	struct sf_renew *r = arg;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_renew_wait *waits;
	void *value = NULL, *old = NULL;
	int64_t expires = 0, now;
	int result = load(r, &value, &expires, &now, &err);

	pthread_mutex_lock(&r->locked.m);
	if (result >= 0) {
		old = r->locked.value;
		r->locked.value = value;
		r->locked.expires = expires;
		r->locked.dropped = false;
		/* some give what ends within the quarter of an hour: not asked at every request */
		r->locked.pause_s = PAUSE_MOST_S;
	} else {
		r->locked.pause_s =
			r->locked.r < 0 ? SF_MIN(2 * r->locked.pause_s, PAUSE_MOST_S) : 1;
	}
	r->locked.again = now + r->locked.pause_s;
	r->locked.r = result;
	r->locked.err = err;
	r->locked.fetches++;
	r->locked.fetching = false;
	waits = take_waits_locked(r);
	pthread_cond_broadcast(&r->locked.fetched);
	pthread_mutex_unlock(&r->locked.m);
	let_go(r, old);
	tell(waits, SF_MIN(result, 0), err.msg);
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
	if (r->locked.r < 0 && !rested_locked(r, now))
		return sf_fail(err, r->locked.r, "%s", r->locked.err.msg);
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

int sf_renew_get(struct sf_renew *r, void *ret, struct sf_error *err)
{
	int e;

	pthread_mutex_lock(&r->locked.m);
	e = want_locked(r, err);
	if (e == -EAGAIN) {
		/* what that fetch says holds for all who wait for it, an error too */
		const uint64_t before = r->locked.fetches;

		while (r->locked.fetches == before)
			pthread_cond_wait(&r->locked.fetched, &r->locked.m);
		e = r->locked.r < 0 ? sf_fail(err, r->locked.r, "%s", r->locked.err.msg) : 0;
	}
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
