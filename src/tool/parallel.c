#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "tool/parallel.h"

struct jobs {
	size_t n;
	int (*one)(void *arg, size_t i, struct sf_error *err);
	void *arg;
	_Atomic size_t next;
	_Atomic bool over;
	struct {
		pthread_mutex_t m;
		int r; /* of the job that failed first */
		struct sf_error *err;
	} locked;
};

struct worker {
	struct sf_task task;
	struct jobs *jobs;
};

static void work(struct sf_task *task)
{
	struct jobs *jobs = sf_container_of(task, struct worker, task)->jobs;
	size_t i;

	while (!jobs->over && (i = atomic_fetch_add(&jobs->next, 1)) < jobs->n) {
		struct sf_error why = SF_ERROR_INIT;
		int r = jobs->one(jobs->arg, i, &why);
		if (r >= 0)
			continue;
		pthread_mutex_lock(&jobs->locked.m);
		if (!jobs->over)
			jobs->locked.r = sf_fail(jobs->locked.err, r, "%s", why.msg);
		jobs->over = true;
		pthread_mutex_unlock(&jobs->locked.m);
	}
}

int sf_parallel(size_t n, unsigned threads, int (*one)(void *arg, size_t i, struct sf_error *err),
                void *arg, struct sf_error *err)
{
	struct jobs jobs = { .n = n,
		             .one = one,
		             .arg = arg,
		             .locked = { .m = PTHREAD_MUTEX_INITIALIZER, .err = err } };
	long cores = sysconf(_SC_NPROCESSORS_ONLN);
	struct worker worker[SF_PARALLEL_MAX];
	struct sf_thread_pool *pool;
	int r;

	if (!threads)
		threads = cores > 0 ? (unsigned)SF_MIN(cores, SF_PARALLEL_MAX) : 1;
	threads = (unsigned)SF_MIN((size_t)SF_MIN(threads, (unsigned)SF_PARALLEL_MAX), n);
	if (!n)
		return 0;
	r = sf_thread_pool_new(threads, &pool, err);
	if (r < 0)
		return r;
	for (unsigned i = 0; i < threads; i++) {
		worker[i] = (struct worker){ .task.run = work, .jobs = &jobs };
		sf_thread_pool_submit(pool, &worker[i].task);
	}
	sf_thread_pool_free(pool); /* when all have ended */
	pthread_mutex_destroy(&jobs.locked.m);
	return jobs.locked.r;
}
