/* Which files of a listing one save of a rank each made: by their names. */
#ifndef SF_FORMAT_RANKFILES_SET_H
#define SF_FORMAT_RANKFILES_SET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "base/vec.h"
#include "store/objinfo.h"

/* KIND_world_size_N_rank_R.pt, of the directory itself; accelerate's pytorch_model_fsdp_0_rankR.bin
 * does not say N. */
struct rankfiles_name {
	const char *kind; /* "model", "optim", "extra_state", …: not ended */
	size_t kind_len;
	uint32_t world; /* 0: the name does not say */
	uint32_t rank;
};
/* false: it is none of these. */
bool rankfiles_name(const char *name, struct rankfiles_name *ret);

/* Ranks of more than this are no ranks. */
#define RANKFILES_WORLD_MAX (1u << 20)

/* The files of one kind, by rank. */
struct rankfiles_set {
	const char *kind;
	size_t kind_len;
	uint32_t world;                 /* ranks that there are to be */
	uint32_t have;                  /* of them so many are listed */
	uint32_t absent;                /* the first that is not; world: none */
	const struct sf_objinfo **file; /* by rank, NULL where it is not listed */
};
SF_VEC(rankfiles_sets, struct rankfiles_set);
void rankfiles_release(struct rankfiles_sets *sets);

/*
 * rankfiles_find - the sets of a listing, in the order model, optim, others by name.
 *
 * Of several world sizes that one is taken whose model is whole (*ret_other is then a file of
 * another one, else NULL).
 * Errors: -EBADMSG two world sizes, both whole or neither; -ENOENT a rank of the model is missing, or of
 *         what there is when there is no model; each with the files and the numbers. -ENOMEM.
 */
int rankfiles_find(const struct sf_objinfo *files, size_t n, struct rankfiles_sets *ret,
                   const struct sf_objinfo **ret_other, struct sf_error *err);

#endif
