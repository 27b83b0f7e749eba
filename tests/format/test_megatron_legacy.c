#include "config.h"

#include "tests/format/megatron_world.h"

/* Megatron's legacy checkpoints: a file for each model-parallel rank. */

#define CASE "megatron/0.16.1-legacy"
#define RANK "mp_rank_00_001/model_optim_rng.pt"

static void open_case(struct sf_session *s)
{
	mg_open(s, CASE "/ckpt/iter_0000010");
}

START_TEST(pieces_are_joined_and_layers_numbered_through)
{
	struct sf_session s;

	open_case(&s);
	ck_assert_uint_eq(mg_check_case(&s, CASE), 41);
	ck_assert_str_eq(s.ckpt->writer, "Megatron-LM, legacy");
	ck_assert_uint_eq(s.ckpt->ranks, 4);
	ck_assert_int_eq(s.ckpt->step, 10);
	ck_assert_uint_eq(s.ckpt->nwarnings, 1); /* a note */
	ck_assert_ptr_nonnull(load_warning(s.ckpt, "per-rank", "under rank."));
	ck_assert(sf_warning_is_note("per-rank"));
	ck_assert_uint_eq(load_group(s.ckpt, "model")->ntensors, 41);
	ck_assert_int_eq(load_group(s.ckpt, "model")->role, SF_ROLE_MODEL);
	mg_check_value(&s, "common.iteration", "10\n");
	mg_check_value(&s, "common.opt_param_scheduler.lr_decay_style", "\"cosine\"\n");
	sf_session_close(&s);
}
END_TEST

START_TEST(one_rank_alone_is_as_it_is)
{
	struct sf_session s;

	mg_open(&s, "megatron/0.16.1-legacy_tp1/ckpt/iter_0000010");
	ck_assert_uint_eq(mg_check_case(&s, "megatron/0.16.1-legacy_tp1"), 16);
	sf_session_close(&s);
}
END_TEST

/* Put together by hand: two virtual chunks a stage; grouped experts of two ranks. */
START_TEST(chunks_and_experts_are_numbered_through)
{
	static const struct {
		const char *dir, *last;
	} cases[] = { { "megatron/legacy_1", "decoder.layers.3.mlp.linear_fc1.weight" },
		      { "megatron/legacy_7", "decoder.layers.1.mlp.experts.linear_fc2.weight3" } };
	struct sf_session s;
	char path[256];

	snprintf(path, sizeof(path), "%s/ckpt/iter_0000007", cases[_i].dir);
	mg_open(&s, path);
	ck_assert_uint_gt(mg_check_case(&s, cases[_i].dir), 20);
	mg_entry(&s, cases[_i].last);
	ck_assert_uint_eq(s.ckpt->nwarnings, 1);
	sf_session_close(&s);
}
END_TEST

/* Buckets of the optimizer, by rank: their dicts' keys are tuples of dtypes. */
START_TEST(what_is_each_ranks_own_is_under_its_directory)
{
	static const char key[] = "rank.mp_rank_01_001.0.(torch.bfloat16, torch.float32).exp_avg";
	struct sf_session s;

	open_case(&s);
	const struct sf_entry *e = &s.catalog->entry[mg_entry(&s, key)];
	ck_assert_uint_ne(e->tensor, SF_NONE);
	ck_assert_int_eq(s.ckpt->tensor[e->tensor].dtype, SF_FLOAT32);
	mg_check_value(&s, "rank.mp_rank_00_000.buckets_coalesced", "true\n");
	mg_check_value(&s, "rank.mp_rank_01_000.optimizer.optimizer.param_groups.0.step", "7\n");
	free(mg_value(&s, "rank.mp_rank_00_001.rng_state"));
	for (uint32_t i = 0; i < s.ckpt->nkeys; i++)
		ck_assert_int_eq(i >= s.ckpt->nmain,
		                 strncmp(s.ckpt->key[i].name, "common.", 7) == 0 ||
		                         strncmp(s.ckpt->key[i].name, "rank.", 5) == 0);
	sf_session_close(&s);
}
END_TEST

