/* Ranks as a tree: bytes gathered to rank 0, its answer given to all, a verdict that all share. */
#ifndef SF_SAVE_SAVE_TREE_H
#define SF_SAVE_SAVE_TREE_H

#include "base/buf.h"
#include "base/error.h"
#include "shardfuse_save.h"

#define SF_SAVE_TREE_CHILDREN 8 /* of a rank: r's are 8r + 1 … 8r + 8 */
#define SF_SAVE_TREE_TAGS 64    /* of one save: as many steps */

/* What one rank says of how it went. */
struct sf_verdict {
	int code;      /* 0, or negative errno */
	uint32_t rank; /* not looked at: the communicator knows */
	struct sf_error err;
};

/* A step of the protocol that is under way: up with each rank's record, down with rank 0's answer.
 * It can be polled where nobody may wait (a communicator without threads). */
struct sf_save_tree_step;
struct sf_save_tree {
	const struct shardfuse_comm *comm;
	unsigned timeout_ms;
	uint32_t tag;     /* the next step's; the same on all ranks, as they take the same steps */
	int64_t alive_ms; /* when this rank last said that it is alive; 0: not yet */
};

/*
 * sf_save_tree_init - for one save. @comm stays until it is over.
 *
 * Takes the communicator's next SF_SAVE_TREE_TAGS tags, so that what is left over of a save that
 * failed half way meets no later one. All ranks call it as often.
 */
void sf_save_tree_init(struct sf_save_tree *t, const struct shardfuse_comm *comm,
                       unsigned timeout_ms);

/* On rank 0: all records are there. Fills @answer, which goes to all. A failure is everybody's. */
typedef int sf_save_tree_answer(void *arg, const void *const *record, const size_t *len, uint32_t n,
                                struct sf_buf *answer, struct sf_error *err);

/*
 * sf_save_tree_step - all ranks: give a record, get rank 0's answer.
 *
 * @mine: how this rank goes into the step (NULL: well); its failure (code < 0) becomes everybody's, and
 * @answer is not called then. @answer may be NULL (it is empty then), @ret_answer too.
 *
 * A rank that waits says so every quarter of @timeout_ms to those that wait for it, and one that works
 * does with sf_save_tree_alive(): so nobody is given up who is only slow, or waits for another.
 * @timeout_ms without a word from a rank is -ETIMEDOUT on all that can be reached, and names those that
 * are missing (the lowest few, and how many). A rank that comes later gets the same.
 *
 * Returns 0 and *ret_answer (free with sf_buf_release) or the shared failure: of several that failed the
 * lowest rank's code and message, which begins with "rank R: " where there is more than one rank.
 * -EAGAIN of a rank is -EBUSY then. A failure of @answer is as it is.
 */
int sf_save_tree_step(struct sf_save_tree *t, const struct sf_verdict *mine, const void *record,
                      size_t len, sf_save_tree_answer *answer, void *arg, struct sf_buf *ret_answer,
                      struct sf_error *err);

/*
 * The same without waiting: begin, then poll until it is not -EAGAIN; ended or not, free it. What is
 * given stays until then.
 *
 * Whoever polls seldom is patient: a rank is missing after @timeout_ms and three looks.
 */
int sf_save_tree_begin(struct sf_save_tree *t, const struct sf_verdict *mine, const void *record,
                       size_t len, sf_save_tree_answer *answer, void *arg,
                       struct sf_save_tree_step **ret, struct sf_error *err);
int sf_save_tree_poll(struct sf_save_tree_step *step, unsigned wait_ms, struct sf_buf *ret_answer,
                      struct sf_error *err);
void sf_save_tree_step_free(struct sf_save_tree_step *step); /* NULL is fine */

/* This rank works towards its next step, for which others may wait already: their patience begins
 * anew. Between steps; as often as one likes, a message to each goes out every quarter of the timeout. */
void sf_save_tree_alive(struct sf_save_tree *t);

#endif
