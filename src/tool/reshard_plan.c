#include "config.h"

#include <errno.h>
#include <stdlib.h>

#include "base/mem.h"
#include "tool/reshard_plan.h"

#define LEAST 1024
#define PIECES_BITS 20

uint64_t sf_reshard_least(uint64_t total)
{
	return SF_MAX(total >> PIECES_BITS, (uint64_t)LEAST);
}

bool sf_reshard_rows(const struct sf_reshard_cut *c, uint32_t rank, uint32_t ranks,
                     uint64_t *ret_at, uint64_t *ret_n)
{
	uint64_t behind = (rank + (uint64_t)ranks - c->first) % ranks, at;

	if (!c->step) {
		*ret_at = 0;
		*ret_n = c->rows;
		return !behind;
	}
	if (!sf_mul(behind, c->step, &at) || at >= c->rows)
		return false;
	*ret_at = at;
	*ret_n = SF_MIN(c->step, c->rows - at);
	return true;
}

/* What a rank has so far; the least is the heap's first. */
struct load {
	uint64_t bytes;
	uint32_t rank;
};

static bool is_less(const struct load *a, const struct load *b)
{
	return a->bytes != b->bytes ? a->bytes < b->bytes : a->rank < b->rank;
}

static void sift_down(struct load *heap, uint32_t n, uint32_t i)
{
	for (uint32_t least = i;; i = least) {
		for (uint64_t k = 2 * (uint64_t)i + 1; k <= 2 * (uint64_t)i + 2 && k < n; k++)
			if (is_less(&heap[k], &heap[least]))
				least = (uint32_t)k;
		if (least == i)
			return;
		struct load t = heap[i];
		heap[i] = heap[least];
		heap[least] = t;
	}
}

static uint64_t total_of(const struct sf_reshard_cut *cut, size_t n)
{
	uint64_t total = 0;

	for (size_t i = 0; i < n; i++)
		if (!sf_add(total, cut[i].bytes, &total))
			return UINT64_MAX;
	return total;
}

/* Those that are cut. @ret_next: where the ranks' turns have come to. */
static void cut_large(struct sf_reshard_cut *cut, size_t n, uint32_t ranks, struct load *load)
{
	const uint64_t least = sf_reshard_least(total_of(cut, n));
	uint32_t next = 0;

	for (size_t i = 0; i < n; i++) {
		struct sf_reshard_cut *c = &cut[i];
		uint64_t step = c->rows / ranks + (c->rows % ranks != 0), at, rows;
		c->step = c->first = 0;
		if (ranks == 1 || c->rows < 2 || c->bytes / c->rows * step < least)
			continue;
		c->step = step;
		if (c->rows < ranks) {
			c->first = next;
			next = (uint32_t)((next + c->rows) % ranks);
		}
		uint32_t turns = (uint32_t)SF_MIN(c->rows, (uint64_t)ranks);
		for (uint32_t k = 0; k < turns; k++) {
			uint32_t rank = (c->first + k) % ranks;
			if (sf_reshard_rows(c, rank, ranks, &at, &rows))
				load[rank].bytes += c->bytes / c->rows * rows;
		}
	}
}

int sf_reshard_plan(struct sf_reshard_cut *cut, size_t n, uint32_t ranks)
{
	SF_FREE struct load *load = sf_alloc_array(ranks, sizeof(*load));

	if (!load)
		return -ENOMEM;
	for (uint32_t i = 0; i < ranks; i++)
		load[i] = (struct load){ 0, i };
	cut_large(cut, n, ranks, load);
	for (uint32_t i = ranks / 2; i-- > 0;)
		sift_down(load, ranks, i);
	for (size_t i = 0; i < n; i++) {
		if (cut[i].step)
			continue;
		cut[i].first = load[0].rank;
		load[0].bytes += cut[i].bytes;
		sift_down(load, ranks, 0);
	}
	return 0;
}
