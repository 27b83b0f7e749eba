/* The account of what a cache may keep. Private to the cache. */
#ifndef SF_STORE_CACHE_ROOM_H
#define SF_STORE_CACHE_ROOM_H

#include <stdbool.h>
#include <stdint.h>

/*
 * Bytes are promised before they are written, so that many at once do not pass the limit together,
 * and kept or given back after. A sweep says what lies on disk; what this process wrote since the
 * sweep began is counted beside it, for the sweep may or may not have seen it: an account is never
 * too small, but for what other processes wrote since.
 *
 * Threads: all functions, any number of calls at once, one sweep at a time.
 */
struct sf_cache_room {
	uint64_t limit;            /* bytes; set before use */
	_Atomic uint64_t on_disk;  /* at the last sweep */
	_Atomic uint64_t since;    /* kept by us since it began */
	_Atomic uint64_t promised; /* and not yet written */
};

/* Promised, or false: there is no room. */
bool sf_cache_room_take(struct sf_cache_room *r, uint64_t bytes);
/* What was promised is on disk. Returns how much is since the last sweep. */
uint64_t sf_cache_room_kept(struct sf_cache_room *r, uint64_t bytes);
/* It is not, and will not be. */
void sf_cache_room_give(struct sf_cache_room *r, uint64_t bytes);

/* On disk now, as far as is known. */
uint64_t sf_cache_room_used(struct sf_cache_room *r);

/* A sweep begins: what it returns is for the end, when @on_disk bytes were found and left. */
uint64_t sf_cache_room_sweep(struct sf_cache_room *r);
void sf_cache_room_swept(struct sf_cache_room *r, uint64_t begun, uint64_t on_disk);

#endif
