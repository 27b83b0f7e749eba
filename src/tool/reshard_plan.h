/* Which rank of a checkpoint that is written anew has which rows of which tensor. Pure. */
#ifndef SF_TOOL_RESHARD_PLAN_H
#define SF_TOOL_RESHARD_PLAN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sf_reshard_cut {
	uint64_t bytes; /* of all of it */
	uint64_t rows;  /* its first dimension; 0 or 1: it cannot be cut */
	/* sf_reshard_plan sets: */
	uint64_t step; /* rows of each rank, but the last that has any; 0: all of it is @first's */
	uint32_t
		first; /* the rank that has row 0, the ranks behind it (and then rank 0 …) the next */
};

/* The least bytes that a tensor is cut into, where all of them have @total: a page's quarter, and no more
 * than about a million pieces of it all. */
uint64_t sf_reshard_least(uint64_t total);

/*
 * sf_reshard_plan - sets step and first of each.
 *
 * A tensor of at least as many rows as ranks is cut as torch.chunk does, so that a training of as many ranks
 * that shards dimension 0 finds what each of them needs in one file; one of fewer rows by rows, beginning
 * where the one before it ended. What cannot be cut, or into pieces of fewer than sf_reshard_least() bytes
 * alone, goes to the rank that has least so far. The same every time.
 * Errors: -ENOMEM. Cost: O(n log ranks).
 */
int sf_reshard_plan(struct sf_reshard_cut *cut, size_t n, uint32_t ranks);

/* Rows [*ret_at, *ret_at + *ret_n) are @rank's; false: it has nothing of it. All of it where it is not cut:
 * *ret_n is then @c->rows. */
bool sf_reshard_rows(const struct sf_reshard_cut *c, uint32_t rank, uint32_t ranks,
                     uint64_t *ret_at, uint64_t *ret_n);

#endif
