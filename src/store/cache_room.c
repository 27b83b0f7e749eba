#include "config.h"

#include <stdatomic.h>

#include "store/cache_room.h"

/* Each step counts some bytes twice for a moment, rather than not at all. */

bool sf_cache_room_take(struct sf_cache_room *r, uint64_t bytes)
{
	uint64_t promised = atomic_fetch_add(&r->promised, bytes) + bytes;
	uint64_t on_disk = atomic_load(&r->on_disk), since = atomic_load(&r->since);

	if (on_disk <= r->limit && since <= r->limit - on_disk &&
	    promised <= r->limit - on_disk - since)
		return true;
	atomic_fetch_sub(&r->promised, bytes);
	return false;
}

uint64_t sf_cache_room_kept(struct sf_cache_room *r, uint64_t bytes)
{
	uint64_t since = atomic_fetch_add(&r->since, bytes) + bytes;

	atomic_fetch_sub(&r->promised, bytes);
	return since;
}

void sf_cache_room_give(struct sf_cache_room *r, uint64_t bytes)
{
	atomic_fetch_sub(&r->promised, bytes);
}

uint64_t sf_cache_room_used(struct sf_cache_room *r)
{
	return atomic_load(&r->on_disk) + atomic_load(&r->since);
}

uint64_t sf_cache_room_sweep(struct sf_cache_room *r)
{
	return atomic_load(&r->since);
}

void sf_cache_room_swept(struct sf_cache_room *r, uint64_t begun, uint64_t on_disk)
{
	atomic_store(&r->on_disk, on_disk);
	atomic_fetch_sub(&r->since, begun);
}
