/* Compressed items of one file, and who asks a cache for them. */
#ifndef SF_TESTS_LIB_ITEM_CACHE_WORLD_H
#define SF_TESTS_LIB_ITEM_CACHE_WORLD_H

#include <pthread.h>
#include <stdatomic.h>
#include <sys/syscall.h>
#include <unistd.h>
#include "tests/lib/test_stores.h"
#include "base/mem.h"
#include "parse/zstd.h"
#include "read/item_cache_priv.h"
#include "tests/lib/sf_fake_ckpt.h"

#define ITEMS 20
#define LEN 400000

static uint8_t plain[LEN];
static struct sf_buf file;
static uint64_t off[ITEMS + 1];
static struct sf_mem_object object;
static struct sf_io io;
static struct sf_store *store;
static struct sf_source *src;
static struct sf_fault plan;
static struct sf_item_owner owner;

/* ITEMS frames; item i decodes to plain[i..LEN). */
static inline void begin(unsigned delay)
{
	struct sf_store *inner;
	uint64_t seed = 9;

	memset(&file, 0, sizeof(file));
	for (size_t i = 0; i < LEN; i++)
		plain[i] = (uint8_t)sf_test_rand(&seed);
	for (int i = 0; i < ITEMS; i++) {
		off[i] = file.len;
		fake_zstd(&file, plain + i, LEN - (size_t)i);
	}
	off[ITEMS] = file.len;
	object = (struct sf_mem_object){ "x", file.at, file.len };
	plan = (struct sf_fault){ .fail_at = -1, .delay_ms = delay };
	memset(&owner, 0, sizeof(owner));
	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	ck_assert_int_eq(sf_store_mem(&io, &object, 1, &inner, NULL), 0);
	ck_assert_int_eq(sf_store_fault(inner, &plan, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &src, NULL), 0);
}

static inline uint64_t held(void)
{
	struct sf_budget_stat s;

	sf_budget_stat(io.budget, &s);
	return s.held;
}

/* What the first item's load takes. */
static inline uint64_t claim_of(struct sf_item_cache *c, struct sf_cache_want w)
{
	struct sf_cache_entry e = { .cache = c, .want = w };

	return sf_item_claim(&e);
}

static inline void end(void)
{
	ck_assert_uint_eq(held(), 0);
	sf_source_unref(src);
	sf_store_free(store);
	sf_io_release(&io);
	sf_buf_release(&file);
}

static inline struct sf_cache_want want(int i)
{
	return (struct sf_cache_want){ .owner = &owner,
		                       .src = src,
		                       .off = off[i],
		                       .len = off[i + 1] - off[i],
		                       .fetch = SF_FETCH_OBJECT,
		                       .codec = SF_CODEC_ZSTD,
		                       .streams = 1,
		                       .expect = LEN,
		                       .decoded_max = LEN };
}

/* Its owner leaves, and then it goes. */
static inline void free_cache(struct sf_item_cache *c)
{
	sf_item_cache_end(c, &owner);
	sf_item_cache_drop(c, &owner);
	sf_item_cache_free(c);
	memset(&owner, 0, sizeof(owner));
}

struct wait {
	struct sf_cache_wait w;
	atomic_int done;
	int r;
	const struct sf_cached *item;
};
static inline void note(struct sf_cache_wait *w, int r, const struct sf_cached *item)
{
	struct wait *x = (struct wait *)w;

	x->r = r;
	x->item = item;
	atomic_store(&x->done, 1);
}
static inline void load(struct sf_item_cache *c, struct sf_cache_want w, struct wait *x)
{
	memset(x, 0, sizeof(*x));
	x->w.done = note;
	sf_item_cache_load(c, &w, &x->w, true);
}
static inline int wait_done(struct wait *x)
{
	while (!atomic_load(&x->done))
		usleep(100);
	return x->r;
}

#endif
