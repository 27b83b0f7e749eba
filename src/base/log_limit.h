/* Lines that may come by the thousand: the first of each kind is written, the rest is counted. */
#ifndef SF_BASE_LOG_LIMIT_H
#define SF_BASE_LOG_LIMIT_H

#include <stdint.h>
#include "base/error.h"
#include "base/log.h"

#define SF_LOG_LIMIT_MS 5000 /* the program's window */
/* kinds of lines it remembers: about 300 KiB when all are in use */
#define SF_LOG_LIMIT_KEYS 1024

/*
 * A line's key says which lines are alike: the same failure of the same file. The first line of a
 * key is written at once. Those that follow within the window are counted, and told when it ends as
 * that first line with "(and N more like this in 5 s)" behind it: by a thread of our own, so the
 * count comes even when no further line does. Nothing is dropped in silence: a key that is
 * forgotten because @nkeys others came since has its count told then; what is left is told by
 * _free.
 *
 * Threads: any number of calls at once; lines are written without a lock.
 */
struct sf_log_limit;
/* @log outlives it. -ENOMEM */
int sf_log_limit_new(const struct sf_log *log, unsigned window_ms, unsigned nkeys,
                     struct sf_log_limit **ret, struct sf_error *err);
void sf_log_limit_free(struct sf_log_limit *l); /* NULL is fine */

/* @l NULL: every line is written to @log. */
void sf_log_limited(struct sf_log_limit *l, const struct sf_log *log, enum sf_log_level level,
                    uint64_t key, const char *fmt, ...) __attribute__((format(printf, 5, 6)));

#endif
