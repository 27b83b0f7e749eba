#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <time.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/thread_pool.h"

struct sf_deadlines {
	struct {
		pthread_mutex_t m;
		pthread_cond_t wake;
		struct sf_deadline *first, *last; /* by time */
		bool runs, ending;
	} locked;
	pthread_t thread;
};

int sf_deadlines_new(struct sf_deadlines **ret, struct sf_error *err)
{
	struct sf_deadlines *l = calloc(1, sizeof(*l));

	if (!l)
		return sf_fail(err, -ENOMEM, "deadlines: no memory");
	pthread_mutex_init(&l->locked.m, NULL);
	sf_cond_init(&l->locked.wake);
	*ret = l;
	return 0;
}

void sf_deadlines_free(struct sf_deadlines *l)
{
	if (!l)
		return;
	pthread_mutex_lock(&l->locked.m);
	l->locked.ending = true;
	pthread_cond_signal(&l->locked.wake);
	pthread_mutex_unlock(&l->locked.m);
	if (l->locked.runs)
		pthread_join(l->thread, NULL);
	pthread_cond_destroy(&l->locked.wake);
	pthread_mutex_destroy(&l->locked.m);
	free(l);
}

static void unlist_locked(struct sf_deadlines *l, struct sf_deadline *d)
{
	*(d->prev ? &d->prev->next : &l->locked.first) = d->next;
	*(d->next ? &d->next->prev : &l->locked.last) = d->prev;
	d->prev = d->next = NULL;
	d->listed = false;
}

/* Behind @before, NULL: at the head. */
static void list_locked(struct sf_deadlines *l, struct sf_deadline *d, struct sf_deadline *before)
{
	d->prev = before;
	d->next = before ? before->next : l->locked.first;
	*(d->prev ? &d->prev->next : &l->locked.first) = d;
	*(d->next ? &d->next->prev : &l->locked.last) = d;
	d->listed = true;
	if (!before)
		pthread_cond_signal(&l->locked.wake);
}

static void list_by_time_locked(struct sf_deadlines *l, struct sf_deadline *d)
{
	struct sf_deadline *before = l->locked.last;

	while (before && before->at_ns > d->at_ns)
		before = before->prev;
	list_locked(l, d, before);
}

static void wait_locked(struct sf_deadlines *l, uint64_t until_ns)
{
	const struct timespec until = sf_timespec(until_ns);

	if (until_ns == UINT64_MAX)
		pthread_cond_wait(&l->locked.wake, &l->locked.m);
	else
		pthread_cond_timedwait(&l->locked.wake, &l->locked.m, &until);
}

static void *run(void *arg)
{
	struct sf_deadlines *l = arg;

	pthread_mutex_lock(&l->locked.m);
	while (!l->locked.ending) {
		struct sf_deadline *d = l->locked.first;
		if (!d || d->at_ns > (uint64_t)sf_now_ns()) {
			wait_locked(l, d ? d->at_ns : UINT64_MAX);
			continue;
		}
		uint64_t at_ns = d->at_ns;
		unlist_locked(l, d);
		if (!d->due(d)) {
			if (d->at_ns > at_ns)
				list_by_time_locked(l, d);
			continue;
		}
		pthread_mutex_unlock(&l->locked.m);
		d->fire(d);
		pthread_mutex_lock(&l->locked.m);
	}
	pthread_mutex_unlock(&l->locked.m);
	return NULL;
}

int sf_deadlines_add(struct sf_deadlines *l, struct sf_deadline *d, const void *owner,
                     unsigned timeout_ms)
{
	int r = 0;

	d->owner = owner;
	d->expedited = false;
	d->at_ns = timeout_ms ? (uint64_t)sf_now_ns() + (uint64_t)timeout_ms * 1000000 : UINT64_MAX;
	pthread_mutex_lock(&l->locked.m);
	if (!l->locked.runs) {
		r = sf_thread_start(&l->thread, run, l);
		l->locked.runs = r == 0;
	}
	if (!r)
		list_by_time_locked(l, d);
	pthread_mutex_unlock(&l->locked.m);
	return r;
}

void sf_deadlines_sooner(struct sf_deadlines *l, struct sf_deadline *d, unsigned timeout_ms)
{
	uint64_t at_ns = (uint64_t)sf_now_ns() + (uint64_t)timeout_ms * 1000000;

	pthread_mutex_lock(&l->locked.m);
	if (d->listed && at_ns < d->at_ns) {
		unlist_locked(l, d);
		d->at_ns = at_ns;
		list_by_time_locked(l, d);
	}
	pthread_mutex_unlock(&l->locked.m);
}

void sf_deadlines_remove(struct sf_deadlines *l, struct sf_deadline *d)
{
	pthread_mutex_lock(&l->locked.m);
	if (d->listed)
		unlist_locked(l, d);
	pthread_mutex_unlock(&l->locked.m);
}

static void expedite_locked(struct sf_deadlines *l, struct sf_deadline *d)
{
	unlist_locked(l, d);
	d->at_ns = 0;
	d->expedited = true;
	list_locked(l, d, NULL);
}

void sf_deadlines_expedite(struct sf_deadlines *l, struct sf_deadline *d)
{
	pthread_mutex_lock(&l->locked.m);
	if (d->listed)
		expedite_locked(l, d);
	pthread_mutex_unlock(&l->locked.m);
}

void sf_deadlines_expedite_all(struct sf_deadlines *l, const void *owner)
{
	pthread_mutex_lock(&l->locked.m);
	for (struct sf_deadline *d = l->locked.first, *next; d; d = next) {
		next = d->next;
		if ((owner ? d->owner == owner : d->owner != NULL) && !d->expedited)
			expedite_locked(l, d);
	}
	pthread_mutex_unlock(&l->locked.m);
}
