#include "config.h"

#include <stdlib.h>

#include "catalog/catalog_slice.h"
#include "tree_world.h"

/* slices/: what each tensor-parallel rank has, against elements taken one by one. */

START_TEST(a_directory_a_rank)
{
	sf_node a, b;
	uint64_t bytes, more, files, fewer;
	struct sf_tree *t;
	struct vw w;

	ordinary(&w);
	t = tree_of(&w);
	sf_tree_totals(t, &bytes, &fewer);
	sf_tree_free(t);
	w.opt.slice_tp = 2;
	t = tree_of(&w);
	ck_list(t, "slices", "tp2/");
	ck_list(t, "slices/tp2", "rank0/|rank1/");
	ck_list(t, "slices/tp2/rank1", "model.safetensors");
	sf_tree_totals(t, &more, &files);
	ck_assert_uint_eq(files, fewer + 2);
	ck_assert_uint_eq(more, bytes);
	ck_assert_int_eq(sf_tree_walk(t, "slices/tp2/rank2", true, &a, NULL), -ENOENT);
	ck_assert_int_eq(sf_tree_walk(t, "slices/tp2/rank01", true, &a, NULL), -ENOENT);
	ck_assert_int_eq(sf_tree_walk(t, "slices/tp2/rank", true, &a, NULL), -ENOENT);
	ck_assert_int_eq(sf_tree_walk(t, "slices/tp4", true, &a, NULL), -ENOENT);
	vw_ok(sf_tree_walk(t, "slices/tp2/rank0/model.safetensors", true, &a, &err));
	vw_ok(sf_tree_walk(t, "slices/tp2/rank1/model.safetensors", true, &b, &err));
	ck_assert_uint_ne(sf_tree_ino(t, a), sf_tree_ino(t, b));
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

START_TEST(the_model_has_to_be_there)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_catalog *c;
	struct vw w;

	vw_init(&w);
	vw_flat(&w, "optimizer.x", 11);
	vw_split(&w, "optimizer.x", 11);
	vw_load(&w);
	w.opt.slice_tp = 2;
	ck_assert_int_eq(sf_catalog_new(w.ckpt, &w.opt, &c, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "no model"));
	vw_close(&w);
}
END_TEST

