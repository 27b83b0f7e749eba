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
	/* Of a step of a run it comes when that is looked into, and may go again while there are no
	 * refs; NULL: it is not there. */
	struct sf_session *_Atomic s;
	double timeout;      /* of entries and attributes, seconds */
	uint16_t number;     /* the upper 16 bits of its inode numbers */
	uint64_t generation; /* of its inodes: no slot before it had that one */
	/* When nobody has it any more, in any thread; NULL: nothing is to be done; not called where
	 * there is no session. Frees neither
	 * the slot nor waits for it. The thread may be one that is just ending a read of @s, which
	 * closing @s waits for: another thread does that. */
	void (*given_back)(void *arg, struct sf_session *s);
	void *arg;
	/* Of a step of a run: the run's slot, a reference, and which step it is there; NULL: it is
	 * none. */
	struct sf_slot *parent;
	uint32_t step;
	uint64_t listed;         /* its listing's version when it came */
	_Atomic bool gone;       /* the step was deleted */
	_Atomic bool stale;      /* one of its files is another than it was */
	_Atomic int64_t used_ms; /* when it was asked for last */
	/* under the slots' lock */
	uint64_t lookups, refs;
	bool left; /* no name leads here any more */
	/* Of a run: the slots that its steps' names lead to, by their numbers; NULL: none yet. */
	struct sf_slot **steps;
	uint32_t nsteps;
	_Atomic bool looking; /* it is being looked at again */
	/* Of a step: what waits for its load; loading: that is under way. */
	struct sf_call_later *later;
	bool loading;
	uint8_t version[16]; /* of the checkpoint that it was loaded as; all 0: it was not yet */
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

/*
 * The session of a step that was used longest ago and that nobody has, when more than @keep are
 * loaded: the slot lets it go, the caller ends it. NULL: there is none to be let go;
 * else *ret_slot is referenced.
 */
struct sf_session *sf_slots_shed(struct sf_slots *slots, unsigned keep, struct sf_slot **ret_slot);

/* The kernel has learnt of @n entries of it, or forgot them. Of a number without slot: nothing. */
void sf_slot_looked_up(struct sf_slots *slots, struct sf_slot *slot, uint64_t n);
void sf_slot_forget(struct sf_slots *slots, uint64_t ino, uint64_t n);

#endif
