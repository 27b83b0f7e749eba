#include "config.h"

#include <stdlib.h>

#include "sf_test.h"
#include "tool/reshard_plan.h"

#define TENSORS 200

static uint64_t seed;

static uint64_t next(uint64_t n)
{
	seed ^= seed << 13;
	seed ^= seed >> 7;
	seed ^= seed << 17;
	return seed % n;
}

static void make(struct sf_reshard_cut *cut, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t rows = next(4) ? next(3000) : next(20);
		cut[i] = (struct sf_reshard_cut){ .rows = rows,
			                          .bytes = rows ? rows * 4 * next(500) : 8 };
	}
}

/* Property: the ranks' rows, put one behind the other, are all rows, each once; few ranks have much more
 * than others. */
START_TEST(each_row_is_one_ranks)
{
	const uint32_t ranks = (uint32_t[]){ 1, 2, 3, 7, 8, 64, 1024 }[_i];
	struct sf_reshard_cut cut[TENSORS];
	uint64_t *load = calloc(ranks, sizeof(*load)), at, n;

	seed = sf_test_seed("each_row_is_one_ranks") | 1;
	make(cut, TENSORS);
	ck_assert_int_eq(sf_reshard_plan(cut, TENSORS, ranks), 0);
	for (size_t i = 0; i < TENSORS; i++) {
		uint8_t *seen = calloc(cut[i].rows + 1, 1);
		uint32_t owners = 0;
		for (uint32_t r = 0; r < ranks; r++) {
			if (!sf_reshard_rows(&cut[i], r, ranks, &at, &n))
				continue;
			owners++;
			ck_assert_uint_le(at + n, cut[i].rows);
			load[r] += cut[i].rows ? cut[i].bytes / cut[i].rows * n : cut[i].bytes;
			for (uint64_t k = at; k < at + n; k++)
				seen[k]++;
		}
		bool once = true;
		for (uint64_t k = 0; k < cut[i].rows; k++)
			once &= seen[k] == 1;
		ck_assert(once);
		ck_assert_uint_ge(owners, 1);
		if (!cut[i].step)
			ck_assert_uint_eq(owners, 1);
		free(seen);
	}
	uint64_t total = 0, most = 0;
	for (uint32_t r = 0; r < ranks; r++) {
		total += load[r];
		most = load[r] > most ? load[r] : most;
	}
	if (ranks <= 8)
		ck_assert_uint_le(most, total / ranks * 5 / 4 + 4096);
	free(load);
}
END_TEST

START_TEST(rows_are_cut_as_torch_chunk_cuts_them)
{
	struct sf_reshard_cut c = { .rows = 10, .bytes = 10 * 4096 };
	const uint64_t want[4][2] = { { 0, 3 }, { 3, 3 }, { 6, 3 }, { 9, 1 } };
	uint64_t at, n;

	ck_assert_int_eq(sf_reshard_plan(&c, 1, 4), 0);
	for (uint32_t r = 0; r < 4; r++) {
		ck_assert(sf_reshard_rows(&c, r, 4, &at, &n));
		ck_assert_uint_eq(at, want[r][0]);
		ck_assert_uint_eq(n, want[r][1]);
	}
	c = (struct sf_reshard_cut){ .rows = 9, .bytes = 9 * 4096 };
	ck_assert_int_eq(sf_reshard_plan(&c, 1, 8), 0);
	ck_assert(sf_reshard_rows(&c, 4, 8, &at, &n) && at == 8 && n == 1);
	ck_assert(!sf_reshard_rows(&c, 5, 8, &at, &n)); /* torch.chunk makes 5 of them, too */
}
END_TEST

START_TEST(tensors_of_few_rows_take_turns)
{
	struct sf_reshard_cut c[4];
	uint64_t at, n;

	for (unsigned i = 0; i < 4; i++)
		c[i] = (struct sf_reshard_cut){ .rows = 3, .bytes = 3 << 20 };
	ck_assert_int_eq(sf_reshard_plan(c, 4, 4), 0);
	for (unsigned i = 0; i < 4; i++)
		ck_assert_uint_eq(c[i].first, i * 3 % 4);
	ck_assert(sf_reshard_rows(&c[1], 1, 4, &at, &n) && at == 2 && n == 1);
	ck_assert(!sf_reshard_rows(&c[1], 2, 4, &at, &n));
}
END_TEST

/* 10^5 tensors of 14 MB for 1,024 ranks: their slices would be 10^8. */
START_TEST(there_are_about_a_million_pieces_at_most)
{
	enum { MANY = 100000 };
	struct sf_reshard_cut *c = malloc(MANY * sizeof(*c));
	uint64_t pieces = 0;

	for (unsigned i = 0; i < MANY; i++)
		c[i] = (struct sf_reshard_cut){ .rows = 4096, .bytes = 14 << 20 };
	ck_assert_int_eq(sf_reshard_plan(c, MANY, 1024), 0);
	for (unsigned i = 0; i < MANY; i++)
		pieces += c[i].step ? 4096 / c[i].step : 1;
	ck_assert_uint_le(pieces, (1 << 20) + MANY);
	free(c);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("reshard_plan");
	TCase *t = tcase_create("reshard_plan");

	tcase_add_loop_test(t, each_row_is_one_ranks, 0, 7);
	tcase_add_test(t, rows_are_cut_as_torch_chunk_cuts_them);
	tcase_add_test(t, tensors_of_few_rows_take_turns);
	tcase_add_test(t, there_are_about_a_million_pieces_at_most);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
