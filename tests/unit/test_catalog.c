#include "config.h"

#include <string.h>

#include "catalog/entry_name.h"
#include "view_world.h"

static const uint64_t two[2] = { 2, 2 };

/* An ordinary training checkpoint. */
static void ordinary(struct vw *w)
{
	vw_init(w);
	vw_tensor(w, "model.layers.0.wq.weight", SF_FLOAT32, 2, two);
	vw_tensor(w, "model.layers.0.wk.weight", SF_FLOAT32, 2, two);
	vw_tensor(w, "model.layers.1.wq.weight", SF_BFLOAT16, 2, two);
	vw_tensor(w, "model.ids", SF_INT64, 2, two);
	vw_tensor(w, "optimizer.state.wq.exp_avg", SF_FLOAT32, 2, two);
	vw_object(w, "optimizer.param_groups");
	vw_object(w, "train.step");
	vw_tensor(w, "checkpoint.x", SF_FLOAT32, 2, two);
}

static uint32_t find(const struct vw *w, const char *name)
{
	return sf_catalog_find(w->cat, name, strlen(name));
}

static const struct sf_cat_group *group(const struct vw *w, const char *name)
{
	for (uint32_t g = 0; g < w->cat->ngroups; g++)
		if (strcmp(w->cat->group[g].of->name, name) == 0)
			return &w->cat->group[g];
	return NULL;
}

START_TEST(groups_have_files_by_role_and_name)
{
	struct vw w;

	ordinary(&w);
	vw_open(&w);
	ck_assert_uint_eq(w.cat->n, 8);
	ck_assert_uint_eq(w.cat->ntensors, 6);
	ck_assert_uint_eq(w.cat->nobjects, 2);
	ck_assert_str_eq(group(&w, "model")->stem, "model");
	ck_assert_ptr_null(group(&w, "model")->link);
	ck_assert_str_eq(group(&w, "optimizer")->stem, "optimizer");
	ck_assert_str_eq(group(&w, "optimizer")->link, "optim");
	ck_assert_str_eq(group(&w, "checkpoint")->stem, "checkpoint_");
	ck_assert_str_eq(group(&w, "train")->stem, "train");
	ck_assert_ptr_eq(&w.cat->group[w.cat->model_group], group(&w, "model"));
	ck_assert_ptr_eq(&w.cat->group[w.cat->optim_group], group(&w, "optimizer"));
	for (uint32_t g = 0; g < w.cat->ngroups; g++)
		for (uint32_t i = 0; i < w.cat->group[g].n; i++)
			ck_assert_uint_eq(
				w.cat->entry[w.cat->by_group[w.cat->group[g].first + i]].group, g);
	vw_close(&w);
}
END_TEST

START_TEST(a_second_group_of_a_role_keeps_its_own_name)
{
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "module.a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "checkpoint_.a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "checkpoint.a", SF_FLOAT32, 2, two);
	vw_open(&w);
	/* model.pt is its namesake's, whichever came first */
	ck_assert_ptr_null(group(&w, "module")->link);
	ck_assert_str_eq(group(&w, "module")->stem, "module");
	ck_assert_str_eq(group(&w, "model")->stem, "model");
	ck_assert_str_eq(group(&w, "checkpoint_")->stem, "checkpoint_");
	ck_assert_str_eq(group(&w, "checkpoint")->stem, "checkpoint__");
	vw_close(&w);
}
END_TEST

START_TEST(a_roles_file_is_that_of_a_group_with_tensors)
{
	struct vw w;

	vw_init(&w);
	vw_object(&w, "model.name");
	vw_tensor(&w, "state_dict.a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "module.a", SF_FLOAT32, 2, two);
	vw_open(&w);
	ck_assert_int_eq(w.cat->model_group, (int)(group(&w, "state_dict") - w.cat->group));
	ck_assert_str_eq(group(&w, "state_dict")->link, "model");
	ck_assert_str_eq(group(&w, "module")->stem, "module");
	ck_assert_str_eq(group(&w, "model")->stem, "model_");
	vw_close(&w);
}
END_TEST

START_TEST(a_group_with_an_empty_name_has_its_file)
{
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, ".a", SF_FLOAT32, 2, two); /* {"": {"a": …}} */
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	vw_open(&w);
	ck_assert_str_eq(group(&w, "")->stem, "%");
	vw_close(&w);
}
END_TEST

