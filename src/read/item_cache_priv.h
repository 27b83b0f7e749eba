/* What item_cache.c (the table), item_turn.c (who waits) and item_load.c, item_decode.c (how an
 * item is taken in) share. */
#ifndef SF_READ_ITEM_CACHE_PRIV_H
#define SF_READ_ITEM_CACHE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/deadline.h"
#include "base/lru.h"
#include "base/pages.h"
#include "parse/codec.h"
#include "read/item_cache.h"

#define SF_ITEM_BUCKETS 1024

enum sf_cache_state { SF_ENTRY_QUEUED, SF_ENTRY_LOADING, SF_ENTRY_READY };

struct sf_cache_entry {
	struct sf_cached pub; /* first */
	struct sf_item_cache *cache;
	_Atomic uint32_t refs; /* one is the table's, or the load's */
	struct sf_cache_want want;
	uint64_t held; /* READY: bytes taken from the budget, as @charge.kind */
	/* How its load ends, in any thread: it is there, or @r < 0 with a message in req.err; or it
	 * needs @bytes, more than it has, and begins anew when its turn comes.
	 * By pointer, they cut a circle: item_turn.c begins loads, item_load.c ends them. */
	void (*loaded)(struct sf_cache_entry *e, int r);
	void (*again)(struct sf_cache_entry *e, uint64_t bytes);

	/* under the lock */
	uint8_t state;
	bool gone;                    /* QUEUED: out of the table, nobody wants it any more */
	struct sf_cache_entry *chain; /* bucket */
	struct sf_lru_link lru;       /* READY */
	/* READY: it is kept until then when nobody uses it, and until that time in all */
	int64_t keep_ns, keep_last_ns;
	int64_t took_ns;                    /* its load */
	uint64_t passed;                    /* bytes, since all of it was read */
	struct sf_cache_entry *prev, *next; /* QUEUED, LOADING: all of its owner's */
	struct sf_cache_wait *waits, *last_wait;

	/* the load's alone */
	int64_t began_ns;
	struct sf_budget_wait turn;
	struct sf_task task;
	struct sf_charge charge;
	struct sf_io_req req;
	struct iovec iov;
	uint8_t *in;
	uint64_t in_len, pos; /* bytes of @in; taken from the item */
	uint8_t *begun;       /* BLOB: pub.at */
	struct sf_decoder *decoder;
	uint64_t window;       /* bytes that a frame may ask the decoder for */
	struct sf_pages pages; /* DECODED: where it is decoded to … */
	struct sf_buf out;     /* … as a buffer; MADE: the bytes */
	struct sf_arena arena;
};

struct sf_item_cache {
	struct sf_io *io;
	_Atomic unsigned refs; /* the owner's, and that of the timer that goes off */
	struct sf_budget_reclaim reclaim;
	/* what an item's load is taken to have taken, at least, for its next reader … and for all */
	struct {
		int64_t least_ns, next_ns, all_ns;
	} keep;
	struct sf_deadline timer; /* when what is kept has been kept for long enough */
	_Atomic uint64_t held;    /* of READY ones; written under the lock */
	struct {
		pthread_mutex_t m;
		pthread_cond_t idle; /* no load of some owner is left */
		struct sf_cache_entry *bucket[SF_ITEM_BUCKETS];
		struct sf_lru lru;
		bool armed; /* the timer is */
		bool ended, no_timer;
	} locked;
};

/* item_cache.c: the table, references, what is kept */
struct sf_cache_entry *sf_item_find_locked(struct sf_item_cache *c, const struct sf_cache_want *w);
void sf_item_table_add_locked(struct sf_item_cache *c, struct sf_cache_entry *e);
void sf_item_table_remove_locked(struct sf_item_cache *c, struct sf_cache_entry *e);
void sf_item_loaded_locked(struct sf_item_cache *c, struct sf_cache_entry *e); /* into the LRU */
void sf_item_unref(struct sf_cache_entry *e);
/* What nobody uses goes, as long as there is too much of it. */
void sf_item_trim(struct sf_item_cache *c);
void sf_item_drop_load(struct sf_cache_entry *e); /* what only the load needs */
/* Its memory: after a failure, or with its last reference. */
void sf_item_drop(struct sf_cache_entry *e);

/* item_load.c: how an item is taken in */
/* Bytes to take before the load begins. */
uint64_t sf_item_claim(const struct sf_cache_entry *e);
/* Its charge was begun, but for a MADE one. Ends in e->loaded() or e->again(). */
void sf_item_load(struct sf_cache_entry *e);
uint64_t sf_item_limit(const struct sf_cache_entry *e);      /* the budget's, bytes */
int sf_item_make_in(struct sf_cache_entry *e, uint64_t len); /* room for @len bytes of input */
/* What to ask for next: the item's next bytes. */
void sf_item_next(struct sf_cache_entry *e, void *to, uint64_t len);
/* It had not enough memory: lets all go and begins anew with @bytes. */
void sf_item_want_more(struct sf_cache_entry *e, uint64_t bytes);

/* A load's step: negative, 0: the item is there, or: */
enum {
	SF_ITEM_MORE = 1, /* sf_item_next() said what more it takes */
	SF_ITEM_ANEW,     /* it begins anew when its turn comes: nothing of it may be touched */
};

/* item_decode.c: compressed items */
uint64_t sf_item_decode_claim(const struct sf_cache_entry *e);
int sf_item_decode_begin(struct sf_cache_entry *e, uint64_t *first);
int sf_item_decode_slice(struct sf_cache_entry *e);

#endif
