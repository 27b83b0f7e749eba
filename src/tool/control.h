/* What root and who mounted may ask a mount's daemon: an ioctl on its root directory. */
#ifndef SF_TOOL_CONTROL_H
#define SF_TOOL_CONTROL_H

#include <stdint.h>
#include <sys/ioctl.h>
#include "base/error.h"

/*
 * One struct both ways. Its size is part of the request's number: a daemon that knows another size
 * does not know the request (-ENOTTY); one of another version says so. Strings end with NUL.
 */
#define SF_CONTROL_VERSION 1
#define SF_CONTROL_DIR 4096
#define SF_CONTROL_WHY 1024

enum sf_control_op {
	SF_CONTROL_STATE = 1, /* what it keeps of what it fetches */
	SF_CONTROL_DROP = 2,  /* the same, after what the cache has of its SOURCE was removed */
};
enum { SF_CONTROL_FAR = 1, SF_CONTROL_CACHED = 2 };

struct sf_control {
	uint32_t version; /* in: SF_CONTROL_VERSION; out: the daemon's */
	uint32_t op;      /* in */
	/* out */
	int32_t r;      /* 0 or -errno: then why says it, and nothing else is set */
	uint32_t flags; /* FAR: SOURCE is a server's; CACHED: what is fetched is kept, unless why
	                 * says not; without it the rest is 0 */
	uint64_t limit, kept, free; /* bytes, as sf_cache_state() says */
	uint64_t fetched_bytes;     /* so far, by this daemon */
	uint64_t fetched_kept;      /* of them, those that were kept, or are on their way to it */
	uint64_t objects, bytes;    /* DROP: files that were removed; what they took on disk */
	char dir[SF_CONTROL_DIR];   /* where */
	char why[SF_CONTROL_WHY];   /* of r; or why nothing more is kept; "" */
};
_Static_assert(sizeof(struct sf_control) == 5192, "no padding that a compiler could choose");
#define SF_CONTROL _IOWR('S', 0xf5, struct sf_control)

/*
 * sf_control_ask - asks the daemon of the mount at @mountpoint for @op.
 *
 * A child asks: a daemon that hangs makes nobody wait longer than @timeout_ms. Errors, each with its
 * message: -ENOTCONN it is dead; -ETIMEDOUT it does not answer; -EPERM, -EACCES only root and who
 * mounted it may; -ENOTTY it does not know the question; -EPROTO it speaks another version; else what
 * it answered. Threads: as sf_ask().
 */
int sf_control_ask(const char *mountpoint, enum sf_control_op op, unsigned timeout_ms,
                   struct sf_control *ret, struct sf_error *err);

#endif
