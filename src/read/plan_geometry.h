/* A box in two places, and the copies that bring it from one to the other. Only read/ includes
 * it. */
#ifndef SF_READ_PLAN_GEOMETRY_H
#define SF_READ_PLAN_GEOMETRY_H

#include "read/plan.h"

#define SF_PIECES_MAX (1u << 24)
/* of one piece: what it becomes a request or a copy each for is bounded so */
#define SF_PIECE_RUNS (UINT64_C(1) << 16)
/* the bytes of an element are the innermost dimension: a range may begin inside one */
#define SF_GEOMETRY_DIMS (SF_DIMS_MAX + 1)

/* A box of bytes in both places; dimensions that are contiguous in both are one. */
struct sf_geometry {
	unsigned ndim; /* ≥ 1 */
	uint64_t extent[SF_GEOMETRY_DIMS];
	/* bytes from one to the next; modulo 2^64, as offsets may wrap below 0 */
	uint64_t src[SF_GEOMETRY_DIMS], dst[SF_GEOMETRY_DIMS];
	uint64_t src0, dst0; /* of the box's first byte: the caller's to set */
};
/* @box: elements, none 0; strides in bytes. */
void sf_geometry_make(struct sf_geometry *g, unsigned ndim, const uint64_t *box, uint64_t elem,
                      const uint64_t *src_stride, const uint64_t *dst_stride);

struct sf_emit {
	struct sf_pieces *pieces;
	size_t n0;            /* of pieces before this one's */
	struct sf_piece like; /* item and kind */
	uint64_t skip;        /* pieces that are passed over yet */
	uint64_t most;        /* pieces that are given at most */
};
/* The kind of all pieces of an item. */
enum sf_piece_kind sf_piece_kind_of(const struct sf_item_layout *layout);
/* Bytes [from, to) of the geometry's row-major order, less what is to be skipped. Cost: O(pieces given).
 * SF_EMIT_FULL: there are more; -ENOMEM. */
#define SF_EMIT_FULL 1
int sf_emit_range(struct sf_emit *e, const struct sf_geometry *g, uint64_t from, uint64_t to);

/* Strides of the item in bytes. -EBADMSG, -ENOTSUP its payload does not hold the box. */
int sf_item_strides(const struct sf_ckpt *ckpt, const struct sf_tensor *t, const struct sf_chunk *c,
                    uint64_t elem, const struct sf_item_layout *layout, uint64_t *stride,
                    struct sf_error *err);

#endif
