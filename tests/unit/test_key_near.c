#include "config.h"

#include <string.h>

#include "catalog/key_near.h"
#include "view_world.h"

static const uint64_t two[1] = { 2 };

static void world(struct vw *w)
{
	static const char *const names[] = {
		"model.embed.weight",       "model.layers.0.wq.weight",
		"model.layers.0.wk.weight", "model.layers.1.wq.weight",
		"model.norm.weight",        "optim.state.layers.0.wq.exp_avg",
		"optim.state.norm.exp_avg", "step",
	};
	vw_init(w);
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++)
		vw_tensor(w, names[i], SF_FLOAT32, 1, two);
	vw_open(w);
}

static void check(const struct vw *w, const char *typed, const char *want)
{
	struct sf_error err = SF_ERROR_INIT;
	char text[SF_ERROR_MAX];

	ck_assert_int_eq(sf_catalog_no_key(w->cat, typed, strlen(typed), &err), -ENOENT);
	snprintf(text, sizeof(text), "no key matches '%s'%s", typed, want);
	ck_assert_str_eq(err.msg, text);
}

START_TEST(what_ends_in_it_or_is_nearest)
{
	struct vw w;

	world(&w);
	check(&w, "norm.weight", ": did you mean 'model.norm.weight'?");
	check(&w, "layers.0",
	      ": 2 keys end in 'layers.0': 'model.layers.0', 'optim.state.layers.0'");
	check(&w, "layers/0",
	      ": 2 keys end in 'layers/0': 'model.layers.0', 'optim.state.layers.0'");
	check(&w, "weight",
	      ": 5 keys end in 'weight': 'model.embed.weight', 'model.layers.0.wq.weight', "
	      "'model.layers.0.wk.weight', …");
	check(&w, "model.norm.wieght", ": did you mean 'model.norm.weight'?");
	check(&w, "modle", ": did you mean 'model'?");
	check(&w, "model.layer.0", ": did you mean 'model.layers.0'?");
	check(&w, "modellayers", ": did you mean 'model.layers'?");
	check(&w, "model.layers.0.w.weight",
	      ": did you mean 'model.layers.0.wq.weight' or 'model.layers.0.wk.weight'?");
	check(&w, "modle.*", ": did you mean 'model.*'?");
	check(&w, "layers.0.*",
	      ": 2 keys end in 'layers.0': 'model.layers.0.*', 'optim.state.layers.0.*'");
	check(&w, "model.zzz*", " (shardfuse keys lists them)");
	check(&w, "zzz*", " (shardfuse keys lists them)");
	check(&w, "state/model/norm", ": did you mean 'model.norm'?");
	check(&w, "state/model/norm/weight/tensor.npy", ": did you mean 'model.norm.weight'?");
	check(&w, "npy/model.norm.weight.npy", ": did you mean 'model.norm.weight'?");
	check(&w, "nothing.like.it", " (shardfuse keys lists them)");
	check(&w, "", " (shardfuse keys lists them)");
	check(&w, ".", " (shardfuse keys lists them)");
	vw_close(&w);
}
END_TEST

START_TEST(options_that_match_nothing_get_one_too)
{
	const char *pattern[] = { "modle.norm" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_catalog *c;
	struct vw w;

	world(&w);
	w.opt.key.at = pattern;
	w.opt.key.n = 1;
	ck_assert_int_eq(sf_catalog_new(w.ckpt, &w.opt, &c, &err), -EINVAL);
	ck_assert_str_eq(err.msg, "--key 'modle.norm' matches no key: did you mean 'model.norm'?");
	w.opt.key.n = 0;
	w.opt.ignore.at = pattern;
	w.opt.ignore.n = 1;
	ck_assert_int_eq(sf_catalog_new(w.ckpt, &w.opt, &c, &err), -EINVAL);
	ck_assert_str_eq(err.msg,
	                 "--ignore 'modle.norm' matches no key: did you mean 'model.norm'?");
	w.opt.ignore.n = 0;
	vw_close(&w);
}
END_TEST

/* Against all distances: the nearest within what is allowed, whatever the keys share. */
START_TEST(random_names_find_their_nearest)
{
	uint64_t rnd = sf_test_seed("random_names_find_their_nearest");

	for (int round = 0; round < 200; round++) {
		struct vw w;
		vw_init(&w);
		char name[40][32];
		for (int i = 0; i < 40; i++) {
			do {
				size_t len = 3 + sf_test_below(&rnd, 20);
				for (size_t k = 0; k < len; k++)
					name[i][k] = "abc."[sf_test_below(
						&rnd, k && k + 1 < len ? 4 : 3)];
				name[i][len] = 0;
				for (int j = 0; j < i; j++)
					if (strcmp(name[i], name[j]) == 0)
						name[i][0] = 0;
			} while (!name[i][0]);
			vw_flat(&w, name[i], strlen(name[i]));
		}
		vw_open(&w);
		/* a misspelt key is found when nothing is nearer: then the hint says something */
		char typed[40];
		snprintf(typed, sizeof(typed), "%sX", name[sf_test_below(&rnd, 40)]);
		struct sf_error err = SF_ERROR_INIT;
		sf_catalog_no_key(w.cat, typed, strlen(typed), &err);
		if (strlen(typed) >= 3)
			ck_assert_msg(strstr(err.msg, "did you mean") != NULL, "%s", err.msg);
		vw_close(&w);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("key_near");
	TCase *tc = tcase_create("key_near");

	tcase_add_test(tc, what_ends_in_it_or_is_nearest);
	tcase_add_test(tc, options_that_match_nothing_get_one_too);
	tcase_add_test(tc, random_names_find_their_nearest);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
