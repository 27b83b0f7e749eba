/* What a model-parallel rank has, as keys. */
#ifndef SF_FORMAT_DS_LOWER_H
#define SF_FORMAT_DS_LOWER_H

#include "format/deepspeed/ds_table.h"
#include "format/torch/torch_lower.h"

/* One slice being lowered. */
struct ds_lowering {
	struct sf_ckpt_builder *b;
	struct ds_slice *s;
	struct ds_table *t;
	struct sf_error *err;
	struct sf_torch_ties ties; /* of the model states */
	struct sf_buf name;        /* of the key that is lowered */
	struct sf_path_elem path[8];
	size_t npath;
	char rank[32];    /* "mp_rank_01" */
	uint64_t several; /* names that several slices have */
};
void ds_lowering_release(struct ds_lowering *l);

/*
 * The key GROUP.NAME, or rank.mp_rank_MM.GROUP.NAME where several slices have the name: l->name, l->path.
 * @more: further elements, up to a NULL.
 */
int ds_key(struct ds_lowering *l, const char *group, const struct ds_entry *e, const char *more);
int ds_set_path(struct ds_lowering *l);

/* fp32.NAME: what zero_to_fp32 makes, and the weights that it leaves out. Errors: the builder's. */
int ds_lower_fp32(struct ds_lowering *l);
/* module.NAME: the weights as they were trained with. After ds_lower_fp32. */
int ds_lower_module(struct ds_lowering *l);
/* A state of @p, under l->name; nothing where no rank has one. */
int ds_lower_moment(struct ds_lowering *l, const struct ds_param *p, unsigned moment);
/* optim.param_groups, out of a list of groups; their parameters by name. */
int ds_lower_groups(struct ds_lowering *l, struct sf_torch_part *part, struct sf_pv *groups);
/* optim.state.NAME.…, optim.param_groups. */
int ds_lower_optim(struct ds_lowering *l);
/* The same of a model without ZeRO, out of its model states. */
int ds_lower_plain_optim(struct ds_lowering *l);
/* What else is in the files of the first ranks. */
int ds_lower_rest(struct ds_lowering *l);

/*
 * The weights of pipeline layers and of experts, which have files of their own, and what Composer keeps
 * beside: module.LL.…, module.…, state.…. Errors: those of sf_torch_parts_open and of the builder; a file that
 * cannot be read is a warning.
 */
int ds_lower_others(struct sf_ckpt_builder *b, struct sf_store *store, const struct ds_set *set,
                    struct sf_error *err);

#endif
