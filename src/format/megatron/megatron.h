/* Megatron-Core's checkpoints: what the files of this folder share. */
#ifndef SF_FORMAT_MEGATRON_MEGATRON_H
#define SF_FORMAT_MEGATRON_MEGATRON_H

#include "ckpt/ckpt_builder.h"
#include "format/format_dir.h"
#include "format/torch/torch_parts.h"

enum megatron_kind {
	MEGATRON_NONE,
	MEGATRON_DIST,   /* torch_dist: DCP's files and rules of its own */
	MEGATRON_ZARR,   /* a zarr array a tensor */
	MEGATRON_LEGACY, /* mp_rank_XX/model_optim_rng.pt */
	MEGATRON_OPEN    /* a save of the first two that was not committed */
};

/* What stands in a directory. */
struct megatron_found {
	enum megatron_kind kind;
	const char *dir;               /* "", or NeMo's "weights/": constant text */
	const struct sf_objinfo *file; /* that it was told by: the listing's */
};
/* By names, and by what metadata.json says. Errors: -EBADMSG that is Megatron's, and malformed; those of
 * the store. */
int megatron_find(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                  struct megatron_found *ret, struct sf_error *err);

/* The object that holds the common state, from 0.19 on. */
#define MEGATRON_COMMON_KEY "common_state/shard_0_1"
struct dcp_meta;
/* DCP's metadata without a metadata.json beside it: -ENOENT it is a torch_dist save that was not
 * committed. */
int megatron_check_committed(const struct dcp_meta *m, const struct sf_store *store,
                             struct sf_error *err);

/* What a load knows of the checkpoint as a whole. */
struct megatron_facts {
	const char *writer;
	char *content; /* content_metadata as JSON, NULL: it has none; free() */
	int64_t iteration, mtime_ns;
	uint32_t ranks;
	const char *join_rules; /* sf_load_options.join_rules */
};

/* The checkpoint's keys into @b; each kind's own file. */
int megatron_load_dist(struct sf_format_dir *src, struct sf_ckpt_builder *b,
                       struct megatron_facts *facts, struct sf_error *err);
int megatron_load_zarr(struct sf_format_dir *src, struct sf_ckpt_builder *b,
                       struct megatron_facts *facts, struct sf_error *err);
int megatron_load_legacy(struct sf_format_dir *src, struct sf_ckpt_builder *b,
                         struct megatron_facts *facts, struct sf_error *err);

/*
 * The group and the role of a sharded key, as its name says them: the optimizer's, states of random
 * numbers, of a run's machinery, else the model's. It must be there.
 */
int megatron_group(struct sf_ckpt_builder *b, const char *key, size_t len, struct sf_error *err);

/*
 * The common state: a dict that rank 0 wrote, whose leaves become keys under `common.`, beside the
 * checkpoint. @part was opened. Fills iteration and content.
 */
int megatron_common(struct sf_ckpt_builder *b, struct sf_torch_part *part, struct sf_pv *value,
                    struct megatron_facts *facts, struct sf_error *err);
/* The same of common.pt in @src. Without one nothing is done; one that is malformed is a warning. */
int megatron_common_file(const struct sf_format_dir *src, struct sf_ckpt_builder *b,
                         struct megatron_facts *facts, struct sf_error *err);
#define MEGATRON_VALUE_MAX (UINT64_C(256) << 20) /* bytes of a common state's pickle and values */

#endif
