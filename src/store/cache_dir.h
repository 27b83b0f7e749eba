/* The directory of the block cache: found, made, and refused where others could write into it. */
#ifndef SF_STORE_CACHE_DIR_H
#define SF_STORE_CACHE_DIR_H

#include "base/error.h"

/* Where it is unless --cache-dir says: /var/cache/shardfuse of root, else $XDG_CACHE_HOME/shardfuse,
 * else $HOME/.cache/shardfuse. malloc'ed. -ENOENT: neither is set; -ENOMEM. */
int sf_cache_dir_default(char **ret, struct sf_error *err);

/*
 * sf_cache_dir_open - a descriptor of @path, by which alone it is used from then on.
 *
 * Missing directories are made, mode 0700. Symbolic links are followed but for those that stand in a
 * directory which group or others can write to: anybody may have put them there. The directory must
 * be this user's, and neither group nor others may write to it. -EACCES says which it was;
 * -ENOTDIR, -ELOOP and others as the system calls. It is tagged as a cache (CACHEDIR.TAG), so that
 * backups leave it out.
 */
int sf_cache_dir_open(const char *path, int *ret_fd, struct sf_error *err);

#endif
