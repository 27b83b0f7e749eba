/* What the files of one model-parallel rank say together: parameters, and where they lie in the flat
 * partitions of the data-parallel ranks. */
#ifndef SF_FORMAT_DS_SLICE_H
#define SF_FORMAT_DS_SLICE_H

#include "format/deepspeed/ds_flat.h"
#include "format/deepspeed/ds_set.h"

struct ds_param {
	const char *name; /* the pickle's; NUL behind */
	uint32_t len, ndim;
	const uint64_t *shape;
	uint64_t numel;
	uint32_t group; /* of parameters */
	uint32_t sub;   /* group of flat tensors: the same but of ZeRO-3 */
	uint32_t space; /* of ds_moment.space, unless ZeRO-3 */
	uint32_t rank;  /* that has its state, one of those whose partitions it lies in */
	uint64_t off;   /* elements: in its group's vector; of ZeRO-3 in every rank's */
	uint64_t each;  /* of ZeRO-3: elements that each rank has of it, padding counted */
	/* the builder's tensors, SF_NONE until there are */
	uint32_t fp32, module;
};
SF_VEC(ds_params, struct ds_param);

/* "exp_avg" …: states that are as long as the parameters; the first one is the parameters themselves. */
#define DS_MOMENTS_MAX 32
struct ds_moment {
	const char *name;
	/* by group, of a group of experts one for each expert-parallel rank; of ZeRO-3 by rank */
	struct ds_space *space;
};

struct ds_slice {
	struct sf_ckpt_builder *b;
	uint32_t mp;
	unsigned
		stage; /* 0 … 3; of a universal checkpoint 2: each parameter is a group of its own */
	bool universal;
	bool empty;                  /* the model states have empty tensors in place of weights */
	uint32_t world;              /* data-parallel ranks: files of partitions */
	uint32_t groups;             /* of flat tensors in each */
	struct sf_torch_part *model; /* ZeRO-3: one a rank, else one; 0: none */
	size_t nmodel;
	struct sf_torch_part *optim; /* by rank */
	size_t noptim;
	struct ds_params params; /* those that are trained, in their order */
	struct ds_params frozen;
	uint32_t nspaces;
	/* by group: expert-parallel ranks, each with experts of its own (1: no group of experts), and
	 * the first one's space */
	uint32_t *experts, *first;
	struct ds_moment moment[DS_MOMENTS_MAX];
	unsigned nmoments;
	struct sf_arena arena;
};
void ds_slice_release(struct ds_slice *s);

/*
 * ds_slice_open - opens @mp's files side by side; *s is { 0 } before.
 *
 * Errors: -ENOENT a rank's file is missing
 * ("rank 2 is missing"); -EBADMSG files contradict each other, or their own numbers, with the file and both
 * numbers; those of sf_torch_parts_open.
 */
int ds_slice_open(struct ds_slice *s, struct sf_store *store, const struct ds_set *set, uint32_t mp,
                  struct sf_error *err);
/* What the files' values say; nothing more is read. s->b is set before. */
int ds_slice_read(struct ds_slice *s, struct sf_error *err);
/*
 * ds_universal_open - the slice of a universal checkpoint: its model states, and a file for each parameter
 * and state (zero/NAME/fp32.pt, exp_avg.pt, …), some hundred at once. s->b is set before.
 * Errors: as ds_slice_open's; a parameter's file that cannot be read is a warning.
 */
int ds_universal_open(struct ds_slice *s, struct sf_store *store, const struct ds_set *set,
                      struct sf_error *err);
/* One more state, "" the parameters: s->moment; there already, nothing. s->nspaces is known. */
int ds_add_moment(struct ds_slice *s, const char *name, struct sf_error *err);

/* The dict that a dict, an OrderedDict or the like is; NULL: it is none. */
const struct sf_pv *ds_dict(const struct sf_pv *v);
const struct sf_pv *ds_get(const struct sf_pv *v, const char *key); /* of such; NULL for NULL */
/* The value under an int; NULL none. */
const struct sf_pv *ds_get_int(const struct sf_pv *v, uint64_t key);
/* The state of flat tensor @sub, as @part's optimizer has it: a dict; NULL none. */
const struct sf_pv *ds_state_of(const struct ds_slice *s, const struct sf_torch_part *part,
                                uint32_t sub);
/* The optimizer's parameter groups, as a list; NULL. */
const struct sf_pv *ds_param_groups(const struct ds_slice *s);
/* The part's optimizer_state_dict. */
const struct sf_pv *ds_optim_of(const struct sf_torch_part *part);

/* Data-parallel ranks, as the part says: the most of any group; 0: it does not. */
uint64_t ds_partitions_of(const struct sf_torch_part *part);

/* numel, and dims: 0; -EBADMSG no shape. */
int ds_shape(const struct sf_pv *v, uint64_t shape[SF_DIMS_MAX], uint32_t *ret_ndim,
             uint64_t *ret_numel);
/* A table of names and shapes: params behind @ret's. -EBADMSG, -ENOMEM with a message. */
int ds_shapes(struct sf_arena *arena, const struct sf_pv *dict, uint32_t group,
              struct ds_params *ret, struct sf_error *err);

#endif
