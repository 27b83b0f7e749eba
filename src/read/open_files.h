/* Open sources of a checkpoint's files: a bounded LRU, because 10^6 files with one item each
 * exist. */
#ifndef SF_READ_OPEN_FILES_H
#define SF_READ_OPEN_FILES_H

#include "base/error.h"
#include "store/source.h"

/*
 * Keyed by a number the caller chooses. A source that a read holds stays open when it falls out:
 * what is open at once is at most the limit and what the reads under way hold (fd_budget.c).
 * Threads: all functions, any number of calls at once. No I/O happens under the lock.
 */
struct sf_open_files;
int sf_open_files_new(unsigned limit, struct sf_open_files **ret, struct sf_error *err);
void sf_open_files_free(struct sf_open_files *f); /* NULL is fine */

struct sf_source *sf_open_files_get(struct sf_open_files *f,
                                    uint32_t key); /* a reference, or NULL */
/* Adds @src (referenced); if another came first, that one is given. Returns a reference to what is
 * kept now. */
struct sf_source *sf_open_files_put(struct sf_open_files *f, uint32_t key, struct sf_source *src);
void sf_open_files_drop(struct sf_open_files *f, uint32_t key,
                        struct sf_source *src); /* if it is still that one */
unsigned sf_open_files_count(struct sf_open_files *f);

#endif
