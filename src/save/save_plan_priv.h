/* Inside of save_plan: the record of a rank, read; boxes that are the same, boxes that tile. */
#ifndef SF_SAVE_SAVE_PLAN_PRIV_H
#define SF_SAVE_SAVE_PLAN_PRIV_H

#include <stdbool.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/vec.h"
#include "save/save_plan.h"

/*
 * A record: a head, then three sections.
 *   head       "SFP1", u32 items, u64 bytes of each section; little-endian
 *   structure  an item after another: flags, then (not with SF_REC_AGAIN) the key as the bytes that it
 *              shares with the one before and the rest, the path, dtype, ndim, shape. Ranks that
 *              hold parts of the same tensors have the same bytes here, which rank 0 reads once.
 *   boxes      per tensor item: for each dimension the origin, then shape - extent; stored
 *   objects    per object item: stored (varint), hash (u64): what changes with a step
 * Numbers are varints (7 bits a byte, lowest first) where no other width is said.
 */
#define SF_REC_MAGIC "SFP1"
#define SF_REC_HEAD 32
#define SF_REC_SHARED_MAX \
	255 /* bytes shared with the key before: a record cannot grow without end */

enum {
	SF_REC_OBJECT = 1,
	SF_REC_GRAD = 2,
	SF_REC_AGAIN = 4,  /* another box of the tensor before */
	SF_REC_SPLIT = 8,  /* the path's steps joined by '.' are the key: their lengths alone */
	SF_REC_STEPS = 16, /* a path that is told in full */
	SF_REC_FLAGS = 31,
};

/* Checked gets; the first that fails sticks, and what is got then is 0. */
struct sf_rec {
	const uint8_t *at, *end;
	bool failed;
};

static inline uint64_t sf_rec_long(struct sf_rec *r)
{
	uint64_t v = 0;

	for (unsigned shift = 0; shift < 64 && r->at < r->end; shift += 7) {
		uint8_t b = *r->at++;
		if (shift == 63 && b > 1)
			break;
		v |= (uint64_t)(b & 0x7f) << shift;
		if (b < 0x80)
			return v;
	}
	r->failed = true;
	r->at = r->end;
	return 0;
}

static inline uint64_t sf_rec_num(struct sf_rec *r)
{
	if (r->at < r->end && *r->at < 0x80)
		return *r->at++;
	return sf_rec_long(r);
}

static inline const uint8_t *sf_rec_bytes(struct sf_rec *r, uint64_t len)
{
	const uint8_t *at = r->at;

	if (len > (uint64_t)(r->end - r->at)) {
		r->failed = true;
		r->at = r->end;
		return NULL;
	}
	r->at += len;
	return at;
}

static inline uint8_t sf_rec_byte(struct sf_rec *r)
{
	const uint8_t *at = sf_rec_bytes(r, 1);

	return at ? *at : 0;
}

/* Where the sections of a record lie. */
struct sf_rec_parts {
	uint32_t nitems;
	const uint8_t *structure, *boxes, *objects;
	size_t structure_len, boxes_len, objects_len;
};

SF_VEC(sf_global_keys, struct sf_global_key);

struct sf_plan_structure { /* of one rank or many */
	const uint8_t *at;
	size_t len;
	uint32_t nitems, rank; /* the first that has it */
	uint32_t nranks;       /* that have it */
	uint32_t *key;         /* of each item */
};
SF_VEC(sf_plan_structures, struct sf_plan_structure);

struct sf_plan_key {        /* beside a global key, while the plan is made */
	uint32_t rank;      /* that had it first */
	uint64_t volume;    /* elements of the whole tensor */
	uint64_t nboxes;    /* over all ranks */
	uint64_t filled;    /* of them read */
	uint64_t hash, len; /* of the first rank's object */
};
SF_VEC(sf_plan_keys, struct sf_plan_key);

/* A plan being made. */
struct sf_plan_make {
	const struct sf_save_record *record;
	uint32_t nranks;
	int dedup;
	struct sf_global_plan *g;
	struct sf_global_keys key;
	struct sf_plan_keys more; /* of the same numbers */
	struct sf_map key_map, structure_map;
	struct sf_plan_structures structure;
	struct sf_rec_parts *part; /* of each rank */
	uint32_t *structure_of;    /* of each rank */
	struct sf_arena scratch;
	struct sf_buf name; /* the key being read */
	uint64_t *load;     /* bytes that each rank has to write so far */
};

/* save_plan_keys.c: heads and structures of all ranks, agreed on: fills g's keys, their boxes counted. */
int sf_plan_read_keys(struct sf_plan_make *m, struct sf_error *err);
/* save_plan_paths.c: all paths together are a nested dict: no two are one, none goes on behind another's
 * end, no place has names and indexes. */
int sf_plan_check_paths(const struct sf_plan_make *m, struct sf_error *err);
/* save_plan_boxes.c: boxes and objects of all ranks into the columns, each key's side by side. */
int sf_plan_read_boxes(struct sf_plan_make *m, struct sf_error *err);
/* save_plan_assign.c: equal boxes become one, all of a tensor are found to tile it, ranks are chosen. */
int sf_plan_assign(struct sf_plan_make *m, struct sf_error *err);

/* save_plan_text.c: for messages, cut at @size. "[4, 0]", "[2:4, 0:4]": a box is origin and extent. */
void sf_plan_point_text(char *buf, size_t size, const uint64_t *at, unsigned ndim);
void sf_plan_box_text(char *buf, size_t size, const uint64_t *box, unsigned ndim);

/* save_plan_cover.c */

/*
 * A random measure: each axis of a tensor has a random function F of its coordinates, 0 at 0 and 1 at
 * the end, and a box weighs the product of F(end) - F(origin) over its dimensions, in the field of
 * 2^61 - 1. Boxes that tile the tensor weigh 1 together; any others do so with a chance of ndim in
 * 2^61, whoever chose them: F is drawn anew in each process. Equal boxes weigh the same. O(ndim) a box.
 */
#define SF_COVER_P ((UINT64_C(1) << 61) - 1)
uint64_t sf_cover_weight(const uint64_t *shape, const uint64_t *origin, const uint64_t *extent,
                         unsigned ndim);
static inline uint64_t sf_cover_sum(uint64_t a, uint64_t b)
{
	uint64_t s = a + b;

	return s >= SF_COVER_P ? s - SF_COVER_P : s;
}
/*
 * sf_cover_find - boxes that weigh not 1: the first element, in row-major order, that is in no box or in
 * two.
 *
 * @coords as sf_global_plan's, @n boxes. Returns how many boxes it is in (2 stands for more), *ret_a and
 * *ret_b of them. O(n) for each bit of the coordinates. -ENOMEM.
 */
int sf_cover_find(const uint64_t *shape, unsigned ndim, const uint64_t *coords, uint64_t n,
                  uint64_t *ret_at, uint64_t *ret_a, uint64_t *ret_b);

#endif
