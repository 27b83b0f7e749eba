#include "config.h"

#include "base/mem.h"
#include "save/save_plan.h"
#include "tests/lib/sf_test.h"

#define RANKS_MAX 16
#define DIMS_MAX 4

/* What ranks bring, put together by hand. */
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

static struct sf_save_item *add(struct world *w, uint32_t rank, const char *key, unsigned ndim,
                                const uint64_t *shape, const uint64_t *origin,
                                const uint64_t *extent)
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

static struct sf_save_item *add_object(struct world *w, uint32_t rank, const char *key,
                                       uint64_t len, uint64_t hash)
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

static void release(struct world *w)
{
	for (uint32_t r = 0; r < w->nranks; r++) {
		sf_save_item_vec_release(&w->rank[r].item);
		sf_buf_release(&w->record[r]);
	}
	sf_arena_release(&w->arena);
}

static int plan(struct world *w, int dedup, struct sf_global_plan *g, struct sf_error *err)
{
	struct sf_save_record rec[RANKS_MAX];
	uint64_t hash;

	for (uint32_t r = 0; r < w->nranks; r++) {
		sf_buf_reset(&w->record[r]);
		ck_assert_int_eq(sf_save_plan_encode(&w->rank[r], &w->record[r], &hash, err), 0);
		rec[r] = (struct sf_save_record){ w->record[r].at, w->record[r].len };
	}
	return sf_save_plan_make(rec, w->nranks, dedup, g, err);
}

static void refused(struct world *w, int code, const char *message)
{
	struct sf_global_plan g = { .nkeys = 77 };
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(plan(w, SHARDFUSE_DEDUP_LOWEST, &g, &err), code);
	ck_assert_str_eq(err.msg, message);
	ck_assert_uint_eq(g.nkeys, 77);
	release(w);
}

START_TEST(rows_of_ranks_are_one_tensor_and_the_lowest_writes_what_all_have)
{
	struct world w = { .nranks = 4 };
	struct sf_global_plan g;
	struct sf_error err = SF_ERROR_INIT;
	const uint64_t shape[2] = { 8, 4 }, zero[2] = { 0, 0 };

	for (uint32_t r = 0; r < 4; r++) {
		const uint64_t origin[2] = { 2 * r, 0 }, extent[2] = { 2, 4 };
		add(&w, r, "model.w", 2, shape, origin, extent);
		add(&w, r, "model.norm", 2, shape, zero, shape)->requires_grad = true;
		add_object(&w, r, "step", 300, 5);
	}
	ck_assert_msg(plan(&w, SHARDFUSE_DEDUP_LOWEST, &g, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(g.nkeys, 3);
	ck_assert_uint_eq(g.nchunks, 6);
	ck_assert_str_eq(g.key[0].key, "model.w");
	ck_assert_uint_eq(g.key[0].nchunks, 4);
	for (uint32_t r = 0; r < 4; r++) {
		const uint64_t *box = g.coords + g.key[0].coord + 4 * r;
		ck_assert_uint_eq(g.rank[g.key[0].first + r], r);
		ck_assert_uint_eq(g.item[g.key[0].first + r], 0);
		ck_assert_uint_eq(box[0], 2 * r);
		ck_assert_uint_eq(box[1], 0);
		ck_assert_uint_eq(box[2], 2);
		ck_assert_uint_eq(box[3], 4);
		ck_assert_uint_eq(g.bits[g.bits_at[r]], r ? 1 : 7);
	}
	ck_assert(g.key[1].requires_grad && !g.key[0].requires_grad);
	ck_assert_uint_eq(g.key[2].kind, SF_SAVE_OBJECT);

	ck_assert_int_eq(sf_global_plan_layout(&g, 1, &err), 0);
	ck_assert_uint_eq(g.off[0], 0);
	ck_assert_uint_eq(g.off[4], 1088); /* 32 + 1000 bytes, to the next 64 */
	ck_assert_uint_eq(g.off[5], 1088 + 1152);
	ck_assert_uint_eq(g.off[1], 0);
	sf_global_plan_release(&g);
	release(&w);
}
END_TEST

START_TEST(a_hole_is_refused_with_its_place)
{
	struct world w = { .nranks = 3 };
	const uint64_t shape[2] = { 8, 4 }, extent[2] = { 2, 4 };

	for (uint32_t r = 0; r < 3; r++) {
		const uint64_t origin[2] = { r == 2 ? 6 : 2 * r, 0 };
		add(&w, r, "w", 2, shape, origin, extent);
	}
	refused(&w, -EINVAL,
	        "tensor 'w': no rank has element [4, 0] of [8, 4]; rank 1's box [2:4, 0:4] ends "
	        "before it, ranks 0 to 2 have boxes of it");
}
END_TEST

START_TEST(boxes_that_overlap_are_refused_with_both)
{
	struct world w = { .nranks = 3 };
	const uint64_t shape[1] = { 9 };

	for (uint64_t r = 0; r < 3; r++) {
		const uint64_t origin[1] = { 3 * r }, extent[1] = { r == 1 ? 4 : 3 };
		add(&w, (uint32_t)r, "w", 1, shape, origin, extent);
	}
	refused(&w, -EINVAL,
	        "tensor 'w': rank 1's box [3:7] and rank 2's [6:9] overlap at element [6]");
}
END_TEST

START_TEST(what_differs_between_ranks_is_refused)
{
	const uint64_t shape[1] = { 9 }, other[1] = { 8 }, zero[1] = { 0 };
	struct world w = { .nranks = 2 };

	add(&w, 0, "a.w", 1, shape, zero, shape);
	add(&w, 1, "a.w", 1, other, zero, other);
	refused(&w, -EINVAL, "tensor 'a.w': rank 0 has it with shape [9], rank 1 with [8]");

	w = (struct world){ .nranks = 2 };
	add(&w, 0, "w", 1, shape, zero, shape);
	add(&w, 1, "w", 1, shape, zero, shape)->dtype = SF_INT64;
	refused(&w, -EINVAL, "tensor 'w': rank 0 has it as float32, rank 1 as int64");

	w = (struct world){ .nranks = 2 };
	add(&w, 0, "w", 1, shape, zero, shape);
	add_object(&w, 1, "w", 9, 9);
	refused(&w, -EINVAL, "'w': rank 0 has a tensor of that key, rank 1 an object");

	w = (struct world){ .nranks = 2 };
	add_object(&w, 0, "step", 9, 9);
	add_object(&w, 1, "step", 9, 10);
	refused(&w, -EINVAL,
	        "object 'step': rank 0 has 9 bytes with hash 0000000000000009, rank 1 9 bytes with "
	        "000000000000000a");

	w = (struct world){ .nranks = 2 };
	refused(&w, -EINVAL, "nothing to save: none of 2 ranks has an item");
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("save_plan");
	TCase *t = tcase_create("save_plan");

	tcase_add_test(t, rows_of_ranks_are_one_tensor_and_the_lowest_writes_what_all_have);
	tcase_add_test(t, a_hole_is_refused_with_its_place);
	tcase_add_test(t, boxes_that_overlap_are_refused_with_both);
	tcase_add_test(t, what_differs_between_ranks_is_refused);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
