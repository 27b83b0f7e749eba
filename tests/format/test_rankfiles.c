#include "config.h"

#include <dirent.h>

#include "base/path.h"
#include "format/rankfiles/rankfiles_runs.h"
#include "format/rankfiles/rankfiles_set.h"
#include "tests/lib/family_world.h"
#include "tests/lib/load.h"

#define DIR_OF "rankfiles-2.13/"

static const char *const cases[] = { "tp_3x2", "hsdp_2x3", "sharded_3", "tied_3", "differ_2" };

START_TEST(what_the_ranks_have_is_one_tensor_again)
{
	struct family f = { 0 };
	char dir[200];

	snprintf(dir, sizeof(dir), DIR_OF "%s", cases[_i]);
	family_open(&f, dir, "ckpt");
	ck_assert_str_eq(f.s.ckpt->format, "rank-files");
	ck_assert_uint_gt(family_check_all(&f, "tensors", ""), 8);
	family_check_objects(&f);
	for (uint32_t i = 0; i < f.s.ckpt->nwarnings; i++)
		ck_assert_msg(sf_warning_is_note(f.s.ckpt->warning[i].code), "%s",
		              f.s.ckpt->warning[i].text);
	family_close(&f);
}
END_TEST

START_TEST(roles_are_as_the_kinds_of_files_are_called)
{
	struct sf_ckpt *c = load_good(DIR_OF "hsdp_2x3/ckpt");

	ck_assert_int_eq(load_group(c, "model")->role, SF_ROLE_MODEL);
	ck_assert_int_eq(load_group(c, "optim")->role, SF_ROLE_OPTIM);
	ck_assert_int_eq(load_group(c, "extra")->role, SF_ROLE_OTHER);
	ck_assert_uint_eq(c->ranks, 6);
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

/* Two replicas of three parts each: three chunks, of the lowest ranks. */
START_TEST(a_replica_is_taken_once)
{
	struct sf_ckpt *c = load_good(DIR_OF "hsdp_2x3/ckpt");
	const struct sf_tensor *t = tensor(c, "model.l0.weight");

	ck_assert_uint_eq(t->nchunks, 3);
	for (uint32_t i = 0; i < 3; i++) {
		char want[64];
		snprintf(want, sizeof(want), "model_world_size_6_rank_%u.pt", i);
		ck_assert_str_eq(c->file[c->place[t->place[i]].container].name, want);
	}
	ck_assert_uint_eq(tensor(c, "model.inv_freq")->nchunks, 1);
	sf_ckpt_free(c);
}
END_TEST

START_TEST(tied_weights_are_one_storage)
{
	struct sf_ckpt *c = load_good(DIR_OF "tied_3/ckpt");
	uint32_t a = (uint32_t)(tensor(c, "model.embed.weight") - c->tensor),
		 b = (uint32_t)(tensor(c, "model.head.weight") - c->tensor);

	ck_assert_uint_ne(a, b);
	ck_assert_uint_eq(sf_tensor_storage(c, a), sf_tensor_storage(c, b));
	sf_ckpt_free(c);
}
END_TEST

/* ---- names, sets ---- */

START_TEST(a_name_says_kind_world_and_rank)
{
	static const struct {
		const char *name, *kind;
		uint32_t world, rank;
	} good[] = { { "model_world_size_64_rank_10.pt", "model", 64, 10 },
		     { "extra_state_world_size_1_rank_0.pt", "extra_state", 1, 0 },
		     { "pytorch_model_fsdp_0_rank3.bin", "model", 0, 3 } };
	static const char *const bad[] = { "model_world_size_0_rank_0.pt",
		                           "model_world_size_4_rank_.pt",
		                           "_world_size_4_rank_0.pt",
		                           "d/model_world_size_4_rank_0.pt",
		                           "model_world_size_4_rank_0.pt.tmp",
		                           "model_world_size_4294967295_rank_0.pt",
		                           "ep0-ba1-rank0.pt",
		                           "rank_0.pt",
		                           ".pt",
		                           "" };
	struct rankfiles_name n;

	for (size_t i = 0; i < SF_ARRAY_LEN(good); i++) {
		ck_assert(rankfiles_name(good[i].name, &n));
		ck_assert(n.kind_len == strlen(good[i].kind) &&
		          memcmp(n.kind, good[i].kind, n.kind_len) == 0);
		ck_assert_uint_eq(n.world, good[i].world);
		ck_assert_uint_eq(n.rank, good[i].rank);
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++)
		ck_assert_msg(!rankfiles_name(bad[i], &n), "%s", bad[i]);
}
END_TEST

#define SET_MAX 40
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

/* Files of the case but those that have @but in their names. */
static void read_set(struct set *s, const char *name, const char *but)
{
	char path[4096], below[200], file[4600];
	struct dirent *e;

	snprintf(below, sizeof(below), DIR_OF "%s/ckpt", name);
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

static void rename_in(struct set *s, const char *from, const char *to)
{
	for (size_t i = 0; i < s->n; i++)
		if (strcmp(s->name[i], from) == 0)
			snprintf(s->name[i], sizeof(s->name[0]), "%s", to);
}

static void fails(struct set *s, int code, const char *a, const char *b)
{
	char msg[SF_ERROR_MAX];
	struct sf_ckpt *c;
	int r = load_mem(s->at, s->n, NULL, &c, msg);

	ck_assert_msg(r == code && strstr(msg, a) && strstr(msg, b), "%d: %s", r, msg);
}

static struct sf_ckpt *loads(struct set *s)
{
	char msg[SF_ERROR_MAX];
	struct sf_ckpt *c = NULL;
	int r = load_mem(s->at, s->n, NULL, &c, msg);

	ck_assert_msg(r == 0, "%d: %s", r, msg);
	return c;
}

START_TEST(a_missing_rank_is_named)
{
	struct set s = { .n = 0 };

	read_set(&s, "tied_3", "model_world_size_3_rank_1");
	fails(&s, -ENOENT, "rank 1 is missing", "2 of 3");
}
END_TEST

START_TEST(an_optimizer_without_a_rank_has_holes_and_the_model_none)
{
	struct set s = { .n = 0 };

	read_set(&s, "tied_3", "optim_world_size_3_rank_2");
	struct sf_ckpt *c = loads(&s);
	ck_assert_ptr_nonnull(load_warning(c, "missing-file", "optim_world_size_3_rank_2.pt"));
	ck_assert_int_eq(tensor(c, "model.l0.weight")->flags & SF_TENSOR_HOLE, 0);
	ck_assert_int_ne(tensor(c, "optim.state.l0.weight.exp_avg")->flags & SF_TENSOR_HOLE, 0);
	sf_ckpt_free(c);
}
END_TEST

START_TEST(two_world_sizes_are_refused_unless_one_is_whole)
{
	struct set s = { .n = 0 };

	read_set(&s, "tied_3", "model_world_size_3_rank_1");
	rename_in(&s, "model_world_size_3_rank_2.pt", "model_world_size_4_rank_2.pt");
	fails(&s, -EBADMSG, "of 3 and of 4 ranks", "neither");

	s.n = 0;
	read_set(&s, "tied_3", NULL);
	const size_t n = s.n;
	read_set(&s, "differ_2", "_rank_1");
	struct sf_ckpt *c = loads(&s);
	ck_assert_ptr_nonnull(load_warning(c, "ranks-disagree", "of another number of ranks"));
	ck_assert_uint_eq(c->ranks, 3);
	ck_assert_uint_gt(s.n, n);
	sf_ckpt_free(c);
}
END_TEST

/* The file of another rank, or of another run, under this rank's name. */
START_TEST(ranks_that_disagree_are_named)
{
	struct set s = { .n = 0 };
	struct sf_ckpt *c;

	read_set(&s, "tied_3", "model_world_size_3_rank_1");
	size_t at = s.n;
	read_set(&s, "sharded_3", "_rank_0");
	rename_in(&s, "fsdp_config.json", "x.json");
	for (size_t i = at; i < s.n; i++)
		if (strcmp(s.name[i], "model_world_size_3_rank_1.pt") != 0)
			snprintf(s.name[i], sizeof(s.name[0]), "not_read_%zu", i);
	c = loads(&s); /* rank 1 has ShardedTensors, the others DTensors, of the same boxes */
	ck_assert_int_eq(tensor(c, "model.l0.weight")->flags & SF_TENSOR_HOLE, 0);
	sf_ckpt_free(c);

	s.n = 0;
	read_set(&s, "tied_3", "model_world_size_3_rank_1");
	at = s.n;
	read_set(&s, "differ_2", "optim");
	for (size_t i = at; i < s.n; i++) {
		bool it = strcmp(s.name[i], "model_world_size_2_rank_1.pt") == 0;
		snprintf(s.name[i], sizeof(s.name[0]),
		         it ? "model_world_size_3_rank_1.pt" : "no_%zu", i);
	}
	c = loads(&s);
	ck_assert_int_ne(tensor(c, "model.l0.weight")->flags & SF_TENSOR_HOLE, 0);
	ck_assert_ptr_nonnull(load_warning(c, "ranks-disagree", "1 of 3 ranks have it"));
	sf_ckpt_free(c);
}
END_TEST

START_TEST(the_config_and_the_names_disagree)
{
	struct set s = { .n = 0 };

	read_set(&s, "tied_3", "fsdp_config");
	s.at[s.n] = (struct sf_mem_object){ "fsdp_config.json", "{\"world_size\": 8}", 17 };
	s.n++;
	struct sf_ckpt *c = loads(&s);
	ck_assert_ptr_nonnull(load_warning(c, "ranks-disagree", "says 8 ranks"));
	sf_ckpt_free(c);
}
END_TEST

START_TEST(a_file_that_cannot_be_read_costs_its_parts)
{
	struct set s = { .n = 0 };

	read_set(&s, "tied_3", NULL);
	for (size_t i = 0; i < s.n; i++)
		if (strcmp(s.name[i], "model_world_size_3_rank_2.pt") == 0)
			s.at[i].len = 700;
	struct sf_ckpt *c = loads(&s);
	ck_assert_ptr_nonnull(load_warning(c, "unreadable-file", "what rank 2 has is left out"));
	ck_assert_int_ne(tensor(c, "model.l0.weight")->flags & SF_TENSOR_HOLE, 0);
	ck_assert_int_eq(tensor(c, "model.inv_freq")->flags, SF_TENSOR_GRID);
	sf_ckpt_free(c);
}
END_TEST

/* Every byte of a file's pickle, damaged in turn: it loads, or says why not. */
START_TEST(a_damaged_pickle_never_crashes)
{
	struct set s = { .n = 0 };
	struct sf_ckpt *c;
	char msg[SF_ERROR_MAX];

	read_set(&s, "tp_3x2", NULL);
	for (size_t i = 0; i < s.n; i++) {
		if (strcmp(s.name[i], "model_world_size_6_rank_4.pt") != 0)
			continue;
		uint8_t *at = (uint8_t *)s.at[i].at;
		for (size_t k = 100 + (size_t)_i; k < SF_MIN(s.at[i].len, (size_t)5000); k += 40) {
			const uint8_t was = at[k];
			at[k] ^= (uint8_t)(1u << (k % 8));
			if (load_mem(s.at, s.n, NULL, &c, msg) == 0)
				sf_ckpt_free(c);
			at[k] = was;
		}
	}
}
END_TEST

/* ---- cuts, against torch.chunk's own words ---- */

static void cut(const uint8_t *in, size_t n, uint64_t pieces, uint64_t at, uint8_t *out,
                size_t *ret_n)
{
	size_t step = (n + pieces - 1) / pieces;

	*ret_n = 0;
	for (size_t i = step * at; i < SF_MIN(step * (at + 1), n); i++)
		out[(*ret_n)++] = in[i];
}

START_TEST(runs_are_what_cutting_a_list_gives)
{
	uint8_t all[64], want[64], big[64];

	for (size_t i = 0; i < sizeof(all); i++)
		all[i] = (uint8_t)i;
	for (uint64_t factor = 1; factor < 6; factor++)
		for (uint64_t n = 1; n < 6; n++)
			for (uint64_t at = 0; at < n; at++) {
				struct rankfiles_runs r = { 0 };
				size_t len = 0, k = 0;
				rankfiles_runs_push(&r, (struct rankfiles_run){ 0, (uint64_t)_i });
				ck_assert_int_eq(rankfiles_runs_strided(&r, factor, n, at), 0);
				for (uint64_t p = 0; p < factor; p++) {
					size_t nbig, got;
					cut(all, (size_t)_i, factor, p, big, &nbig);
					cut(big, nbig, n, at, want + len, &got);
					len += got;
				}
				ck_assert_uint_eq(rankfiles_runs_len(&r), len);
				for (size_t i = 0; i < r.n; i++)
					for (uint64_t x = 0; x < r.at[i].len; x++)
						ck_assert_uint_eq(r.at[i].start + x, want[k++]);
				rankfiles_runs_release(&r);
			}
}
END_TEST

START_TEST(a_cut_into_too_much_is_refused)
{
	struct rankfiles_runs r = { 0 };

	rankfiles_runs_push(&r, (struct rankfiles_run){ 0, UINT64_MAX });
	ck_assert_int_eq(rankfiles_runs_strided(&r, UINT64_MAX, 2, 1), -E2BIG);
	ck_assert_int_eq(rankfiles_runs_chunk(&r, UINT64_MAX, UINT64_MAX - 1), 0);
	ck_assert_uint_eq(rankfiles_runs_len(&r), 1);
	rankfiles_runs_release(&r);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("rankfiles");
	TCase *tc = tcase_create("rankfiles");

	tcase_add_loop_test(tc, what_the_ranks_have_is_one_tensor_again, 0, SF_ARRAY_LEN(cases));
	tcase_add_test(tc, roles_are_as_the_kinds_of_files_are_called);
	tcase_add_test(tc, a_replica_is_taken_once);
	tcase_add_test(tc, tied_weights_are_one_storage);
	tcase_add_test(tc, a_name_says_kind_world_and_rank);
	tcase_add_test(tc, a_missing_rank_is_named);
	tcase_add_test(tc, an_optimizer_without_a_rank_has_holes_and_the_model_none);
	tcase_add_test(tc, two_world_sizes_are_refused_unless_one_is_whole);
	tcase_add_test(tc, ranks_that_disagree_are_named);
	tcase_add_test(tc, the_config_and_the_names_disagree);
	tcase_add_test(tc, a_file_that_cannot_be_read_costs_its_parts);
	tcase_add_loop_test(tc, a_damaged_pickle_never_crashes, 0, 8);
	tcase_add_loop_test(tc, runs_are_what_cutting_a_list_gives, 0, 30);
	tcase_add_test(tc, a_cut_into_too_much_is_refused);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