START_TEST(at_most_64_groups_get_files)
{
	struct vw w;
	unsigned files = 0;

	vw_init(&w);
	for (int i = 0; i < 100; i++) {
		char name[16];
		snprintf(name, sizeof(name), "g%d.x", i);
		vw_tensor(&w, name, SF_FLOAT32, 2, two);
	}
	vw_tensor(&w, "model.x", SF_FLOAT32, 2, two);
	vw_open(&w);
	for (uint32_t g = 0; g < w.cat->ngroups; g++)
		files += w.cat->group[g].stem != NULL;
	ck_assert_uint_eq(files, 64);
	ck_assert_str_eq(group(&w, "model")->stem, "model"); /* roles first */
	vw_close(&w);
}
END_TEST

START_TEST(key_and_ignore_choose_and_must_match)
{
	const char *key[] = { "model", "train/step" }, *ignore[] = { "*.wk.*" },
		   *none[] = { "model", "modl" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_catalog *c;
	struct vw w;

	ordinary(&w);
	w.opt.key = (struct sf_strs){ key, 2 };
	w.opt.ignore = (struct sf_strs){ ignore, 1 };
	vw_open(&w);
	ck_assert_uint_eq(w.cat->n, 4);
	ck_assert_uint_ne(find(&w, "train.step"), SF_NONE);
	ck_assert_uint_eq(find(&w, "model.layers.0.wk.weight"), SF_NONE);
	ck_assert_ptr_null(group(&w, "optimizer")); /* groups that still have keys */
	w.opt.key = (struct sf_strs){ none, 2 };
	ck_assert_int_eq(sf_catalog_new(w.ckpt, &w.opt, &c, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "modl"));
	w.opt.key.n = 0;
	w.opt.ignore = (struct sf_strs){ none, 2 };
	ck_assert_int_eq(sf_catalog_new(w.ckpt, &w.opt, &c, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "ignore"));
	vw_close(&w);
}
END_TEST

START_TEST(model_only_shows_the_model_role)
{
	struct vw w;

	ordinary(&w);
	w.opt.model_only = true;
	vw_open(&w);
	ck_assert_uint_eq(w.cat->n, 4);
	ck_assert_int_eq(w.cat->optim_group, -1);
	vw_close(&w);
}
END_TEST

START_TEST(a_role_shows_its_groups_alone)
{
	static const uint32_t keys[SF_NROLES] = {
		[SF_ROLE_OTHER] = 2, [SF_ROLE_MODEL] = 4, [SF_ROLE_OPTIM] = 2
	};
	struct sf_error err = SF_ERROR_INIT;
	struct sf_catalog *c;
	struct vw w;

	ordinary(&w);
	ck_assert_int_eq(sf_view_role_parse(sf_role_names[_i], &w.opt.role, &err), 0);
	vw_open(&w);
	ck_assert_uint_eq(w.cat->n, keys[_i]);
	for (uint32_t i = 0; i < w.cat->n; i++)
		ck_assert_int_eq(w.cat->group[w.cat->entry[i].group].of->role, _i);
	/* with the other option of that kind: the model, or none */
	w.opt.model_only = true;
	if (_i == SF_ROLE_MODEL) {
		ck_assert_int_eq(sf_catalog_new(w.ckpt, &w.opt, &c, &err), 0);
		ck_assert_uint_eq(c->n, 4);
		sf_catalog_free(c);
	} else {
		ck_assert_int_eq(sf_catalog_new(w.ckpt, &w.opt, &c, &err), -EINVAL);
		ck_assert_ptr_nonnull(strstr(err.msg, "--model-only"));
		ck_assert_ptr_nonnull(strstr(err.msg, sf_role_names[_i]));
	}
	ck_assert_int_eq(sf_view_role_parse("Model", &w.opt.role, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "model, optim, other"));
	ck_assert_int_eq(w.opt.role, _i);
	vw_close(&w);
}
END_TEST

START_TEST(casts_reach_the_models_floats_alone)
{
	struct vw w;

	ordinary(&w);
	w.opt.dtype = SF_BFLOAT16;
	vw_open(&w);
	ck_assert_int_eq(w.cat->entry[find(&w, "model.layers.0.wq.weight")].dtype, SF_BFLOAT16);
	ck_assert_int_eq(w.cat->entry[find(&w, "model.ids")].dtype, SF_INT64);
	ck_assert_int_eq(w.cat->entry[find(&w, "optimizer.state.wq.exp_avg")].dtype, SF_FLOAT32);
	vw_close(&w);
}
END_TEST

/* The path joined by '|'. */
static const char *path_of(const struct sf_entry *e, char text[256])
{
	text[0] = '\0';
	for (uint32_t i = 0; i < e->npath; i++)
		snprintf(text + strlen(text), 256 - strlen(text), "%s%.*s", i ? "|" : "",
		         (int)e->path[i].len, e->path[i].s);
	return text;
}

static void map_one(const char *old, const char *to, const char *want, const char *want_path)
{
	struct sf_map_rule rule = { old, to };
	char text[256];
	struct vw w;

	ordinary(&w);
	w.opt.map = &rule;
	w.opt.nmap = 1;
	vw_open(&w);
	uint32_t i = find(&w, want);
	ck_assert_msg(i != SF_NONE, "%s=%s: no '%s'", old, to, want);
	ck_assert_str_eq(path_of(&w.cat->entry[i], text), want_path);
	vw_close(&w);
}

START_TEST(map_replaces_keys_and_prefixes)
{
	map_one("model.layers.0.wq.weight", "model.q", "model.q", "model|q");
	map_one("model.layers.0", "model.h.0", "model.h.0.wq.weight", "model|h|0|wq|weight");
	map_one("model/layers/*/wq", "model.layers.*.attn.q", "model.layers.1.attn.q.weight",
	        "model|layers|1|attn|q|weight");
	/* a path spells its name, in its group or out of it */
	map_one("model", "", "layers.0.wq.weight", "layers|0|wq|weight");
	map_one("model", "weights", "weights.layers.0.wq.weight", "weights|layers|0|wq|weight");
	map_one("model.layers", "m", "m.0.wk.weight", "m|0|wk|weight");
	map_one("", "all", "all.model.ids", "all|model|ids");
	map_one("*.layers", "x.*", "x.model.1.wq.weight", "x|model|1|wq|weight");
}
END_TEST

START_TEST(a_prefix_ends_at_a_component)
{
	struct sf_map_rule rule[2] = { { "model.layers.0.w", "no" }, { "mod", "no" } };
	struct vw w;

	ordinary(&w);
	w.opt.map = rule;
	w.opt.nmap = 2;
	vw_open(&w);
	ck_assert_uint_ne(find(&w, "model.layers.0.wq.weight"), SF_NONE);
	vw_close(&w);
}
END_TEST

START_TEST(the_first_rule_that_matches_counts)
{
	struct sf_map_rule rule[2] = { { "model.layers.0", "first" }, { "model", "second" } };
	struct vw w;

	ordinary(&w);
	w.opt.map = rule;
	w.opt.nmap = 2;
	vw_open(&w);
	ck_assert_uint_ne(find(&w, "first.wq.weight"), SF_NONE);
	ck_assert_uint_ne(find(&w, "second.layers.1.wq.weight"), SF_NONE);
	vw_close(&w);
}
END_TEST

START_TEST(two_keys_mapped_to_one_name_are_an_error_that_names_both)
{
	struct sf_map_rule rule = { "model.layers.*.wq", "model.wq" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_catalog *c;
	struct vw w;

	ordinary(&w);
	vw_load(&w);
	w.opt.map = &rule;
	w.opt.nmap = 1;
	ck_assert_int_eq(sf_catalog_new(w.ckpt, &w.opt, &c, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "model.layers.0.wq.weight"));
	ck_assert_ptr_nonnull(strstr(err.msg, "model.layers.1.wq.weight"));
	ck_assert_ptr_nonnull(strstr(err.msg, "'model.wq.weight'"));
	vw_close(&w);
}
END_TEST

/* The obvious order: lists of components, each compared as bytes. */
static int slow_compare(const char *a, size_t a_len, const char *b, size_t b_len)
{
	for (size_t x = 0, y = 0;; x++, y++) {
		size_t n = x, m = y;
		while (n < a_len && a[n] != '.')
			n++;
		while (m < b_len && b[m] != '.')
			m++;
		int d = memcmp(a + x, b + y, SF_MIN(n - x, m - y));
		if (d || n - x != m - y)
			return d ? d : n - x < m - y ? -1 : 1;
		if (n == a_len || m == b_len)
			return n == a_len ? (m == b_len ? 0 : -1) : 1;
		x = n;
		y = m;
	}
}

START_TEST(by_path_is_sorted_by_components)
{
	uint64_t rnd = sf_test_seed("by_path_is_sorted_by_components");
	struct vw w;

	vw_init(&w);
	for (int i = 0; i < 2000; i++) {
		char name[32];
		size_t n = sf_test_below(&rnd, 9);
		bool is_tensor;
		for (size_t k = 0; k < n; k++)
			name[k] = "ab.-\0\xff/.x"[sf_test_below(&rnd, 9)];
		if (sf_ckpt_builder_find(w.b, name, n, &is_tensor) == SF_NONE)
			vw_flat(&w, name, n);
	}
	vw_open(&w);
	ck_assert_uint_gt(w.cat->n, 1000);
	for (uint32_t i = 0; i < w.cat->n; i++) {
		const struct sf_entry *e = &w.cat->entry[w.cat->by_path[i]];
		ck_assert_uint_eq(sf_catalog_find(w.cat, e->name, e->len), w.cat->by_path[i]);
		if (i) {
			const struct sf_entry *p = &w.cat->entry[w.cat->by_path[i - 1]];
			ck_assert_int_lt(slow_compare(p->name, p->len, e->name, e->len), 0);
		}
	}
	ck_assert_uint_eq(sf_catalog_find(w.cat, "no such", 7), SF_NONE);
	vw_close(&w);
}
END_TEST

START_TEST(names_lose_the_group_they_begin_with)
{
	const struct sf_path_elem path[3] = { { "app", 3, 0 }, { "model", 5, 0 }, { "w.x", 3, 0 } };
	const struct sf_entry e = { .name = "app.model.w.x", .len = 13, .npath = 3, .path = path };
	const struct sf_entry other = {
		.name = "appmodel.w.x", .len = 12, .npath = 3, .path = path
	};
	size_t len;

	ck_assert_str_eq(sf_entry_stripped(&e, 2, &len), "w.x");
	ck_assert_uint_eq(len, 3);
	ck_assert_str_eq(sf_entry_stripped(&e, 1, &len), "model.w.x");
	ck_assert_str_eq(sf_entry_stripped(&e, 3, &len),
	                 "app.model.w.x"); /* nothing would be left */
	ck_assert_str_eq(sf_entry_stripped(&other, 2, &len), "appmodel.w.x");
	ck_assert_uint_eq(len, 12);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("catalog");
	TCase *t = tcase_create("all");

	tcase_add_test(t, groups_have_files_by_role_and_name);
	tcase_add_test(t, a_second_group_of_a_role_keeps_its_own_name);
	tcase_add_test(t, a_roles_file_is_that_of_a_group_with_tensors);
	tcase_add_test(t, a_group_with_an_empty_name_has_its_file);
	tcase_add_test(t, at_most_64_groups_get_files);
	tcase_add_test(t, key_and_ignore_choose_and_must_match);
	tcase_add_test(t, model_only_shows_the_model_role);
	tcase_add_loop_test(t, a_role_shows_its_groups_alone, 0, SF_NROLES);
	tcase_add_test(t, casts_reach_the_models_floats_alone);
	tcase_add_test(t, map_replaces_keys_and_prefixes);
	tcase_add_test(t, a_prefix_ends_at_a_component);
	tcase_add_test(t, the_first_rule_that_matches_counts);
	tcase_add_test(t, two_keys_mapped_to_one_name_are_an_error_that_names_both);
	tcase_add_test(t, by_path_is_sorted_by_components);
	tcase_add_test(t, names_lose_the_group_they_begin_with);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
