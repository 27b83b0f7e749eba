/* Threads of our own; a fixed number of them that run tasks in the order they came. */
#ifndef SF_BASE_THREAD_POOL_H
#define SF_BASE_THREAD_POOL_H

#include <pthread.h>
#include "base/error.h"

/*
 * sf_thread_start - a thread that takes no signal meant for the program: all are blocked but SIGBUS
 * and SIGSEGV, which are the thread's own doing. Returns 0 or -errno.
 */
int sf_thread_start(pthread_t *ret, void *(*run)(void *arg), void *arg);

struct sf_task {
	void (*run)(struct sf_task *task); /* may free or resubmit the task; no pool lock is held */
	struct sf_task *next;              /* the pool's while queued */
};
struct sf_thread_pool;

int sf_thread_pool_new(unsigned nthreads, struct sf_thread_pool **ret, struct sf_error *err);
/* Never fails and never waits: the task is the caller's memory. */
void sf_thread_pool_submit(struct sf_thread_pool *pool, struct sf_task *task);
/* runs what is queued, then joins; NULL is fine */
void sf_thread_pool_free(struct sf_thread_pool *pool);
/* The same, but leaves tasks that have not ended within @wait_ms to themselves, whatever they wait
 * for: the last thread frees the pool. What such tasks touch must outlive them. */
void sf_thread_pool_leave(struct sf_thread_pool *pool, unsigned wait_ms);

#endif
