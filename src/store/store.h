/* A store: named objects (of a directory, a web server, S3, GCS) that open as sources. */
#ifndef SF_STORE_STORE_H
#define SF_STORE_STORE_H

#include <pthread.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/budget.h"
#include "base/log.h"
#include "base/page_pool.h"
#include "store/store_options.h"

struct sf_source;
struct sf_thread_pool;
struct sf_open_files;
struct sf_fd_budget;
struct sf_deadlines;
struct sf_http;
struct sf_read_shared;
struct sf_cache;
struct sf_outage;

/* What tells one version of an object from another. Local: dev, ino, mtime (ns); remote: etag. Size
 * is beside it. */
struct sf_version {
	uint64_t dev, ino;
	int64_t mtime_ns;
	const char *etag; /* NULL for local files; lives as long as its owner's arena */
};
struct sf_objinfo {
	const char *name; /* relative to the store, '/' between parts */
	uint64_t size;
	struct sf_version version;
};

/* Numbers of one process or mount: what .shardfuse/counters.json shows. Updated with relaxed
 * atomics. */
enum sf_fetch_kind {
	SF_FETCH_METADATA,
	SF_FETCH_HEADER,
	SF_FETCH_OBJECT,
	SF_FETCH_TENSOR,
	SF_FETCH_NKINDS
};
struct sf_counters {
	_Atomic uint64_t read_requests, read_bytes; /* what clients asked of virtual files */
	/* what was fetched for it: read from stored files here, asked of a server there. What came
	 * out of the block cache was not. */
	_Atomic uint64_t fetched_requests[SF_FETCH_NKINDS], fetched_bytes[SF_FETCH_NKINDS];
	/* reads, opens and sizes that failed; -ESTALE among them; reads that had to wait */
	_Atomic uint64_t errors, stale, parked;
	_Atomic uint64_t retried; /* requests to servers that were made again: something failed */
	struct sf_outage *_Atomic outages; /* outage.h: servers that failed; NULL: none did */
	/* Of the block cache, where there is one: reads that it answered, and those for which
	 * something had to be fetched; the bytes of both, and those that it had; what was fetched
	 * for the others, in whole blocks */
	_Atomic bool cached;
	_Atomic uint64_t cache_hits, cache_misses, cache_asked_bytes, cache_hit_bytes;
	_Atomic uint64_t cache_fetched_requests, cache_fetched_bytes;
	/* requests that were slow and made a second time, their bytes (not counted above); those
	 * of them that were first */
	_Atomic uint64_t hedged_requests, hedged_bytes, hedged_won;
	_Atomic uint64_t cache_kept_bytes; /* of them, what is on disk now or was evicted since */
	/* of -o prefetch: bytes that are to be read and that were; a total of 0: none */
	_Atomic uint64_t prefetch_total, prefetched;
	/* Of a mount alone, set before it serves: when it began (CLOCK_REALTIME), 0: none; the
	 * words it was given, borrowed. */
	int64_t began_ns;
	const char *given;
};

/* What all stores and readers of a process share. The program makes one; no global. */
struct sf_io {
	/* for I/O that blocks; never wait on it from one of its own tasks */
	struct sf_thread_pool *pool;
	/* files kept open (also mappings), of all readers; reads under way hold at most half as
	 * many beside them. sf_io_set_open */
	unsigned max_open;
	unsigned batch_open; /* files that one read holds open at once */
	struct sf_open_files *open_files;
	struct sf_fd_budget *fd_budget;
	_Atomic uint32_t readers; /* there have been: their numbers */
	/* what readers share of their own (src/read/shared.c): comes with the first of them and
	 * goes with the last */
	struct {
		pthread_mutex_t m;
		struct sf_read_shared *at;
		unsigned readers;
	} reading;
	/* for what views make of objects: waits on pool, and for the budget */
	struct sf_thread_pool *make;
	/* writes what was fetched into the block cache, whose disk may be slow: waits for nothing
	 * else; NULL: there is no cache */
	struct sf_thread_pool *keep;
	struct sf_cache_tie *tie; /* of its tasks to this; NULL: there was no cache */
	struct sf_http *_Atomic http;   /* http.h; NULL: nothing was asked of a server yet */
	struct sf_cache *_Atomic cache; /* cache.h; NULL: no store wanted it yet */
	_Atomic bool cache_refused;     /* the user's directory cannot be used: it was said */
	struct sf_deadlines *deadlines; /* of reads that wait */
	struct sf_budget *budget;       /* of bytes beyond loaded metadata: --memory */
	struct sf_page_pool pages;      /* of large buffers that nobody has */
	unsigned timeout_ms;            /* a read's deadline; 0: none */
	_Atomic bool stop;              /* sf_io_stop() */
	unsigned retry_ms; /* what is waited at first for a server that fails, at most; 0: 200 */
	/* what a read may wait for memory, which its deadline does not count; 0: ten times
	 * timeout_ms, at least ten minutes */
	unsigned turn_ms;
	/* SF_TRACE: a JSON line per source read; -1: none. The program opens and closes it */
	int trace_fd;
	/* the program has called sf_guard_install() (guard.h): short runs are copied out of
	 * mappings */
	bool guard;
	const struct sf_log *log;
	/* for lines about what fails again and again (log_limit.h); NULL: all are written. The
	 * program's */
	struct sf_log_limit *failures;
	struct sf_counters counters;
};
/* the rest gets defaults */
int sf_io_init(struct sf_io *io, unsigned threads, struct sf_error *err);
/* Before there is a reader. -ENOMEM: as it was. */
int sf_io_set_open(struct sf_io *io, unsigned max_open, struct sf_error *err);
/* Whoever waits for a store is told -ECANCELED soon, and from then on nobody waits: the program ends.
 * Any thread, any number of times. */
