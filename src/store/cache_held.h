/* Blocks that have come and are not on disk yet: read from memory, written behind. Private to the
 * cache. */
#ifndef SF_STORE_CACHE_HELD_H
#define SF_STORE_CACHE_HELD_H

#include "base/pages.h"
#include "store/cache_priv.h"

/*
 * No reader waits for the cache's disk to take what it has: blocks are SF_BLOCK_HELD from when they
 * come until a thread of io->keep has written them, and whoever reads them meanwhile copies them out of
 * this memory. What is under way to it and in it is half of the budget at most; of a disk that is slower
 * than the server the rest is not kept (sf_cache_behind_take).
 *
 * References: the writer's, and those of who copies. The last one frees it, and gives its bytes back.
 */
struct sf_cache_held {
	struct sf_task task;
	struct sf_blocks *c; /* a reference, and one of its object */
	_Atomic uint32_t refs;
	uint64_t first; /* block */
	unsigned n;
	uint64_t len; /* bytes; taken of the budget as SF_BUDGET_FETCH, promised, behind */
	struct sf_pages pages;
	struct sf_cache_held *next; /* of c->held, under c->o->m, until it is written */
};

/*
 * sf_cache_hold - blocks of @c from @first on, whose bytes @pages has, are HELD now, and will be written.
 *
 * They were BUSY and the caller's; who waited for them looks again. @pages is taken over, and what was
 * taken for @len of it. -ENOMEM: nothing is.
 */
int sf_cache_hold(struct sf_blocks *c, uint64_t first, unsigned n, struct sf_pages *pages,
                  uint64_t len);

/*
 * sf_cache_copy - @len bytes at @off, all of whose blocks were THERE or HELD when the caller looked.
 *
 * @wait: may wait for the disk; else -EAGAIN where it would have to. Errors: -ENOMEM, or as reading the
 * file; with its message.
 */
int sf_cache_copy(struct sf_blocks *c, uint64_t off, const struct iovec *iov, int niov,
                  uint64_t len, bool wait, struct sf_error *err);

/* Is there room for @bytes more on their way to the disk? Where there is, sf_cache_hold follows, or the
 * other one. */
bool sf_cache_behind_take(struct sf_cache *c, uint64_t bytes);
void sf_cache_behind_give(struct sf_cache *c, uint64_t bytes);

#endif
