#include "config.h"

#include "base/mem.h"
#include "read/op.h"

/*
 * What reads under way hold open beside the LRU. Where all files fit the LRU none ever falls out of
 * it, so nothing is counted. Where they do not, a batch takes room for its files before it opens
 * them and gives it back when it lets them go: it never waits for room while it has some, so whose
 * turn it is comes to an end.
 */

void sf_fd_budget_init(struct sf_reader *r)
{
	uint64_t keys = (uint64_t)r->ckpt->nfiles + r->ckpt->nlisting;

	r->room =
		keys <= r->io->max_open ? UINT32_MAX : SF_MAX(r->io->max_open / 2, r->batch_files);
	r->locked.last_wants_room = &r->locked.wants_room;
}

int sf_op_take_files(struct sf_op *op)
{
	struct sf_reader *r = op->r;
	uint32_t n = (uint32_t)op->sources.n;
	int e = 0;

	if (r->room == UINT32_MAX || op->held)
		return 0;
	pthread_mutex_lock(&r->locked.m);
	if (!r->locked.wants_room && n <= r->room - r->locked.held) {
		r->locked.held += n;
		op->held = n;
	} else if (!op->may_wait) {
		e = -EAGAIN;
	} else {
		op->next_wants_room = NULL;
		*r->locked.last_wants_room = op;
		r->locked.last_wants_room = &op->next_wants_room;
		e = SF_STEP_PARKED;
	}
	pthread_mutex_unlock(&r->locked.m);
	return e;
}

void sf_op_give_files(struct sf_op *op)
{
	struct sf_reader *r = op->r;
	struct sf_op *first = NULL, **last = &first, *w;

	if (!op->held)
		return;
	pthread_mutex_lock(&r->locked.m);
	r->locked.held -= op->held;
	op->held = 0;
	while ((w = r->locked.wants_room) && w->sources.n <= r->room - r->locked.held) {
		r->locked.wants_room = w->next_wants_room;
		if (!w->next_wants_room)
			r->locked.last_wants_room = &r->locked.wants_room;
		w->next_wants_room = NULL;
		w->held = (uint32_t)w->sources.n;
		r->locked.held += w->held;
		*last = w;
		last = &w->next_wants_room;
	}
	pthread_mutex_unlock(&r->locked.m);
	/* on the pool's threads: their end gives room to others again, and that must not nest */
	for (; (w = first);) {
		first = w->next_wants_room;
		sf_op_go_on_later(w);
	}
}
