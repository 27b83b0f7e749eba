/* What the block cache has of a source is removed. */
#ifndef SF_STORE_CACHE_DROP_H
#define SF_STORE_CACHE_DROP_H

#include <stdint.h>
#include "store/cache.h"

struct sf_cache_dropped {
	uint64_t objects, bytes; /* files that were kept; what they took on disk */
};

/*
 * sf_cache_drop - removes from cache directory @path what is kept of @source and of all below it.
 *
 * @path NULL: the user's (cache_dir.h); one that is not there has nothing, and is not made.
 * @source: a URL as stores show it (store.h), of whatever server; NULL: everything. Processes that use
 * what is removed read on; they give its room back when they notice, within a minute of use.
 * Errors:  as sf_cache_dir_open(); others of the directory, with its name.
 * Threads: any number of calls at once, in any number of processes. Waits for the disk.
 */
int sf_cache_drop(const char *path, const char *source, struct sf_cache_dropped *ret,
                  struct sf_error *err);

/*
 * sf_cache_drop_store - the same of @s, a store behind @c, in the directory of @c: of @s alone, not of another
 * server's that is called the same. This process lets go of it at once. Errors: of the directory.
 */
int sf_cache_drop_store(struct sf_cache *c, const struct sf_store *s, struct sf_cache_dropped *ret,
                        struct sf_error *err);
/* What there is in @path, as sf_cache_drop() would remove all of it; nothing is removed. *ret_path, if
 * it is asked for: the directory, malloc'ed. Errors: as there. */
int sf_cache_drop_look(const char *path, struct sf_cache_dropped *ret, char **ret_path,
                       struct sf_error *err);

#endif
