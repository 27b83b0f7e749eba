/* Tensor items whose value is no dense tensor: found by a look at few, so that they are carried as
 * objects. */
#ifndef SF_FORMAT_DCP_DCP_SUBCLASS_H
#define SF_FORMAT_DCP_DCP_SUBCLASS_H

#include "format/dcp/dcp_lower.h"

/* Classes of tensors whose dtype is not known: its item is an archive; it is none, and is left
 * out. */
extern const char dcp_unknown_dtype[], dcp_lost_dtype[];

/*
 * dcp_find_subclasses - which tensors of metadata are stored as something else: instances of
 * wrapper subclasses (torchao's quantized weights and optimizer states), sparse tensors and what
 * else torch rebuilds; and those of a dtype that is not one we know.
 *
 * Metadata does not say it. What an archive has beside the elements that metadata promises is the
 * same, but for steps of 64 bytes, for all dense tensors of one writer, and is not for anything
 * else; so one item of each such length is looked at, and all of a length only where that one is no
 * dense tensor. A tensor is what its first chunk's item is. Items under a transform are not looked
 * at: what they are comes out when they are read.
 * @ret: by number in m->tensor[] the class ("torchao.optim.subclass_8bit.OptimState8bit"), NULL for
 * dense tensors; @arena's. *ret is NULL when all are dense.
 * Errors: -ENOMEM; the store's, but for items that cannot be had for good (-ENOENT, -EBADMSG):
 * they count as dense. Cost: O(n log n), 2 to 5 reads of 4 KiB for a checkpoint of dense tensors,
 * one for each tensor that is not; those of all lengths side by side, then those of all tensors that
 * are not dense.
 */
int dcp_find_subclasses(const struct dcp_meta *m, const struct sf_format_dir *src,
                        struct sf_arena *arena, const char ***ret, struct sf_error *err);

/* How many tensors are of which class. */
#define DCP_CLASSES_MAX 16 /* a hostile checkpoint has more: it is not told of each */
struct dcp_classes {
	struct {
		const char *name; /* borrowed */
		char *first;      /* a key */
		uint32_t n, sharded;
	} at[DCP_CLASSES_MAX];
	unsigned n;
};
int dcp_classes_add(struct dcp_classes *c, const char *class, const char *key,
                    bool sharded); /* -ENOMEM */
/* A note "tensor-subclass" for each. */
int dcp_classes_note(const struct dcp_classes *c, struct sf_ckpt_builder *b);
void dcp_classes_release(struct dcp_classes *c);

#endif
