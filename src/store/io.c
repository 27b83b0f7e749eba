#include "config.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "store/cache.h"
#include "store/cache_tie.h"
#include "store/http.h"
#include "store/open_files.h"
#include "store/fd_budget.h"
#include "store/outage.h"
#include "store/store.h"

/* blocking reads of local files: more than cores, so that a disk has a queue */
#define THREADS_LEAST 8
#define THREADS_MOST 16
#define MAKE_THREADS 4
#define MEMORY_DEFAULT (UINT64_C(1) << 30)
#define TIMEOUT_DEFAULT_MS 60000
#define OPEN_MOST 4096
#define BATCH_MOST 256
#define LEAVE_MS 1000 /* that reads given up get to end in */

/* Half of what the process may open, and half as many that reads under way hold beside them
 * (fd_budget.h): sockets, targets and the rest of the program want some too. */
static unsigned open_default(void)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_NOFILE, &lim) != 0 || lim.rlim_cur == RLIM_INFINITY)
		return OPEN_MOST;
	return (unsigned)SF_MAX(SF_MIN(lim.rlim_cur / 2, (rlim_t)OPEN_MOST), (rlim_t)8);
}

int sf_io_set_open(struct sf_io *io, unsigned max_open, struct sf_error *err)
{
	unsigned batch = SF_MIN(SF_MAX(max_open / 4, 2u), BATCH_MOST);
	struct sf_open_files *files;
	struct sf_fd_budget *fds;
	int r = sf_open_files_new(max_open, &files, err);

	if (r < 0)
		return r;
	r = sf_fd_budget_new(max_open, batch, &fds, err);
	if (r < 0) {
		sf_open_files_free(files);
		return r;
	}
	sf_open_files_free(io->open_files);
	sf_fd_budget_free(io->fd_budget);
	io->max_open = max_open;
	io->batch_open = batch;
	io->open_files = files;
	io->fd_budget = fds;
	return 0;
}

int sf_io_init(struct sf_io *io, unsigned threads, struct sf_error *err)
{
	long cpus = sysconf(_SC_NPROCESSORS_ONLN);
	int r;

	if (!threads)
		threads = (unsigned)SF_MIN(SF_MAX(cpus * 2, THREADS_LEAST), THREADS_MOST);
	memset(io, 0, sizeof(*io));
	io->timeout_ms = TIMEOUT_DEFAULT_MS;
	io->trace_fd = -1;
	pthread_mutex_init(&io->reading.m, NULL);
	r = sf_io_set_open(io, open_default(), err);
	if (r >= 0)
		r = sf_budget_new(MEMORY_DEFAULT, &io->budget, err);
	if (r >= 0) {
		sf_page_pool_init(&io->pages, io->budget);
		r = sf_deadlines_new(&io->deadlines, err);
	}
	if (r >= 0)
		r = sf_thread_pool_new(threads, &io->pool, err);
	if (r >= 0)
		r = sf_thread_pool_new(MAKE_THREADS, &io->make, err);
	if (r < 0)
		sf_io_release(io);
	return r;
}

void sf_io_stop(struct sf_io *io)
{
	atomic_store(&io->stop, true);
	sf_deadlines_expedite_all(io->deadlines, NULL);
}

void sf_io_release(struct sf_io *io)
{
	/* make waits on pool: they end in that order. What is left of pool reads for nobody any
	 * more, with buffers of its own: a server that does not answer shall not keep us. */
	sf_thread_pool_free(io->make);
	sf_http_free(io->http); /* what ends there goes on in pool */
	if (io->tie)
		sf_cache_tie_wait(
			io->tie); /* all that has come is on disk then, if that takes it */
	sf_thread_pool_leave(io->pool, LEAVE_MS);
	sf_cache_tie_cut(io->tie);
	sf_thread_pool_leave(io->keep, LEAVE_MS);
	sf_cache_unref(io->cache); /* tasks that are left hold it */
	sf_deadlines_free(io->deadlines);
	sf_outages_free(io);
	if (io->open_files) /* it was made: once */
		pthread_mutex_destroy(&io->reading.m);
	sf_page_pool_release(&io->pages);
	sf_budget_free(io->budget);
	sf_open_files_free(io->open_files);
	sf_fd_budget_free(io->fd_budget);
	io->open_files = NULL;
	io->fd_budget = NULL;
	io->make = io->pool = io->keep = NULL;
	io->http = NULL;
	io->tie = NULL;
	io->cache = NULL;
	io->budget = NULL;
	io->deadlines = NULL;
}
