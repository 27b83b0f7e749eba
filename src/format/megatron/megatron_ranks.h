/* The legacy format's files, one a model-parallel rank, opened side by side; what each rank is. */
#ifndef SF_FORMAT_MEGATRON_MEGATRON_RANKS_H
#define SF_FORMAT_MEGATRON_MEGATRON_RANKS_H

#include "format/megatron/megatron.h"

/* A directory mp_rank_TT[_PPP][_EEE]. */
struct megatron_rank {
	const char *dir; /* "mp_rank_00_001"; the load's arena */
	uint32_t tensor, pipe, expert;
	struct sf_torch_part
		*model; /* model_optim_rng.pt, opened; NULL: it is missing, or is not read */
	struct sf_torch_part *optim; /* distrib_optim.pt; NULL: there is none */
};

struct megatron_ranks {
	struct sf_arena arena;
	struct megatron_rank *at; /* by pipe, expert, tensor: all of the grid, in that order */
	uint32_t ntensor, npipe, nexpert;
	struct sf_torch_part *part; /* all files */
	size_t nparts;
	const struct sf_pv *args; /* of the first rank; NULL: it has none */
	double version;           /* checkpoint_version; 0: it does not say */
};

/* Is this a rank's model file, below @dir? */
bool megatron_is_rank_file(const char *name, const char *dir);

/*
 * megatron_ranks_open - all files of @src that are of the legacy format, their values read.
 *
 * Which rank a directory is its name says, and where that has one number for two things (pipeline
 * or expert) the sizes in args. Warnings: "missing-rank" a rank of the grid has no file, or one that
 * cannot be read; "mixed-steps" files of several iterations; "wrong-world" args and files disagree.
 * Errors: -ENOENT no rank's file can be read, or none of a pipeline stage's: which layers come
 * behind it is then not known; those of the store.
 */
int megatron_ranks_open(const struct sf_format_dir *src, struct sf_ckpt_builder *b,
                        struct megatron_ranks *ret, struct sf_error *err);
void megatron_ranks_release(struct megatron_ranks *r);

static inline struct megatron_rank *megatron_rank_at(const struct megatron_ranks *r, uint32_t pipe,
                                                     uint32_t expert, uint32_t tensor)
{
	return &r->at[((size_t)pipe * r->nexpert + expert) * r->ntensor + tensor];
}

/* What args has under @name, as a number: @without if it has none. */
uint64_t megatron_arg(const struct megatron_ranks *r, const char *name, uint64_t without);
bool megatron_arg_is_set(const struct megatron_ranks *r,
                         const char *name); /* there, and not None, False or 0 */

#endif
