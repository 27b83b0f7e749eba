/* Which elements along one dimension a rank has: runs of them, in the order in which they lie. Pure. */
#ifndef SF_FORMAT_RANKFILES_RUNS_H
#define SF_FORMAT_RANKFILES_RUNS_H

#include <stdint.h>
#include "base/vec.h"

struct rankfiles_run {
	uint64_t start, len;
};
SF_VEC(rankfiles_runs, struct rankfiles_run);

#define RANKFILES_RUNS_MAX 4096

uint64_t rankfiles_runs_len(const struct rankfiles_runs *r);
/* Keeps piece @at of @n, as torch.chunk cuts: all pieces but the last ones are as long as the first, and
 * those behind the end are empty. 0, or -ENOMEM. */
int rankfiles_runs_chunk(struct rankfiles_runs *r, uint64_t n, uint64_t at);
/* As if they had been cut into @factor pieces before: of each of those the piece @at of @n. -E2BIG over
 * RANKFILES_RUNS_MAX runs; -ENOMEM. */
int rankfiles_runs_strided(struct rankfiles_runs *r, uint64_t factor, uint64_t n, uint64_t at);

#endif
