/* Items that must be taken in whole: decoded items, parsed headers of safetensors blobs, bytes
 * that a view makes. */
#ifndef SF_READ_ITEM_CACHE_H
#define SF_READ_ITEM_CACHE_H

#include <stdbool.h>
#include "base/arena.h"
#include "base/map.h"
#include "parse/codec.h"
#include "parse/safetensors.h"
#include "store/source.h"

/* Bytes of a blob that are asked for first, for its header: that of most is shorter. No hint of the
 * source: how long it is depends on the tensors it names, and of near or far it is had but once. */
#define SF_BLOB_HEAD (UINT64_C(64) << 10)

struct sf_made;
enum sf_cached_kind { SF_CACHED_DECODED, SF_CACHED_BLOB, SF_CACHED_MADE };

/* An item in memory, immutable. */
struct sf_cached {
	/* DECODED: the decoded item; MADE: the bytes; BLOB: its beginning, as far as it came with
	 * the header and was wanted, or nothing */
	const uint8_t *at;
	uint64_t len;
	struct sf_st_header st; /* BLOB */
	struct sf_map names;    /* BLOB: name -> st.at[] */
};

/*
 * The items of all readers of an sf_io. An item's bytes are taken from the budget before its load
 * begins, and given back when its last reference goes. Up to half of the budget is kept for the next
 * one who asks, the least recently used of all goes first; all of it, as soon as somebody waits for
 * bytes. But what is read piece by piece is kept for the next piece (sf_cached_pass). One load of an item at a time: who asks meanwhile is called when it is there. A load is no
 * read's own: it goes on when the read that began it was cancelled or is late. Threads: all
 * functions, any number of calls at once; no I/O, decoding or callback under the lock.
 */
struct sf_item_cache;
int sf_item_cache_new(struct sf_io *io, struct sf_item_cache **ret, struct sf_error *err);
void sf_item_cache_free(struct sf_item_cache *c); /* no owner has anything there; NULL is fine */

/* Whose an item is, a reader's: no other ever sees it. { 0 } has none; the cache's, under its lock. */
struct sf_item_owner {
	struct sf_cache_entry *queued, *loading;
	/* queued, loading, and those that are gone but will get their turn */
	unsigned nloads;
	bool ending;
};
/* ends and waits for its loads under way; no new ones begin */
void sf_item_cache_end(struct sf_item_cache *c, struct sf_item_owner *owner);
/* After that, and when all references are back: lets go of what is kept of it. */
void sf_item_cache_drop(struct sf_item_cache *c, struct sf_item_owner *owner);

struct sf_cache_want {
	struct sf_item_owner *owner;
	struct sf_source *src;
	uint32_t file; /* which file that is: the key, with owner, off and kind */
	/* the item as stored; BLOB: from off to the end of what it lies in, or more */
	uint64_t off, len;
	enum sf_cached_kind kind;
	enum sf_fetch_kind fetch; /* for the counters */
	/* BLOB: bytes from off on that are asked for together with its header, and kept; 0: the
	 * header alone */
	uint64_t ahead;
	uint64_t expect;      /* DECODED: bytes that it has inside, as far as is known … */
	uint64_t decoded_max; /* … and at most: a longer one is -E2BIG */
	/* DECODED: of the key as well; so many streams of it, one inside the other, an item's own,
	 * no part of the key */
	enum sf_codec codec;
	unsigned streams;
	struct sf_made *made; /* MADE: off is its number, all else is not used */
};
/* A reference, or NULL when it is not there. */
const struct sf_cached *sf_item_cache_get(struct sf_item_cache *c,
                                          const struct sf_cache_want *want);
const struct sf_cached *sf_cached_ref(const struct sf_cached *item);         /* another reference */
void sf_cached_unref(struct sf_item_cache *c, const struct sf_cached *item); /* NULL is fine */
/*
 * That, for now: @bytes of the @len that one reads of it were read, and until all are, more will
 * be. So it stays, whoever waits: to have it again would take another load. When nobody comes it
 * stays as long as its load took, a quarter of a second at most, and ten times as long in all: then
 * whoever comes back pays a load for what others waited.
 */
void sf_cached_pass(struct sf_item_cache *c, const struct sf_cached *item, uint64_t bytes,
                    uint64_t len);

struct sf_cache_wait { /* all 0 but for done and turn */
	/* once, on any thread, maybe before sf_item_cache_load returns; no lock held. @item: a
	 * reference, when r == 0 */
	void (*done)(struct sf_cache_wait *w, int r, const struct sf_cached *item);
	/* Its item waits its turn for memory from now on, or has it; NULL: nobody asks. Under the
	 * lock: neither waits nor calls back. Never of a MADE one. */
	void (*turn)(struct sf_cache_wait *w, bool has_it);
	struct sf_error err; /* message when r < 0 */
	/* r is -EAGAIN: the item turned out to need more bytes than it had, gave back those, and
	 * waits its turn; the caller, who may not, lets his other items go and asks anew */
	bool again;
	/* the cache's */
	struct sf_cache_wait *prev, *next;
	struct sf_cache_entry *entry;
	bool may_queue;
};
enum sf_cache_load {
	SF_CACHE_BEGUN,  /* it is there, or its bytes are taken */
	SF_CACHE_QUEUED, /* it waits its turn */
	SF_CACHE_FULL,   /* it would, and may not: done is not called */
};
/* @may_queue: the caller holds no item, nor asks for a second one until it is there. Any other must
 * not wait for bytes that it may itself keep from being given back. A MADE one is SF_CACHE_QUEUED
 * until it is there. */
enum sf_cache_load sf_item_cache_load(struct sf_item_cache *c, const struct sf_cache_want *want,
                                      struct sf_cache_wait *wait, bool may_queue);
/*
 * true: @wait was for an item that waits its turn, and does not any more; done is not called.
 * false: done was called, or will be. @ret_unwanted: what is left of an item that nobody waits for
 * now, for sf_item_cache_give_up(): not under the caller's lock, if he holds one.
 */
bool sf_item_cache_cancel(struct sf_item_cache *c, struct sf_cache_wait *wait,
                          struct sf_cache_entry **ret_unwanted);
void sf_item_cache_give_up(struct sf_item_cache *c,
                           struct sf_cache_entry *unwanted); /* NULL is fine */
/* Lets go of a MADE one, unless it is being used. */
void sf_item_cache_forget(struct sf_item_cache *c, const struct sf_cache_want *want);

const struct sf_st_tensor *sf_cached_find(const struct sf_cached *item, const char *name,
                                          size_t len); /* BLOB; NULL */

#endif
