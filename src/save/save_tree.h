/* Ranks as a tree: bytes gathered to rank 0, its answer given to all, a verdict that all share. */
#ifndef SF_SAVE_SAVE_TREE_H
#define SF_SAVE_SAVE_TREE_H

#include "base/buf.h"
#include "base/error.h"
#include "shardfuse_save.h"

#define SF_SAVE_TREE_CHILDREN 8 /* of a rank: r's are 8r + 1 … 8r + 8 */

/* What one rank says of how it went. */
struct sf_verdict {
	int code;      /* 0, or negative errno */
	uint32_t rank; /* that failed: the lowest that did */
	struct sf_error err;
};

/* A step of the protocol that is under way: up with each rank's record, down with rank 0's answer.
 * It can be polled where nobody may wait (a communicator without threads). */
struct sf_save_tree_step;
struct sf_save_tree {
	const struct shardfuse_comm *comm;
	unsigned timeout_ms;
	uint32_t tag; /* the next step's; the same on all ranks, as they take the same steps */
};

/* On rank 0: all records are there. Fills @answer, which goes to all. A failure is everybody's. */
typedef int sf_save_tree_answer(void *arg, const void *const *record, const size_t *len, uint32_t n,
                                struct sf_buf *answer, struct sf_error *err);

/*
 * sf_save_tree_step - all ranks: give a record, get rank 0's answer.
 *
 * @mine: how this rank goes into the step; its failure (code < 0) becomes everybody's, and @answer is
 * not called then. @timeout_ms without a word from a rank is -ETIMEDOUT, which names those that are
 * missing (the lowest few and how many), on all that can be reached.
 * Returns 0 and *ret_answer (free with sf_buf_release) or the shared failure, its message beginning with
 * "rank R: " when one rank failed.
 */
int sf_save_tree_step(struct sf_save_tree *t, const struct sf_verdict *mine, const void *record,
                      size_t len, sf_save_tree_answer *answer, void *arg, struct sf_buf *ret_answer,
                      struct sf_error *err);

/* The same without waiting: begin, then poll until it is not -EAGAIN; ended or not, free it. What is
 * given stays until then. */
int sf_save_tree_begin(struct sf_save_tree *t, const struct sf_verdict *mine, const void *record,
                       size_t len, sf_save_tree_answer *answer, void *arg,
                       struct sf_save_tree_step **ret, struct sf_error *err);
int sf_save_tree_poll(struct sf_save_tree_step *step, unsigned wait_ms, struct sf_buf *ret_answer,
                      struct sf_error *err);
void sf_save_tree_step_free(struct sf_save_tree_step *step);

#endif
