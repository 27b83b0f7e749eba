/* A fixed number of threads that run tasks in the order they came. */
#ifndef SF_BASE_THREAD_POOL_H
#define SF_BASE_THREAD_POOL_H

#include "base/error.h"

struct sf_task {
	void (*run)(struct sf_task *task); /* may free or resubmit the task; no pool lock is held */
	struct sf_task *next;              /* the pool's while queued */
};
struct sf_thread_pool;

int sf_thread_pool_new(unsigned nthreads, struct sf_thread_pool **ret, struct sf_error *err);
/* Never fails and never waits: the task is the caller's memory. Threads have all signals blocked but SIGBUS/SIGSEGV. */
void sf_thread_pool_submit(struct sf_thread_pool *pool, struct sf_task *task);
void sf_thread_pool_free(struct sf_thread_pool *pool); /* runs what is queued, then joins; NULL is fine */

#endif
