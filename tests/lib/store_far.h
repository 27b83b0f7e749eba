/* A server far away, for tests: every request is a round trip, ends out of order, or within submit;
 * what it lends can be taken back. */
#ifndef SF_TESTS_LIB_STORE_FAR_H
#define SF_TESTS_LIB_STORE_FAR_H

#include <pthread.h>
#include "tests/lib/test_stores.h"

struct far_block;

/* The test's memory: all 0 before sf_store_far(), alive until all of the store's sources are freed. */
struct sf_far {
	/* how it is; may be changed while nothing is asked */
	struct sf_source_hints hints;
	unsigned inline_of; /* one request in so many ends within submit; 1 all, 0 none */
	bool reorder;       /* the last one asked ends first */
	bool here;          /* it says that no server was asked, as the cache does */
	const char *etag;   /* of every object; NULL: they have no version */
	bool lends; /* every second lend is granted: a block of its own, taken back by its token */
	uint64_t hold_until; /* the first request does not end before so many were asked; 0: as
	                        others */
	/* requests of which it says so hang until let_go; NULL: none */
	bool (*hangs)(const struct sf_io_req *req);
	_Atomic bool let_go;
	/* what it saw */
	_Atomic uint64_t hung; /* requests that hang, or did */
	_Atomic uint64_t requests, bytes;
	_Atomic uint64_t rounds;       /* how often all that was asked by then was answered */
	_Atomic uint64_t flying, most; /* requests under way; the most of them at once */
	_Atomic uint64_t opens,
		blind_opens;    /* of objects; those without a version: a round trip each */
	_Atomic uint64_t lists; /* directories, one round trip each */
	_Atomic uint64_t asks, lent, back; /* lends asked for, granted, given back */
	_Atomic uint64_t own;       /* requests made on its own thread, which has better to do */
	_Atomic uint64_t held_late; /* times that hold_until or let_go did not come to pass */
	_Atomic uint64_t deepest;   /* bytes of stack between two requests of a thread, at most */
	/* its own */
	pthread_t thread;
	struct {
		pthread_mutex_t m;
		pthread_cond_t c;
		struct sf_io_req *first, **last, *held, *hung;
		struct far_block *blocks;
		uint64_t changes;
		bool ending;
	} locked;
};
/* Names and bytes borrowed, as sf_store_mem()'s. Ends an unknown token with abort(). */
int sf_store_far(struct sf_io *io, const struct sf_mem_object *objects, size_t n,
                 struct sf_far *far, struct sf_store **ret, struct sf_error *err);
void sf_far_forget(struct sf_far *far); /* what it saw so far */

#endif
