/* slice=tp:N: what each of N tensor-parallel ranks has of the model. */
#ifndef SF_CATALOG_CATALOG_SLICE_H
#define SF_CATALOG_CATALOG_SLICE_H

#include "catalog/catalog.h"

#define SF_SLICE_RANKS_MAX 4096

enum sf_slice_why {
	SF_SLICE_SAVED,   /* cut as its chunks are */
	SF_SLICE_RULED,   /* cut as a rule says */
	SF_SLICE_COPY,    /* a rule says that every rank has it */
	SF_SLICE_UNKNOWN, /* every rank has it: no rule, and not cut along one dimension */
	SF_SLICE_OBJECT   /* no tensor */
};

/*
 * A key of the model. Rank r has of its dense row-major elements those from (i * ranks + r) * run on,
 * run of them, for i = 0, 1, …; @shape is that of any rank's part. run is 0 where each has all of it.
 */
struct sf_slice_cut {
	const uint64_t *shape;
	uint64_t run;
	uint8_t why, axis;
	bool maybe_gated; /* cut by a plain axis though models with gated MLPs have two halves there */
};
struct sf_slices {
	uint32_t ranks;
	struct sf_cat_group group; /* the model's: cut[i] is of c->by_group[group.first + i] */
	const struct sf_slice_cut *cut;
	uint32_t nwhy[SF_SLICE_OBJECT + 1], nmaybe_gated;
};

/*
 * sf_slices_new - how each tensor of the model is cut.
 *
 * A rule is looked for by the name that is shown, then by the stored one. In this order: the user's rule (opt->join_rules); the one dimension that the chunks cut; the rule
 * that its name has (ckpt/join_rules.h); else it is whole in every rank. Dimensions of stacked layers
 * and experts are never cut.
 *
 * Errors: -EINVAL, with the key and both numbers, a dimension that N does not divide, a rule's axis
 * that is none; there is no model. -ENOMEM. Memory: c->arena. Cost: O(chunks of the model).
 */
int sf_slices_new(struct sf_catalog *c, struct sf_error *err);

#endif
