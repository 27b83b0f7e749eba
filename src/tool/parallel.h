/* Jobs by number, on a few threads. */
#ifndef SF_TOOL_PARALLEL_H
#define SF_TOOL_PARALLEL_H

#include <stddef.h>
#include "base/error.h"

#define SF_PARALLEL_MAX 16 /* threads */

/*
 * sf_parallel - @one is called for each of 0 .. n - 1, in that order, by as many threads as there are
 * cores, or as @threads says if that is not 0.
 *
 * After a job that fails no other is begun; its code is returned, its message in @err.
 * Errors: that, or no thread can be started. Threads: waits for all of them.
 */
int sf_parallel(size_t n, unsigned threads, int (*one)(void *arg, size_t i, struct sf_error *err),
                void *arg, struct sf_error *err);

#endif
