#include "config.h"

#include <stddef.h>
#include <stdlib.h>

#include "base/mem.h"
#include "read/op.h"

/* What all readers of an sf_io have together: items and the buffers of free ops. */

/* Buffers of free ops go to who waits. */
static uint64_t reclaim(struct sf_budget_reclaim *rec, uint64_t bytes)
{
	struct sf_read_shared *s = sf_container_of(rec, struct sf_read_shared, reclaim);
	uint64_t sum = 0;
	struct sf_op *op;

	(void)bytes; /* all of them: they are soon made again */
	pthread_mutex_lock(&s->locked.m);
	op = s->locked.free;
	s->locked.free = NULL;
	s->locked.nfree = 0;
	s->locked.free_bytes = 0;
	pthread_mutex_unlock(&s->locked.m);
	for (struct sf_op *next; op; op = next) {
		next = op->next;
		sum += op->charged;
		sf_op_free(op);
	}
	return sum;
}

static int shared_new(struct sf_io *io, struct sf_read_shared **ret, struct sf_error *err)
{
	struct sf_read_shared *s = calloc(1, sizeof(*s));
	int r;

	if (!s)
		return sf_fail(err, -ENOMEM, "reader: no memory");
	r = sf_item_cache_new(io, &s->items, err);
	if (r < 0) {
		free(s);
		return r;
	}
	s->io = io;
	s->reclaim.reclaim = reclaim;
	pthread_mutex_init(&s->locked.m, NULL);
	sf_budget_reclaim_add(io->budget, &s->reclaim);
	*ret = s;
	return 0;
}

int sf_read_shared_get(struct sf_io *io, struct sf_read_shared **ret, struct sf_error *err)
{
	int r = 0;

	pthread_mutex_lock(&io->reading.m);
	if (!io->reading.at)
		r = shared_new(io, &io->reading.at, err);
	if (r >= 0) {
		io->reading.readers++;
		*ret = io->reading.at;
	}
	pthread_mutex_unlock(&io->reading.m);
	return r;
}

void sf_read_shared_put(struct sf_read_shared *s)
{
	struct sf_io *io = s->io;
	bool last;

	pthread_mutex_lock(&io->reading.m);
	last = --io->reading.readers == 0;
	if (last)
		io->reading.at = NULL;
	pthread_mutex_unlock(&io->reading.m);
	if (!last)
		return;
	sf_budget_reclaim_remove(io->budget, &s->reclaim);
	reclaim(&s->reclaim, 0);
	sf_item_cache_free(s->items);
	pthread_mutex_destroy(&s->locked.m);
	free(s);
}
