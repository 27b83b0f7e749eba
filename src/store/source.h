/* A source: bytes with a size. Ways to read: lend (what is in memory, no copy), try (never waits),
 * submit (completes later), read (waits). */
#ifndef SF_STORE_SOURCE_H
#define SF_STORE_SOURCE_H

#include <sys/uio.h>
#include "base/thread_pool.h"
#include "store/store.h"

/* Bytes lent without a copy. They may only be handed to system calls (a mapping of a file that
 * shrank gives EFAULT there, but SIGBUS to our own loads). Give back with sf_lease_release. */
struct sf_lease {
	const void *at;
	struct sf_source *src; /* a reference */
	void *token;           /* the source's: what unlend gives back; NULL: nothing */
};

/* One contiguous range of a source, to be put into places. The caller's memory until done. */
struct sf_io_req {
	uint64_t off, len;
	const struct iovec *iov; /* lengths sum to len */
	int niov;
	enum sf_fetch_kind kind; /* for the counters */
	/* Once, r = 0 or negative, no lock held, on a thread of io->pool: it may go on there with
	 * what waited for the bytes. Not when sf_source_submit() says that the request has ended.
	 */
	void (*done)(struct sf_io_req *req, int r);
	bool ahead; /* counted when its bytes are used (fetch_many.h), not here */
	/* It ends when what was fetched for it is on disk, where there is a cache, not when it has
	 * come: for those whom nobody waits for. */
	bool keep;
	bool yields; /* nobody waits for it yet: it gives way to those that somebody waits for */
	bool wakes;  /* done does no more than wake somebody: any thread will do */
	bool here;   /* once it has ended well: no server was asked for it (the cache) */
	int r;       /* how it ended */
	struct sf_error err; /* message when r < 0 */
	/* the source's while submitted */
	struct sf_source *src; /* no reference: the caller's lasts until done */
	struct sf_io_req *next;
	struct sf_task task;
	void *priv[2];
	struct sf_io_hook *hook; /* of filters, the innermost first */
	_Atomic bool met; /* submit has returned, or the request has ended: whichever came first */
};

/* A filter that wants to see how a request ends that it forwarded (filter.h). */
struct sf_io_hook {
	/* Returns what becomes of @r, or SF_IO_AGAIN: it submitted the request once more. */
	int (*ended)(struct sf_io_hook *hook, struct sf_io_req *req, int r);
	struct sf_source *src;    /* the filter */
	struct sf_io_hook *outer; /* of the filter around it */
};
#define SF_IO_AGAIN 1

struct sf_source_ops {
	/* 0: all bytes copied; -EAGAIN: it would have to wait; else an error with its message.
	 * Never waits. */
	int (*try_read)(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
	                uint64_t len, struct sf_error *err);
	/* 0: lent, @ret has at and token; -EAGAIN: not resident; -ENOTSUP: this source does not
	 * lend. Never waits. May be NULL. */
	int (*lend)(struct sf_source *src, uint64_t off, uint64_t len, struct sf_lease *ret);
	/* Once for each lease with a token: a cache may evict the block from then on. Any thread.
	 * NULL: it lends for as long as it lives. */
	void (*unlend)(struct sf_source *src, void *token);
	/* Never waits, and calls sf_io_req_end once for the request, from any thread, maybe before
	 * it returns. */
	void (*submit)(struct sf_source *src, struct sf_io_req *req);
	/* Ask that a submitted request ends soon with -ECANCELED; done is still called (maybe with
	 * success), but not from within cancel: the caller may hold a lock. A request that is not
	 * (or no longer) this source's is ignored. NULL: a request takes as long as it takes. */
	void (*cancel)(struct sf_source *src, struct sf_io_req *req);
	/* Still the object that was opened? 0 or -ESTALE with a message. Cheap; called before a
	 * reply goes out. */
	int (*check)(struct sf_source *src, struct sf_error *err);
	void (*free)(struct sf_source *src);
	/* It counts what it fetches itself: what it gives need not have been fetched. So it is of
	 * filters around it. */
	bool counts;
	bool on_pool; /* requests end in tasks of io->pool: what waited goes on right there */
};
/* How a source wants to be asked. A file wants requests that a core copies in no time, a server few
 * large ones. */