START_TEST(a_missing_tensor_rank_is_named_and_leaves_holes)
{
	struct sf_ckpt *ckpt;
	struct mg_files f;
	uint32_t damaged = 0;

	mg_load_files(&f, CASE "/ckpt/iter_0000010");
	mg_remove(&f, RANK);
	ckpt = mg_load(&f, NULL);
	ck_assert_ptr_nonnull(load_warning(ckpt, "missing-rank",
	                                   "tensor rank 0, pipeline stage 1, expert rank 0"));
	ck_assert_uint_eq(load_group(ckpt, "model")->ntensors, 41);
	for (uint32_t i = 0; i < ckpt->ntensors; i++)
		damaged += (ckpt->tensor[i].flags & SF_TENSOR_DAMAGED) != 0;
	ck_assert_uint_eq(damaged, 2 * 5 + 1); /* of two layers what is cut; output_layer */
	sf_ckpt_free(ckpt);
	mg_release(&f);
}
END_TEST

START_TEST(a_missing_stage_ends_it)
{
	struct mg_files f;

	mg_load_files(&f, CASE "/ckpt/iter_0000010");
	mg_remove(&f, "mp_rank_00_000/model_optim_rng.pt");
	mg_set(&f, "mp_rank_01_000/model_optim_rng.pt", "PK", 2);
	mg_refused(&f, NULL, -ENOENT, "pipeline stage 0 of 2");
	mg_remove(&f, "mp_rank_01_001/model_optim_rng.pt");
	mg_set(&f, RANK, "x", 1);
	mg_refused(&f, NULL, -ENOENT, "none of the 4 ranks'");
	mg_release(&f);
}
END_TEST

/* The sums of a zip's records, which are not looked at where they are 0. */
static void clear_sums(uint8_t *at, size_t len)
{
	for (uint8_t *p = at; p + 20 < at + len; p++) {
		if (memcmp(p, "PK\1\2", 4) == 0)
			memset(p + 16, 0, 4);
		else if (memcmp(p, "PK\7\10", 4) == 0)
			memset(p + 4, 0, 4);
		else if (memcmp(p, "PK\3\4", 4) == 0)
			memset(p + 14, 0, 4);
	}
}

START_TEST(files_of_several_steps_are_named_with_both)
{
	struct sf_ckpt *ckpt;
	struct mg_files f;

	mg_load_files(&f, CASE "/ckpt/iter_0000010");
	const struct sf_mem_object *o = mg_file(&f, RANK);
	uint8_t *at = memmem(o->at, o->len, "iteration", 9);
	ck_assert_ptr_nonnull(at);
	at += 9;
	at += *at == 'q' ? 2 : 5; /* BINPUT, LONG_BINPUT */
	ck_assert_uint_eq(at[0], 'K');
	at[1] = 9;
	clear_sums((uint8_t *)(uintptr_t)o->at, o->len);
	ckpt = mg_load(&f, NULL);
	ck_assert_ptr_nonnull(load_warning(ckpt, "mixed-steps", "of iteration 10"));
	ck_assert_ptr_nonnull(load_warning(ckpt, "mixed-steps", "of 9"));
	sf_ckpt_free(ckpt);
	mg_release(&f);
}
END_TEST

START_TEST(a_parameter_without_a_rule_is_shown_per_rank)
{
	static const char rules[] = "*linear_fc2.weight rank\n*linear_proj.weight 7\n";
	const struct sf_load_options opt = { .join_rules = rules };
	struct sf_ckpt *ckpt;
	struct mg_files f;
	bool found = false;

	mg_load_files(&f, CASE "/ckpt/iter_0000010");
	ckpt = mg_load(&f, &opt);
	ck_assert_ptr_nonnull(load_warning(ckpt, "unjoined", "8 parameters"));
	ck_assert_uint_eq(load_group(ckpt, "model")->ntensors, 41 - 8);
	for (uint32_t i = 0; i < ckpt->nkeys; i++)
		found |= strcmp(ckpt->key[i].name,
		                "rank.mp_rank_01_001.decoder.layers.1.mlp.linear_fc2.weight") == 0;
	ck_assert(found);
	sf_ckpt_free(ckpt);
	mg_release(&f);
}
END_TEST

