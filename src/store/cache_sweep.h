/* Eviction: which files of a cache directory go. Private to the cache. */
#ifndef SF_STORE_CACHE_SWEEP_H
#define SF_STORE_CACHE_SWEEP_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

struct sf_cache_sweep {
	uint64_t limit;   /* bytes that may be kept; once they are more, files go until they are 1/8
	                   less */
	uint64_t floor;   /* bytes that stay free on the file system */
	unsigned young_s; /* files used within so many seconds stay */
	/* After an object's files were removed. May be NULL. */
	void (*removed)(void *arg, const char *name);
	void *arg;
	/* the result */
	uint64_t kept, freed; /* bytes */
	uint64_t objects;     /* that are left */
	bool full;            /* there is less free than @floor all the same */
};
/*
 * sf_cache_sweep - the files of @dir that were used last the longest ago are removed, whole objects,
 * until the rest fits. Whoever has one open keeps it until he closes it. Other names in @dir are
 * left alone. Errors: -ENOMEM, or reading the directory failed: nothing was removed, and the result
 * is not set. Threads: several may sweep at once, in any number of processes. Waits for the disk.
 * Cost: a stat a file.
 */
int sf_cache_sweep(int dir, struct sf_cache_sweep *s, struct sf_error *err);

#endif
