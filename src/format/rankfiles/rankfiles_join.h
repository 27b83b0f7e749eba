/* The values of one kind's files, key by key: which rank has what under it. */
#ifndef SF_FORMAT_RANKFILES_JOIN_H
#define SF_FORMAT_RANKFILES_JOIN_H

#include "base/map.h"
#include "base/vec.h"
#include "format/torch/torch_parts.h"
#include "parse/value_walk.h"

struct rankfiles_leaf {
	struct sf_pv *v;
	uint32_t rank;
	uint32_t next; /* of the same key, by rank; SF_NONE: no more */
	uint8_t what;  /* enum sf_walk_what */
};
struct rankfiles_key {
	const char *name; /* dots between; below the kind */
	uint32_t len, npath;
	const struct sf_path_elem *path;
	uint32_t first, last; /* leaves */
	uint32_t nleaves;
};
SF_VEC(rankfiles_leaves, struct rankfiles_leaf);
SF_VEC(rankfiles_keys, struct rankfiles_key);

/* { 0 } at first. Keys are in the order of the first rank, those that only later ones have behind. */
struct rankfiles_join {
	struct rankfiles_keys keys;
	struct rankfiles_leaves leaves;
	struct sf_map map;
	struct sf_arena arena;
	struct sf_torch_part *part; /* by rank */
	uint32_t nparts;
	/* while it is made */
	uint32_t rank;
	size_t expect;  /* the key that comes next, if this rank has them as the last one had */
	uint64_t twice; /* leaves under a key that their rank has already: the first is taken */
	uint64_t odd;   /* without a name, or holding themselves: left out */
};
void rankfiles_join_release(struct rankfiles_join *j);

/*
 * rankfiles_join - walks the values of @part, @n of them, whose r is 0; the others are passed over.
 * Errors: -E2BIG more than 2^24 values in a file, deeper than 100, a key of over 64 KiB; -ENOMEM.
 * Cost:   O(leaves of all ranks).
 */
int rankfiles_join(struct rankfiles_join *j, struct sf_torch_part *part, uint32_t n,
                   struct sf_error *err);

/* Is it the same value, as far as pickles tell? What tensors inside hold is not looked at. Gives up, and
 * says no, on very large ones. */
bool rankfiles_same_value(const struct sf_pv *a, const struct sf_pv *b);

#endif
