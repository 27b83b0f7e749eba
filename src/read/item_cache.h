/* Items that must be taken in whole: decoded zstd items, parsed headers of safetensors blobs. */
#ifndef SF_READ_ITEM_CACHE_H
#define SF_READ_ITEM_CACHE_H

#include <stdbool.h>
#include "base/arena.h"
#include "base/map.h"
#include "parse/safetensors.h"
#include "store/source.h"

enum sf_cached_kind { SF_CACHED_ZSTD, SF_CACHED_BLOB };

/* An item in memory, immutable. */
struct sf_cached {
	const uint8_t *at; /* ZSTD: the decoded item */
	uint64_t len;
	struct sf_st_header st; /* BLOB */
	struct sf_map names;    /* BLOB: name -> st.at[] */
};

/*
 * An LRU in bytes. One load of an item at a time: who asks meanwhile is called when it is there. A
 * load is no read's own: it goes on when the read that began it was cancelled or is late. Threads:
 * all functions, any number of calls at once; no I/O, decoding or callback under the lock.
 */
struct sf_item_cache;
/* @limit: bytes kept, and of one item. @memory: the --memory it is a part of, for messages. */
int sf_item_cache_new(uint64_t limit, uint64_t memory, struct sf_item_cache **ret,
                      struct sf_error *err);
void sf_item_cache_end(
	struct sf_item_cache *c); /* ends and waits for loads under way; no new ones begin */
void sf_item_cache_free(struct sf_item_cache *c); /* that too; NULL is fine */

struct sf_cache_want {
	struct sf_source *src;
	uint32_t file;     /* which file that is: the key, with off and kind */
	uint64_t off, len; /* the item as stored; BLOB: len is not used */
	enum sf_cached_kind kind;
	enum sf_fetch_kind fetch; /* for the counters */
	uint64_t decoded_max;     /* ZSTD: a longer item is -E2BIG */
	unsigned streams; /* ZSTD: so many, one inside the other; an item's own, no part of the key
	                   */
};
/* A reference, or NULL when it is not there. */
const struct sf_cached *sf_item_cache_get(struct sf_item_cache *c,
                                          const struct sf_cache_want *want);
void sf_cached_unref(struct sf_item_cache *c, const struct sf_cached *item); /* NULL is fine */

struct sf_cache_wait {
	/* once, on any thread, maybe before sf_item_cache_load returns; no lock held. @item: a
	 * reference, when r == 0 */
	void (*done)(struct sf_cache_wait *w, int r, const struct sf_cached *item);
	struct sf_error err; /* message when r < 0 */
	struct sf_cache_wait *next;
};
void sf_item_cache_load(struct sf_item_cache *c, const struct sf_cache_want *want,
                        struct sf_cache_wait *wait);

const struct sf_st_tensor *sf_cached_find(const struct sf_cached *item, const char *name,
                                          size_t len); /* BLOB; NULL */

#endif
