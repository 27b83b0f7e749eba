#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "save/save_plan.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define RANKS_MAX 64

/* The records, one after another: each says how long it is. */
static uint32_t split(const uint8_t *data, size_t size, struct sf_save_record *rec)
{
	uint32_t n = 0;

	while (size && n < RANKS_MAX) {
		uint64_t len = size;
		if (size >= 32 && n + 1 < RANKS_MAX) {
			uint64_t a = sf_le64(data + 8), b = sf_le64(data + 16),
				 c = sf_le64(data + 24);
			if (a < size && b < size && c < size && 32 + a + b + c < size)
				len = 32 + a + b + c;
		}
		rec[n++] = (struct sf_save_record){ data, (size_t)len };
		data += len;
		size -= (size_t)len;
	}
	return n;
}

/* Its chunks are inside, have its volume together, and each is an item of a rank that writes it. */
static void check_key(const struct sf_global_plan *g, const struct sf_global_key *k)
{
	uint64_t volume = 1, sum = 0;

	if (!k->nchunks || k->first > g->nchunks || k->nchunks > g->nchunks - k->first)
		abort();
	for (unsigned d = 0; d < k->ndim; d++)
		volume *= k->shape[d];
	for (uint64_t c = k->first; c < k->first + k->nchunks; c++) {
		const uint64_t *box = g->coords + k->coord + 2 * k->ndim * (c - k->first);
		uint64_t n = 1;

		for (unsigned d = 0; d < k->ndim; n *= box[k->ndim + d++])
			if (box[d] + box[k->ndim + d] > k->shape[d])
				abort();
		sum += n;
		if (g->rank[c] >= g->nranks || g->item[c] >= g->rank_items[g->rank[c]] ||
		    !(g->bits[g->bits_at[g->rank[c]] + g->item[c] / 8] >> g->item[c] % 8 & 1))
			abort();
	}
	if (k->kind == SF_SAVE_OBJECT ? k->nchunks != 1 : volume && sum != volume)
		abort();
}

/* What ranks may send to rank 0: planned, or refused with a message. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sf_save_record rec[RANKS_MAX];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_global_plan g;
	uint32_t n = split(data, size, rec);
	int r = sf_save_plan_make(rec, n, size & 1, &g, &err);

	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	if (r < 0)
		return 0;
	for (uint64_t k = 0; k < g.nkeys; k++)
		check_key(&g, &g.key[k]);
	r = sf_global_plan_layout(&g, 1 + size % 3, &err);
	if ((r < 0) != (err.msg[0] != '\0') || (r < 0 && r != -E2BIG && r != -ENOMEM))
		abort();
	sf_global_plan_release(&g);
	return 0;
}
