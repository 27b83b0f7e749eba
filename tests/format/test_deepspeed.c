#include "config.h"

#include <dirent.h>

#include "format/deepspeed/ds_set.h"
#include "tests/lib/family_world.h"
#include "tests/lib/load.h"

#define DIR_OF "deepspeed-0.19/"

static const char *const cases[] = { "z0f", "z1ba", "z2b", "z2rr", "z2leg", "z3b", "z3s" };

static void check_states(struct family *f)
{
	const struct cJSON *list, *item, *state;
	char key[300];

	ck_assert_int_ge(sf_json_get_obj(sf_json_root(f->expect), "optim", &list, NULL), 0);
	for (item = sf_json_next(list, NULL); item; item = sf_json_next(list, item))
		for (state = sf_json_next(item, NULL); state; state = sf_json_next(item, state)) {
			snprintf(key, sizeof(key), "optim.state.%s.%s", sf_json_name(item),
			         sf_json_name(state));
			family_check(f, key, state);
		}
}

/* fp32 as zero_to_fp32 makes it, the live 16-bit weights, the live moments. */
START_TEST(masters_weights_and_moments_are_whole_again)
{
	struct family f = { 0 };
	char dir[200];

	snprintf(dir, sizeof(dir), DIR_OF "%s", cases[_i]);
	family_open(&f, dir, "ckpt/global_step2");
	ck_assert_str_eq(f.s.ckpt->format, "deepspeed");
	ck_assert_int_eq((int)f.s.ckpt->step, 2);
	ck_assert_uint_ge(family_check_all(&f, "tensors", "fp32."), 12);
	ck_assert_uint_eq(family_check_all(&f, "module", "module."), 18);
	check_states(&f);
	family_check_objects(&f);
	ck_assert_msg(f.s.ckpt->nwarnings == 0, "%s",
	              f.s.ckpt->nwarnings ? f.s.ckpt->warning[0].text : "");
	family_close(&f);
}
END_TEST

/* Experts of all ranks, by their numbers in the whole model; those of later ranks lie in partitions of their own. */
START_TEST(experts_of_all_ranks_are_there)
{
	struct family f = { 0 };

	family_open(&f, DIR_OF "moe", "ckpt/global_step2");
	ck_assert_uint_eq(family_check_all(&f, "tensors", "fp32."), 13);
	ck_assert_uint_eq(family_check_all(&f, "module", "module."), 13);
	ck_assert_ptr_nonnull(family_find(
		&f, "optim.state.moe.deepspeed_moe.experts.deepspeed_experts.3.fc.bias.exp_avg"));
	ck_assert_uint_eq(f.s.ckpt->nwarnings, 0);
	family_close(&f);
}
END_TEST

/* What a universal checkpoint was made of is in it; integers it keeps as floats. */
START_TEST(a_universal_checkpoint_has_the_same)
{
	struct family f = { 0 };
	const struct cJSON *list, *item;
	char key[300];

	family_open(&f, _i ? DIR_OF "z3uc" : DIR_OF "z2uc", "ckpt/uc");
	ck_assert_int_ge(sf_json_get_obj(sf_json_root(f.expect), "tensors", &list, NULL), 0);
	for (item = sf_json_next(list, NULL); item; item = sf_json_next(list, item)) {
		if (!_i && strcmp(sf_json_name(item), "norm.num_batches_tracked") == 0)
			continue;
		snprintf(key, sizeof(key), "fp32.%s", sf_json_name(item));
		family_check(&f, key, item);
	}
	ck_assert_uint_eq(family_check_all(&f, "module", "module."), 18);
	check_states(&f);
	family_close(&f);
}
END_TEST

START_TEST(roles_and_names_of_groups)
{
	struct sf_ckpt *c = load_good(DIR_OF "z3b/ckpt/global_step2");

	ck_assert_int_eq(load_group(c, "module")->role, SF_ROLE_MODEL);
	ck_assert_int_eq(load_group(c, "fp32")->role, SF_ROLE_OTHER);
	ck_assert_int_eq(load_group(c, "optim")->role, SF_ROLE_OPTIM);
	ck_assert_str_eq(c->writer, "DeepSpeed 0.19.8");
	sf_ckpt_free(c);
}
END_TEST

static const struct sf_tensor *tensor(const struct sf_ckpt *c, const char *key)
{
	for (uint32_t i = 0; i < c->nkeys; i++)
		if (strcmp(c->key[i].name, key) == 0)
			return &c->tensor[c->key[i].tensor];
	ck_abort_msg("no '%s'", key);
	return NULL;
}

/* A chunk is a piece of a partition: no more than the parameter's bytes are read for it. */
START_TEST(a_parameter_is_its_pieces_alone)
{
	struct sf_ckpt *c = load_good(DIR_OF "z3s/ckpt/global_step2");
	const struct sf_tensor *t = tensor(c, "fp32.emb.weight");
	uint64_t bytes = 0;

	ck_assert_uint_eq(t->nchunks, 3);
	for (uint32_t i = 0; i < t->nchunks; i++)
		bytes += t->len[i];
	ck_assert_uint_eq(bytes, t->bytes);
	sf_ckpt_free(c);
}
END_TEST

