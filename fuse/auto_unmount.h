/* -o auto_unmount: a mountpoint is taken away when its daemon was killed. */
#ifndef SF_FUSE_AUTO_UNMOUNT_H
#define SF_FUSE_AUTO_UNMOUNT_H

#include <sys/types.h>
#include "base/error.h"

/* Zeroed: not started. */
struct sf_auto_unmount {
	pid_t pid;
	int fd;
};

/*
 * sf_auto_unmount_start - leave a process behind that unmounts @mountpoint when this one dies
 * without sf_auto_unmount_end.
 *
 * Not fusermount3's own: before libfuse 3.15 that one looks at the mountpoint as root, is refused
 * where neither allow_other nor allow_root is given, and leaves the dead mount where it is.
 *
 * Call before any thread is there and before mounting: a copy of the device's descriptor would keep
 * the mount from dying. @mountpoint is absolute.
 */
int sf_auto_unmount_start(struct sf_auto_unmount *a, const char *mountpoint, struct sf_error *err);
/* The mount ended in order, or never was: nothing is left to clean. Waits for the process to go. */
void sf_auto_unmount_end(struct sf_auto_unmount *a);

#endif
