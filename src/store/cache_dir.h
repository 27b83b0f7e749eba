/* The directory of the block cache: found, made, and refused where others could write into it. */
#ifndef SF_STORE_CACHE_DIR_H
#define SF_STORE_CACHE_DIR_H

#include "base/error.h"

/* Where it is unless --cache-dir says: /var/cache/shardfuse of root, else $XDG_CACHE_HOME/shardfuse,
 * else $HOME/.cache/shardfuse. *ret is malloc'ed, the caller's. -ENOENT: neither is set to an
 * absolute path; -ENOMEM. Threads: any, while nobody changes the environment. */
int sf_cache_dir_default(char **ret, struct sf_error *err);

/*
 * sf_cache_dir_open - a descriptor of @path, by which alone it is used from then on.
 *
 * Missing directories are made, mode 0700. Symbolic links are followed but for those that stand in a
 * directory which group or others can write to: anybody may have put them there. The directory must
 * be this user's, and neither group nor others may write to it. It is tagged as
 * a cache (CACHEDIR.TAG), so that backups leave it out.
 *
 * *ret_fd is the caller's to close. Errors, each with @path in the message: -EACCES says which it
 * was; -EINVAL an empty path, -ENAMETOOLONG; -ENOTDIR, -ELOOP and others as the system calls. What
 * was made before a failure stays. Threads: any number of calls at once. Waits for the disk.
 */
int sf_cache_dir_open(const char *path, int *ret_fd, struct sf_error *err);

#endif
