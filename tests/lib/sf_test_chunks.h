/* Random ways to cut a tensor into chunks, and the obvious answer to which chunk holds an
 * element. */
#ifndef SF_TESTS_LIB_SF_TEST_CHUNKS_H
#define SF_TESTS_LIB_SF_TEST_CHUNKS_H

#include <string.h>

#include "ckpt/ckpt_builder.h"
#include "tests/lib/sf_test.h"

#define TC_DIMS 5
#define TC_CHUNKS 400

struct tc_chunk {
	uint64_t origin[TC_DIMS], extent[TC_DIMS], part_off, part_len;
};
struct tc_tensor {
	unsigned ndim;
	uint64_t shape[TC_DIMS], numel;
	enum sf_dtype dtype;
	uint64_t elem;
	bool parts;
	size_t n;
	struct tc_chunk chunk[TC_CHUNKS];
};

enum tc_kind { TC_GRID, TC_GUILLOTINE, TC_PINWHEEL, TC_PARTS, TC_BOXES, TC_NKINDS };

static inline uint64_t tc_volume(const struct tc_tensor *t, const struct tc_chunk *c)
{
	uint64_t v = 1;

	for (unsigned d = 0; d < t->ndim; d++)
		v *= c->extent[d];
	return v;
}

static inline void tc_coords(const struct tc_tensor *t, uint64_t x, uint64_t *at)
{
	for (unsigned d = t->ndim; d-- > 0; x /= t->shape[d])
		at[d] = x % t->shape[d];
}

/* Element @x of the tensor as a number in the chunk's item, or -1. One coordinate after the
 * other. */
static inline int64_t tc_item_index(const struct tc_tensor *t, const struct tc_chunk *c, uint64_t x)
{
	uint64_t at[TC_DIMS], r = 0;

	tc_coords(t, x, at);
	for (unsigned d = 0; d < t->ndim; d++) {
		if (at[d] < c->origin[d] || at[d] >= c->origin[d] + c->extent[d])
			return -1;
		r = r * c->extent[d] + (at[d] - c->origin[d]);
	}
	return r < c->part_off || r >= c->part_off + c->part_len ? -1 : (int64_t)(r - c->part_off);
}

static inline void tc_add(struct tc_tensor *t, const uint64_t *origin, const uint64_t *extent)
{
	struct tc_chunk *c;

	if (t->n == TC_CHUNKS)
		return;
	c = &t->chunk[t->n++];
	memcpy(c->origin, origin, t->ndim * sizeof(*origin));
	memcpy(c->extent, extent, t->ndim * sizeof(*extent));
	c->part_off = 0;
	c->part_len = tc_volume(t, c);
}

static inline void tc_grid(struct tc_tensor *t, uint64_t *seed)
{
	uint64_t cut[TC_DIMS][8], o[TC_DIMS], e[TC_DIMS];
	size_t n[TC_DIMS], at[TC_DIMS] = { 0 };
	unsigned d;

	for (d = 0; d < t->ndim; d++) {
		n[d] = 1 + sf_test_below(seed, t->ndim > 3 ? 2 : 4);
		for (size_t i = 1; i < n[d]; i++)
			cut[d][i] = sf_test_below(
				seed, t->shape[d] + 1); /* equal ones make empty chunks */
		cut[d][0] = 0;
		cut[d][n[d]] = t->shape[d];
		for (size_t i = 1; i < n[d]; i++)
			for (size_t k = i; k > 1 && cut[d][k] < cut[d][k - 1]; k--) {
				uint64_t swap = cut[d][k];
				cut[d][k] = cut[d][k - 1];
				cut[d][k - 1] = swap;
			}
	}
	do {
		for (d = 0; d < t->ndim; d++) {
			o[d] = cut[d][at[d]];
			e[d] = cut[d][at[d] + 1] - o[d];
		}
		tc_add(t, o, e);
		for (d = t->ndim; d-- > 0;) {
			if (++at[d] < n[d])
				break;
			at[d] = 0;
		}
	} while (d < t->ndim);
}

