/* An arena: many small allocations, freed together. Not thread-safe while it grows. */
#ifndef SF_BASE_ARENA_H
#define SF_BASE_ARENA_H

#include <stddef.h>
#include <stdint.h>
#include "base/budget.h"

struct sf_arena_block;
struct sf_arena {
	struct sf_arena_block *blocks;
	char *at, *end; /* free part of the newest block */
	size_t used;    /* bytes taken from malloc, for limits and statistics */
	size_t limit;   /* 0 = none; an allocation that would pass it fails like malloc does */
	struct sf_charge *charge; /* what its memory is charged to (budget.h); NULL: nothing */
};

/* { 0 } is an empty arena; the first block is 1 KiB and blocks double up to 1 MiB, so a small one
 * stays small. */
/* 8-aligned, not cleared; NULL = no memory */
void *sf_arena_alloc(struct sf_arena *a, size_t bytes);
/* cleared, n * size checked */
void *sf_arena_calloc(struct sf_arena *a, size_t n, size_t size);
/* NUL put behind; @s may hold NULs */
char *sf_arena_strdup(struct sf_arena *a, const char *s, size_t len);
/* frees all; @a is { 0 } again but for its charge */
void sf_arena_release(struct sf_arena *a);

#endif
