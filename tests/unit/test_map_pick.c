#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "catalog/map_file.h"
#include "catalog/map_pick.h"
#include "ckpt/ckpt_pick.h"
#include "tests/lib/view_world.h"

/* Rules that show parts of tensors: what they may say, and the bytes of the parts. */

struct rules {
	struct sf_map_rule *at;
	size_t n;
};

static int add(struct rules *r, const char *value, struct sf_error *err)
{
	return sf_map_rules_add(value, &r->at, &r->n, err);
}

START_TEST(brackets_make_parts)
{
	static const struct {
		const char *rule, *whole, *old;
		bool stacked;
		uint64_t from, to, of, groups;
	} cases[] = {
		{ "a.b[*]=c.*", "a.b", "a.b.*", true, 0, 0, 0, 0 },
		{ "a.b[2:5]=c", "a.b", "a.b.[2:5]", false, 2, 5, 0, 0 },
		{ "a.b[0:1 of 2]=c", "a.b", "a.b.[0:1 of 2]", false, 0, 1, 2, 1 },
		{ "a.b[0:4 of 6 in 8]=c", "a.b", "a.b.[0:4 of 6 in 8]", false, 0, 4, 6, 8 },
		{ "a.b[*][1:2 of 2]=c.*", "a.b", "a.b.*.[1:2 of 2]", true, 1, 2, 2, 1 },
		{ "a.*.b[1:2 of 2]=c.*", "a.*.b", "a.*.b.[1:2 of 2]", false, 1, 2, 2, 1 },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct rules r = { 0 };
		vw_ok(add(&r, cases[i].rule, &err));
		ck_assert_str_eq(r.at->whole, cases[i].whole);
		ck_assert_str_eq(r.at->old_name, cases[i].old);
		ck_assert(r.at->stacked == cases[i].stacked);
		ck_assert_uint_eq(r.at->from, cases[i].from);
		ck_assert_uint_eq(r.at->to, cases[i].to);
		ck_assert_uint_eq(r.at->of, cases[i].of);
		ck_assert_uint_eq(r.at->groups, cases[i].groups);
		sf_map_rules_free(r.at, r.n);
	}
}
END_TEST

START_TEST(other_brackets_are_a_name)
{
	static const char *const names[] = {
		"a[0]",      "a[b]",           "a[]",     "[",          "]",
		"a[0:1 of]", "a[0:1 of 2 in]", "a[-1:2]", "a[0:1 of 2", "a[0:1 of 2]b"
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		struct sf_map_rule rule = { 0 };
		vw_ok(sf_map_pick_parse(names[i], strlen(names[i]), &rule, &err));
		ck_assert_ptr_null(rule.whole);
		ck_assert_str_eq(rule.old_name, names[i]);
		free((void *)rule.old_name);
	}
}
END_TEST

START_TEST(parts_that_cannot_be_are_refused)
{
	static const char *const bad[] = { "a[2:2]=b",      "a[3:2]=b",           "a[0:3 of 2]=b",
		                           "a[0:1 of 0]=b", "a[0:1 of 2 in 0]=b", "a.*.b[*]=c" };

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct rules r = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_msg(add(&r, bad[i], &err) == -EINVAL && *err.msg, "%s", bad[i]);
		sf_map_rules_free(r.at, r.n);
	}
}
END_TEST

/* The number in the whole of element @i of a part, of @rows and @inner. */
static uint64_t element(const struct sf_tensor_pick *of, uint64_t rows, uint64_t inner, uint64_t i)
{
	uint64_t row = i / inner;

	if (of->rows)
		row = row / of->rows * of->period + of->first + row % of->rows;
	return ((of->stacked ? of->index * rows : 0) + row) * inner + i % inner;
}

struct boxes {
	uint32_t tensor;
	struct sf_read_box box;
};

static int emit_box(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	const struct boxes *b = arg;

	(void)off, (void)len, (void)err;
	return sf_parts_box(p, b->tensor, &b->box, SF_DTYPE_NONE);
}

