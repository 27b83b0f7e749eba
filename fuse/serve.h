/* One mount from the kernel's point of view: session, threads, signals, unmount. */
#ifndef SF_FUSE_SERVE_H
#define SF_FUSE_SERVE_H

#include <stdbool.h>
#include <sys/types.h>
#include "lib/session.h"

struct sf_serve_options {
	const char *mountpoint;   /* absolute, prepared */
	const char *fuse_options; /* for the kernel and fusermount3: "ro,nosuid,…" */
	bool debug;               /* libfuse's request log on stderr */
	unsigned threads;         /* that receive requests; 0 chooses */
	uint64_t readahead;       /* the kernel's, bytes; 0 chooses */
	unsigned size_timeout_s;  /* whoever waits longer for a size gets EIO; 0 chooses */
	uid_t uid;
	gid_t gid;
	mode_t umask;
};

/*
 * sf_serve - mount @s and answer until it is unmounted or SIGTERM, SIGINT or SIGHUP comes; unmounts
 * itself then.
 *
 * @ready is called once, when the kernel's INIT was answered: from then on the mountpoint works.
 * Threads: SIGTERM, SIGINT, SIGHUP and SIGPIPE must be blocked in the calling thread before any
 * other thread is started. Errors: nothing is mounted then.
 */
int sf_serve(struct sf_session *s, const struct sf_serve_options *o, void (*ready)(void *arg),
             void *arg, struct sf_error *err);

#endif
