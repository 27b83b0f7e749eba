/* Says so when a session's beginning takes long: the storage may not answer, and a process that
 * waits in open(2) or readdir(3) on it says nothing and can only be killed. */
#ifndef SF_LIB_SESSION_WATCH_H
#define SF_LIB_SESSION_WATCH_H

#include "store/store.h"

struct sf_session_watch;
/* A warning in @io's log, unless it is ended within io->timeout_ms. NULL where there is no memory
 * or no time limit: nothing is said. */
struct sf_session_watch *sf_session_watch_begin(struct sf_io *io, const char *doing,
                                                const char *source);
void sf_session_watch_end(struct sf_session_watch *w); /* NULL is fine */

#endif