/* Any box of the part, to places the other way round in its last dimension. */
static void check_box(struct vw *w, uint32_t part, const struct sf_tensor_pick *of, uint64_t rows,
                      uint64_t inner, uint64_t *rnd)
{
	const struct sf_tensor *t = &w->ckpt->tensor[part];
	uint64_t origin[2], extent[2];
	uint16_t got[4096];

	for (unsigned d = 0; d < 2; d++) {
		origin[d] = sf_test_below(rnd, t->shape[d]);
		extent[d] = 1 + sf_test_below(rnd, t->shape[d] - origin[d]);
	}
	const int64_t stride[2] = { (int64_t)extent[1] * 2, -2 };
	struct boxes b = { part, { origin, extent, got + extent[1] - 1, stride } };
	struct sf_read rd = {
		.emit = emit_box, .arg = &b, .len = extent[0] * extent[1] * 2, .buf = got
	};
	ck_assert_msg(sf_read_wait(w->reader, &rd) == 0, "%s", rd.err.msg);
	sf_read_release(&rd);
	for (uint64_t y = 0; y < extent[0]; y++)
		for (uint64_t x = 0; x < extent[1]; x++)
			ck_assert_mem_eq(
				&got[y * extent[1] + extent[1] - 1 - x],
				w->data.at + 2 * element(of, rows, inner,
			                                 (origin[0] + y) * inner + origin[1] + x),
				2);
}

/* Of tensors of any shape in any number of chunks: ranges and boxes against elements one by one. */
START_TEST(a_part_has_the_bytes_of_its_rows)
{
	uint64_t rnd = (uint64_t)_i * 104729 + 3;
	const bool stacked = sf_test_below(&rnd, 2), has_rows = sf_test_below(&rnd, 4);
	const uint64_t parts = 1 + sf_test_below(&rnd, 4), unit = 1 + sf_test_below(&rnd, 3),
		       groups = 1 + sf_test_below(&rnd, 3), from = sf_test_below(&rnd, parts),
		       to = from + 1 + sf_test_below(&rnd, parts - from),
		       rows = parts * unit * groups, inner = 1 + sf_test_below(&rnd, 5),
		       stack = 1 + sf_test_below(&rnd, 3);
	const uint64_t shape[3] = { stack, rows, inner };
	struct rules r = { 0 };
	char rule[100], range[50] = "";
	struct vw w;

	if (has_rows)
		snprintf(range, sizeof(range), "[%d:%d of %d in %d]", (int)from, (int)to,
		         (int)parts, (int)groups);
	snprintf(rule, sizeof(rule), "w%s%s=v.*", stacked || !has_rows ? "[*]" : "", range);
	const unsigned lead = stacked || !has_rows ? 1 : 0;
	vw_init(&w);
	vw_tensor_n(&w, "u", 1, SF_FLOAT16, 1, &inner, 1); /* before it, and behind */
	w.data.len = 0;
	vw_tensor_n(&w, "w", 1, SF_FLOAT16, 2 + lead, shape + 1 - lead,
	            1 + (uint32_t)sf_test_below(&rnd, 3));
	vw_flat(&w, "z", 1);
	vw_load(&w);
	vw_ok(add(&r, rule, &err));
	w.opt.map = r.at;
	w.opt.nmap = r.n;
	vw_ok(sf_map_picks(w.ckpt, &w.opt, &err));
	sf_reader_free(w.reader);
	vw_ok(sf_reader_new(w.ckpt, w.store, &w.reader, &err));
	vw_open(&w);
	ck_assert_uint_eq(w.cat->n, 2 + (lead ? stack : 1));
	for (uint32_t i = 3; i < w.ckpt->ntensors; i++) {
		const struct sf_tensor *t = &w.ckpt->tensor[i];
		const struct sf_tensor_pick *of = t->more->pick;
		uint16_t one;
		ck_assert_uint_eq(of->index, i - 3);
		ck_assert_uint_eq(t->shape[0], has_rows ? (to - from) * unit * groups : rows);
		ck_assert_uint_eq(t->bytes, t->shape[0] * inner * 2);
		for (uint64_t k = 0; k < t->bytes / 2; k++) {
			vw_ok(sf_read_tensor(w.reader, i, 2 * k, &one, 2, &err));
			ck_assert_mem_eq(&one, w.data.at + 2 * element(of, rows, inner, k), 2);
		}
		uint8_t *all = malloc(t->bytes), *some = malloc(t->bytes);
		vw_ok(sf_read_tensor(w.reader, i, 0, all, t->bytes, &err));
		for (int k = 0; k < 20; k++) {
			uint64_t off = sf_test_below(&rnd, t->bytes),
				 n = 1 + sf_test_below(&rnd, t->bytes - off);
			vw_ok(sf_read_tensor(w.reader, i, off, some, n, &err));
			ck_assert_mem_eq(some, all + off, n);
			check_box(&w, i, of, rows, inner, &rnd);
		}
		free(all);
		free(some);
	}
	vw_close(&w);
	sf_map_rules_free(r.at, r.n);
}
END_TEST

