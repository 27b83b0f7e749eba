/* The block cache: what was fetched of far objects is kept in files of this machine, for all views,
 * mounts and processes of a user. */
#ifndef SF_STORE_CACHE_H
#define SF_STORE_CACHE_H

#include "store/cache_space.h"
#include "store/source.h"

#define SF_CACHE_SIZE_DEFAULT UINT64_C(10000000000)

/*
 * A process has one (struct sf_io) once a store was opened that wants it. References: its owner, its
 * stores and their sources; the last one ends it. Threads: all functions, any number of calls at
 * once. What the disk refuses is said once in the log, and reads go on without it: full, until there
 * is room again; read-only or broken, for as long as the process lives.
 */
struct sf_cache;
/*
 * @dir NULL: the user's (cache_dir.h). @size: bytes on disk, more than 0, that files of all
 * processes take together, but for what others wrote since this one last looked (1/16 of it each).
 * Where the file system has less than 1/20 free, 1 GiB at most, nothing more is kept either, which
 * the log says. -EACCES and others with the reason: the directory cannot be trusted or made.
 */
int sf_cache_new(struct sf_io *io, const char *dir, uint64_t size, struct sf_cache **ret,
                 struct sf_error *err);
void sf_cache_unref(struct sf_cache *c);           /* NULL is fine */
uint64_t sf_cache_limit(const struct sf_cache *c); /* bytes: the size it was made with */

struct sf_cache_state {
	const char *dir;      /* as long as the cache */
	uint64_t limit, kept; /* bytes; kept: as sf_cache_new() says of @size */
	bool counted;         /* it is known what is kept; else it was only begun to look */
	uint64_t behind; /* bytes on their way, not on disk yet: gone if the process is killed */
	struct sf_cache_space space; /* when it was looked at last */
	char why[SF_CACHE_WHY_MAX];  /* nothing more is kept now; "": it is */
};
/* Never waits. */
void sf_cache_state(struct sf_cache *c, struct sf_cache_state *ret);

/*
 * sf_store_cached - @s, whose sources keep what they fetch.
 *
 * @s is taken over, unless it fails. An object is known by the store's name and what tells it from others (store.h: source,
 * at), its own name, its version and its size. One without a version goes through as it is.
 *
 * Its sources lend what is there as local files do, and fetch whole blocks (cache_map.h) where
 * something is missing, each once, however many readers ask for it.
 */
int sf_store_cached(struct sf_store *s, struct sf_cache *c, struct sf_store **ret,
                    struct sf_error *err);

/*
 * sf_store_keep - *s, a store that is far, goes behind its process's cache, unless @opt is NULL or
 * has a size of 0: then *s stays as it is, and nothing of it is on disk.
 *
 * The first store says where and how much for all of the process. *s is replaced on success only.
 * Errors:  as sf_cache_new(), where a directory or a size was asked for. The user's own directory,
 *          where nobody did, is done without if it cannot be used, which the log says once; *s then
 *          stays as it is.
 * Threads: any number of calls at once. Waits for the disk.
 */
int sf_store_keep(struct sf_store **s, const struct sf_store_options *opt, struct sf_error *err);

#endif
