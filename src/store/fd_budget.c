#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/fd_budget.h"

struct sf_fd_budget {
	uint32_t kept, most;
	_Atomic uint64_t files; /* of all readers */
	struct {
		pthread_mutex_t m;
		uint32_t held;
		struct sf_fd_wait *first, **last;
	} locked;
};

int sf_fd_budget_new(unsigned kept, unsigned least, struct sf_fd_budget **ret, struct sf_error *err)
{
	struct sf_fd_budget *fds = calloc(1, sizeof(*fds));

	if (!fds)
		return sf_fail(err, -ENOMEM, "no memory for open files");
	fds->kept = kept;
	fds->most = SF_MAX(kept / 2, least);
	fds->locked.last = &fds->locked.first;
	pthread_mutex_init(&fds->locked.m, NULL);
	*ret = fds;
	return 0;
}

void sf_fd_budget_free(struct sf_fd_budget *fds)
{
	if (!fds)
		return;
	pthread_mutex_destroy(&fds->locked.m);
	free(fds);
}

void sf_fd_budget_add(struct sf_fd_budget *fds, uint64_t files)
{
	atomic_fetch_add(&fds->files, files);
}

void sf_fd_budget_remove(struct sf_fd_budget *fds, uint64_t files)
{
	atomic_fetch_sub(&fds->files, files);
}

bool sf_fd_budget_counts(const struct sf_fd_budget *fds)
{
	return atomic_load_explicit(&fds->files, memory_order_relaxed) > fds->kept;
}

static bool take_locked(struct sf_fd_budget *fds, uint32_t n)
{
	if (fds->locked.first || n > fds->most - fds->locked.held)
		return false;
	fds->locked.held += n;
	return true;
}

bool sf_fd_budget_take(struct sf_fd_budget *fds, uint32_t n)
{
	bool r;

	pthread_mutex_lock(&fds->locked.m);
	r = take_locked(fds, n);
	pthread_mutex_unlock(&fds->locked.m);
	return r;
}

bool sf_fd_budget_queue(struct sf_fd_budget *fds, struct sf_fd_wait *w)
{
	bool r;

	pthread_mutex_lock(&fds->locked.m);
	r = take_locked(fds, w->n);
	if (!r) {
		w->next = NULL;
		*fds->locked.last = w;
		fds->locked.last = &w->next;
	}
	pthread_mutex_unlock(&fds->locked.m);
	return r;
}

void sf_fd_budget_give(struct sf_fd_budget *fds, uint32_t n)
{
	struct sf_fd_wait *granted = NULL, **last = &granted, *w;

	pthread_mutex_lock(&fds->locked.m);
	fds->locked.held -= n;
	while ((w = fds->locked.first) && w->n <= fds->most - fds->locked.held) {
		fds->locked.first = w->next;
		if (!w->next)
			fds->locked.last = &fds->locked.first;
		w->next = NULL;
		fds->locked.held += w->n;
		*last = w;
		last = &w->next;
	}
	pthread_mutex_unlock(&fds->locked.m);
	while ((w = granted)) {
		granted = w->next;
		w->granted(w);
	}
}
