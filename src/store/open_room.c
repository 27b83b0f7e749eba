#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "store/open_room.h"

struct sf_open_room {
	uint32_t kept, room;
	_Atomic uint64_t files; /* of all readers */
	struct {
		pthread_mutex_t m;
		uint32_t held;
		struct sf_open_wait *first, **last;
	} locked;
};

int sf_open_room_new(unsigned kept, unsigned least, struct sf_open_room **ret, struct sf_error *err)
{
	struct sf_open_room *room = calloc(1, sizeof(*room));

	if (!room)
		return sf_fail(err, -ENOMEM, "no memory for open files");
	room->kept = kept;
	room->room = SF_MAX(kept / 2, least);
	room->locked.last = &room->locked.first;
	pthread_mutex_init(&room->locked.m, NULL);
	*ret = room;
	return 0;
}

void sf_open_room_free(struct sf_open_room *room)
{
	if (!room)
		return;
	pthread_mutex_destroy(&room->locked.m);
	free(room);
}

void sf_open_room_add(struct sf_open_room *room, uint64_t files)
{
	atomic_fetch_add(&room->files, files);
}

void sf_open_room_remove(struct sf_open_room *room, uint64_t files)
{
	atomic_fetch_sub(&room->files, files);
}

bool sf_open_room_counts(const struct sf_open_room *room)
{
	return atomic_load_explicit(&room->files, memory_order_relaxed) > room->kept;
}

static bool take_locked(struct sf_open_room *room, uint32_t n)
{
	if (room->locked.first || n > room->room - room->locked.held)
		return false;
	room->locked.held += n;
	return true;
}

bool sf_open_room_take(struct sf_open_room *room, uint32_t n)
{
	bool r;

	pthread_mutex_lock(&room->locked.m);
	r = take_locked(room, n);
	pthread_mutex_unlock(&room->locked.m);
	return r;
}

bool sf_open_room_queue(struct sf_open_room *room, struct sf_open_wait *w)
{
	bool r;

	pthread_mutex_lock(&room->locked.m);
	r = take_locked(room, w->n);
	if (!r) {
		w->next = NULL;
		*room->locked.last = w;
		room->locked.last = &w->next;
	}
	pthread_mutex_unlock(&room->locked.m);
	return r;
}

void sf_open_room_give(struct sf_open_room *room, uint32_t n)
{
	struct sf_open_wait *granted = NULL, **last = &granted, *w;

	pthread_mutex_lock(&room->locked.m);
	room->locked.held -= n;
	while ((w = room->locked.first) && w->n <= room->room - room->locked.held) {
		room->locked.first = w->next;
		if (!w->next)
			room->locked.last = &room->locked.first;
		w->next = NULL;
		room->locked.held += w->n;
		*last = w;
		last = &w->next;
	}
	pthread_mutex_unlock(&room->locked.m);
	while ((w = granted)) {
		granted = w->next;
		w->granted(w);
	}
}
