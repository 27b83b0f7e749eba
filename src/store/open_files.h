/* Open sources of the files of a process's checkpoints: a bounded LRU, because 10^6 files with one
 * item each exist. */
#ifndef SF_STORE_OPEN_FILES_H
#define SF_STORE_OPEN_FILES_H

#include "base/error.h"
#include "store/source.h"

static inline uint64_t sf_open_key(uint32_t owner, uint32_t key)
{
	return (uint64_t)owner << 32 | key;
}

/*
 * Keyed by an owner's number (a reader's) and one that it chooses. A source that a read holds stays
 * open when it falls out: what is open at once is at most the limit and what the reads under way
 * hold (fd_budget.h).
 * Threads: all functions, any number of calls at once. No I/O happens under the lock.
 */
struct sf_open_files;
int sf_open_files_new(unsigned limit, struct sf_open_files **ret, struct sf_error *err);
void sf_open_files_free(struct sf_open_files *f); /* NULL is fine */

struct sf_source *sf_open_files_get(struct sf_open_files *f,
                                    uint64_t key); /* a reference, or NULL */
/* Adds @src (referenced); if another came first, that one is given. Returns a reference to what is
 * kept now. */
struct sf_source *sf_open_files_put(struct sf_open_files *f, uint64_t key, struct sf_source *src);
void sf_open_files_drop(struct sf_open_files *f, uint64_t key,
                        struct sf_source *src); /* if it is still that one */
void sf_open_files_drop_owner(struct sf_open_files *f, uint32_t owner); /* all of its: O(limit) */

#endif
