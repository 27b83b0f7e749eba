#include "config.h"

#include "tests/lib/test_stores.h"
#include "tests/lib/load.h"

/* Directories that are no checkpoint, but have files that are one each: the message says what to name. */

#define F(name)              \
	{                    \
		name, "x", 1 \
	}

/* Listings as the frameworks leave them; the bytes say nothing. */
static const struct {
	struct sf_mem_object file[6];
	const char *what;
} listings[] = {
	{ { F("ep0-ba1-rank0.pt"), F("latest-rank0.pt") },
	  "Composer checkpoints of one .pt file each (monolithic) (ep0-ba1-rank0.pt …), not one" },
	{ { F("ep0-ba2-rank0.tar.gz"), F("ep0-ba2-rank1.tar.gz") },
	  "Composer checkpoints of DeepSpeed archives, one per rank (ep0-ba2-rank0.tar.gz …), " },
	{ { F("checkpoint_0.pt"), F("checkpoint_1.pt") },
	  "torch.distributed experimental checkpoint (" },
	{ { F("model_0.pt"), F("train_0.pt") },
	  "checkpoint of one .pt file per rank (model_0.pt …)" },
	{ { F("a.ckpt"), F("b.ckpt") }, ".ckpt files (a.ckpt …)" },
	{ { F("a.pt.zst"), F("b.pt.zst") }, "packed .pt files (a.pt.zst …)" },
};

START_TEST(a_known_format_is_named_with_a_file_of_it)
{
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];
	size_t n = 0;

	while (n < 6 && listings[_i].file[n].name)
		n++;
	ck_assert_int_eq(load_mem(listings[_i].file, n, NULL, &ckpt, msg), -ENOTSUP);
	ck_assert_msg(strstr(msg, listings[_i].what) != NULL, "%s\nnot: %s", msg,
	              listings[_i].what);
	ck_assert_msg(strstr(msg, ": name ") != NULL, "%s", msg);
}
END_TEST

/* Parts that say nothing right by themselves. */
START_TEST(parts_without_the_rest_are_refused)
{
	static const struct {
		const char *file[2], *msg;
		int code;
	} cases[] = {
		{ { "zero_pp_rank_0_mp_rank_00_optim_states.pt",
		    "zero_pp_rank_1_mp_rank_00_optim_states.pt" },
		  "no model states of model-parallel rank 0",
		  -ENOENT },
		{ { "rank_0.safetensors", "rank_1.safetensors" }, "give its step", -ENOTSUP },
	};
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		const struct sf_mem_object file[] = { F(cases[i].file[0]), F(cases[i].file[1]) };
		int r = load_mem(file, 2, NULL, &ckpt, msg);
		ck_assert_msg(r == cases[i].code && strstr(msg, cases[i].msg), "%d %s", r, msg);
	}
}
END_TEST

START_TEST(a_format_can_be_asked_for_by_its_name)
{
	static const struct {
		const char *name, *dir, *msg;
		int code;
	} cases[] = {
		{ "composer", "composer-0.32/ep0-ba2/ckpt", NULL, 0 },
		{ "olmo-core", "dcp/nested/ckpt", NULL, 0 },
		{ "megatron", "dcp/nested/ckpt", NULL, 0 },
		{ "deepspeed", "dcp/nested/ckpt", "not committed", -ENOENT },
		{ "zip", "dcp/nested/ckpt", "unknown source format 'zip'", -EINVAL },
	};
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		const struct sf_load_options opt = { .source_format = cases[i].name };
		int r = load_data(cases[i].dir, &opt, &ckpt, msg);
		ck_assert_msg(r == cases[i].code, "%s of %s: %d %s", cases[i].name, cases[i].dir, r,
		              msg);
		if (r == 0)
			sf_ckpt_free(ckpt);
		else
			ck_assert_msg(strstr(msg, cases[i].msg) != NULL, "%s", msg);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("unread");
	TCase *tc = tcase_create("unread");

	tcase_add_loop_test(tc, a_known_format_is_named_with_a_file_of_it, 0,
	                    SF_ARRAY_LEN(listings));
	tcase_add_test(tc, parts_without_the_rest_are_refused);
	tcase_add_test(tc, a_format_can_be_asked_for_by_its_name);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
