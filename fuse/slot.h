/* Slots: the checkpoints of one mount. The upper bits of an inode number say which one it is of. */
#ifndef SF_FUSE_SLOT_H
#define SF_FUSE_SLOT_H

#include <pthread.h>
#include <stdint.h>
#include "lib/session.h"

/*
 * A checkpoint that is mounted, alone or beside others. It stays as long as names lead to it, the
 * kernel knows inodes of it (lookups, which it forgets again), or a request or an open file holds
 * it (refs). Node numbers are never given to another slot while the kernel knows them: its old
 * pages cannot meet new bytes. A handle of a file that is older than that (name_to_handle_at, NFS)
 * has another generation, and is stale.
 */
struct sf_slot {
	struct sf_session *s;
	double timeout;      /* of entries and attributes, seconds */
	uint16_t number;     /* the upper 16 bits of its inode numbers */
	uint64_t generation; /* of its inodes: no slot before it had that one */
	/* When nobody has it any more, in any thread; NULL: nothing is to be done. Frees neither
	 * the slot nor waits for it. The thread may be one that is just ending a read of @s, which
	 * closing @s waits for: another thread does that. */
	void (*given_back)(void *arg, struct sf_session *s);
	void *arg;
	/* under the slots' lock */
	uint64_t lookups, refs;
	bool left; /* no name leads here any more */
};

struct sf_slots {
	struct {
		pthread_mutex_t m;
		struct sf_slot **at; /* by number; NULL: free */
		size_t n;
		uint64_t generations; /* that were given */
	} locked;
};
void sf_slots_init(struct sf_slots *slots);
/* All of them, whoever has them: given_back is called for each. */
void sf_slots_release(struct sf_slots *slots);

/*
 * sf_slots_add - a slot for @s, the lowest number that is free; one reference.
 * Errors: -ENOMEM; -EMFILE all 65,536 are in use.
 */
int sf_slots_add(struct sf_slots *slots, struct sf_session *s, double timeout,
                 void (*given_back)(void *arg, struct sf_session *s), void *arg,
                 struct sf_slot **ret);
/* No name leads there from now on. It goes when the last one lets go. The root of a mount stays until
 * sf_slots_release: it is tests that put a second checkpoint beside it and take it away again. */
void sf_slots_leave(struct sf_slots *slots, struct sf_slot *slot);

static inline uint64_t sf_slot_ino(const struct sf_slot *slot, sf_node node)
{
	return (uint64_t)slot->number << SF_NODE_BITS | node;
}
static inline sf_node sf_slot_node(uint64_t ino)
{
	return ino & ((UINT64_C(1) << SF_NODE_BITS) - 1);
}

/* The slot of an inode number, with a reference, and its node there. NULL: there is none. */
struct sf_slot *sf_slot_of(struct sf_slots *slots, uint64_t ino, sf_node *ret);
struct sf_slot *sf_slot_ref(struct sf_slots *slots, struct sf_slot *slot); /* of one that is held */
void sf_slot_unref(struct sf_slots *slots, struct sf_slot *slot);

/* The kernel has learnt of @n entries of it, or forgot them. Of a number without slot: nothing. */
void sf_slot_looked_up(struct sf_slots *slots, struct sf_slot *slot, uint64_t n);
void sf_slot_forget(struct sf_slots *slots, uint64_t ino, uint64_t n);

#endif
