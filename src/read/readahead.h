/* Readahead: who reads a file forward over a source that is far finds what comes next on its way. */
#ifndef SF_READ_READAHEAD_H
#define SF_READ_READAHEAD_H

#include "base/deadline.h"
#include "read/reader.h"

/*
 * One file's, of all who have it open. What comes next is fetched by reads of the same file (reader.h), so it follows
 * the plan of its bytes across chunks, shards and headers. How far: as the sources' hints say, and a
 * quarter of the budget for all files together; the window doubles when the reader has to wait, and
 * is one part where there is no room. What has come is let go when somebody waits for memory, or
 * when no reader is near it. Of local files, of what the block cache has, and for who jumps, nothing
 * is read ahead: that is lent, and a part would be a copy of it.
 *
 * Threads: all functions, any number of calls at once. Cost: of a file that is not far, a load.
 */
struct sf_readahead;
/* @emit and @arg: as struct sf_read's, of all of its reads; they, and @r, last as long as the
 * caller's reference and any read of his. NULL: no memory, and there is none. */
struct sf_readahead *sf_readahead_new(struct sf_reader *r,
                                      int (*emit)(void *arg, uint64_t off, uint64_t len,
                                                  struct sf_parts *p, struct sf_error *err),
                                      void *arg, uint64_t size);
/* The caller's reference: nothing more is fetched. NULL is fine. Reads under way go on. */
void sf_readahead_close(struct sf_readahead *a);

#define SF_READAHEAD_SPAN 8 /* parts that one read is answered from */

struct sf_readahead_part;
/* A read: rd is the caller's as in reader.h, and its result; the rest all 0 at first. */
struct sf_readahead_read {
	struct sf_read rd;
	/* its own */
	struct sf_readahead *a; /* a reference; NULL: an ordinary read */
	struct sf_readahead_part *part[SF_READAHEAD_SPAN];
	unsigned nparts;
	bool waits_alone; /* it was parked, for no part */
	struct iovec iov[SF_READAHEAD_SPAN];
	struct sf_deadline deadline;
	_Atomic bool claimed, canceled;
	struct sf_readahead_read *prev, *next; /* of those that wait */
};
/* As the functions of reader.h, with @a NULL just those. Between start and park @q
 * may be moved. */
int sf_readahead_start(struct sf_readahead *a, struct sf_reader *r, struct sf_readahead_read *q);
void sf_readahead_park(struct sf_readahead *a, struct sf_reader *r, struct sf_readahead_read *q);
int sf_readahead_wait(struct sf_readahead *a, struct sf_reader *r, struct sf_readahead_read *q);
void sf_readahead_cancel(struct sf_reader *r, struct sf_readahead_read *q);
void sf_readahead_release(struct sf_readahead_read *q);

#endif
