/* Where payloads lie inside items: learned from item headers once, then known without a lock. */
#ifndef SF_READ_LAYOUT_H
#define SF_READ_LAYOUT_H

#include <stdbool.h>
#include "parse/torch_archive.h"
#include "read/plan.h"

/*
 * A side table beside the immutable checkpoint: one word a chunk (global number chunk0 + i), in
 * pages that are made when first written, so a mount that reads nothing has a few hundred pointers.
 * An ordinary item's word is its payload offset; strides and flags of the others hang off a tagged
 * pointer.
 */
struct sf_layouts;
int sf_layouts_new(uint64_t nchunks, struct sf_layouts **ret, struct sf_error *err);
void sf_layouts_free(struct sf_layouts *l); /* NULL is fine */

/* Is chunk @i's layout known? Fills *ret (its stride[] lives as long as the table). Threads: any,
 * never waits. */
bool sf_layout_get(const struct sf_layouts *l, const struct sf_tensor *t, uint32_t i,
                   struct sf_item_layout *ret);

/* Published for all; the first one for a chunk stays (all are made from the same bytes).
 * -ENOMEM. */
int sf_layout_put(struct sf_layouts *l, const struct sf_tensor *t, uint32_t i,
                  const struct sf_item_layout *layout);

/*
 * sf_layout_from_item - does the item's header say what metadata says, and what follows for its
 * layout?
 *
 * Dtype and shape must be the chunk's (of a part: as many elements, contiguous; a whole box may be
 * a flat run, too: [1, 1, 6] for a box of [2, 3]). -EBADMSG with both.
 * @stride: room for SF_DIMS_MAX; ret->stride points there.
 */
int sf_layout_from_item(const struct sf_ckpt *ckpt, const struct sf_tensor *t,
                        const struct sf_chunk *c, const struct sf_torch_item *item, int64_t *stride,
                        struct sf_item_layout *ret, struct sf_error *err);

/*
 * The slow way to an item's header: its archive opened by its central directory, with these options
 * and an arena of that limit.
 */
#define SF_LAYOUT_PART_MAX (UINT64_C(64) << 20) /* bytes of a directory, or a data.pkl */
extern const struct sf_torch_options sf_layout_options;
int sf_layout_from_archive(const struct sf_torch_archive *a, struct sf_torch_item *ret,
                           struct sf_error *err);
/* All of it, for who may wait or has it in memory. */
int sf_layout_from_dir(const struct sf_torch_input *in, struct sf_torch_item *ret,
                       struct sf_error *err);

/* Conjugate and negate in place: bytes whose first one is byte @at of the tensor's elements.
 * Integers in whole elements only. -ENOTSUP for what torch cannot negate either. */
int sf_layout_convert(enum sf_dtype dtype, bool conj, bool neg, uint8_t *p, uint64_t at,
                      uint64_t len, struct sf_error *err);

#endif
