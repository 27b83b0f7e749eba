/* What ranks bring to a save, put together by hand. */
#ifndef SF_TESTS_LIB_SAVE_PLAN_WORLD_H
#define SF_TESTS_LIB_SAVE_PLAN_WORLD_H

#include "base/mem.h"
#include "save/save_plan.h"
#include "tests/lib/sf_test.h"

#define RANKS_MAX 16
#define DIMS_MAX 4

struct world {
	struct sf_arena arena;
	uint32_t nranks;
	struct sf_save_items rank[RANKS_MAX];
	struct sf_buf record[RANKS_MAX];
};

static uint64_t *dims(struct world *w, const uint64_t *v, unsigned n)
{
	uint64_t *at = sf_arena_alloc(&w->arena, n * sizeof(*at) + 8);

	if (n)
		memcpy(at, v, n * sizeof(*at));
	return at;
}

__attribute__((unused)) static struct sf_save_item *
add(struct world *w, uint32_t rank, const char *key, unsigned ndim, const uint64_t *shape,
    const uint64_t *origin, const uint64_t *extent)
{
	struct sf_save_item item = { .kind = SF_SAVE_TENSOR,
		                     .dtype = SF_FLOAT32,
		                     .ndim = (uint8_t)ndim,
		                     .key = sf_arena_strdup(&w->arena, key, strlen(key)),
		                     .key_len = (uint32_t)strlen(key),
		                     .shape = dims(w, shape, ndim),
		                     .origin = dims(w, origin, ndim),
		                     .extent = dims(w, extent, ndim) };

	item.bytes = 4;
	for (unsigned d = 0; d < ndim; d++)
		item.bytes *= extent[d];
	item.stored = item.bytes + 1000;
	ck_assert_int_eq(sf_save_item_vec_push(&w->rank[rank].item, item), 0);
	return &w->rank[rank].item.at[w->rank[rank].item.n - 1];
}

__attribute__((unused)) static struct sf_save_item *
add_object(struct world *w, uint32_t rank, const char *key, uint64_t len, uint64_t hash)
{
	struct sf_save_item item = { .kind = SF_SAVE_OBJECT,
		                     .key = sf_arena_strdup(&w->arena, key, strlen(key)),
		                     .key_len = (uint32_t)strlen(key),
		                     .bytes = len,
		                     .stored = len,
		                     .hash = hash };

	ck_assert_int_eq(sf_save_item_vec_push(&w->rank[rank].item, item), 0);
	return &w->rank[rank].item.at[w->rank[rank].item.n - 1];
}

__attribute__((unused)) static void release(struct world *w)
{
	for (uint32_t r = 0; r < w->nranks; r++) {
		sf_save_item_vec_release(&w->rank[r].item);
		sf_buf_release(&w->record[r]);
	}
	sf_arena_release(&w->arena);
}

static void encode(struct world *w)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t hash;

	for (uint32_t r = 0; r < w->nranks; r++) {
		sf_buf_reset(&w->record[r]);
		ck_assert_int_eq(sf_save_plan_encode(&w->rank[r], &w->record[r], &hash, &err), 0);
	}
}

__attribute__((unused)) static int plan(struct world *w, int dedup, struct sf_global_plan *g,
                                        struct sf_error *err)
{
	struct sf_save_record rec[RANKS_MAX];

	encode(w);
	for (uint32_t r = 0; r < w->nranks; r++)
		rec[r] = (struct sf_save_record){ w->record[r].at, w->record[r].len };
	return sf_save_plan_make(rec, w->nranks, dedup, g, err);
}

#endif
