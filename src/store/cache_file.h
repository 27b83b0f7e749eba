/* The two files of a cached object: its bytes, with holes where they are not there, and the map of
 * those that are. Private to the cache. */
#ifndef SF_STORE_CACHE_FILE_H
#define SF_STORE_CACHE_FILE_H

#include "store/cache_map.h"
#include "store/source.h"

/*
 * NAME.data and NAME.map. A block is written first and marked after, with its sum: whoever dies in
 * between leaves a block that is not there. What a disk lost or damaged is found by the sum, so
 * nothing is ever synced. Several processes write the same bytes to the same place.
 *
 * Threads: any number of calls at once. All of them wait for the disk.
 */
struct sf_cache_file {
	int data, map;           /* descriptors; data is local's */
	bool writable;           /* else what is there can be read */
	struct sf_source *local; /* the bytes, as a file of this machine */
	uint64_t size;
	char name[SF_CACHE_NAME + 1];
};
#define SF_CACHE_DATA ".data"
#define SF_CACHE_MAP ".map"

/*
 * sf_cache_file_open - the files called @name in the directory @dir, of the object @id.
 *
 * Files that are not there are made, and those of another object by this name, or whose header is
 * damaged, made anew. @io outlives *ret; @dir, @id and @name are not kept. Errors: -ENOENT @dir is
 * read-only and has none; -EBADMSG what has the name is no plain file of this user's; -ENOMEM,
 * -EMFILE; others as the system calls.
 */
int sf_cache_file_open(struct sf_io *io, int dir, const struct sf_cache_id *id,
                       const char name[SF_CACHE_NAME + 1], struct sf_cache_file **ret,
                       struct sf_error *err);
/* NULL is fine. Nobody uses it any more; what local lent lives for as long as that is held. */
void sf_cache_file_free(struct sf_cache_file *f);

/* Which of @n blocks from @first on are marked and have their sum, into as many of @there. Without
 * memory, or where the disk fails: none. */
void sf_cache_file_verify(const struct sf_cache_file *f, uint64_t first, unsigned n, bool *there);
/* Blocks from @first on, @len bytes that end with a block's end or the object's, are written and
 * marked. -errno of the system call, -ENOSPC where it wrote nothing, -ENOMEM: some may be marked
 * then, whose bytes are there. -ESTALE: somebody cut the file; it is to be used no longer. */
int sf_cache_file_store(const struct sf_cache_file *f, uint64_t first, const uint8_t *at,
                        uint64_t len);
/* Used now; false: somebody took its name away or cut it, and it is to be used no longer. */
bool sf_cache_file_touch(const struct sf_cache_file *f);

/* NAME and what stands behind it are removed from @dir: the bytes first. What is not there, or cannot
 * be removed, is left. */
void sf_cache_file_remove(int dir, const char *name);

#endif