START_TEST(tied_weights_are_one_storage)
{
	static const char *const dirs[] = { DIR_OF "z2b/ckpt/global_step2",
		                            DIR_OF "z3b/ckpt/global_step2" };
	struct sf_ckpt *c = load_good(dirs[_i]);

	for (int k = 0; k < 2; k++) {
		uint32_t a = (uint32_t)(tensor(c, k ? "module.emb.weight" : "fp32.emb.weight") -
		                        c->tensor),
			 b = (uint32_t)(tensor(c, k ? "module.head.weight" : "fp32.head.weight") -
		                        c->tensor);
		ck_assert_uint_ne(a, b);
		ck_assert_uint_eq(sf_tensor_storage(c, a), sf_tensor_storage(c, b));
	}
	sf_ckpt_free(c);
}
END_TEST

START_TEST(a_name_says_what_a_file_is)
{
	static const struct {
		const char *name;
		enum ds_kind kind;
		uint32_t rank, mp;
	} names[] = {
		{ "mp_rank_01_model_states.pt", DS_MODEL, 0, 1 },
		{ "zero_pp_rank_12_mp_rank_00_model_states.pt", DS_ZERO_MODEL, 12, 0 },
		{ "zero_pp_rank_3_mp_rank_02_optim_states.pt", DS_OPTIM, 3, 2 },
		{ "bf16_zero_pp_rank_3_mp_rank_00_optim_states.pt", DS_OPTIM, 3, 0 },
		{ "zero_pp_rank_3_mp_rank_00optim_states.pt", DS_OPTIM, 3, 0 },
		{ "bf16_zero_pp_rank_3_mp_rank_00_model_states.pt", DS_NONE, 3, 0 },
		{ "layer_03-model_01-model_states.pt", DS_LAYER, 3, 1 },
		{ "layer_03-model_states.pt", DS_LAYER, 3, 0 },
		{ "layer_0_expert_5_mp_rank_00_model_states.pt", DS_EXPERT, 5, 0 },
		{ "expert_5_mp_rank_00_model_states.pt", DS_EXPERT, 5, 0 },
		{ "expp_rank_1_mp_rank_00_optim_states.pt", DS_EXPERT_OPTIM, 1, 0 },
		{ "zero/a.b/fp32.pt", DS_UNIVERSAL, 0, 0 },
		{ "zero/optimizer_state.pt", DS_REST, 0, 0 },
		{ "mp_rank_9999999999_model_states.pt", DS_NONE, 0, 0 },
		{ "mp_rank_00_model_states.pt.tmp", DS_NONE, 0, 0 },
		{ "", DS_NONE, 0, 0 },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		const struct ds_name n = ds_name_of(names[i].name);
		ck_assert_msg(n.kind == names[i].kind, "%s: %d", names[i].name, n.kind);
		if (n.kind == DS_NONE)
			continue;
		ck_assert_uint_eq(n.rank, names[i].rank);
		ck_assert_uint_eq(n.mp, names[i].mp);
	}
}
END_TEST

/* ---- bad input ---- */

#define SET_MAX 16
struct set {
	struct sf_mem_object at[SET_MAX];
	char name[SET_MAX][256];
	size_t n;
};

/* 128 KiB for the life of the process, reachable for LeakSanitizer. */
static uint8_t *kept(void)
{
	static struct block {
		struct block *next;
		uint8_t at[1 << 17];
	} * all;
	struct block *b = malloc(sizeof(*b));

	ck_assert_ptr_nonnull(b);
	b->next = all;
	all = b;
	return b->at;
}

static void read_set(struct set *s, const char *name, const char *but)
{
	char path[4096], below[200], file[4600];
	struct dirent *e;

	snprintf(below, sizeof(below), DIR_OF "%s/ckpt/global_step2", name);
	DIR *d = opendir(sf_test_data(path, below));
	ck_assert_ptr_nonnull(d);
	while ((e = readdir(d))) {
		if (e->d_name[0] == '.' || (but && strstr(e->d_name, but)))
			continue;
		snprintf(file, sizeof(file), "%s/%s", path, e->d_name);
		FILE *f = fopen(file, "rb");
		uint8_t *at = kept();
		snprintf(s->name[s->n], sizeof(s->name[0]), "%s", e->d_name);
		s->at[s->n] = (struct sf_mem_object){ s->name[s->n], at, fread(at, 1, 1 << 17, f) };
		s->n++;
		fclose(f);
	}
	closedir(d);
}

static void fails(struct set *s, int code, const char *a, const char *b)
{
	char msg[SF_ERROR_MAX];
	struct sf_ckpt *c;
	int r = load_mem(s->at, s->n, NULL, &c, msg);

	ck_assert_msg(r == code && strstr(msg, a) && strstr(msg, b), "%d: %s", r, msg);
}

