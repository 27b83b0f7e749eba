#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/clock.h"
#include "base/log.h"
#include "base/mem.h"
#include "store/cache_tie.h"
#include "store/outage.h"
#include "store/store.h"

/* in times of the first wait (200 ms): */
#define STUCK 25 /* without a write that ended */
#define ALL 300

struct sf_cache_tie {
	_Atomic unsigned refs;
	_Atomic bool ending;
	pthread_mutex_t m;
	pthread_cond_t c;
	/* under m */
	struct sf_io *io; /* NULL: gone */
	unsigned inside;  /* who have it */
	uint64_t pending, done;
};

struct sf_cache_tie *sf_cache_tie_new(struct sf_io *io)
{
	struct sf_cache_tie *t = calloc(1, sizeof(*t));

	if (!t)
		return NULL;
	t->refs = 1;
	t->io = io;
	pthread_mutex_init(&t->m, NULL);
	sf_cond_init(&t->c);
	return t;
}

struct sf_cache_tie *sf_cache_tie_ref(struct sf_cache_tie *t)
{
	atomic_fetch_add_explicit(&t->refs, 1, memory_order_relaxed);
	return t;
}

void sf_cache_tie_unref(struct sf_cache_tie *t)
{
	if (!t || atomic_fetch_sub_explicit(&t->refs, 1, memory_order_acq_rel) != 1)
		return;
	pthread_cond_destroy(&t->c);
	pthread_mutex_destroy(&t->m);
	free(t);
}

void sf_cache_tie_begin(struct sf_cache_tie *t)
{
	pthread_mutex_lock(&t->m);
	t->pending++;
	pthread_mutex_unlock(&t->m);
}

struct sf_io *sf_cache_tie_done(struct sf_cache_tie *t)
{
	struct sf_io *io;

	pthread_mutex_lock(&t->m);
	io = t->io;
	t->inside += io != NULL;
	pthread_mutex_unlock(&t->m);
	return io;
}

void sf_cache_tie_end(struct sf_cache_tie *t, struct sf_io *io)
{
	pthread_mutex_lock(&t->m);
	t->inside -= io != NULL;
	t->pending--;
	t->done++;
	pthread_cond_broadcast(&t->c);
	pthread_mutex_unlock(&t->m);
}

bool sf_cache_tie_ending(const struct sf_cache_tie *t)
{
	return atomic_load_explicit(&t->ending, memory_order_relaxed);
}

/* False: none of them ended for long. */
static bool wait_locked(struct sf_cache_tie *t, uint64_t stuck_ms, uint64_t all_ms)
{
	const int64_t end_ms = sf_now_ms() + (int64_t)all_ms;

	while (t->pending) {
		const struct timespec until = sf_until_ms(CLOCK_MONOTONIC, stuck_ms);
		const uint64_t done = t->done;
		int r = 0;

		while (t->pending && t->done == done && r != ETIMEDOUT)
			r = pthread_cond_timedwait(&t->c, &t->m, &until);
		if (t->pending && (t->done == done || sf_now_ms() >= end_ms))
			return false;
	}
	return true;
}

void sf_cache_tie_wait(struct sf_cache_tie *t)
{
	struct sf_io *io = t->io;
	const unsigned first = sf_outage_first_ms(io);
	uint64_t left;
	bool ok;

	atomic_store(&t->ending, true);
	pthread_mutex_lock(&t->m);
	ok = wait_locked(t, STUCK * (uint64_t)first, ALL * (uint64_t)first);
	left = t->pending;
	pthread_mutex_unlock(&t->m);
	if (!ok)
		sf_log(io->log, SF_LOG_WARN,
		       "the cache's disk does not take what was fetched: %llu writes are left to "
		       "themselves",
		       (unsigned long long)left);
}

void sf_cache_tie_cut(struct sf_cache_tie *t)
{
	if (!t)
		return;
	pthread_mutex_lock(&t->m);
	t->io = NULL;
	while (t->inside)
		pthread_cond_wait(&t->c, &t->m);
	pthread_mutex_unlock(&t->m);
	sf_cache_tie_unref(t);
}
