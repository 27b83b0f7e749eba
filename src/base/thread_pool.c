#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread_pool.h"

struct sf_thread_pool {
	struct {
		pthread_mutex_t m;
		pthread_cond_t wake;  /* a task came, or the end */
		pthread_cond_t ended; /* the last thread has */
		struct sf_task *first, **last;
		unsigned live; /* threads that have not ended */
		bool ending, left;
	} locked;
	unsigned nthreads; /* that run: fewer than asked only while the pool is being made */
	pthread_t thread[];
};

/* Threads inherit the mask: no window in which one takes a signal meant for the program. */
int sf_thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg)
{
	sigset_t all, old;
	int r;

	sigfillset(&all);
	sigdelset(&all, SIGBUS);
	sigdelset(&all, SIGSEGV);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	r = pthread_create(ret, NULL, run, arg);
	pthread_sigmask(SIG_SETMASK, &old, NULL);
	return -r;
}

static void destroy(struct sf_thread_pool *pool)
{
	pthread_cond_destroy(&pool->locked.wake);
	pthread_cond_destroy(&pool->locked.ended);
	pthread_mutex_destroy(&pool->locked.m);
	free(pool);
}

static void *work(void *arg)
{
	struct sf_thread_pool *pool = arg;
	bool last;

	pthread_setname_np(pthread_self(), "sf-pool");
	pthread_mutex_lock(&pool->locked.m);
	for (;;) {
		struct sf_task *task = pool->locked.first;
		if (!task) {
			if (pool->locked.ending)
				break;
			pthread_cond_wait(&pool->locked.wake, &pool->locked.m);
			continue;
		}
		pool->locked.first = task->next;
		if (!task->next)
			pool->locked.last = &pool->locked.first;
		pthread_mutex_unlock(&pool->locked.m);
		task->run(task); /* may free the task: not touched again */
		pthread_mutex_lock(&pool->locked.m);
	}
	last = --pool->locked.live == 0;
	if (last)
		pthread_cond_signal(&pool->locked.ended);
	last = last && pool->locked.left;
	pthread_mutex_unlock(&pool->locked.m);
	if (last)
		destroy(pool);
	return NULL;
}

int sf_thread_pool_new(unsigned nthreads, struct sf_thread_pool **ret, struct sf_error *err)
{
	struct sf_thread_pool *pool;
	int r = 0;

	if (nthreads == 0)
		nthreads = 1;
	pool = malloc(sizeof(*pool) + nthreads * sizeof(pool->thread[0]));
	if (!pool)
		return sf_fail(err, -ENOMEM, "thread pool: no memory for %u threads", nthreads);
	pool->nthreads = 0;
	pool->locked.first = NULL;
	pool->locked.last = &pool->locked.first;
	pool->locked.live = nthreads;
	pool->locked.ending = pool->locked.left = false;
	pthread_mutex_init(&pool->locked.m, NULL);
	pthread_cond_init(&pool->locked.wake, NULL);
	sf_cond_init(&pool->locked.ended);
	for (; pool->nthreads < nthreads && !r; pool->nthreads += !r)
		r = sf_thread_start(&pool->thread[pool->nthreads], work, pool);
	if (r < 0) {
		unsigned got = pool->nthreads;
		pthread_mutex_lock(&pool->locked.m);
		pool->locked.live -= nthreads - got;
		pthread_mutex_unlock(&pool->locked.m);
		sf_thread_pool_free(pool);
		errno = -r;
		return sf_fail_errno(err, "thread pool: thread %u of %u", got + 1, nthreads);
	}
	*ret = pool;
	return 0;
}

void sf_thread_pool_submit(struct sf_thread_pool *pool, struct sf_task *task)
{
	task->next = NULL;
	pthread_mutex_lock(&pool->locked.m);
	*pool->locked.last = task;
	pool->locked.last = &task->next;
	pthread_cond_signal(&pool->locked.wake);
	pthread_mutex_unlock(&pool->locked.m);
}

static void end(struct sf_thread_pool *pool)
{
	pthread_mutex_lock(&pool->locked.m);
	pool->locked.ending = true;
	pthread_cond_broadcast(&pool->locked.wake);
	pthread_mutex_unlock(&pool->locked.m);
}

void sf_thread_pool_free(struct sf_thread_pool *pool)
{
	if (!pool)
		return;
	end(pool);
	for (unsigned i = 0; i < pool->nthreads; i++)
		pthread_join(pool->thread[i], NULL);
	destroy(pool);
}

void sf_thread_pool_leave(struct sf_thread_pool *pool, unsigned wait_ms)
{
	struct timespec until;
	bool left;

	if (!pool)
		return;
	end(pool);
	until = sf_until_ms(CLOCK_MONOTONIC, wait_ms);
	pthread_mutex_lock(&pool->locked.m);
	while (pool->locked.live &&
	       pthread_cond_timedwait(&pool->locked.ended, &pool->locked.m, &until) != ETIMEDOUT)
		;
	left = pool->locked.left = pool->locked.live > 0;
	for (unsigned i = 0; left && i < pool->nthreads; i++)
		pthread_detach(pool->thread[i]);
	pthread_mutex_unlock(&pool->locked.m);
	if (!left)
		sf_thread_pool_free(pool);
}
