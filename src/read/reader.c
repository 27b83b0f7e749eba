#include "config.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/deadline.h"
#include "base/mem.h"
#include "read/op.h"

/* Buffers of free ops go to who waits. */
static uint64_t reclaim(struct sf_budget_reclaim *rec, uint64_t bytes)
{
	struct sf_reader *r = sf_container_of(rec, struct sf_reader, reclaim);
	uint64_t sum = 0;
	struct sf_op *op;

	(void)bytes; /* all of them: they are soon made again */
	pthread_mutex_lock(&r->locked.m);
	op = r->locked.free;
	r->locked.free = NULL;
	r->locked.nfree = 0;
	r->locked.free_bytes = 0;
	pthread_mutex_unlock(&r->locked.m);
	for (struct sf_op *next; op; op = next) {
		next = op->next;
		sum += op->charged;
		sf_op_free(op);
	}
	return sum;
}

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
	sf_open_room_add(r->io->open_room, files_of(ckpt));
	r->keep_bytes = SF_MIN(sf_budget_limit(r->io->budget) / 8, UINT64_C(64) << 20);
	r->reclaim.reclaim = reclaim;
	r->resume = sf_read_resume;
	pthread_mutex_init(&r->locked.m, NULL);
	pthread_cond_init(&r->locked.all_idle, NULL);
	e = sf_layouts_new(ckpt->nchunks, &r->layouts, err);
	if (e >= 0)
		e = sf_item_cache_new(r->io, &r->items, err);
	sf_budget_reclaim_add(r->io->budget, &r->reclaim);
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
		sf_item_cache_end(r->items);
	pthread_mutex_lock(&r->locked.m);
	/* late completions of reads that were answered long ago */
	while (r->locked.live)
		pthread_cond_wait(&r->locked.all_idle, &r->locked.m);
	pthread_mutex_unlock(&r->locked.m);
	sf_budget_reclaim_remove(r->io->budget, &r->reclaim);
	for (struct sf_op *op = r->locked.free, *next; op; op = next) {
		next = op->next;
		sf_op_free(op);
	}
	sf_item_cache_free(r->items);
	sf_open_files_drop_owner(r->io->open_files, r->id);
	sf_open_room_remove(r->io->open_room, files_of(r->ckpt));
	sf_layouts_free(r->layouts);
	pthread_cond_destroy(&r->locked.all_idle);
	pthread_mutex_destroy(&r->locked.m);
	free(r);
}

const struct sf_ckpt *sf_reader_ckpt(const struct sf_reader *r)
{
	return r->ckpt;
}

struct sf_io *sf_reader_io(const struct sf_reader *r)
{
	return r->io;
}
