/* What the files of format olmo-core share: OLMo-core's step directories, and those of OLMo 0.x. */
#ifndef SF_FORMAT_OLMO_OLMO_H
#define SF_FORMAT_OLMO_OLMO_H

#include "ckpt/ckpt_builder.h"
#include "format/format_dir.h"
#include "format/torch/torch_parts.h"

/*
 * Source: allenai/OLMo-core train/checkpoint.py, 1.0 to 3.0; allenai/OLMo olmo/checkpoint.py, 0.6
 * (its ShardedCheckpointerType: torch_new writes as OLMo-core does).
 */
enum olmo_layout {
	OLMO_NONE,
	OLMO_CORE,   /* model_and_optim/ is DCP; train/rankR.pt beside it */
	OLMO_LEGACY, /* rankR.pt: everything, with ShardedTensors (torch_legacy) */
	OLMO_LOCAL,  /* model/rankR.pt, optim/rankR.pt: FSDP's flat parameters (local) */
	OLMO_FLAT,   /* model/ and optim/ of metadata.json and rank_R.safetensors (olmo_core) */
};
enum olmo_layout olmo_layout(const struct sf_objinfo *files, size_t n);

/* What a load has found out. */
struct olmo_load {
	struct sf_store *store;
	const struct sf_objinfo *files;
	size_t nfiles;
	struct sf_ckpt_builder *b;
	uint32_t ranks;
	struct sf_error *err;
};
/* All that return an int: 0, or negative with a message in l->err. */

/* ---- olmo_ranks.c: DIRrankR.pt, by rank ---- */

/* The R of DIRrankR.pt, or -1. */
int64_t olmo_rank_of(const char *name, const char *dir);
struct olmo_ranks {
	struct sf_torch_part *part; /* by rank; r is -ENOENT of those that are not listed */
	uint32_t n;
};
void olmo_ranks_release(struct olmo_ranks *ranks);
/*
 * Opens those of one directory, side by side. @world: how many there are to be; 0: as the names say.
 * Missing ones are a warning "missing-file", those that cannot be read "unreadable-file"; -EBADMSG
 * when none can.
 */
int olmo_ranks_open(struct olmo_load *l, const char *dir, uint32_t world, struct olmo_ranks *ret);

/* ---- olmo_runs.c: tensors that lie in flat pieces ---- */

struct olmo_run {
	uint32_t place, rank;
	uint64_t off;        /* bytes, in the place */
	uint64_t start, len; /* elements of the tensor, row-major */
	uint32_t next;       /* of the same tensor; SF_NONE: no more */
};
struct olmo_tensor {
	const char *name; /* below its group */
	uint32_t len;
	uint8_t dtype, ndim;
	uint64_t shape[SF_DIMS_MAX];
	uint32_t first, last; /* runs */
};
struct olmo_runs {
	struct sf_arena arena;
	struct sf_map *map;
	struct {
		struct olmo_tensor *at;
		size_t n, cap;
	} tensor;
	struct {
		struct olmo_run *at;
		size_t n, cap;
	} run;
};
void olmo_runs_release(struct olmo_runs *r);
/* The tensor of that name, a new one if need be. -EBADMSG: it is there with another dtype or shape. */
int olmo_runs_tensor(struct olmo_load *l, struct olmo_runs *r, const char *name, size_t len,
                     enum sf_dtype dtype, const uint64_t *shape, unsigned ndim, uint32_t *ret);
int olmo_runs_add(struct olmo_load *l, struct olmo_runs *r, uint32_t tensor,
                  const struct olmo_run *run);
uint32_t olmo_runs_find(const struct olmo_runs *r, const char *name, size_t len); /* SF_NONE */
/* The run of @tensor that @rank has, or NULL. */
const struct olmo_run *olmo_runs_of(const struct olmo_runs *r, uint32_t tensor, uint32_t rank);
/* All of them into the builder: @group.NAME, in the path @group, NAME; of @state group.state.NAME,
 * whose last component is the state's name. */
int olmo_runs_lower(struct olmo_load *l, const struct olmo_runs *r, const char *group, bool state);

/* ---- the layouts ---- */

int olmo_load_core(struct olmo_load *l, char *writer, size_t size);
int olmo_load_legacy(struct olmo_load *l);
int olmo_load_local(struct olmo_load *l);
int olmo_load_flat(struct olmo_load *l);
/* train/rankR.pt: an object train.rankR each, beside the checkpoint's keys; read when asked for. */
int olmo_add_train(struct olmo_load *l);

#endif
