/* Boxes in memory with drawn strides, and their bytes as a slow reference has them. */
#ifndef SF_TESTS_LIB_BOX_WORLD_H
#define SF_TESTS_LIB_BOX_WORLD_H

#include "base/mem.h"
#include "save/save_item.h"
#include "tests/lib/sf_test.h"

#define BOX_DIMS 5

struct box_world {
	uint64_t extent[BOX_DIMS], stride[BOX_DIMS];
	struct sf_save_item item;
	uint8_t *memory, *dense;
	size_t memory_len;
};

static const enum sf_dtype box_dtypes[] = { SF_UINT8, SF_BFLOAT16, SF_FLOAT32, SF_FLOAT64,
	                                    SF_COMPLEX128 };

/* Strides of a permuted, gapped, or broadcast layout of @w's extents. */
static void box_draw_strides(struct box_world *w, uint64_t *seed)
{
	unsigned order[BOX_DIMS], n = w->item.ndim;
	uint64_t step = 1;

	for (unsigned i = 0; i < n; i++)
		order[i] = i;
	for (unsigned i = n; i > 1 && sf_test_below(seed, 2); i--) {
		unsigned j = (unsigned)sf_test_below(seed, i), t = order[i - 1];
		order[i - 1] = order[j];
		order[j] = t;
	}
	for (unsigned i = n; i-- > 0;) {
		w->stride[order[i]] = sf_test_below(seed, 8) ? step : 0;
		step *= w->extent[order[i]];
		if (sf_test_below(seed, 3) == 0)
			step += sf_test_below(seed, 4);
	}
}

/* The slow reference: element by element. */
static void box_make_dense(struct box_world *w)
{
	const size_t elem = sf_dtype_info(w->item.dtype)->bytes;
	uint64_t c[BOX_DIMS] = { 0 };

	for (uint64_t off = 0; off < w->item.bytes; off += elem) {
		uint64_t at = 0;
		for (unsigned i = 0; i < w->item.ndim; i++)
			at += c[i] * w->stride[i];
		memcpy(w->dense + off, w->memory + at * elem, elem);
		for (unsigned i = w->item.ndim; i-- > 0 && ++c[i] == w->extent[i];)
			c[i] = 0;
	}
}

static void box_draw(struct box_world *w, uint64_t *seed)
{
	uint64_t last = 0, n = 1;

	*w = (struct box_world){ .item = { .kind = SF_SAVE_TENSOR, .key = "w" } };
	w->item.dtype = box_dtypes[sf_test_below(seed, SF_ARRAY_LEN(box_dtypes))];
	w->item.ndim = (uint8_t)sf_test_below(seed, BOX_DIMS + 1);
	for (unsigned i = 0; i < w->item.ndim; i++)
		n *= w->extent[i] =
			sf_test_below(seed, 40) ? 1 + sf_test_below(seed, i < 2 ? 70 : 6) : 0;
	box_draw_strides(w, seed);
	for (unsigned i = 0; i < w->item.ndim; i++)
		last += w->extent[i] ? (w->extent[i] - 1) * w->stride[i] : 0;
	const size_t elem = sf_dtype_info(w->item.dtype)->bytes;
	w->item.bytes = n * elem;
	w->item.extent = w->extent;
	w->item.from.stride = w->stride;
	w->memory_len = (last + 1) * elem;
	w->memory = malloc(w->memory_len);
	w->dense = malloc(w->item.bytes + 1);
	for (size_t i = 0; i < w->memory_len; i++)
		w->memory[i] = (uint8_t)sf_test_rand(seed);
	w->item.from.at = w->memory;
	box_make_dense(w);
}

static void box_undraw(struct box_world *w)
{
	free(w->memory);
	free(w->dense);
}

#endif
