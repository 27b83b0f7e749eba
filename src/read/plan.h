/* Which stored items lie under a byte range or a box of a tensor, and by what copies: pure
 * geometry, no I/O. */
#ifndef SF_READ_PLAN_H
#define SF_READ_PLAN_H

#include "base/error.h"
#include "base/vec.h"
#include "ckpt/ckpt.h"

/* How an item lays out its box: elements strides, row-major when contiguous. From the item's header
 * (layout.h). */
struct sf_item_layout {
	uint64_t payload_off; /* bytes from the item's start of element 0 */
	uint64_t payload_len; /* bytes */
	bool row_major;       /* strides are those of the dense box; stride[] is not set */
	bool conj, neg;
	const int64_t *stride; /* elements per dimension, when not row-major */
	const uint8_t *fill;   /* there is no item: its pieces are FILL, all of this one element */
};

/*
 * FILL: byte src_off + k of the row is byte (src_off + k) % element of the fill. CONVERT: conj and
 * neg are applied in place after the copy; a range that begins or ends inside an element gives a
 * part of it here too: ask for whole ones.
 */
enum sf_piece_kind { SF_PIECE_BYTES, SF_PIECE_FILL, SF_PIECE_CONVERT };

/* Copies of equal length: for i in 0..count: dst[dst_off + i * dst_step, +len) = src[src_off + i *
 * src_step, +len). */
struct sf_piece {
	uint64_t src_off;           /* bytes from the item's payload */
	uint64_t dst_off;           /* bytes from the start of the asked range */
	uint64_t len;               /* bytes, never 0 */
	uint64_t count;             /* ≥ 1 */
	int64_t src_step, dst_step; /* bytes */
	uint32_t item;              /* index of the item in the caller's list */
	uint8_t kind;               /* enum sf_piece_kind */
};
SF_VEC(sf_pieces, struct sf_piece);
SF_VEC(sf_u32s, uint32_t);

/*
 * sf_plan_chunks - the chunks under [off, off+len) bytes of dense row-major tensor @t, ascending by
 * first byte.
 *
 * Errors:  -EBADMSG a hole (offset of the first missing byte in the message); -ENOMEM.
 * Threads: pure.
 * Cost:    O(log n + chunks touched) for grids; otherwise an interval search over sorted origins.
 */
int sf_plan_chunks(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint64_t off,
                   uint64_t len, struct sf_u32s *chunks, struct sf_error *err);

/*
 * sf_plan_pieces - the copies that bring [off, off+len) ∩ chunk to its places, for one chunk whose
 * layout is known.
 *
 * Ranges may begin and end inside an element. Where the tensor overlaps, a later chunk's pieces
 * leave out what an earlier chunk gives. Each byte of the range is given by exactly one piece over
 * all chunks of sf_plan_chunks(). The fewest pieces the geometry allows: a full-width row block is
 * one, a column shard one strided, a transposed item one per row. Errors: -EBADMSG when the layout
 * does not hold the box (payload too short); -E2BIG more than 2^24 pieces.
 */
int sf_plan_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                   const struct sf_item_layout *layout, uint64_t off, uint64_t len, uint32_t item,
                   struct sf_pieces *pieces, struct sf_error *err);

/*
 * The same of a box: elements lo[d] ≤ i < hi[d] of every dimension. Not empty, inside the tensor.
 *
 * sf_plan_box_chunks: as sf_plan_chunks. Cost: O(log n + chunks touched) for grids, else the chunks
 * whose elements lie between the box's first and last one. sf_plan_box_pieces: as sf_plan_pieces;
 * element (i, …) goes to byte sum((i - lo) * dst_stride) of the output, modulo 2^64.
 */
int sf_plan_box_chunks(const struct sf_ckpt *ckpt, const struct sf_tensor *t, const uint64_t *lo,
                       const uint64_t *hi, struct sf_u32s *chunks, struct sf_error *err);
int sf_plan_box_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                       const struct sf_item_layout *layout, const uint64_t *lo, const uint64_t *hi,
                       const int64_t *dst_stride, uint32_t item, struct sf_pieces *pieces,
                       struct sf_error *err);

/*
 * Some of those pieces: an item that is strided in three dimensions gives one for every few bytes, and
 * a read holds no more of them at a time than it has a use for. The @skip first ones are left out, and
 * @most are given; @more: there are others behind those. Cost: O(boxes + given), nothing for a skipped
 * piece.
 */
struct sf_piece_window {
	uint64_t skip, most;
	bool more;
};
int sf_plan_some_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                        const struct sf_item_layout *layout, uint64_t off, uint64_t len,
                        uint32_t item, struct sf_piece_window *w, struct sf_pieces *pieces,
                        struct sf_error *err);
int sf_plan_some_box_pieces(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk,
                            const struct sf_item_layout *layout, const uint64_t *lo,
                            const uint64_t *hi, const int64_t *dst_stride, uint32_t item,
                            struct sf_piece_window *w, struct sf_pieces *pieces,
                            struct sf_error *err);

#endif
