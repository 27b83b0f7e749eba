/* A virtual file: records in order, their bytes made or fetched when read. */
#ifndef SF_VIEW_VFILE_H
#define SF_VIEW_VFILE_H

#include <pthread.h>
#include <stdint.h>
#include "base/error.h"
#include "read/reader.h"

struct sf_vfile;
struct sf_vfile_ops {
	/* Size the file: may read objects through the reader (waits). Called once, before size and
	 * emit; NULL: sized when made. */
	int (*prepare)(struct sf_vfile *f, struct sf_error *err);
	/* The parts of record @rec's bytes [off, off+len): literal bytes, zeros, tensor or object
	 * ranges, in order. Any thread. */
	int (*emit)(struct sf_vfile *f, uint32_t rec, uint64_t off, uint64_t len,
	            struct sf_parts *parts, struct sf_error *err);
	void (*free)(struct sf_vfile *f);
};
/*
 * Records are offsets (8 bytes each), never blobs: a view of 10^5 tensors keeps start[] and finds
 * the rest in the catalog. Embed at the start of the view's own struct.
 */
struct sf_vfile {
	const struct sf_vfile_ops *ops;
	_Atomic uint32_t refs;
	struct sf_reader *reader;
	uint32_t nrec;
	const uint64_t *start; /* nrec + 1 offsets, ascending; start[nrec] is the size. Set by
	                          prepare (or by the maker) */
	uint64_t size;
	struct {
		pthread_mutex_t m;
		int state; /* 0 not prepared, 1 being prepared, 2 done; waiters on c */
		pthread_cond_t c;
		struct sf_vfile_failure *failed; /* what preparing can only come to again, NULL */
		struct sf_readahead *ahead;      /* of all who read it forward; NULL: none */
		unsigned openers;                /* of them */
	} locked;
	_Atomic int ready; /* state == 2, without the lock */
};
void sf_vfile_init(struct sf_vfile *f, const struct sf_vfile_ops *ops, struct sf_reader *reader);
struct sf_vfile *sf_vfile_ref(struct sf_vfile *f);
void sf_vfile_unref(struct sf_vfile *f); /* NULL is fine */
/*
 * What all who have it open read ahead by: one for all, since of readers who go through it together
 * each page is asked for by the one who comes first, and only all of their reads go forward. It is
 * prepared. Returns NULL for want of memory: nothing is read ahead then; else a leave follows.
 */
struct sf_readahead *sf_vfile_join_readahead(struct sf_vfile *f);
void sf_vfile_leave_readahead(struct sf_vfile *f);
/* -EAGAIN when it is not prepared yet; never waits */
int sf_vfile_size(struct sf_vfile *f, uint64_t *ret);
/*
 * Prepares if nobody has; waits for another thread that does. A failure that is of the bytes
 * themselves (-EBADMSG, -E2BIG, -ENOTSUP) stays, with its message, as long as the file: what took
 * seconds to refuse is not tried at each stat. After any other the next call tries again.
 */
int sf_vfile_prepare(struct sf_vfile *f, struct sf_error *err);
/* For struct sf_read: arg is the vfile; binary search in start[], then the records' emit. The range
 * is cut by the caller to the size. */
int sf_vfile_emit(void *vfile, uint64_t off, uint64_t len, struct sf_parts *parts,
                  struct sf_error *err);
/* Waits; returns bytes put into @buf (short only at the end of the file). Reads ahead, where somebody
 * joined. */
int64_t sf_vfile_pread(struct sf_vfile *f, uint64_t off, void *buf, uint64_t len,
                       struct sf_error *err);
/* All of a small one: *ret is malloc'ed, never NULL. */
int sf_vfile_read_all(struct sf_vfile *f, void **ret, size_t *ret_len, struct sf_error *err);

#endif