/* One rank's stage in place of another's: shapes agree, numbers of layers do not. */
START_TEST(a_rank_of_another_shape_is_named_with_both_files)
{
	struct sf_ckpt *ckpt;
	struct mg_files f, other;
	const struct sf_mem_object *o;

	mg_load_files(&f, CASE "/ckpt/iter_0000010");
	mg_load_files(&other, "megatron/0.16.1-legacy_tp1/ckpt/iter_0000010");
	o = mg_file(&other, "mp_rank_00/model_optim_rng.pt");
	mg_set(&f, "mp_rank_01_000/model_optim_rng.pt", o->at, o->len);
	ckpt = mg_load(&f, NULL);
	ck_assert_ptr_nonnull(load_warning(ckpt, "ranks-disagree", "mp_rank_01_000/"));
	ck_assert_ptr_nonnull(load_warning(ckpt, "ranks-disagree", "mp_rank_00_000/"));
	sf_ckpt_free(ckpt);
	mg_release(&f);
	mg_release(&other);
}
END_TEST

START_TEST(args_that_speak_of_other_sizes_are_told)
{
	struct sf_ckpt *ckpt;
	struct mg_files f;

	mg_load_files(&f, "megatron/0.16.1-legacy_tp1/ckpt/iter_0000010");
	for (size_t i = 0; i < f.n; i++) { /* as the second of two ranks' */
		const char *slash = strchr(f.at[i].name, '/');
		char name[256];
		snprintf(name, sizeof(name), "mp_rank_01%s", slash ? slash : "");
		free((void *)(uintptr_t)f.at[i].name);
		f.at[i].name = strdup(name);
	}
	ckpt = mg_load(&f, NULL);
	ck_assert_ptr_nonnull(load_warning(
		ckpt, "wrong-world", "args.tensor_model_parallel_size is 1, the files are of 2"));
	ck_assert_ptr_nonnull(load_warning(ckpt, "missing-rank", "tensor rank 0"));
	sf_ckpt_free(ckpt);
	mg_release(&f);
}
END_TEST

START_TEST(a_directory_that_says_millions_of_ranks_is_refused)
{
	struct mg_files f;

	mg_load_files(&f, "megatron/0.16.1-legacy_tp1/ckpt/iter_0000010");
	for (size_t i = 0; i < f.n; i++) {
		const char *slash = strchr(f.at[i].name, '/');
		char name[256];
		snprintf(name, sizeof(name), "mp_rank_9999_9999_9999%s", slash ? slash : "");
		free((void *)(uintptr_t)f.at[i].name);
		f.at[i].name = strdup(name);
	}
	mg_refused(&f, NULL, -E2BIG, "1 directories of ranks");
	mg_release(&f);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("megatron_legacy");
	TCase *tc = tcase_create("legacy");

	tcase_add_test(tc, pieces_are_joined_and_layers_numbered_through);
	tcase_add_test(tc, one_rank_alone_is_as_it_is);
	tcase_add_loop_test(tc, chunks_and_experts_are_numbered_through, 0, 2);
	tcase_add_test(tc, what_is_each_ranks_own_is_under_its_directory);
	tcase_add_test(tc, a_missing_tensor_rank_is_named_and_leaves_holes);
	tcase_add_test(tc, a_missing_stage_ends_it);
	tcase_add_test(tc, files_of_several_steps_are_named_with_both);
	tcase_add_test(tc, a_parameter_without_a_rule_is_shown_per_rank);
	tcase_add_test(tc, a_rank_of_another_shape_is_named_with_both_files);
	tcase_add_test(tc, args_that_speak_of_other_sizes_are_told);
	tcase_add_test(tc, a_directory_that_says_millions_of_ranks_is_refused);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
