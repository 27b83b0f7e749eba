/* What the parts of the block cache share. Private to src/store/cache*.c. */
#ifndef SF_STORE_CACHE_PRIV_H
#define SF_STORE_CACHE_PRIV_H

#include <pthread.h>
#include "store/cache.h"
#include "store/cache_file.h"
#include "store/cache_room.h"

struct sf_cache_read;
struct sf_cache_held;

enum sf_block_state {
	SF_BLOCK_UNKNOWN, /* to this process: the map may have it */
	SF_BLOCK_BUSY,    /* somebody looks for it there, or fetches it */
	SF_BLOCK_HELD,    /* in memory, to be written (cache_held.h) */
	SF_BLOCK_THERE,   /* with its sum checked, or written by us */
};

/* An object's files, and what is known of their blocks. Whoever uses them holds them: they may be
 * evicted and lose their names meanwhile, never their bytes. */
struct sf_blocks {
	_Atomic uint32_t refs;
	struct sf_cache_object *o; /* who holds this holds that */
	struct sf_cache_file *file;
	struct sf_task touch;
	/* under o->m */
	int64_t touched_ms;
	bool touching, checking;
	struct sf_task check; /* of blocks from check_from on */
	uint64_t check_from;
	uint64_t checked_to;           /* where the last of them ended, all there; 0: it did not */
	struct sf_cache_wait *waiting; /* for blocks that are busy */
	struct sf_cache_held *held;    /* blocks that are not written yet */
	uint8_t state[];               /* enum sf_block_state, of each block */
};

/* One version of an object: all its sources in this process share it. */
struct sf_cache_object {
	struct sf_cache *cache;
	struct sf_cache_object *next; /* under the cache's lock */
	_Atomic uint32_t refs;        /* the last one goes under it, too */
	struct sf_cache_id id;
	char name[SF_CACHE_NAME + 1];
	pthread_mutex_t m;
	/* under m, which is taken before the locks of the source inside */
	struct sf_blocks *now;       /* a reference; NULL: not open */
	bool never;                  /* it cannot be kept */
	struct sf_cache_read *reads; /* submitted */
	char text[];                 /* id's */
};

#define SF_CACHE_BUCKETS 256
/* What its file system lacks, so that nothing more is kept. */
enum sf_cache_lacks {
	SF_CACHE_LACKS_NOTHING,
	SF_CACHE_LACKS_SPACE, /* a write found it full */
	SF_CACHE_LACKS_FLOOR, /* what is to stay free, after all that may go went */
};

struct sf_cache {
	_Atomic uint32_t refs;
	struct sf_io *io;
	struct sf_cache_tie *tie; /* a reference */
	int dir;
	char *path;
	/* sf_cache_forget(); a pointer cuts a circle: what sweeps does not know of objects */
	void (*forget)(struct sf_cache *c, const char *name);
	/* cache_keep.c */
	struct sf_cache_room room;
	_Atomic uint64_t behind;           /* bytes: cache_held.h */
	_Atomic int off;                   /* it cannot be written to: why, -errno */
	_Atomic enum sf_cache_lacks lacks; /* a sweep looks again */
	_Atomic unsigned told;             /* bits of what the log was told */
	_Atomic bool sweeping, swept;      /* now; once at least */
	_Atomic int64_t sweep_after_ms;
	struct sf_task sweep;
	struct {
		pthread_mutex_t m;
		struct sf_cache_object *bucket[SF_CACHE_BUCKETS];
		struct sf_cache_space seen; /* of its file system, last */
	} locked;
};

/* What tells the objects of a store from those of others: "SOURCE", or "AT SOURCE". malloc'ed; NULL: no
 * memory. */
char *sf_cache_words(const struct sf_store *s);

/* The files called @name were removed: they are let go of here too, or the disk would not get its
 * blocks back. */
void sf_cache_forget(struct sf_cache *c, const char *name);

struct sf_cache_object *sf_cache_object_get(struct sf_cache *c, const struct sf_cache_id *id);
void sf_cache_object_unref(struct sf_cache_object *o);

/* A reference to its files, which are opened, or made, if they are not open: waits for the disk.
 * NULL: they are no use now. */
struct sf_blocks *sf_blocks_get(struct sf_cache_object *o);
/* The same without waiting, if all blocks of [first, end) are there, or some of them held. */
struct sf_blocks *sf_blocks_there(struct sf_cache_object *o, uint64_t first, uint64_t end,
                                  bool *ret_held);
void sf_blocks_unref(struct sf_blocks *c);
/* They are used no more: what is asked for next is looked for anew. */
void sf_blocks_retire(struct sf_blocks *c);

/*
 * cache_keep.c: may so many bytes more be kept? Asks for a sweep where they may not. Where they may,
 * one of the other two follows.
 */
bool sf_cache_promise(struct sf_cache *c, uint64_t bytes);
void sf_cache_kept(struct sf_cache *c, uint64_t bytes);
void sf_cache_not_kept(struct sf_cache *c, uint64_t bytes);
void sf_cache_failed(struct sf_cache *c, int r); /* writing to it did */
void sf_cache_read_only(struct sf_cache *c);     /* its files are */
/* Much was removed: looks how much is left, soon. */
void sf_cache_recount(struct sf_cache *c);
/* Looks how much is there: waits for the disk only where it has less free than the floor. */
void sf_cache_keep_begin(struct sf_cache *c);
/* A read of so many bytes, for which something was fetched or nothing; @missed: those of its bytes. */
void sf_cache_count(struct sf_cache *c, bool hit, uint64_t bytes, uint64_t missed);
void sf_cache_count_fetched(struct sf_cache *c, enum sf_fetch_kind kind, uint64_t bytes);
struct sf_io *sf_cache_io(struct sf_cache *c);
struct sf_cache *sf_cache_ref(struct sf_cache *c);

/* cache_ahead.c: a read found its blocks, [@first, @end), on disk. Where it goes on from what was read
 * before, the 16 MiB behind it are looked for by a task of the pool, so that who reads on finds them
 * there. Never waits. */
void sf_cache_check_ahead(struct sf_blocks *c, uint64_t first, uint64_t end);
/* A read that ends at @end found its blocks checked: near the end of what was, it goes on. */
void sf_cache_check_on(struct sf_blocks *c, uint64_t end);

/* cache_wait.c: who waits until something is known of the blocks [first, end). Under o->m. */
struct sf_cache_wait {
	uint64_t first, end;
	struct sf_task *task; /* submitted then */
	int *r;               /* and how their fetch failed, if it did */
	struct sf_error *err;
	struct sf_cache_wait *next;
	bool on; /* it is waited */
};
void sf_cache_wait_locked(struct sf_blocks *c, struct sf_cache_wait *w);
/* It is on, and waits no more: its task is not submitted. */
void sf_cache_wait_end_locked(struct sf_blocks *c, struct sf_cache_wait *w);
/* What is known of blocks has changed: who waits for them looks again, or fails with @r, @why. */
void sf_cache_set_locked(struct sf_blocks *c, uint64_t first, unsigned n, enum sf_block_state state,
                         int r, const struct sf_error *why);

/* cache_read.c: what sf_source_ops.submit and cancel do. */
void sf_cache_submit(struct sf_source *src, struct sf_cache_object *o, struct sf_io_req *req);
void sf_cache_cancel(struct sf_source *src, struct sf_cache_object *o, struct sf_io_req *req);

#endif