static inline void tc_split(struct tc_tensor *t, uint64_t *seed, const uint64_t *o,
                            const uint64_t *e, unsigned depth)
{
	uint64_t o2[TC_DIMS], e2[TC_DIMS];
	unsigned d = t->ndim ? (unsigned)sf_test_below(seed, t->ndim) : 0;

	if (!t->ndim || !depth || e[d] < 2 || sf_test_below(seed, 6) == 0) {
		tc_add(t, o, e);
		return;
	}
	memcpy(o2, o, sizeof(o2));
	memcpy(e2, e, sizeof(e2));
	e2[d] = 1 + sf_test_below(seed, e[d] - 1);
	tc_split(t, seed, o, e2, depth - 1);
	o2[d] += e2[d];
	e2[d] = e[d] - e2[d];
	tc_split(t, seed, o2, e2, depth - 1);
}

/* Four boxes around a fifth: no straight cut parts them. Needs two dimensions of 3 or more; the
 * others stay whole. */
static inline void tc_pinwheel(struct tc_tensor *t, uint64_t *seed)
{
	unsigned a = 0, b = 1;
	uint64_t o[TC_DIMS] = { 0 }, e[TC_DIMS];

	for (unsigned d = 0; d < t->ndim; d++)
		e[d] = t->shape[d];
	if (t->ndim < 2 || t->shape[0] < 3 || t->shape[1] < 3) {
		tc_split(t, seed, o, e, 4);
		return;
	}
	uint64_t A = t->shape[a], B = t->shape[b];
	uint64_t a1 = 1 + sf_test_below(seed, A - 2), a2 = a1 + 1 + sf_test_below(seed, A - a1 - 1);
	uint64_t b1 = 1 + sf_test_below(seed, B - 2), b2 = b1 + 1 + sf_test_below(seed, B - b1 - 1);
	const uint64_t box[5][4] = { /* from, to in a; from, to in b */
		                     { 0, a1, 0, b2 },
		                     { 0, a2, b2, B },
		                     { a2, A, b1, B },
		                     { a1, A, 0, b1 },
		                     { a1, a2, b1, b2 }
	};
	for (int i = 0; i < 5; i++) {
		o[a] = box[i][0];
		e[a] = box[i][1] - box[i][0];
		o[b] = box[i][2];
		e[b] = box[i][3] - box[i][2];
		tc_split(t, seed, o, e, 1);
	}
}

static inline void tc_parts(struct tc_tensor *t, uint64_t *seed)
{
	struct tc_chunk box[TC_CHUNKS];
	uint64_t o[TC_DIMS] = { 0 };
	size_t nbox;

	tc_split(t, seed, o, t->shape, 2);
	nbox = t->n;
	memcpy(box, t->chunk, nbox * sizeof(*box));
	t->n = 0;
	t->parts = true;
	for (size_t i = 0; i < nbox; i++) {
		uint64_t at = 0, all = tc_volume(t, &box[i]);
		while (at < all) {
			uint64_t len = 1 + sf_test_below(seed, all - at);
			tc_add(t, box[i].origin, box[i].extent);
			t->chunk[t->n - 1].part_off = at;
			t->chunk[t->n - 1].part_len = len;
			at += len;
			if (t->n == TC_CHUNKS)
				return;
		}
	}
}

/* Boxes anywhere: holes, overlaps, empty ones, twins. */
static inline void tc_boxes(struct tc_tensor *t, uint64_t *seed)
{
	size_t n = sf_test_below(seed, 7);
	uint64_t o[TC_DIMS], e[TC_DIMS];

	for (size_t i = 0; i < n; i++) {
		if (!i || sf_test_below(seed, 8))
			for (unsigned d = 0; d < t->ndim; d++) {
				bool whole = sf_test_below(seed, 2);
				o[d] = whole ? 0 : sf_test_below(seed, t->shape[d] + 1);
				e[d] = whole ? t->shape[d]
				             : sf_test_below(seed, t->shape[d] - o[d] + 1);
			}
		tc_add(t, o, e);
	}
}

/* Maybe one chunk less, one twice, one in another's place, one moved by one, one shorter by one;
 * then in any order. */
