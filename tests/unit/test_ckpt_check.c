#include "config.h"

#include "base/mem.h"
#include "ckpt/box.h"
#include "ckpt/ckpt_check.h"
#include "ckpt/ckpt_cover.h"
#include "ckpt/ckpt_order.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/sf_test_chunks.h"

/* Is every coordinate cut where one chunk is, and is each cell one chunk? Told by looking at all
 * pairs. */
static bool is_grid(const struct tc_tensor *t)
{
	uint64_t cells = 1, n = 0;

	for (size_t i = 0; i < t->n; i++)
		n += t->chunk[i].part_len > 0;
	for (unsigned d = 0; d < t->ndim; d++) {
		uint64_t starts = 0;
		for (uint64_t x = 0; x < t->shape[d]; x++) {
			uint64_t extent = 0;
			for (size_t i = 0; i < t->n; i++) {
				const struct tc_chunk *c = &t->chunk[i];
				if (!c->part_len || c->origin[d] != x)
					continue;
				if (extent && extent != c->extent[d])
					return false;
				extent = c->extent[d];
			}
			starts += extent > 0;
		}
		cells *= starts;
	}
	return n && cells == n;
}

START_TEST(flags_say_exactly_what_looking_at_every_element_says)
{
	uint64_t seed = sf_test_seed("flags");
	static struct tc_tensor t;

	for (int round = 0; round < 300; round++) {
		tc_random(&t, &seed, (enum tc_kind)(_i / 2), 200, _i % 2);
		struct sf_ckpt *ckpt = tc_ckpt(&t);
		const struct sf_tensor *st = &ckpt->tensor[0];
		uint64_t hole = UINT64_MAX, missing = 0, budget = UINT64_C(1) << 30;
		bool overlap = false, parts = st->part != NULL;
		struct sf_coverage cover;

		for (uint64_t x = 0; x < t.numel; x++) {
			unsigned n = 0;
			for (size_t i = 0; i < t.n; i++)
				n += tc_item_index(&t, &t.chunk[i], x) >= 0;
			overlap |= n > 1;
			missing += n == 0;
			if (n == 0 && hole == UINT64_MAX)
				hole = x;
		}
		ck_assert_int_eq(!!(st->flags & SF_TENSOR_OVERLAP), overlap);
		ck_assert_int_eq(!!(st->flags & SF_TENSOR_HOLE), hole != UINT64_MAX);
		if (!parts)
			ck_assert_int_eq(!!(st->flags & SF_TENSOR_GRID),
			                 !overlap && hole == UINT64_MAX && is_grid(&t));
		ck_assert_int_eq(sf_check_cover(st, &budget, &cover), 0);
		ck_assert_int_eq(cover.flags, st->flags);
		if (cover.flags & SF_TENSOR_HOLE)
			ck_assert_uint_eq(cover.hole, hole);
		if (cover.flags & SF_TENSOR_HOLE && !overlap)
			ck_assert_uint_eq(cover.missing, missing);
		if (overlap) { /* the two that are named do share an element */
			bool shared = false;
			ck_assert_uint_lt(cover.a, cover.b);
			for (uint64_t x = 0; x < t.numel; x++)
				shared |= tc_item_index(&t, &t.chunk[cover.a], x) >= 0 &&
				          tc_item_index(&t, &t.chunk[cover.b], x) >= 0;
			ck_assert(shared);
		}
		sf_ckpt_free(ckpt);
	}
}
END_TEST

/* A checkpoint of one uint8 tensor of @shape whose chunks are @box: origin, then extent, of each. */
static struct sf_ckpt *of_boxes(const uint64_t *shape, unsigned ndim, const uint64_t *box, size_t n)
{
	static struct tc_tensor t;

	t = (struct tc_tensor){ .ndim = ndim, .dtype = SF_UINT8, .elem = 1 };
	memcpy(t.shape, shape, ndim * sizeof(*shape));
	for (size_t i = 0; i < n; i++)
		tc_add(&t, box + 2 * ndim * i, box + 2 * ndim * i + ndim);
	return tc_ckpt(&t);
}

