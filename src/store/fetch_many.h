/* Bytes of many objects, asked for side by side: what a load reads of every rank or file. */
#ifndef SF_STORE_FETCH_MANY_H
#define SF_STORE_FETCH_MANY_H

#include "store/source.h"

struct sf_fetch_one {
	const char *name;
	const struct sf_objinfo *want; /* as sf_store_ops.open's */
	uint64_t off, len;             /* bytes of it; those that it has, if it has fewer */
	/* the result */
	int r;                 /* 0, or what opening or reading said, with its message in err */
	struct sf_source *src; /* r == 0: a reference. Those bytes are in memory: reads of them do
	                          not wait; all others go to the object */
	struct sf_error err;
};

/*
 * sf_fetch_many - opens @n objects and fetches these bytes of them, as many at once as the first
 * source says (hints).
 *
 * One object's failure is no other's: each has its own. After the first -ETIMEDOUT nothing more is
 * waited for. Waits: not for tasks of io->pool. Memory: all of @n * len, outside the budget: the
 * caller takes as many at a time as he has room for. Cost: a round trip for each window of requests
 * instead of one an object. The bytes are counted when they are read from the sources.
 */
void sf_fetch_many(struct sf_store *store, struct sf_fetch_one *at, size_t n,
                   enum sf_fetch_kind kind);
void sf_fetch_many_release(struct sf_fetch_one *at, size_t n); /* the sources that are left */

#endif
