#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include <stdlib.h>
#include "base/mem.h"
#include "fuse/slot.h"

#define SLOTS_MAX (1u << 16)

void sf_slots_init(struct sf_slots *slots)
{
	*slots = (struct sf_slots){ .locked.n = 0 };
	pthread_mutex_init(&slots->locked.m, NULL);
}

/* @slots NULL: all of them go, its parent too. */
static void give_back(struct sf_slots *slots, struct sf_slot *slot)
{
	if (!slot)
		return;
	if (slot->given_back && slot->s)
		slot->given_back(slot->arg, slot->s);
	if (slots)
		sf_slot_unref(slots, slot->parent);
	free(slot->steps);
	free(slot);
}

void sf_slots_release(struct sf_slots *slots)
{
	for (size_t i = 0; i < slots->locked.n; i++)
		give_back(NULL, slots->locked.at[i]);
	free(slots->locked.at);
	pthread_mutex_destroy(&slots->locked.m);
}

/* Takes it out if nobody has it: the caller gives it back without the lock. */
static struct sf_slot *take_unused_locked(struct sf_slots *slots, struct sf_slot *slot)
{
	if (!slot->left || slot->refs || slot->lookups)
		return NULL;
	slots->locked.at[slot->number] = NULL;
	return slot;
}

int sf_slots_add(struct sf_slots *slots, struct sf_session *s, double timeout,
                 void (*given_back)(void *arg, struct sf_session *s), void *arg,
                 struct sf_slot **ret)
{
	struct sf_slot *slot = malloc(sizeof(*slot));
	size_t i = 0;
	int r = 0;

	if (!slot)
		return -ENOMEM;
	*slot = (struct sf_slot){
		.s = s, .timeout = timeout, .given_back = given_back, .arg = arg, .refs = 1
	};
	pthread_mutex_lock(&slots->locked.m);
	while (i < slots->locked.n && slots->locked.at[i])
		i++;
	if (i == slots->locked.n) {
		struct sf_slot **at = i == SLOTS_MAX ? NULL
		                                     : realloc(slots->locked.at,
		                                               (i + 1) * sizeof(struct sf_slot *));
		r = at ? 0 : i == SLOTS_MAX ? -EMFILE : -ENOMEM;
		if (at) {
			slots->locked.at = at;
			slots->locked.n++;
		}
	}
	if (r >= 0) {
		slot->number = (uint16_t)i;
		slot->generation = ++slots->locked.generations;
		slots->locked.at[i] = slot;
	}
	pthread_mutex_unlock(&slots->locked.m);
	if (r < 0)
		free(slot);
	else
		*ret = slot;
	return r;
}

void sf_slots_leave(struct sf_slots *slots, struct sf_slot *slot)
{
	struct sf_slot *unused;

	pthread_mutex_lock(&slots->locked.m);
	slot->left = true;
	unused = take_unused_locked(slots, slot);
	pthread_mutex_unlock(&slots->locked.m);
	give_back(slots, unused);
}

static struct sf_slot *find_locked(struct sf_slots *slots, uint64_t ino)
{
	uint64_t number = ino >> SF_NODE_BITS;

	return number < slots->locked.n ? slots->locked.at[number] : NULL;
}

struct sf_slot *sf_slot_of(struct sf_slots *slots, uint64_t ino, sf_node *ret)
{
	struct sf_slot *slot;

	pthread_mutex_lock(&slots->locked.m);
	slot = find_locked(slots, ino);
	if (slot)
		slot->refs++;
	pthread_mutex_unlock(&slots->locked.m);
	*ret = sf_slot_node(ino);
	return slot;
}

struct sf_slot *sf_slot_ref(struct sf_slots *slots, struct sf_slot *slot)
{
	pthread_mutex_lock(&slots->locked.m);
	slot->refs++;
	pthread_mutex_unlock(&slots->locked.m);
	return slot;
}

void sf_slot_unref(struct sf_slots *slots, struct sf_slot *slot)
{
	struct sf_slot *unused;

	if (!slot)
		return;
	pthread_mutex_lock(&slots->locked.m);
	slot->refs--;
	unused = take_unused_locked(slots, slot);
	pthread_mutex_unlock(&slots->locked.m);
	give_back(slots, unused);
}

struct sf_session *sf_slots_shed(struct sf_slots *slots, unsigned keep, struct sf_slot **ret_slot)
{
	struct sf_session *s = NULL;
	struct sf_slot *oldest = NULL;
	unsigned loaded = 0;

	pthread_mutex_lock(&slots->locked.m);
	for (size_t i = 0; i < slots->locked.n; i++) {
		struct sf_slot *slot = slots->locked.at[i];
		if (!slot || !slot->parent || !slot->s || slot->s->run)
			continue;
		loaded++;
		if (!slot->refs && (!oldest || slot->used_ms < oldest->used_ms))
			oldest = slot;
	}
	if (loaded > keep && oldest) {
		s = atomic_exchange(&oldest->s, NULL);
		oldest->refs++;
		*ret_slot = oldest;
	}
	pthread_mutex_unlock(&slots->locked.m);
	return s;
}

void sf_slot_looked_up(struct sf_slots *slots, struct sf_slot *slot, uint64_t n)
{
	pthread_mutex_lock(&slots->locked.m);
	slot->lookups += n;
	pthread_mutex_unlock(&slots->locked.m);
}

void sf_slot_forget(struct sf_slots *slots, uint64_t ino, uint64_t n)
{
	struct sf_slot *slot, *unused = NULL;

	pthread_mutex_lock(&slots->locked.m);
	slot = find_locked(slots, ino);
	if (slot) {
		slot->lookups -= SF_MIN(n, slot->lookups);
		unused = take_unused_locked(slots, slot);
	}
	pthread_mutex_unlock(&slots->locked.m);
	give_back(slots, unused);
}
