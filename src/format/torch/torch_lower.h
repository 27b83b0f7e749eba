/* What a file of torch.save holds, as keys of a checkpoint: tensors where their storages lie, all
 * else as values of their own. */
#ifndef SF_FORMAT_TORCH_LOWER_H
#define SF_FORMAT_TORCH_LOWER_H

#include "base/map.h"
#include "format/torch/torch_parts.h"
#include "parse/value_walk.h"

/* Which tensors of a part have been lowered, for those that are tied. { 0 } at first; one a part. */
struct sf_torch_ties {
	struct sf_map map;
	struct sf_arena arena;
	struct {
		struct sf_torch_seen *at;
		size_t n, cap;
	} seen;
};
void sf_torch_ties_release(struct sf_torch_ties *ties);

/*
 * sf_torch_lower_item - says where the chunk added last to @tensor, number @chunk, lies: @t's bytes
 * in @part, with its strides and signs if it has any.
 *
 * The chunk's extents are @t's shape. A storage that the file lacks leaves the chunk without an
 * item, which is damage that finish tells.
 * Errors: -EBADMSG a negative stride, or a place past 2^64; those of the builder.
 */
int sf_torch_lower_item(struct sf_ckpt_builder *b, struct sf_torch_part *part, uint32_t tensor,
                        uint32_t chunk, const struct sf_torch_tensor *t, struct sf_error *err);

/* A tensor @key that is all in @part: one chunk. @ties: NULL where nobody asks. -EBADMSG, as the
 * builder has it: there is that key already. */
int sf_torch_lower_tensor(struct sf_ckpt_builder *b, struct sf_torch_part *part, const char *key,
                          size_t len, const struct sf_torch_tensor *t, struct sf_torch_ties *ties,
                          uint32_t *ret_tensor, struct sf_error *err);

/*
 * sf_torch_lower_value - @v as an object @key, with what storages it names.
 * Errors: as sf_ckpt_builder_object's and _set_value's.
 */
int sf_torch_lower_value(struct sf_ckpt_builder *b, struct sf_torch_part *part, const char *key,
                         size_t len, struct sf_pv *v, struct sf_error *err);

struct sf_torch_lower {
	struct sf_ckpt_builder *b;
	struct sf_torch_part *part;
	/* Where the value stands: names begin with these, dots between; paths too. */
	const struct sf_path_elem *prefix;
	size_t nprefix;
	struct sf_torch_ties *ties; /* NULL: nothing is tied */
	bool whole;                 /* lists without tensors and dicts are one object */
	/*
	 * What the caller wants to lower himself, or not at all: 1 it is done, 0 go on, negative
	 * ends it. w->name is the whole key, prefix and all. NULL: nothing.
	 */
	int (*leaf)(void *arg, struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v);
	void *arg;
};

/*
 * sf_torch_lower - the leaves of @v as keys (parse/value_walk.h): a dense tensor is one; any other
 * leaf is an object; their paths say what containers they stood in.
 *
 * A key that is there already stays, the other leaf is told in a warning ("same-name"); so is what
 * has no name, or holds itself ("unread-value"). A tensor whose numbers contradict each other is an
 * object, and a warning ("bad-tensor").
 * Errors: -E2BIG more than 2^24 leaves, or deeper than 100; -ENOMEM; the builder's.
 * Cost:   O(leaves).
 */
int sf_torch_lower(const struct sf_torch_lower *l, struct sf_pv *v, struct sf_error *err);

#endif
