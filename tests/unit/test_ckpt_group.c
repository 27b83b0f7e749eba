#include "config.h"

#include "base/mem.h"
#include "ckpt/ckpt_builder.h"
#include "ckpt/ckpt_group.h"
#include "tests/lib/sf_test.h"

static struct sf_error err;

/*
 * "T a/b/c" is a tensor at that path (one float), "O a/b" an object; the name is the path joined
 * with dots. "-T a.b": without planner data. '#' in front of an element makes it a list position.
 */
static struct sf_ckpt_builder *build(const char *const *spec)
{
	const uint64_t one = 1;
	struct sf_ckpt_builder *b;

	ck_assert_int_eq(sf_ckpt_builder_new("dcp", "x", &b, &err), 0);
	for (; *spec; spec++) {
		bool plain = (*spec)[0] == '-';
		const char *s = *spec + plain, *p = s + 2;
		struct sf_path_elem path[8];
		char name[256] = "";
		size_t n = 0;
		uint32_t id;

		while (n < 8) {
			bool is_int = *p == '#';
			p += is_int;
			path[n] = (struct sf_path_elem){ p, (uint32_t)strcspn(p, "/"), is_int };
			snprintf(name + strlen(name), sizeof(name) - strlen(name), "%s%.*s",
			         n ? "." : "", (int)path[n].len, p);
			p += path[n++].len;
			if (!*p++)
				break;
		}
		if (s[0] == 'T')
			ck_assert_int_eq(sf_ckpt_builder_tensor(b, name, strlen(name), SF_FLOAT32,
			                                        &one, 1, &id, &err),
			                 0);
		else
			ck_assert_int_eq(sf_ckpt_builder_object(b, name, strlen(name), &id, &err),
			                 0);
		if (!plain)
			ck_assert_int_eq(sf_ckpt_builder_path(b, name, strlen(name), path, n, &err),
			                 0);
	}
	return b;
}

/* "name:role:strip:tensors:objects:bytes ..." in order; role M, O, - */
static void check_groups(struct sf_ckpt_builder *b, const char *want)
{
	struct sf_ckpt *ckpt;
	char got[512] = "";

	ck_assert_msg(sf_ckpt_builder_finish(b, &ckpt, &err) == 0, "%s", err.msg);
	for (uint32_t i = 0; i < ckpt->ngroups; i++) {
		const struct sf_group *g = &ckpt->group[i];
		ck_assert_uint_eq(strlen(g->name), g->len);
		snprintf(got + strlen(got), sizeof(got) - strlen(got), "%s%s:%c:%u:%u:%u:%llu",
		         i ? " " : "", g->name, "-MO"[g->role], g -> strip, g -> ntensors,
		         g -> nobjects, (unsigned long long)g -> bytes);
	}
	ck_assert_str_eq(got, want);
	for (uint32_t i = 0; i < ckpt->nkeys; i++) {
		const struct sf_key *k = &ckpt->key[i];
		const struct sf_group *g = &ckpt->group[k->group];
		ck_assert_uint_lt(k->group, ckpt->ngroups);
		/* what the group strips is in front of something */
		if (g->strip && k->npath > 1) {
			ck_assert_uint_lt(g->strip, k->npath);
			ck_assert_mem_eq(g->name, k->path[g->strip - 1].s, g->len);
		}
	}
	sf_ckpt_free(ckpt);
}

static const struct {
	const char *spec[8], *want;
} cases[] = {
	/* the first element of paths of two or more */
	{ { "T model/a.w", "T optim/state/a.w/exp_avg", "O optim/param_groups/#0/lr",
	    "T model/b.w" },
	  "model:M:1:2:0:8 optim:O:1:1:1:4" },
	/* torchtitan: model keys at the root beside optimizer and others */
	{ { "T layers.0.w", "T optimizer/state/w", "O lr_scheduler/last_epoch", "T norm.w",
	    "O train_state/step" },
	  ":M:0:2:0:8 optimizer:O:1:1:0:4 lr_scheduler:-:1:0:1:0 train_state:-:1:0:1:0" },
	/* flat */
	{ { "T a", "O step", "T b" }, ":M:0:2:1:8" },
	{ { "O a", "O b" }, ":M:0:0:2:0" },
	/* what lies beside a model is no model, nor is it beside an optimizer alone */
	{ { "O step", "T model/w" }, ":-:0:0:1:0 model:M:1:1:0:4" },
	{ { "O step", "T optim/w" }, ":-:0:0:1:0 optim:O:1:1:0:4" },
	{ { "O model/cfg", "T w" }, "model:M:1:0:1:0 :M:0:1:0:4" },
	/* one root container with a model below it: groups are its children */
	{ { "T app/model/a.w", "T app/optim/state/x", "O app/optim/param_groups/#0/lr",
	    "O app/step", "O epoch" },
	  "model:M:2:1:0:4 optim:O:2:1:1:4 app:-:1:0:1:0 :-:0:0:1:0" },
	{ { "T state/ema/w", "T state/optimizers/Adam/w", "O rng/#0/x" },
	  "ema:-:2:1:0:4 optimizers:O:2:1:0:4 rng:-:1:0:1:0" },
	/* Composer: everything in state, but for random number generators; a root rng alone is no
	   sign */
	{ { "T state/model/a.w", "T state/optimizers/AdamW/state/x", "O state/metadata/v/x",
	    "T rng/#0/torch", "O state/run_name" },
	  "model:M:2:1:0:4 optimizers:O:2:1:0:4 metadata:-:2:0:1:0 rng:-:1:1:0:4 "
	  "state:-:1:0:1:0" },
	{ { "T rng/model/w", "T rng/#0/w" }, "rng:-:1:2:0:8" },
	/* not when a tensor lies outside it, when no child has such a name, or when that child is a
	   leaf */
	{ { "T app/model/w", "T other/w" }, "app:-:1:1:0:4 other:-:1:1:0:4" },
	{ { "T app/model/w", "T w" }, "app:-:1:1:0:4 :M:0:1:0:4" },
	{ { "T app/a/w", "T app/b/w" }, "app:-:1:2:0:8" },
	{ { "T app/model", "T app/w" }, "app:-:1:2:0:8" },
	/* roles by name only; a list position has none */
	{ { "T module/w", "T model_state_dict/w", "T state_dict/w", "T optimizer_state_dict/w",
	    "T models/w" },
	  "module:M:1:1:0:4 model_state_dict:M:1:1:0:4 state_dict:M:1:1:0:4 "
	  "optimizer_state_dict:O:1:1:0:4 models:-:1:1:0:4" },
	{ { "T #0/w", "T #1/w" }, "0:-:1:1:0:4 1:-:1:1:0:4" },
	/* no planner data: the unnamed group, whatever the names look like */
	{ { "-T model.w", "-T optim.w", "-O step" }, ":M:0:2:1:8" },
	/* the text before a dot is no path */
	{ { "T model.w", "T optimizer/x" }, ":M:0:1:0:4 optimizer:O:1:1:0:4" },
};

