#include "config.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/deadline.h"
#include "base/mem.h"
#include "read/op.h"

static uint64_t files_of(const struct sf_ckpt *ckpt)
{
	return (uint64_t)ckpt->nfiles + ckpt->nlisting;
}

int sf_reader_new(const struct sf_ckpt *ckpt, struct sf_store *store, struct sf_reader **ret,
                  struct sf_error *err)
{
	struct sf_reader *r = calloc(1, sizeof(*r));
	int e;

	if (!r)
		return sf_fail(err, -ENOMEM, "reader: no memory");
	r->ckpt = ckpt;
	r->store = store;
	r->io = store->io;
	r->id = atomic_fetch_add(&r->io->readers, 1);
	sf_fd_budget_add(r->io->fd_budget, files_of(ckpt));
	r->resume = sf_read_resume;
	pthread_mutex_init(&r->locked.m, NULL);
	pthread_cond_init(&r->locked.all_idle, NULL);
	e = sf_layouts_new(ckpt->nchunks, &r->layouts, err);
	if (e >= 0)
		e = sf_read_shared_get(r->io, &r->shared, err);
	if (e >= 0)
		r->items = r->shared->items;
	if (e < 0) {
		sf_reader_free(r);
		return e;
	}
	*ret = r;
	return 0;
}

void sf_reader_free(struct sf_reader *r)
{
	if (!r)
		return;
	/* reads of what a view makes: their loads end with them */
	pthread_mutex_lock(&r->locked.m);
	r->locked.ending = true;
	pthread_mutex_unlock(&r->locked.m);
	sf_deadlines_expedite_all(r->io->deadlines, r);
	if (r->items)
		sf_item_cache_end(r->items, &r->owner);
	pthread_mutex_lock(&r->locked.m);
	/* late completions of reads that were answered long ago */
	while (atomic_load_explicit(&r->live, memory_order_acquire))
		pthread_cond_wait(&r->locked.all_idle, &r->locked.m);
	pthread_mutex_unlock(&r->locked.m);
	if (r->items) {
		sf_item_cache_drop(r->items, &r->owner);
		sf_read_shared_put(r->shared);
	}
	sf_open_files_drop_owner(r->io->open_files, r->id);
	sf_fd_budget_remove(r->io->fd_budget, files_of(r->ckpt));
	sf_layouts_free(r->layouts);
	pthread_cond_destroy(&r->locked.all_idle);
	pthread_mutex_destroy(&r->locked.m);
	free(r);
}

const struct sf_ckpt *sf_reader_ckpt(const struct sf_reader *r)
{
	return r->ckpt;
}

uint64_t sf_reader_ahead(const struct sf_reader *r)
{
	return atomic_load_explicit(&r->ahead, memory_order_relaxed);
}

struct sf_io *sf_reader_io(const struct sf_reader *r)
{
	return r->io;
}
