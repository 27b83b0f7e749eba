/* The program shardfuse-mpi: verbs whose work the ranks of an MPI job share. */
#ifndef SF_RANKS_RANKS_H
#define SF_RANKS_RANKS_H

#include "base/buf.h"
#include "cli/cli.h"
#include "shardfuse_save.h"

/* The ranks of the job: made by main, and by it alone. */
struct sf_ranks {
	struct shardfuse_comm comm; /* its rank and size are those of MPI_COMM_WORLD */
	bool began;                 /* the verb runs, on all ranks */
};
extern struct sf_ranks sf_ranks;
extern const struct sf_cmd sf_ranks_export, sf_ranks_import, sf_ranks_reshard, sf_ranks_verify;

/* Rank 0's options were good: the others may begin. First of all that a verb's run does, on every rank. */
void sf_ranks_begin(void);

/*
 * sf_ranks_agree - what one rank failed at, all fail at. Collective.
 *
 * The result and the message of the lowest rank that failed, "rank N (HOST): MESSAGE"; 0: none did.
 */
int sf_ranks_agree(int r, struct sf_error *err);

/* The end of a verb: rank 0 tells the message, which all have. Returns @code. */
int sf_ranks_failed(int code, const struct sf_error *err);

#define SF_RANKS_TEXT_MAX (1 << 30) /* bytes of a rank's text */
/* The texts of all ranks, in their order, on stdout: of rank 0. Collective. -ENOMEM; -E2BIG. */
int sf_ranks_print(const struct sf_buf *text, struct sf_error *err);

/* Adds up @n numbers of all ranks, in place, on all of them. Collective. */
void sf_ranks_sum(uint64_t *number, unsigned n);

#endif