START_TEST(paths_give_the_groups_of_the_design)
{
	check_groups(build(cases[_i].spec), cases[_i].want);
}
END_TEST

START_TEST(a_format_may_name_groups_itself)
{
	const char *const spec[] = { "T state/a", "T state/b", "T c", "O d", NULL };
	struct sf_ckpt_builder *b = build(spec);

	ck_assert_int_eq(sf_ckpt_builder_group(b, "state.a", 7, "model", SF_ROLE_OTHER, 1, &err),
	                 0);
	ck_assert_int_eq(sf_ckpt_builder_group(b, "state.a", 7, "fp32", SF_ROLE_MODEL, 0, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_group(b, "c", 1, "fp32", SF_ROLE_MODEL, 0, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_group(b, "d", 1, "", SF_ROLE_OTHER, 0, &err), 0);
	check_groups(b, "fp32:M:0:2:0:8 state:-:1:1:0:4 :-:0:0:1:0");
}
END_TEST

/* One with the whole names of its keys is none without a name. */
/* A container that is all there is beside the checkpoint, with what is called an optimizer in it. */
START_TEST(what_lies_beside_a_checkpoint_makes_no_root)
{
	static const char *const spec[] = { "-T w", NULL };
	const struct sf_path_elem path[3] = { { "common", 6, 0 },
		                              { "optimizer", 9, 0 },
		                              { "scale", 5, 0 } };
	static const char key[] = "common.optimizer.scale";
	const uint64_t one = 1;
	struct sf_ckpt_builder *b = build(spec);
	uint32_t id;

	sf_ckpt_builder_beside(b);
	ck_assert_int_eq(sf_ckpt_builder_group(b, "w", 1, "model", SF_ROLE_MODEL, 0, &err), 0);
	ck_assert_int_eq(
		sf_ckpt_builder_tensor(b, key, strlen(key), SF_FLOAT32, &one, 1, &id, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_path(b, key, strlen(key), path, 3, &err), 0);
	check_groups(b, "model:M:0:1:0:4 common:-:1:1:0:4");
}
END_TEST

START_TEST(a_named_group_that_strips_nothing_may_be_the_model)
{
	const char *const first[] = { "T a", "T w", NULL }, *const last[] = { "T w", "T a", NULL };
	struct sf_ckpt_builder *b = build(_i ? last : first);

	ck_assert_int_eq(sf_ckpt_builder_group(b, "a", 1, "net", SF_ROLE_MODEL, 0, &err), 0);
	check_groups(b, _i ? ":-:0:1:0:4 net:M:0:1:0:4" : "net:M:0:1:0:4 :-:0:1:0:4");
}
END_TEST

START_TEST(a_hundred_thousand_groups_are_told_apart)
{
	struct sf_ckpt_builder *b;
	struct sf_ckpt *ckpt;
	uint32_t id;
	char name[32];

	ck_assert_int_eq(sf_ckpt_builder_new("dcp", "x", &b, &err), 0);
	for (int i = 0; i < 200000; i++) {
		int n = snprintf(name, sizeof(name), "g%d.%d", i % 100000, i / 100000);
		size_t dot = strcspn(name, ".");
		const struct sf_path_elem path[2] = { { name, (uint32_t)dot, 0 },
			                              { name + dot + 1, 1, 0 } };
		ck_assert_int_eq(sf_ckpt_builder_object(b, name, (size_t)n, &id, &err), 0);
		ck_assert_int_eq(sf_ckpt_builder_path(b, name, (size_t)n, path, 2, &err), 0);
	}
	ck_assert_int_eq(sf_ckpt_builder_finish(b, &ckpt, &err), 0);
	ck_assert_uint_eq(ckpt->ngroups, 100000);
	for (uint32_t i = 0; i < ckpt->ngroups; i++)
		ck_assert_uint_eq(ckpt->group[i].nobjects, 2);
	sf_ckpt_free(ckpt);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ckpt_group");
	TCase *tc = tcase_create("ckpt_group");

	tcase_set_timeout(tc, 30);
	tcase_add_loop_test(tc, paths_give_the_groups_of_the_design, 0, SF_ARRAY_LEN(cases));
	tcase_add_test(tc, a_format_may_name_groups_itself);
	tcase_add_test(tc, what_lies_beside_a_checkpoint_makes_no_root);
	tcase_add_loop_test(tc, a_named_group_that_strips_nothing_may_be_the_model, 0, 2);
	tcase_add_test(tc, a_hundred_thousand_groups_are_told_apart);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
