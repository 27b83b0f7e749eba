/* From what each rank brought to what each rank writes: gathered, checked and assigned on rank 0. */
#ifndef SF_SAVE_SAVE_PLAN_H
#define SF_SAVE_SAVE_PLAN_H

#include "base/buf.h"
#include "save/save_item.h"

/*
 * A rank's items as it sends them, appended to @ret: structure (keys, paths, dtypes, shapes), boxes,
 * objects, each apart; about 40 B an item. *ret_hash says whether it is what it was in the save before:
 * of all but what changes with a step (lengths and hashes of objects). Equal in all processes.
 */
int sf_save_plan_encode(const struct sf_save_items *items, struct sf_buf *ret, uint64_t *ret_hash,
                        struct sf_error *err);

/* A key of the checkpoint that is made. */
struct sf_global_key {
	const char *key;
	uint32_t key_len, npath;
	const struct shardfuse_save_step *path; /* npath 0: one step, the key */
	uint8_t kind;                           /* enum sf_save_kind */
	uint8_t dtype, ndim;
	bool requires_grad;
	const uint64_t *shape;
	/* its chunks: first … first + nchunks - 1 of the columns; an object has one. By rank. */
	uint64_t first, nchunks;
	uint64_t coord; /* where its chunks' coordinates begin: chunk c's origin at
	                   coords[coord + 2 * ndim * (c - first)], its extent ndim behind */
};
/* All that is written, once each: what metadata is made of. Keys in order of first appearance over the
 * ranks. Columns, no object per chunk. */
struct sf_global_plan {
	struct sf_arena arena;
	uint32_t nranks;
	struct sf_global_key *key;
	uint64_t nkeys, nchunks;
	uint64_t *coords;
	uint32_t *rank; /* that writes the chunk */
	uint32_t *item; /* the number of the item on that rank */
	/* where: file of that rank, offset, length; filled by sf_global_plan_layout */
	uint32_t *file;
	uint64_t *off, *len;
	/* Of rank r: bit i from bits[bits_at[r]] on says whether it writes its item i. */
	uint64_t *rank_items; /* how many it brought */
	uint64_t *bits_at;    /* first byte of its bits */
	uint8_t *bits;
	uint64_t nbits_bytes;
	/* Which keys a rank's objects are, in its order: those of objects_of[rank], which ranks with the
	 * same items share. For a plan that is made again. */
	struct sf_global_objects {
		uint32_t *key, n;
	} * objects;
	uint32_t *objects_of;
};

struct sf_save_record { /* what came of one rank */
	const void *at;
	size_t len;
};
/*
 * sf_save_plan_make - decode @nranks records, check, assign.
 *
 * Checks: shapes, dtypes, kinds, paths and objects' hashes agree; paths are those of one nested dict; the boxes of a tensor are equal or
 * apart and cover it; a key is no tensor here and an object there; there is at least one item. The
 * message names the key, both ranks and both values; of a hole or an overlap the first element.
 *
 * That boxes cover a tensor is found by weighing them (docs/decisions/0006-random-measure.md): what is
 * right is never refused, what is wrong is taken for right with a chance of ndim in 2^61.
 * Errors:  -EINVAL what disagrees; -EBADMSG, "rank R: its plan is malformed": records are hostile as any
 *          bytes; -E2BIG, -ENOMEM.
 * Cost:    O(boxes x dimensions), whatever their arrangement and the number of ranks; ranks with the same
 *          structure have it read once. A refusal costs that for each bit of the shape.
 * Memory:  while it runs about 70 B for each box that a rank brought, of two dimensions.
 */
int sf_save_plan_make(const struct sf_save_record *record, uint32_t nranks, int dedup,
                      struct sf_global_plan *ret, struct sf_error *err);
/*
 * The same items once more, of a later step: a rank sends what of it may have changed, lengths and hashes
 * of its objects, when its plan's hash is what it was. rank 0 checks that they agree, and has the plan
 * that it had. *ret_moved: some length is another; the layout has to be made again.
 * Cost: O(objects).
 */
int sf_save_plan_encode_again(const struct sf_save_items *items, struct sf_buf *ret,
                              struct sf_error *err);
int sf_save_plan_again(struct sf_global_plan *g, const struct sf_save_record *record,
                       uint32_t nranks, bool *ret_moved, struct sf_error *err);
void sf_global_plan_release(struct sf_global_plan *g);

/*
 * sf_save_layout - which of @nfiles files, and where in it, each item lies that a rank writes.
 *
 * Pure: rank 0 does the same for all ranks. Tensors by size, largest first, each to the file with least
 * so far; then objects in turn. Starts are multiples of 64. @write: bits of items; NULL: all.
 * ret_file and ret_off have @n entries; those not written are left alone.
 */
struct sf_layout_in {
	const uint64_t *len;
	const uint8_t *is_object;
};
int sf_save_layout(const struct sf_layout_in *in, uint64_t n, const uint8_t *write, unsigned nfiles,
                   uint32_t *ret_file, uint64_t *ret_off, struct sf_error *err);
/* Fills file, off and len of the columns. */
int sf_global_plan_layout(struct sf_global_plan *g, unsigned nfiles, struct sf_error *err);
/* The same from what ranks tell of the items that they wrote, in their order, where sizes are known only
 * then: SF_PLACE_BYTES each, u32 file, u64 offset, u64 length; little-endian. -EBADMSG. */
#define SF_PLACE_BYTES 20
int sf_global_plan_places(struct sf_global_plan *g, const struct sf_save_record *told,
                          unsigned nfiles, struct sf_error *err);

#endif