START_TEST(a_missing_rank_is_named)
{
	struct set s = { .n = 0 };

	read_set(&s, "z2b", "zero_pp_rank_1_");
	fails(&s, -ENOENT, "not complete", "rank 1 is missing");
	s.n = 0;
	read_set(&s, "z2b", "zero_pp_rank_3_");
	fails(&s, -ENOENT, "is of 4 data-parallel ranks", "files of 3");
	s.n = 0;
	read_set(&s, "z3s", "rank_2_mp_rank_00_model");
	fails(&s, -ENOENT, "model states of 2 ranks", "partitions of 3");
	s.n = 0;
	read_set(&s, "z2b", "optim_states");
	fails(&s, -ENOENT, "mp_rank_00_model_states.pt", "no file of partitions");
}
END_TEST

START_TEST(files_of_two_saves_are_refused)
{
	struct set s = { .n = 0 };

	read_set(&s, "z2rr", NULL);
	size_t n = s.n;
	read_set(&s, "z2leg", "pp_rank_0");
	size_t k = n;
	for (size_t i = n; i < s.n; i++)
		if (strstr(s.name[i], "optim")) {
			s.at[k] = s.at[i];
			s.at[k].name = s.name[k];
			snprintf(s.name[k++], sizeof(s.name[0]),
			         "zero_pp_rank_4_mp_rank_00_optim_states.pt");
		}
	s.n = k;
	fails(&s, -EBADMSG, "is of 4 data-parallel ranks", "files of 5");

	/* the right number of ranks, another world's partition in one */
	s.n = 0;
	read_set(&s, "z3s", "zero_pp_rank_1_mp_rank_00_optim");
	n = s.n;
	read_set(&s, "z3b", "pp_rank_0");
	k = n;
	for (size_t i = n; i < s.n; i++)
		if (strstr(s.name[i], "optim")) {
			s.at[k] = s.at[i];
			snprintf(s.name[k], sizeof(s.name[0]),
			         "zero_pp_rank_1_mp_rank_00_optim_states.pt");
			s.at[k].name = s.name[k];
			k++;
		}
	s.n = k;
	fails(&s, -EBADMSG, "rank_1", "is of 2 data-parallel ranks");
}
END_TEST

/* Composer's tars have the files under deepspeed/, one rank's in each. */
START_TEST(files_below_deepspeed_are_one_checkpoint)
{
	struct set s = { .n = 0 };
	char msg[SF_ERROR_MAX];
	struct sf_ckpt *c;

	read_set(&s, "z3s", NULL);
	for (size_t i = 0; i < s.n; i++) {
		char was[100];
		snprintf(was, sizeof(was), "%.99s", s.name[i]);
		snprintf(s.name[i], sizeof(s.name[0]), "deepspeed/%s", was);
	}
	ck_assert_msg(load_mem(s.at, s.n, NULL, &c, msg) == 0, "%s", msg);
	ck_assert_uint_eq(tensor(c, "fp32.emb.weight")->nchunks, 3);
	sf_ckpt_free(c);
}
END_TEST

/* Every part of a pickle, damaged in turn: it loads, or says why not. */
START_TEST(a_damaged_pickle_never_crashes)
{
	struct set s = { .n = 0 };
	struct sf_ckpt *c;
	char msg[SF_ERROR_MAX];

	read_set(&s, _i % 2 ? "z3s" : "z2rr", NULL);
	for (size_t i = 0; i < s.n; i++) {
		uint8_t *at = (uint8_t *)s.at[i].at;
		for (size_t k = 90 + (size_t)_i * 7; k < SF_MIN(s.at[i].len, (size_t)4500);
		     k += 61) {
			const uint8_t was = at[k];
			at[k] ^= (uint8_t)(1u << (k % 8));
			if (load_mem(s.at, s.n, NULL, &c, msg) == 0)
				sf_ckpt_free(c);
			at[k] = was;
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("deepspeed");
	TCase *tc = tcase_create("deepspeed");

	tcase_add_loop_test(tc, masters_weights_and_moments_are_whole_again, 0,
	                    SF_ARRAY_LEN(cases));
	tcase_add_test(tc, experts_of_all_ranks_are_there);
	tcase_add_loop_test(tc, a_universal_checkpoint_has_the_same, 0, 2);
	tcase_add_test(tc, roles_and_names_of_groups);
	tcase_add_test(tc, a_parameter_is_its_pieces_alone);
	tcase_add_loop_test(tc, tied_weights_are_one_storage, 0, 2);
	tcase_add_test(tc, a_name_says_what_a_file_is);
	tcase_add_test(tc, a_missing_rank_is_named);
	tcase_add_test(tc, files_of_two_saves_are_refused);
	tcase_add_test(tc, files_below_deepspeed_are_one_checkpoint);
	tcase_add_loop_test(tc, a_damaged_pickle_never_crashes, 0, 8);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
