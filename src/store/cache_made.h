/* A file in the cache's directory that was made out of an object here: what a packed one has inside. */
#ifndef SF_STORE_CACHE_MADE_H
#define SF_STORE_CACHE_MADE_H

#include "store/cache_map.h"
#include "store/store_options.h"

/*
 * It lies beside the blocks of the block cache, is as old as its last use, and goes by the same
 * sweeps: whoever has it open keeps its bytes. It gets its name when it is whole and on disk, so
 * kill -9 leaves none that is not. One thread at a time; any number of processes make the same one.
 */
struct sf_cache_made {
	int dir, fd; /* -1: none */
	char *path;  /* of the directory, for messages */
	uint64_t limit, bytes, looked;
	bool named; /* it will have a name; else it goes with its last descriptor */
	char name[SF_CACHE_NAME + 1];               /* that one */
	char temp[SF_CACHE_NAME + sizeof(".data")]; /* until then; "": none */
	uint8_t head[SF_CACHE_HEAD];                /* its map, by which drop knows it */
};

/*
 * sf_cache_made_open - the file that was made of @id, or one that is to be made.
 *
 * @opt: where, and how much may lie there (cache.h); NULL: as if nothing was given. @id NULL: what it
 * is made of has no version that would tell it again, so it will not be found again either.
 * 1: m->fd is it, to be read. 0: m->fd takes what sf_cache_made_write() gives it, then _end() or
 * _drop().
 * Errors: -ENOSPC the user said that nothing is to be kept; those of the directory (cache_dir.h);
 * -ENOMEM. Waits for the disk.
 */
int sf_cache_made_open(struct sf_cache_made *m, const struct sf_store_options *opt,
                       const struct sf_cache_id *id, struct sf_error *err);
/* More of it. -EFBIG, with the limit, where it would be more than the cache may have; -ENOSPC with what is
 * free. What was used longest ago makes room. */
int sf_cache_made_write(struct sf_cache_made *m, const void *at, size_t len, struct sf_error *err);
/* It is whole: m->fd can be read. */
int sf_cache_made_end(struct sf_cache_made *m, struct sf_error *err);
/* Lets go of it; nothing is left of one that is not whole. */
void sf_cache_made_drop(struct sf_cache_made *m);

#endif
