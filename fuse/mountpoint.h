/* What the system knows about a mountpoint. */
#ifndef SF_FUSE_MOUNTPOINT_H
#define SF_FUSE_MOUNTPOINT_H

#include <stdbool.h>
#include "base/error.h"

/*
 * An absolute path without touching its last component: that may be a dead mount, which answers
 * nothing but ENOTCONN. malloc'ed; NULL with errno.
 */
char *sf_mountpoint_absolute(const char *path);
/* The same, with a symlink as last component followed where it can be: the kernel's table has real
 * names. A path that hangs is as absolute as it was found to be within 10 s; -ETIMEDOUT as errno
 * when not even that. Threads: as sf_ask. */
char *sf_mountpoint_resolve(const char *path);
/* Is a shardfuse mounted at this absolute path, alive or not? */
bool sf_mountpoint_is_ours(const char *abs);
/* Is the daemon of what is mounted there gone? */
bool sf_mountpoint_is_dead(const char *abs);
/*
 * sf_mountpoint_prepare - can we mount there? A mountpoint whose daemon died is unmounted first.
 * Errors: -ENOENT, -ENOTDIR, -EACCES, -EBUSY (a live shardfuse is there, or one that hangs), each
 * saying what to do; -ETIMEDOUT: no answer within 10 s. *ret is its absolute path, malloc'ed.
 * Threads: as sf_ask.
 */
int sf_mountpoint_prepare(const char *path, char **ret, struct sf_error *err);
/* Would a mount there hide files? False too where the directory cannot be read. */
bool sf_mountpoint_has_files(const char *abs);
/*
 * sf_mountpoint_check_source - refuses a mountpoint below which SOURCE lies, or which is SOURCE:
 * the stored files would be hidden by what shows them.
 *
 * @abs as sf_mountpoint_prepare has it; @source is a path. Errors: -EBUSY.
 */
int sf_mountpoint_check_source(const char *abs, const char *source, struct sf_error *err);
/*
 * sf_mountpoint_lock - from here until *ret_fd is closed nobody else of us mounts there.
 *
 * @real: as prepare gave it, which looked before the lock was there: looks again. *ret_fd is -1
 * where the directory can be opened or locked by nobody like us (no right to read it, some network
 * filesystems). Errors: -EBUSY, another shardfuse is being mounted there, or is by now.
 */
int sf_mountpoint_lock(const char *real, int *ret_fd, struct sf_error *err);
/* Unmounts: umount2 as root, else fusermount3. */
int sf_mountpoint_unmount(const char *path, bool lazy, struct sf_error *err);
/* The kernel's readahead, where we may set it (root). Failure is no error: read() is a hint
 * slower. */
void sf_mountpoint_readahead(const char *path, unsigned kib);

#endif
