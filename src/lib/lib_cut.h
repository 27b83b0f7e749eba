/* A read of the public library, checked and cut into pieces of bounded size. Only lib/ includes it. */
#ifndef SF_LIB_LIB_CUT_H
#define SF_LIB_LIB_CUT_H

#include "lib/lib_priv.h"

/* What one piece asks for; stays where it is until the piece has ended. */
struct sf_lib_piece {
	uint32_t tensor;
	enum sf_dtype cast;
	bool box;
	uint64_t origin[SF_DIMS_MAX], extent[SF_DIMS_MAX];
	const int64_t *stride;
	void *at;
};

/* A read as it was given, checked, and how far it has been cut into pieces. */
struct sf_lib_cut {
	struct shardfuse_read rd;
	const struct sf_tensor *t;
	const struct sf_entry *entry;
	uint64_t elem; /* bytes, as shown */
	bool box;
	uint64_t off, end; /* of a range: what is left */
	uint64_t origin[SF_DIMS_MAX], extent[SF_DIMS_MAX], at[SF_DIMS_MAX];
	int64_t stride[SF_DIMS_MAX]; /* as given, or dense */
	unsigned along;              /* the dimension that is cut */
	uint64_t step;               /* elements of it */
	bool any;                    /* something is left */
};

/* @theirs: a struct shardfuse_read of any version. -EINVAL what no tensor has, with both numbers. */
int sf_lib_cut_begin(struct sf_lib_cut *c, const struct shardfuse *h, const void *theirs,
                     struct sf_error *err);
/* While c->any: fills @piece, and @rd, which asks for it. */
void sf_lib_cut_next(struct sf_lib_cut *c, struct sf_lib_piece *piece, struct sf_read *rd);

#endif