#define WHOLE (SF_TENSOR_HOLE | SF_TENSOR_OVERLAP | SF_TENSOR_GRID)

/* The cell that no axis passes: its own box says whether this is a grid. */
START_TEST(a_cell_off_the_axes_counts_too)
{
	const uint64_t shape[2] = { 4, 6 };
	uint64_t box[4][4] = { { 0, 0, 2, 3 }, { 0, 3, 2, 3 }, { 2, 0, 2, 3 }, { 2, 3, 2, 3 } };
	struct sf_ckpt *ckpt;

	ckpt = of_boxes(shape, 2, box[0], 4);
	ck_assert_int_eq(ckpt->tensor[0].flags & WHOLE, SF_TENSOR_GRID);
	sf_ckpt_free(ckpt);

	box[3][2] = 1; /* a row short */
	ckpt = of_boxes(shape, 2, box[0], 4);
	ck_assert_int_eq(ckpt->tensor[0].flags & WHOLE, SF_TENSOR_HOLE);
	sf_ckpt_free(ckpt);

	memcpy(box[3], box[2], sizeof(box[3])); /* the cell beside it, again */
	ckpt = of_boxes(shape, 2, box[0], 4);
	ck_assert_int_eq(ckpt->tensor[0].flags & WHOLE, SF_TENSOR_HOLE | SF_TENSOR_OVERLAP);
	sf_ckpt_free(ckpt);

	memcpy(box[3], (uint64_t[]){ 2, 2, 2, 3 },
	       sizeof(box[3])); /* of the right size, a column off */
	ckpt = of_boxes(shape, 2, box[0], 4);
	ck_assert_int_eq(ckpt->tensor[0].flags & WHOLE, SF_TENSOR_HOLE | SF_TENSOR_OVERLAP);
	sf_ckpt_free(ckpt);
}
END_TEST

