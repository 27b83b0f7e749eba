#include "config.h"

#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "store/store.h"

#define THREADS_LEAST \
	8 /* blocking reads of local files: more than cores, so that a disk has a queue */
#define THREADS_MOST 16
#define WORK_THREADS 4
#define MAKE_THREADS 4
#define MEMORY_DEFAULT (UINT64_C(1) << 30)
#define TIMEOUT_DEFAULT_MS 60000
#define OPEN_MOST 4096
#define LEAVE_MS 1000 /* that reads given up get to end in */

/* Half of what the process may open, and half as many that reads under way hold beside them
 * (read/fd_budget.c): sockets, targets and the rest of the program want some too. */
static unsigned open_default(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY)
		return OPEN_MOST;
	return (unsigned)SF_MAX(SF_MIN(lim.rlim_cur / 2, (rlim_t)OPEN_MOST), (rlim_t)8);
}

int sf_io_init(struct sf_io *io, unsigned threads, struct sf_error *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int r;

	if (!threads)
		threads = (unsigned)SF_MIN(SF_MAX(cpus * 2, THREADS_LEAST), THREADS_MOST);
	memset(io, 0, sizeof(*io));
	io->max_open = open_default();
	io->timeout_ms = TIMEOUT_DEFAULT_MS;
	io->trace_fd = -1;
	r = sf_budget_new(MEMORY_DEFAULT, &io->budget, err);
	if (r >= 0)
		r = sf_deadlines_new(&io->deadlines, err);
	if (r >= 0)
		r = sf_thread_pool_new(threads, &io->pool, err);
	if (r >= 0)
		r = sf_thread_pool_new(WORK_THREADS, &io->work, err);
	if (r >= 0)
		r = sf_thread_pool_new(MAKE_THREADS, &io->make, err);
	if (r < 0)
		sf_io_release(io);
	return r;
}

void sf_io_release(struct sf_io *io)
{
	/* make waits on work, and both on pool: they end in that order. What is left of pool reads
	 * for nobody any more, with buffers of its own: a server that does not answer shall not
	 * keep us. */
	sf_thread_pool_free(io->make);
	sf_thread_pool_free(io->work);
	sf_thread_pool_leave(io->pool, LEAVE_MS);
	sf_deadlines_free(io->deadlines);
	sf_budget_free(io->budget);
	io->work = io->make = io->pool = NULL;
	io->budget = NULL;
	io->deadlines = NULL;
}
