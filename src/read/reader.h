/* The read engine: parts of a virtual file -> bytes, in place, without a lock across I/O. */
#ifndef SF_READ_READER_H
#define SF_READ_READER_H

#include <stdbool.h>
#include <sys/uio.h>
#include "base/error.h"
#include "ckpt/ckpt.h"
#include "store/source.h"

struct sf_reader;
struct sf_op;

/* @ckpt, @store and @io outlive the reader. Threads: every function below, any number of calls at
 * once. */
int sf_reader_new(const struct sf_ckpt *ckpt, struct sf_store *store, struct sf_reader **ret,
                  struct sf_error *err);
void sf_reader_free(struct sf_reader *r); /* no read may be under way */
const struct sf_ckpt *sf_reader_ckpt(const struct sf_reader *r);
/* the store's: views log and count through it */
struct sf_io *sf_reader_io(const struct sf_reader *r);

/* Bytes that may be read ahead of who reads forward (sf_source_hints), as far as its sources are
 * known; 0: of local files, nothing. */
uint64_t sf_reader_ahead(const struct sf_reader *r);

/* What a range of a virtual file is made of, in order; a view says it through the functions below.
 * Each: 0; -ERANGE, more than the read asks for, or than is there; -ENOMEM. */
struct sf_parts;
/* Bytes made by the view (headers): copied at once. */
int sf_parts_bytes(struct sf_parts *p, const void *at, uint64_t len);
/* [off, off+len) of a tensor's dense row-major bytes; cast: SF_DTYPE_NONE as stored, else off and
 * len count bytes of the cast dtype. */
int sf_parts_tensor(struct sf_parts *p, uint32_t tensor, uint64_t off, uint64_t len,
                    enum sf_dtype cast);
/*
 * sf_parts_runs - bytes [off, off+len) of some of a tensor's elements, put side by side: in the
 * tensor's dense row-major order those from first + i * step on, run of them, for i < count.
 *
 * @off and @len count bytes of the cast dtype where there is one. run is not 0.
 * Cost: a part a run.
 */
struct sf_read_runs {
	uint64_t first, run, step, count; /* elements */
};
int sf_parts_runs(struct sf_parts *p, uint32_t tensor, const struct sf_read_runs *runs,
                  uint64_t off, uint64_t len, enum sf_dtype cast);
/*
 * sf_parts_box - elements [origin, origin + extent) of a tensor to places of the caller's.
 *
 * Element (i0, …) of the box goes to @at + sum(i * stride). A read that has boxes has nothing else,
 * and no iov: what it asks for is their bytes in all, dense. The places are written until done is
 * called, never after it, so a read that was late or cancelled leaves any bytes there.
 * Cost: the requests are those of the chunks under it, whatever the strides.
 */
struct sf_read_box {
	const uint64_t *origin, *extent; /* of each dimension; copied */
	void *at;
	const int64_t *stride; /* bytes, of places that do not overlap; may be negative; copied */
};
int sf_parts_box(struct sf_parts *p, uint32_t tensor, const struct sf_read_box *box,
                 enum sf_dtype cast);
/* [off, off+len) of a source that is the view's own; the read takes references. */
int sf_parts_source(struct sf_parts *p, struct sf_source *src, uint64_t off, uint64_t len);
/* [off, off+len) of a stored file (shards/), by ckpt->listing[] index. */
int sf_parts_listed(struct sf_parts *p, uint32_t listed, uint64_t off, uint64_t len);
/* [off, off+len) inside an object's item after its transform (a tensor record of a bytes item):
 * item-relative. */
int sf_parts_object(struct sf_parts *p, uint32_t object, uint64_t off, uint64_t len);

/* The bytes of a read: some point into the read's own buffer, some into leases (only for system
 * calls, source.h). */
struct sf_read {
	/* the caller's: fill, then call */
	/* says the parts of [off, off+len) */
	int (*emit)(void *arg, uint64_t off, uint64_t len, struct sf_parts *p,
	            struct sf_error *err);
	void *arg;
	uint64_t off, len;
	bool inner; /* for what a view makes (made.h): its buffers are charged as that's */
	/* Nobody asked for it yet (readahead.h): nothing is lent, and where there is no room for
	 * its buffers at once it ends with -ENOBUFS. */
	bool ahead;
	int64_t since_ns; /* its deadline counts from then (clock.h); 0: from when it is parked */
	/* NULL: the reader's own buffer and leases; else all bytes are put here and iov is that */
	void *buf;
	void (*done)(struct sf_read *rd, int r); /* for park: once, any thread, no lock held */
	/* the result when r == 0: sums to len; valid until sf_read_release */
	struct iovec *iov;
	int niov;
	bool far;            /* it waited for bytes that were not on this machine */
	struct sf_error err; /* message when r < 0 */
	/* then: the stored file it is about, as ckpt->file[] or behind those listing[]; SF_NONE: of
	 * none */
	uint32_t file;
	void *priv;               /* the caller's */
	struct sf_op *_Atomic op; /* the reader's; NULL before the first call */
};

/*
 * sf_read_start - all that can be done without waiting, in this thread.
 *
 * 0: answered. -EAGAIN: it would wait, and keeps what it has: sf_read_park goes on with it,
 * sf_read_release gives it up. Else an error.
 *
 * Two calls, because who parks has more to do than one that is answered: @rd moves off the stack to
 * where a completion finds it, and is entered where whoever cancels looks for it, before anything
 * can be completed or cancelled. A read that need not wait, nearly every one, pays for none of it.
 */
int sf_read_start(struct sf_reader *r, struct sf_read *rd);
/* Goes on with a read that was started, or starts one: it is parked, and holds no thread from then
 * on. done is called when all bytes are there, or
 * failed, or the deadline passed, or it was cancelled, maybe before this returns. @rd stays the
 * caller's, where it is. */
void sf_read_park(struct sf_reader *r, struct sf_read *rd);
/* done still comes, soon, with -ECANCELED unless it was finished; not from within cancel: the
 * caller may hold a lock */
void sf_read_cancel(struct sf_reader *r, struct sf_read *rd);
/* after the result was used (or failed); buf of the caller stays */
void sf_read_release(struct sf_read *rd);
int sf_read_wait(struct sf_reader *r, struct sf_read *rd); /* start, else park and wait */

/* Shorthands that wait. */
int sf_read_tensor(struct sf_reader *r, uint32_t tensor, uint64_t off, void *buf, uint64_t len,
                   struct sf_error *err);

/*
 * Whole items of objects (bytes items), coalesced: each is handed over once, in any order, on the
 * calling thread, decompressed. An item longer than @limit (it may hold big tensors) is handed over
 * with item == NULL and its length: the caller then reads the ranges it needs with
 * sf_read_object_range. An item that cannot be read ends it with its error. @each's negative result
 * too.
 */
int sf_read_objects(struct sf_reader *r, const uint32_t *objects, size_t n, uint64_t limit,
                    int (*each)(void *arg, uint32_t object, const uint8_t *item, uint64_t len,
                                struct sf_error *err),
                    void *arg, struct sf_error *err);
/* A range of one object's item (after its transform). Waits. */
int sf_read_object_range(struct sf_reader *r, uint32_t object, uint64_t off, void *buf,
                         uint64_t len, struct sf_error *err);

#endif