/* Of a box of six, [0, 4) and [2, 4): six elements in sum. */
START_TEST(parts_that_overlap_do_not_tile_by_their_sum)
{
	static struct tc_tensor t = {
		.ndim = 1, .shape = { 6 }, .numel = 6, .dtype = SF_UINT8, .elem = 1, .parts = true
	};
	struct sf_coverage cover;
	uint64_t budget = 1 << 20;
	struct sf_ckpt *ckpt;

	for (int i = 0; i < 2; i++)
		tc_add(&t, (uint64_t[]){ 0 }, (uint64_t[]){ 6 });
	t.chunk[0].part_len = 4;
	t.chunk[1].part_off = 2;
	t.chunk[1].part_len = 2;
	ckpt = tc_ckpt(&t);
	ck_assert_int_eq(ckpt->tensor[0].flags & WHOLE, SF_TENSOR_HOLE | SF_TENSOR_OVERLAP);
	ck_assert_int_eq(sf_check_cover(&ckpt->tensor[0], &budget, &cover), 0);
	ck_assert_uint_eq(cover.hole, 4);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(a_check_without_budget_never_calls_a_broken_tensor_whole)
{
	uint64_t seed = sf_test_seed("budget");
	static struct tc_tensor t;
	int gave_up = 0;

	for (int round = 0; round < 300; round++) {
		tc_random(&t, &seed, (enum tc_kind)(round % TC_NKINDS), 200, true);
		struct sf_ckpt *ckpt = tc_ckpt(&t);
		const struct sf_tensor *st = &ckpt->tensor[0];
		struct sf_coverage cover;
		uint64_t budget = sf_test_below(&seed, 6);

		ck_assert_int_eq(sf_check_cover(st, &budget, &cover), 0);
		ck_assert_int_eq(cover.flags & st->flags, st->flags); /* more at most */
		if (!(st->flags & (SF_TENSOR_HOLE | SF_TENSOR_OVERLAP)))
			ck_assert_int_eq(cover.flags, st->flags);
		gave_up += cover.flags != st->flags;
		sf_ckpt_free(ckpt);
	}
	ck_assert_int_gt(gave_up, 0);
}
END_TEST

/* Corners and slabs are two ways to one answer. */
START_TEST(corners_and_sweep_agree_on_random_boxes)
{
	uint64_t seed = sf_test_seed("corners");

	for (int round = 0; round < 2000; round++) {
		uint64_t shape[3], at[64 * 6], hole_at[3], zero[3] = { 0 }, budget = 1 << 20;
		struct sf_boxes b = { .ndim = 1 + (unsigned)sf_test_below(&seed, 3), .at = at };
		struct sf_cover cover;
		uint64_t *put = at;
		bool hole;

		for (unsigned d = 0; d < b.ndim; d++)
			shape[d] = 2 + sf_test_below(&seed, 3);
		for (b.n = 0; b.n < sf_test_below(&seed, 12); b.n++) {
			for (unsigned d = 0; d < b.ndim; d++) {
				put[d] = sf_test_below(&seed, 2) * sf_test_below(&seed, shape[d]);
				put[b.ndim + d] =
					put[d] + 1 + sf_test_below(&seed, shape[d] - put[d]);
			}
			put += 2 * b.ndim;
		}
		int tiles = sf_cover_corners(&b, shape, &hole, hole_at);
		ck_assert_int_ge(tiles, 0);
		ck_assert_int_eq(sf_cover_sweep(&b, zero, shape, true, &budget, &cover), 0);
		ck_assert_int_eq(tiles == 1, !cover.hole && !cover.overlap);
		if (tiles == 0 && hole)
			ck_assert_mem_eq(cover.hole_at, hole_at, b.ndim * sizeof(*hole_at));
		if (tiles == 0 && !hole)
			ck_assert(cover.overlap);
	}
}
END_TEST

START_TEST(the_radix_sort_orders_the_upper_bits_and_keeps_the_rest_in_place)
{
	uint64_t seed = sf_test_seed("sort");
	static uint64_t at[5000], tmp[5000];

	for (int round = 0; round < 200; round++) {
		unsigned shift = (unsigned)sf_test_below(&seed, 20) + 13;
		size_t n = sf_test_below(&seed, round % 2 ? 60 : 5000);
		uint64_t mask = sf_test_rand(&seed) | sf_test_rand(&seed);
		for (size_t i = 0; i < n; i++) /* the lower bits number them */
			at[i] = (sf_test_rand(&seed) & mask) >> shift << shift | i;
		sf_sort_u64(at, tmp, n, shift);
		for (size_t i = 1; i < n; i++)
			ck_assert_msg(at[i - 1] < at[i], "element %zu of %zu", i, n);
	}
}
END_TEST

/* Tall columns on the left, flat rows on the right: slabs alone would be quadratic and run into
 * Check's limit for a test. Also 3-d blocks that are no grid. */
START_TEST(a_million_tangled_chunks_are_checked_in_seconds)
{
	const uint64_t n = 400000, shape[2] = { n, n + 7 };
	struct sf_ckpt_builder *b;
	struct sf_ckpt *ckpt;
	struct sf_error err = SF_ERROR_INIT;
	uint32_t id;

	ck_assert_int_eq(sf_ckpt_builder_new("test", "memory", &b, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_tensor(b, "w", 1, SF_UINT8, shape, 2, &id, &err), 0);
	for (uint64_t i = 0; i < n; i++)
		ck_assert_int_eq(
			sf_ckpt_builder_chunk(b, (uint64_t[]){ 0, i }, (uint64_t[]){ n, 1 }, &err),
			0);
	for (uint64_t i = 0; i < n; i++)
		if (_i == 0 || i != n / 2) /* 1: with a hole, which is named although there is no
		                              time to sweep */
			ck_assert_int_eq(sf_ckpt_builder_chunk(b, (uint64_t[]){ i, n },
			                                       (uint64_t[]){ 1, 7 }, &err),
			                 0);
	ck_assert_int_eq(sf_ckpt_builder_finish(b, &ckpt, &err), 0);
	ck_assert_int_eq(ckpt->tensor[0].flags & SF_TENSOR_HOLE, _i ? SF_TENSOR_HOLE : 0);
	if (_i == 0)
		ck_assert_int_eq(ckpt->tensor[0].flags & (SF_TENSOR_GRID | SF_TENSOR_OVERLAP), 0);
	bool named = _i == 0;
	for (uint32_t i = 0; i < ckpt->nwarnings; i++)
		named |= strstr(ckpt->warning[i].text, "[200000, 400000]") != NULL;
	ck_assert(named);
	sf_ckpt_free(ckpt);
}
END_TEST

START_TEST(items_are_held_against_their_files)
{
	struct sf_file file[2] = { { .name = "a", .info.size = 100 },
		                   { .name = "b", .missing = true } };
	struct sf_place place[4] = { { 0, SF_ITEM_TORCH, 0 },
		                     { 1, SF_ITEM_TORCH, 0 },
		                     { 0, SF_ITEM_ST_BLOB, 0 },
		                     { 0, SF_ITEM_RAW, 0 } };
	struct sf_ckpt ckpt = { .file = file, .nfiles = 2, .place = place };
	struct sf_item_check c;
	char text[SF_ERROR_MAX];
	const struct {
		uint32_t place;
		uint64_t off, len, want;
		const char *code;
	} cases[] = {
		{ 0, 0, 100, 0, NULL },
		{ 0, 100, 0, 0, NULL },
		{ 0, 1, 100, 0, "truncated-file" },
		{ 0, 101, 0, 0, "truncated-file" },
		{ 0, UINT64_MAX, 2, 0, "truncated-file" },
		{ 0, 2, UINT64_MAX, 0, "truncated-file" },
		{ 1, 0, 1, 0, "missing-file" },
		{ 2, 99, 5000, 0, NULL },
		{ 2, 100, 1, 0, "truncated-file" },
		{ 2, UINT64_MAX, 1, 0, "truncated-file" },
		{ 3, 0, 40, 40, NULL },
		{ 3, 0, 39, 40, "short-item" },
		{ SF_NONE, 0, 0, 0, "missing-item" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		bool good = sf_check_item(&ckpt, cases[i].place, cases[i].off, cases[i].len,
		                          cases[i].want, &c);
		ck_assert_msg(good == !cases[i].code, "case %zu", i);
		if (good)
			continue;
		ck_assert_str_eq(c.code, cases[i].code);
		sf_check_item_text(&c, cases[i].off, cases[i].len, text);
		ck_assert_uint_gt(strlen(text), 10);
	}
	sf_check_item(&ckpt, 0, 64, 50, 0, &c);
	sf_check_item_text(&c, 64, 50, text);
	ck_assert_msg(strstr(text, "'a'") && strstr(text, " 100 ") && strstr(text, " 64 ") &&
	                      strstr(text, "114"),
	              "%s", text);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ckpt_check");
	TCase *tc = tcase_create("ckpt_check");

	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, flags_say_exactly_what_looking_at_every_element_says, 0,
	                    2 * TC_NKINDS);
	tcase_add_test(tc, a_cell_off_the_axes_counts_too);
	tcase_add_test(tc, parts_that_overlap_do_not_tile_by_their_sum);
	tcase_add_test(tc, a_check_without_budget_never_calls_a_broken_tensor_whole);
	tcase_add_test(tc, corners_and_sweep_agree_on_random_boxes);
	tcase_add_test(tc, the_radix_sort_orders_the_upper_bits_and_keeps_the_rest_in_place);
	tcase_add_test(tc, items_are_held_against_their_files);
	suite_add_tcase(s, tc);
	tc = tcase_create("real size"); /* CK_RUN_CASE picks one: many seeds need not repeat this */
	tcase_set_timeout(tc, 60);
	tcase_add_loop_test(tc, a_million_tangled_chunks_are_checked_in_seconds, 0, 2);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
