/* Questions whose answer may never come, asked by a child. */
#ifndef SF_TOOL_ASK_H
#define SF_TOOL_ASK_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

/*
 * sf_ask - what a child writes within @timeout_ms.
 *
 * A system call on a mount whose daemon hangs does not return, and not every kernel lets the
 * process that made it die: it must not be ours. @answer runs in a child, writes to @fd and may
 * hang.
 *
 * Returns the bytes put into @buf, @size at most, or -errno of the pipe or the fork. *ret_all: the
 * child has ended, so that is all it had to say; false: time ran out, or the room. Threads: from a
 * process that has no other thread.
 */
ssize_t sf_ask(void (*answer)(const void *arg, int fd), const void *arg, unsigned timeout_ms,
               void *buf, size_t size, bool *ret_all);

#endif
