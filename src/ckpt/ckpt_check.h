/* Is the checkpoint whole? Each tensor's chunks against its shape, each item against its file. */
#ifndef SF_CKPT_CKPT_CHECK_H
#define SF_CKPT_CKPT_CHECK_H

#include "base/error.h"
#include "ckpt/ckpt.h"

/*
 * Work for naming holes and overlaps that one load may spend, so that a hostile checkpoint cannot
 * make it quadratic; a million chunks that tile take a few million steps, if any.
 */
#define SF_CHECK_BUDGET(nchunks) ((uint64_t)(nchunks)*64 + (UINT64_C(1) << 26))

/* What is wrong with the chunks of one tensor. */
struct sf_coverage {
	unsigned flags;               /* of SF_TENSOR_GRID, HOLE, OVERLAP */
	uint32_t grid_n[SF_DIMS_MAX]; /* GRID: cells along each dimension */
	uint64_t hole;    /* HOLE: an element in no chunk, row-major; UINT64_MAX: not found where */
	uint64_t missing; /* HOLE without overlap: how many, else 0 */
	uint32_t a, b;    /* OVERLAP: two chunks, a < b; equal when not found which */
};

/*
 * sf_check_cover - the chunks (t->order and t->norder are set) against the shape.
 *
 * Exact: no flag but GRID means that every element is in one chunk. When the chunks do not tile and
 * *budget runs out before holes are told from overlaps, both flags are set. -ENOMEM. Cost: O(n) for
 * grids and one cut dimension, O(n 2^cut dimensions) else.
 */
int sf_check_cover(const struct sf_tensor *t, uint64_t *budget, struct sf_coverage *ret);

/* One item against its file: why it cannot be read, or NULL (also when there is no listing to look
 * into). */
struct sf_item_check {
	/* "missing-item", "missing-file", "truncated-file", "outside-member", "short-item" */
	const char *code;
	const struct sf_file *file; /* NULL: missing-item */
	uint64_t end; /* bytes of the file that the item asks for (outside-member: of the member;
	                 short-item: of it), UINT64_MAX when that overflows */
	const struct sf_ckpt *ckpt;
	uint32_t place;
};
/* @want: bytes a raw item must have, 0 not known. */
bool sf_check_item(const struct sf_ckpt *ckpt, uint32_t place, uint64_t off, uint64_t len,
                   uint64_t want, struct sf_item_check *ret);

/* Words about it, for a warning. */
void sf_check_item_text(const struct sf_item_check *c, uint64_t off, uint64_t len,
                        char text[SF_ERROR_MAX]);

/* One kind of damage among the items of a tensor. */
struct sf_bad_items {
	struct sf_item_check c; /* of the first chunk that has it */
	uint32_t chunk, n;      /* that chunk; how many chunks */
};
#define SF_BAD_KINDS 5 /* codes of sf_check_item */
#define SF_BAD_TEXT (SF_ERROR_MAX + 64)
/* Is chunk @i's item whole? One of an empty chunk is: it is never read. */
bool sf_check_chunk(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t i,
                    struct sf_item_check *ret);
/* The items of all chunks, a kind of damage once: how many kinds. */
unsigned sf_check_items(const struct sf_ckpt *ckpt, const struct sf_tensor *t,
                        struct sf_bad_items ret[SF_BAD_KINDS]);
void sf_check_items_text(const struct sf_tensor *t, const struct sf_bad_items *bad,
                         char text[SF_BAD_TEXT]);

#endif
