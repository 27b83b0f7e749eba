/* Tensors whose items hold bytes that tell where they are from: what plans are compared with. */
#ifndef SF_TESTS_LIB_PLAN_WORLD_H
#define SF_TESTS_LIB_PLAN_WORLD_H

#include "base/mem.h"
#include "read/plan.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/sf_test_chunks.h"

#define BYTES_MAX 16384

/* Items with bytes of their own: what chunk i gives for element x, byte b, is a function of the
 * three. */
static inline uint8_t byte_of(size_t chunk, uint64_t x, uint64_t b)
{
	uint64_t v = (chunk * 1000003 + x) * 31 + b + 7;

	return (uint8_t)((v * UINT64_C(0x9e3779b97f4a7c15)) >> 56);
}

struct item {
	uint8_t at[BYTES_MAX * 4];
	struct sf_item_layout layout;
	int64_t stride[TC_DIMS];
};

/* Lays a chunk out: row-major, or its dimensions in any order with gaps between. */
static inline void make_item(const struct tc_tensor *t, size_t i, uint64_t *seed, struct item *item)
{
	const struct tc_chunk *c = &t->chunk[i];
	uint64_t volume = tc_volume(t, c), span = 1;
	unsigned order[TC_DIMS];

	item->layout = (struct sf_item_layout){ .row_major = t->parts || sf_test_below(seed, 2),
		                                .stride = item->stride };
	item->layout.payload_len = c->part_len * t->elem;
	if (!item->layout.row_major && volume) {
		for (unsigned d = 0; d < t->ndim; d++) {
			size_t k = sf_test_below(seed, d + 1u);
			order[d] = order[k];
			order[k] = d;
		}
		for (unsigned d = 0; d < t->ndim; d++) {
			item->stride[order[d]] = (int64_t)span;
			span *= c->extent[order[d]];
			if (span < 64 && sf_test_below(seed, 4) == 0)
				span++;
		}
		uint64_t last = 0;
		for (unsigned d = 0; d < t->ndim; d++)
			last += (c->extent[d] - 1) * (uint64_t)item->stride[d];
		if ((last + 1) * t->elem > sizeof(item->at)) {
			item->layout.row_major = true;
		} else {
			item->layout.payload_len = (last + 1) * t->elem;
		}
	}
	ck_assert_uint_le(item->layout.payload_len, sizeof(item->at));
	for (uint64_t x = 0; x < t->numel; x++) {
		int64_t k = tc_item_index(t, c, x);
		uint64_t at[TC_DIMS];

		if (k < 0)
			continue;
		if (!item->layout.row_major) {
			tc_coords(t, x, at);
			k = 0;
			for (unsigned d = 0; d < t->ndim; d++)
				k += (int64_t)(at[d] - c->origin[d]) * item->stride[d];
		}
		for (uint64_t b = 0; b < t->elem; b++)
			item->at[(uint64_t)k * t->elem + b] = byte_of(i, x, b);
	}
}

/* The first chunk that holds an element, or -1; @holds: one flag a chunk and element. */
static inline int64_t owner(const struct tc_tensor *t, const uint8_t *holds, uint64_t x)
{
	for (size_t i = 0; i < t->n; i++)
		if (holds[i * t->numel + x])
			return (int64_t)i;
	return -1;
}

static struct item tc_items[TC_CHUNKS];
static uint8_t tc_holds[TC_CHUNKS * BYTES_MAX];

static inline void prepare(const struct tc_tensor *t, uint64_t *seed)
{
	for (size_t i = 0; i < t->n; i++) {
		make_item(t, i, seed, &tc_items[i]);
		for (uint64_t x = 0; x < t->numel; x++)
			tc_holds[i * t->numel + x] = tc_item_index(t, &t->chunk[i], x) >= 0;
	}
}

#endif