START_TEST(keys_keep_their_order_and_what_is_not_there_is_named)
{
	static const uint64_t shape[2] = { 2, 6 };
	struct sf_error why = SF_ERROR_INIT;
	struct rules r = { 0 };
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, shape);
	vw_object(&w, "model.o");
	vw_tensor(&w, "model.b", SF_FLOAT32, 2, shape);
	vw_load(&w);
	vw_ok(add(&r, "model.a[*]=model.x.*", &err));
	w.opt.map = r.at;
	w.opt.nmap = r.n;
	vw_ok(sf_map_picks(w.ckpt, &w.opt, &err));
	vw_open(&w);
	ck_assert_uint_eq(w.cat->n, 4);
	ck_assert_str_eq(w.cat->entry[0].name, "model.x.0");
	ck_assert_str_eq(w.cat->entry[1].name, "model.x.1");
	ck_assert_str_eq(w.cat->entry[2].name, "model.o");
	ck_assert_str_eq(w.cat->entry[3].name, "model.b");
	ck_assert_uint_eq(w.cat->nmain, 4);
	ck_assert_uint_eq(w.ckpt->group[0].ntensors, 3);
	ck_assert_str_eq(w.ckpt->key[w.ckpt->object[0].key].name, "model.o");
	vw_ok(add(&r, "model.b[0:1 of 4]=y", &err));
	w.opt.map = r.at;
	w.opt.nmap = r.n;
	ck_assert_int_eq(sf_map_picks(w.ckpt, &w.opt, &why), -EINVAL);
	ck_assert_msg(strstr(why.msg, "'model.b' has 2 rows"), "%s", why.msg);
	vw_close(&w);
	sf_map_rules_free(r.at, r.n);
}
END_TEST

START_TEST(what_has_no_rows_has_no_parts)
{
	static const char *const rule[] = { "w[0:1]=x", "w[0:1 of 2]=x", "w[0:1 of 2 in 3]=x" };
	static const uint64_t shape[2] = { 0, 6 };

	for (size_t i = 0; i < SF_ARRAY_LEN(rule); i++) {
		struct sf_error why = SF_ERROR_INIT;
		struct rules r = { 0 };
		struct vw w;

		vw_init(&w);
		vw_tensor(&w, "w", SF_FLOAT32, 2, shape);
		vw_load(&w);
		vw_ok(add(&r, rule[i], &err));
		w.opt.map = r.at;
		w.opt.nmap = r.n;
		ck_assert_int_eq(sf_map_picks(w.ckpt, &w.opt, &why), -EINVAL);
		ck_assert_msg(strstr(why.msg, "'w' has 0 rows"), "%s", why.msg);
		vw_close(&w);
		sf_map_rules_free(r.at, r.n);
	}
}
END_TEST

START_TEST(megatrons_mapping_wants_its_numbers)
{
	static const char *const bad[] = { "@megatron-llama", "@megatron-llama:8",
		                           "@megatron-llama:8:3", "@megatron-llama:0:0",
		                           "@megatron-llama:8:2 " };
	struct rules r = { 0 };
	bool q = false;

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++)
		ck_assert_int_eq(add(&r, bad[i], NULL), -EINVAL);
	vw_ok(add(&r, "@megatron-llama:8:2", &err));
	for (size_t i = 0; i < r.n; i++)
		q |= strcmp(r.at[i].old_name,
		            "decoder.layers.self_attention.linear_qkv.weight.*.[0:4 of 6 in 2]") ==
		     0;
	ck_assert(q);
	sf_map_rules_free(r.at, r.n);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("map_pick");
	TCase *tc = tcase_create("parts");

	tcase_add_test(tc, brackets_make_parts);
	tcase_add_test(tc, other_brackets_are_a_name);
	tcase_add_test(tc, parts_that_cannot_be_are_refused);
	tcase_add_loop_test(tc, a_part_has_the_bytes_of_its_rows, 0, 40);
	tcase_add_test(tc, keys_keep_their_order_and_what_is_not_there_is_named);
	tcase_add_test(tc, what_has_no_rows_has_no_parts);
	tcase_add_test(tc, megatrons_mapping_wants_its_numbers);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