START_TEST(what_cannot_be_cut_is_named_with_both_numbers)
{
	static const uint64_t odd[2] = { 6, 7 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_catalog *c;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.o_proj.weight", SF_FLOAT32, 2, odd);
	vw_load(&w);
	w.opt.slice_tp = 2;
	ck_assert_int_eq(sf_catalog_new(w.ckpt, &w.opt, &c, &err), -EINVAL);
	ck_assert_msg(strstr(err.msg, "dimension 1 of 'model.o_proj.weight' has 7, which 2"), "%s",
	              err.msg);
	w.opt.join_rules = "* gated\n"; /* 6 rows: two halves of 3 */
	ck_assert_int_eq(sf_catalog_new(w.ckpt, &w.opt, &c, &err), -EINVAL);
	ck_assert_msg(strstr(err.msg, "has 6 in two halves"), "%s", err.msg);
	w.opt.join_rules = "*o_proj.weight copy\n";
	vw_open(&w);
	ck_assert_uint_eq(w.cat->slices->nwhy[SF_SLICE_COPY], 1);
	vw_close(&w);
}
END_TEST

/* Element by element: that of rank @r's part whose dense number is @i. */
static uint64_t element(const uint64_t *shape, unsigned ndim, unsigned axis, uint32_t ranks,
                        uint32_t r, bool halves, uint64_t i)
{
	uint64_t at[8], x = 0;

	for (unsigned d = ndim; d-- > 0;) {
		uint64_t n = d == axis ? shape[d] / ranks : shape[d];
		at[d] = i % n;
		i /= n;
	}
	if (halves) {
		uint64_t half = shape[axis] / 2, mine = half / ranks;
		at[axis] = at[axis] / mine * half + r * mine + at[axis] % mine;
	} else {
		at[axis] += r * (shape[axis] / ranks);
	}
	for (unsigned d = 0; d < ndim; d++)
		x = x * shape[d] + at[d];
	return x;
}

/* Of any shape, axis and number of ranks, in any number of chunks. */
START_TEST(a_ranks_part_is_every_element_that_is_its_own)
{
	uint64_t rnd = (uint64_t)_i * 7919 + 1, shape[4], n = 1, len;
	const unsigned ndim = 1 + (unsigned)sf_test_below(&rnd, 4),
		       axis = (unsigned)sf_test_below(&rnd, ndim);
	const uint32_t ranks = 1 + (uint32_t)sf_test_below(&rnd, 4);
	const bool halves = axis == 0 && sf_test_below(&rnd, 2);
	const enum sf_dtype dtype = sf_test_below(&rnd, 2) ? SF_FLOAT32 : SF_BFLOAT16;
	const uint64_t elem = sf_dtype_info(dtype)->bytes;
	char rule[32], path[64];
	sf_node node;
	struct vw w;

	for (unsigned d = 0; d < ndim; d++) {
		shape[d] = 1 + sf_test_below(&rnd, 5);
		if (d == axis)
			shape[d] *= (uint64_t)ranks * (halves ? 2 : 1);
		n *= shape[d];
	}
	vw_init(&w);
	vw_tensor_n(&w, "model.w", 7, dtype, ndim, shape, 1 + (uint32_t)sf_test_below(&rnd, 3));
	vw_split(&w, "model.w", 7);
	snprintf(rule, sizeof(rule), halves ? "* gated" : "* %u", axis);
	w.opt.slice_tp = ranks;
	w.opt.join_rules = rule;
	struct sf_tree *t = tree_of(&w);
	for (uint32_t r = 0; r < ranks; r++) {
		struct sf_vfile *f = NULL;
		snprintf(path, sizeof(path), "slices/tp%u/rank%u/model.safetensors", ranks, r);
		vw_ok(sf_tree_walk(t, path, true, &node, &err));
		vw_ok(sf_tree_open(t, node, &f, &err));
		vw_check_ranges(f, &rnd, 20);
		uint8_t *whole = vw_read(f, &len), *at = whole + len - n / ranks * elem;
		for (uint64_t i = 0; i < n / ranks; i++)
			ck_assert_mem_eq(
				at + i * elem,
				w.data.at + element(shape, ndim, axis, ranks, r, halves, i) * elem,
				elem);
		free(whole);
	}
	sf_tree_free(t);
	vw_close(&w);
}
END_TEST

START_TEST(along_what_dimension)
{
	static const uint64_t flat[2] = { 4, 4 }, stack[3] = { 2, 4, 4 }, one[1] = { 4 };
	static const struct {
		const char *name;
		unsigned ndim;
		const uint64_t *shape;
		uint32_t nchunks; /* of dimension 0 */
		int why, axis;
	} cases[] = {
		{ "model.unheard_of", 2, flat, 1, SF_SLICE_UNKNOWN, -1 },
		{ "model.unheard_of_too", 2, flat, 2, SF_SLICE_SAVED, 0 },
		{ "model.linear_proj.weight", 2, flat, 1, SF_SLICE_RULED, 1 },
		{ "model.a.linear_proj.weight", 2, flat, 4, SF_SLICE_SAVED, 0 },
		{ "model.layers.linear_proj.weight", 3, stack, 2, SF_SLICE_RULED, 2 },
		{ "model.layers.linear_qkv.weight", 3, stack, 2, SF_SLICE_RULED, 1 },
		{ "model.final_layernorm.weight", 1, one, 1, SF_SLICE_COPY, -1 },
		{ "model.linear_proj.bias", 1, one, 1, SF_SLICE_COPY, -1 },
		{ "model.x.linear_proj.weight", 1, one, 1, SF_SLICE_UNKNOWN, -1 },
	};
	struct vw w;

	vw_init(&w);
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		vw_tensor_n(&w, cases[i].name, strlen(cases[i].name), SF_FLOAT32, cases[i].ndim,
		            cases[i].shape, cases[i].nchunks);
		vw_split(&w, cases[i].name, strlen(cases[i].name));
	}
	w.opt.slice_tp = 2;
	vw_open(&w);
	for (uint32_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		const struct sf_slice_cut *cut = &w.cat->slices->cut[i];
		ck_assert_msg(cut->why == cases[i].why, "%s: %u", cases[i].name, cut->why);
		ck_assert_msg((cut->run == 0) == (cases[i].axis < 0), "%s", cases[i].name);
		if (cases[i].axis >= 0)
			ck_assert_msg(cut->axis == cases[i].axis, "%s: %u", cases[i].name,
			              cut->axis);
	}
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("tree_slices");
	TCase *tc = tcase_create("slices");

	tcase_add_test(tc, a_directory_a_rank);
	tcase_add_test(tc, the_model_has_to_be_there);
	tcase_add_test(tc, what_cannot_be_cut_is_named_with_both_numbers);
	tcase_add_loop_test(tc, a_ranks_part_is_every_element_that_is_its_own, 0, 60);
	tcase_add_test(tc, along_what_dimension);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
