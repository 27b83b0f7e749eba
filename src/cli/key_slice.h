/* KEY[0:4,:8]: a key argument and, behind it, the part of the tensor that is meant, as numpy spells
 * it. */
#ifndef SF_CLI_KEY_SLICE_H
#define SF_CLI_KEY_SLICE_H

#include "base/error.h"
#include "catalog/catalog.h"

enum sf_slice_kind { SF_SLICE_INDEX, SF_SLICE_RANGE, SF_SLICE_ELLIPSIS };
struct sf_slice_item {
	enum sf_slice_kind kind;
	bool has_from, has_to; /* RANGE: 3: has no end */
	int64_t from, to;      /* INDEX: from. Negative ones count from the end */
};
/* { 0 }: no slice, the whole tensor. */
struct sf_key_slice {
	uint32_t n;
	struct sf_slice_item at[SF_DIMS_MAX + 1];
};
/* What a slice is of one tensor. */
struct sf_value_box {
	uint64_t origin[SF_DIMS_MAX], extent[SF_DIMS_MAX]; /* elements */
	uint64_t dropped; /* bit d: dimension d was given as one index and is none of the result */
};

/*
 * sf_key_slice_parse - is there a slice at the end of @text?
 *
 * 1 and *ret, *ret_key_len (bytes before the bracket); 0: none (what "w[0-9]" ends in is a glob);
 * -EINVAL: it is one, and none that can be had (a step, a number past 2^63).
 */
int sf_key_slice_parse(const char *text, struct sf_key_slice *ret, size_t *ret_key_len,
                       struct sf_error *err);
/*
 * sf_key_slice_box - numpy's rules: a range is cut to the dimension, an index past it is an error,
 * what is not named is whole.
 *
 * -EINVAL with the slice's item, the dimension and its length.
 */
int sf_key_slice_box(const struct sf_key_slice *s, const uint64_t *shape, unsigned ndim,
                     struct sf_value_box *ret, struct sf_error *err);

/* The entries a KEY argument means. */
struct sf_key_choice {
	uint32_t *entry; /* in stored order, the one of that very name first; malloc'ed */
	uint32_t n;
	struct sf_key_slice slice;
};
/*
 * sf_key_choose - KEY as the verbs take it: the name itself; a slice of a key that is so named; a
 * name with all below it, or a glob; a slice of those. So "w[0]" is a part of the key w, and where
 * there is none the key w0, as ever.
 *
 * -ENOENT: no key matches; -EINVAL: a slice that is none; -ENOMEM.
 */
int sf_key_choose(const struct sf_catalog *c, const char *text, struct sf_key_choice *ret,
                  struct sf_error *err);
void sf_key_choice_release(struct sf_key_choice *ch);

#endif