void sf_io_stop(struct sf_io *io);
void sf_io_release(struct sf_io *io);

struct sf_store;
struct sf_probe;
struct sf_put_ops;
#define SF_LIST_SKIP 1
struct sf_store_ops {
	/* The object as it is now; if @want is given (what list said) and it is another version:
	 * -ESTALE with both in the message. A store that is far asks nothing then: size and version
	 * are known, and the first request says whether they still hold. A directory opens the file
	 * all the same, because what a name leads to can be told from then on only by what is held
	 * open. A name that is no plain file (fifo, directory) is -EBADMSG; never blocks on a fifo.
	 * Without @want: a name that no list told of as a file, asked what is wrong with it, or what
	 * else is there now. */
	int (*open)(struct sf_store *s, const char *name, const struct sf_objinfo *want,
	            struct sf_source **ret, struct sf_error *err);
	/* Every object below @dir ("" the root), recursively to @depth levels of '/', in no order;
	 * a callback's negative result ends it. Entries that are not plain files are reported with
	 * size UINT64_MAX when @dir has them at level 0, before anything below them: SF_LIST_SKIP
	 * says not to look into that one. */
	int (*list)(struct sf_store *s, const char *dir, unsigned depth,
	            int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
	            struct sf_error *err);
	/* Of @names those that are there, asked for side by side and told of as list does, in no
	 * order: how a store is looked through whose list is -ENOTSUP. NULL: list can. Not called in
	 * tasks of io->pool. */
	int (*look)(struct sf_store *s, const char *const *names, size_t n,
	            int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
	            struct sf_error *err);
	/* A plain descriptor of the object for FUSE passthrough (local stores); the caller closes
	 * it. NULL or -ENOTSUP: has none. -EAGAIN: a store that is far, of whose object not all is
	 * here. Of one that is far it never waits, and asks no server. */
	int (*fd)(struct sf_store *s, const char *name, const struct sf_objinfo *want,
	          struct sf_error *err);
	/* A store of what is below the directory @dir, whatever has been mounted over its path
	 * since. NULL: by its name, as any SOURCE. */
	int (*below)(struct sf_store *s, const char *dir, struct sf_store **ret,
	             struct sf_error *err);
	/* What sf_store_probe() (probe.h) says of it. NULL: what opens it says what is wrong. */
	bool (*probe)(struct sf_store *s, const struct sf_probe *p);
	/* How its objects are written and removed (upload.h). NULL: it cannot be written to. */
	const struct sf_put_ops *put;
	void (*free)(struct sf_store *s);
};
struct sf_store {
	const struct sf_store_ops *ops;
	struct sf_io *io;
	bool far; /* a request is a round trip to another machine: we read ahead, not the kernel */
	char *source; /* as shown: userinfo and query removed */
	/* what tells it from another of the same source (an object store's endpoint, the hash of a
	 * URL's query), without secrets; NULL: nothing need */
	char *at;
	/* as it was opened, so that what is named relative to it is opened so too; NULL: none */
	const struct sf_store_options *opt;
};

/*
 * sf_store_open - a store for SOURCE: a path or file:// (a directory), http://, https://,
 * s3:// or gs://.
 *
 * Relative paths are taken now: the directory is held open, so mounting over it later is fine. Of a
 * server nothing is asked yet. @opt: NULL: nothing is given; else it lasts as long as the store.
 * Errors: -ENOTSUP another scheme; -ENOTDIR; -ENOENT missing; -EINVAL a URL that is none; each with
 *         the SOURCE, without its secrets, in the message.
 */
int sf_store_open(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                  struct sf_store **ret, struct sf_error *err);
/* A store of the directory @dir of @s, with @s's options. Errors: those of sf_store_open, and of names
 * that are no path. */
int sf_store_below(struct sf_store *s, const char *dir, struct sf_store **ret,
                   struct sf_error *err);
/* The schemes of URLs, one after the other; NULL: no more. */
const char *sf_store_scheme(size_t i);
/* That which the first @len bytes of @source, which are none, may mean; NULL: none is near. */
const char *sf_store_near_scheme(const char *source, size_t len);
static inline void sf_store_free(struct sf_store *s) /* NULL is fine */
{
	if (s)
		s->ops->free(s);
}

#endif
