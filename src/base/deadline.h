/* Deadlines of a process: one thread that calls who is late. */
#ifndef SF_BASE_DEADLINE_H
#define SF_BASE_DEADLINE_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

/* Something that must end in time: in its owner's memory. The first two are the owner's to set. */
struct sf_deadline {
	/* It is late: under the lock, so that whoever removes it meanwhile waits. Takes what fire
	 * needs; false: there is nothing to do any more, or it set a later at_ns, and is called
	 * again then. Neither waits nor calls back. */
	bool (*due)(struct sf_deadline *d);
	void (*fire)(struct sf_deadline *d); /* then, on the thread of deadlines, no lock held */
	/* the list's */
	struct sf_deadline *prev, *next;
	const void *owner;
	uint64_t at_ns; /* of CLOCK_MONOTONIC */
	bool listed, expedited;
};

struct sf_deadlines;
int sf_deadlines_new(struct sf_deadlines **ret, struct sf_error *err); /* no thread yet */
void sf_deadlines_free(struct sf_deadlines *l); /* none may be listed; NULL is fine */

/* In @timeout_ms from now; 0: never, but expedited. Returns 0 or -errno: no thread. Cost: O(1)
 * where all have the same time. */
int sf_deadlines_add(struct sf_deadlines *l, struct sf_deadline *d, const void *owner,
                     unsigned timeout_ms);
/* In @timeout_ms from now, if that is sooner. Nothing, if it is not listed: it is called just now. */
void sf_deadlines_sooner(struct sf_deadlines *l, struct sf_deadline *d, unsigned timeout_ms);
/* It is not late any more. Not called from due. */
void sf_deadlines_remove(struct sf_deadlines *l, struct sf_deadline *d);
/* It is called next, with d->expedited: it was cancelled. Nothing, if it is not listed. */
void sf_deadlines_expedite(struct sf_deadlines *l, struct sf_deadline *d);
/* All of @owner's; NULL: of all that have one. */
void sf_deadlines_expedite_all(struct sf_deadlines *l, const void *owner);

#endif
