/* What ties writes to the cache's disk to the process's sf_io, and lets go where that disk hangs. Private to the
 * cache and to io.c. */
#ifndef SF_STORE_CACHE_TIE_H
#define SF_STORE_CACHE_TIE_H

#include <stdbool.h>

struct sf_io;

/*
 * Threads of io->keep write what has come (cache_held.h). At the end that is waited for as long as the
 * disk takes something; one that took nothing for five seconds, or is not done after a minute, is left
 * to itself: a write that comes back then finds that the io is gone, and touches nothing of it.
 * (Times are for io->retry_ms = 200 and scale with it.)
 *
 * References: the io's, and a cache's each. Threads: any.
 */
struct sf_cache_tie;
struct sf_cache_tie *sf_cache_tie_new(struct sf_io *io); /* NULL: no memory */
struct sf_cache_tie *sf_cache_tie_ref(struct sf_cache_tie *t);
void sf_cache_tie_unref(struct sf_cache_tie *t); /* NULL is fine */

void sf_cache_tie_begin(struct sf_cache_tie *t); /* a write is to come */
/* It has been made. NULL: the io is gone. Else it stays until sf_cache_tie_end(), which comes soon. */
struct sf_io *sf_cache_tie_done(struct sf_cache_tie *t);
void sf_cache_tie_end(struct sf_cache_tie *t, struct sf_io *io);
bool sf_cache_tie_ending(const struct sf_cache_tie *t); /* nothing new is to be begun */

/* The io's end: waits for writes as said above. */
void sf_cache_tie_wait(struct sf_cache_tie *t);
/* The io is gone, as soon as this returns; NULL is fine. */
void sf_cache_tie_cut(struct sf_cache_tie *t);

#endif