static inline void tc_spoil(struct tc_tensor *t, uint64_t *seed)
{
	if (t->n && sf_test_below(seed, 4) == 0) {
		size_t gone = sf_test_below(seed, t->n);
		t->chunk[gone] = t->chunk[--t->n];
	}
	if (t->n && t->n < TC_CHUNKS && sf_test_below(seed, 8) == 0) {
		t->chunk[t->n] = t->chunk[sf_test_below(seed, t->n)];
		t->n++;
	}
	if (t->n && t->ndim && sf_test_below(seed, 8) == 0) {
		struct tc_chunk *c = &t->chunk[sf_test_below(seed, t->n)];
		unsigned d = (unsigned)sf_test_below(seed, t->ndim);
		if (c->origin[d])
			c->origin[d]--;
	}
	if (t->n && sf_test_below(seed, 8) == 0)
		t->chunk[sf_test_below(seed, t->n)] = t->chunk[sf_test_below(seed, t->n)];
	if (t->n && t->ndim && !t->parts && sf_test_below(seed, 8) == 0) {
		struct tc_chunk *c = &t->chunk[sf_test_below(seed, t->n)];
		unsigned d = (unsigned)sf_test_below(seed, t->ndim);
		if (c->extent[d] > 1)
			c->extent[d]--;
		c->part_len = tc_volume(t, c);
	}
	if (sf_test_below(seed, 2))
		for (size_t i = t->n; i > 1; i--) {
			size_t k = sf_test_below(seed, i);
			struct tc_chunk swap = t->chunk[i - 1];
			t->chunk[i - 1] = t->chunk[k];
			t->chunk[k] = swap;
		}
}

/* A tensor of at most about @max elements. */
static inline void tc_random(struct tc_tensor *t, uint64_t *seed, enum tc_kind kind, uint64_t max,
                             bool spoil)
{
	static const struct {
		enum sf_dtype dtype;
		uint64_t elem;
	} types[] = {
		{ SF_UINT8, 1 }, { SF_BFLOAT16, 2 }, { SF_FLOAT32, 4 }, { SF_COMPLEX128, 16 }
	};
	uint64_t o[TC_DIMS] = { 0 };
	size_t type = sf_test_below(seed, 4);

	memset(t, 0, sizeof(*t));
	t->dtype = types[type].dtype;
	t->elem = types[type].elem;
	t->ndim = (unsigned)sf_test_below(seed, TC_DIMS + 1);
	t->numel = 1;
	for (unsigned d = 0; d < t->ndim; d++) {
		uint64_t most = max / t->numel;
		t->shape[d] = 1 + sf_test_below(seed, most < 9 ? (most ? most : 1) : 9);
		t->numel *= t->shape[d];
	}
	if (kind == TC_GRID)
		tc_grid(t, seed);
	else if (kind == TC_GUILLOTINE)
		tc_split(t, seed, o, t->shape, 5);
	else if (kind == TC_PINWHEEL)
		tc_pinwheel(t, seed);
	else if (kind == TC_PARTS)
		tc_parts(t, seed);
	else
		tc_boxes(t, seed);
	if (spoil)
		tc_spoil(t, seed);
}

/* A checkpoint of that one tensor "w": chunk i's item is at offset 1000 * i of file "f". */
static inline struct sf_ckpt *tc_ckpt(const struct tc_tensor *t)
{
	const struct sf_objinfo file = { .name = "f", .size = UINT64_MAX / 2 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt_builder *b;
	struct sf_ckpt *ckpt;
	uint32_t id, place;

	ck_assert_int_eq(sf_ckpt_builder_new("test", "memory", &b, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_listing(b, &file, 1, &err), 0);
	ck_assert_int_eq(
		sf_ckpt_builder_place(b, "f", 1, SF_ITEM_TORCH, SF_CODEC_NONE, &place, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_tensor(b, "w", 1, t->dtype, t->shape, t->ndim, &id, &err),
	                 0);
	for (size_t i = 0; i < t->n; i++) {
		const struct tc_chunk *c = &t->chunk[i];
		ck_assert_int_eq(sf_ckpt_builder_chunk(b, c->origin, c->extent, &err), 0);
		if (t->parts)
			ck_assert_int_eq(sf_ckpt_builder_part(b, c->part_off, c->part_len, &err),
			                 0);
		sf_ckpt_builder_set_item(b, id, (uint32_t)i, place, 1000 * i, 1000);
	}
	ck_assert_msg(sf_ckpt_builder_finish(b, &ckpt, &err) == 0, "%s", err.msg);
	return ckpt;
}

#endif