struct sf_source_hints {
	uint64_t range_max; /* bytes of one request: longer ranges are cut, to be fetched side by
	                       side */
	uint64_t gap_max; /* bytes between two wanted runs that are read over rather than asked for
	                     apart; below range_max */
	uint64_t head_guess; /* bytes that an unseen item's header is thought to take, to be asked
	                      * for together with what is wanted behind it. 0: a round trip costs
	                      * next to nothing, the header alone comes first */
	uint64_t ahead;    /* bytes that may be asked for ahead of who reads forward; 0: whoever is
	                   below reads ahead itself */
	unsigned inflight; /* requests of one read at once */
};
extern const struct sf_source_hints sf_hints_local;

struct sf_source {
	const struct sf_source_ops *ops;
	const struct sf_source_hints
		*hints; /* outlive the source; NULL: sf_hints_local. Read by sf_source_hints() */
	_Atomic uint32_t refs;
	struct sf_io *io;
	const char *name; /* for messages; the source's */
	uint64_t size;
	struct sf_version version;
};

struct sf_source *sf_source_ref(struct sf_source *src);
void sf_source_unref(struct sf_source *src); /* NULL is fine */
void sf_source_unrefp(struct sf_source **src);
static inline const struct sf_source_hints *sf_source_hints(const struct sf_source *src)
{
	return src->hints ? src->hints : &sf_hints_local;
}

/* Ranges past the end are -EBADMSG with name, offset, length and size: every caller below checks
 * through these wrappers. They also count (counters by kind) and trace. */
int sf_source_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                  uint64_t len, enum sf_fetch_kind kind, struct sf_error *err);
int sf_source_lend(struct sf_source *src, uint64_t off, uint64_t len, enum sf_fetch_kind kind,
                   struct sf_lease *ret);
void sf_lease_release(struct sf_lease *lease);
/* 1: it has ended already, as req->r says, and done is not called: the caller goes on, in a loop
 * where he has more to ask. 0: done is called, or was. */
int sf_source_submit(struct sf_source *src, struct sf_io_req *req);
/* For sources: how a submitted request ends. */
void sf_io_req_end(struct sf_io_req *req, int r);
/* Try, else submit and wait, for io->timeout_ms at most: -ETIMEDOUT then. Of a source that cannot
 * cancel the deadline is that of each MiB, and a request that gets no answer is left behind: it
 * holds the source and a thread until it ends. */
int sf_source_read(struct sf_source *src, uint64_t off, void *buf, uint64_t len,
                   enum sf_fetch_kind kind, struct sf_error *err);
int sf_source_check(struct sf_source *src, struct sf_error *err);
/* Does it have these bytes? 0 or -EBADMSG: what the calls above check themselves. */
int sf_source_inside(const struct sf_source *src, uint64_t off, uint64_t len, struct sf_error *err);
/* For sources that count: a request of so many bytes was made. */
void sf_count_fetched(struct sf_io *io, enum sf_fetch_kind kind, uint64_t bytes);
/* A whole small object in memory (≤ @limit, else -E2BIG); *ret is malloc'ed, NUL behind. */
int sf_source_read_all(struct sf_source *src, uint64_t limit, enum sf_fetch_kind kind,
                       uint8_t **ret, uint64_t *ret_len, struct sf_error *err);

/* Are both the same version? 0, or -ESTALE with both in the message. @want_size UINT64_MAX: not
 * known, only versions count; a version that is all zero is not known either. */
int sf_version_check(const char *name, uint64_t want_size, const struct sf_version *want,
                     uint64_t size, const struct sf_version *found, struct sf_error *err);

#endif
