/* The budget: one account of the bytes that --memory bounds, for all readers of a process. */
#ifndef SF_BASE_BUDGET_H
#define SF_BASE_BUDGET_H

#include <stdbool.h>
#include <stdint.h>
#include "base/error.h"

/*
 * What bytes are held for. Who waits for bytes of one kind may hold bytes of the kinds before it in
 * this list, never of its own or one behind it: then whoever waits for the last kind waits only for
 * those who wait for nothing, and so on up, and every wait ends.
 */
enum sf_budget_kind {
	SF_BUDGET_AHEAD,  /* what nobody asked for yet: a quarter of the budget at most */
	SF_BUDGET_BUFFER, /* a read's own buffers: half of the budget at most */
	/* those of a read that found its item: it goes past all who wait for theirs, so that the
	 * item is read on and let go. It may have to wait for another one, as BUFFER may */
	SF_BUDGET_READY,
	SF_BUDGET_MADE,  /* what a view makes out of objects, and those objects meanwhile */
	SF_BUDGET_INNER, /* buffers of the reads that such making does */
	SF_BUDGET_ITEM,  /* stored items that are taken in whole: decoded, parsed */
	SF_BUDGET_FETCH, /* fetched bytes on their way into the block cache */
	SF_BUDGET_NKINDS
};

/*
 * Bytes are taken before they are allocated and given back after they were freed. What fits is
 * granted at once, unless others wait for the same kind; else one waits one's turn, first come
 * first served, without a thread. What does not fit is granted all the same when nothing of its
 * kind is held but by those who wait: so one thing larger than what is left can always be held, and
 * a turn always comes. At most the limit, one such thing of each kind and what was added are held.
 *
 * Threads: all functions, any number of calls at once; no callback under a lock of ours.
 * Cost: O(1), and O(granted) for who gives.
 */
struct sf_budget;
int sf_budget_new(uint64_t limit, struct sf_budget **ret, struct sf_error *err); /* -ENOMEM */
void sf_budget_free(struct sf_budget *b); /* nobody waits any more; NULL is fine */
void sf_budget_set_limit(struct sf_budget *b, uint64_t limit); /* at least 1 */
uint64_t sf_budget_limit(const struct sf_budget *b);

/* Taken, or false: it would have to wait. */
bool sf_budget_take(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes);
/* The same, of what is there as things are: nobody lets go of anything for it. */
bool sf_budget_take_spare(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes);
/* Taken whether they fit or not: for what is known only when it is there, and small. Others wait
 * the longer for it. */
void sf_budget_add(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes);
void sf_budget_give(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes);

struct sf_budget_wait {
	enum sf_budget_kind kind;
	uint64_t bytes;
	uint64_t holds; /* bytes of that kind that whoever waits holds meanwhile */
	/* Once, when they are taken: on the thread of whoever gave, or from within
	 * sf_budget_queue(). It must not call the budget, nor wait: it wakes somebody, or submits a
	 * task. */
	void (*granted)(struct sf_budget_wait *w);
	/* the budget's */
	struct sf_budget_wait *prev, *next;
	bool queued;
};
void sf_budget_queue(struct sf_budget *b, struct sf_budget_wait *w);
/* true: it does not wait any more and has taken nothing. false: granted was called, or will be
 * now. */
bool sf_budget_cancel(struct sf_budget *b, struct sf_budget_wait *w);
/* Waits on the calling thread. */
void sf_budget_wait(struct sf_budget *b, enum sf_budget_kind kind, uint64_t bytes);
/* Does anybody wait? Who holds what nobody uses asks this when its last user goes: if that one sees
 * no waiter, the waiter's reclaim sees the last user gone (both sequentially consistent). */
bool sf_budget_wanted(const struct sf_budget *b);

/*
 * Who keeps what could be had again: lets go of at least @bytes of it, or of all, giving them back;
 * returns how many. Called when something does not fit, by the thread that wants it, under no lock
 * but one that keeps it from being removed meanwhile; with 0 when not the sum is too large but that
 * of its kind. From then on, while somebody waits (sf_budget_wanted), nothing more is kept.
 */
struct sf_budget_reclaim {
	uint64_t (*reclaim)(struct sf_budget_reclaim *r, uint64_t bytes);
	struct sf_budget_reclaim *prev, *next; /* the budget's */
};
void sf_budget_reclaim_add(struct sf_budget *b, struct sf_budget_reclaim *r);
void sf_budget_reclaim_remove(struct sf_budget *b, struct sf_budget_reclaim *r);

struct sf_budget_stat {
	uint64_t limit, held, most; /* bytes; most: ever held at once */
	uint64_t waits;             /* who had to wait, so far */
	uint64_t waiting;           /* who waits now */
};
void sf_budget_stat(struct sf_budget *b, struct sf_budget_stat *ret);

/*
 * A charge: bytes taken once, used up bit by bit by things that grow (sf_buf, sf_arena). More are
 * taken when they fit at once; where they do not, the thing cannot grow, and @refused says why:
 * whoever began the charge lets everything go, waits for more than it had, and begins anew. So
 * nobody waits while holding a part. Threads: one at a time.
 */
struct sf_charge {
	struct sf_budget *budget; /* NULL: nothing is charged */
	enum sf_budget_kind kind;
	uint64_t taken, used; /* bytes */
	uint64_t refused;     /* bytes that would have been used then; 0: nothing was refused */
};
/* @taken: bytes that the caller has taken, and hands over. */
void sf_charge_init(struct sf_charge *c, struct sf_budget *b, enum sf_budget_kind kind,
                    uint64_t taken);
/* Waits; @bytes are cut to the budget's limit. */
void sf_charge_begin(struct sf_charge *c, struct sf_budget *b, enum sf_budget_kind kind,
                     uint64_t bytes);
/* false: refused. @c NULL: true */
bool sf_charge_use(struct sf_charge *c, uint64_t bytes);
void sf_charge_unuse(struct sf_charge *c, uint64_t bytes);
/* Gives back what was taken but @keep bytes, whose holder gives them back later; takes what they
 * are more than was taken. */
void sf_charge_end(struct sf_charge *c, uint64_t keep);
/* Of a refused one: the bytes to begin anew with. 0: nothing was refused, or the budget has no
 * more. */
uint64_t sf_charge_next(const struct sf_charge *c);

#endif
