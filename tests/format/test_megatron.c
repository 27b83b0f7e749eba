#include "config.h"

#include <sys/stat.h>
#include <unistd.h>

#include "format/dcp/dcp_flat.h"
#include "format/dcp/dcp_read.h"
#include "tests/format/dcp_meta_text.h"
#include "tests/format/megatron_world.h"

/* Megatron-Core's torch_dist, as its versions wrote it. */

static const struct {
	const char *dir, *writer;
	uint32_t ranks;
	int64_t step;
	unsigned tensors;
} cases[] = {
	{ "megatron/0.9.0-flat", "Megatron-Core 0.8 to 0.14", 4, 1011, 17 },
	{ "megatron/0.15.3-flat", "Megatron-Core 0.15", 4, 1011, 19 },
	{ "megatron/0.15.3-irregular", "Megatron-Core 0.15", 3, -1, 4 },
	{ "megatron/0.18.0-nocommon", "Megatron-Core <= 0.18", 2, -1, 3 },
	{ "megatron/0.19.2-basic", "Megatron-Core >= 0.19", 4, 1011, 12 },
	{ "megatron/0.12.3-zarr", "Megatron-Core <= 0.15", 0, 1011, 28 },
};
#define DIST_CASES (SF_ARRAY_LEN(cases) - 1) /* of them, those of DCP's files */

static const char *in_case(char path[256], const char *dir, const char *name)
{
	snprintf(path, 256, "%s/%s", dir, name);
	return path;
}

START_TEST(every_tensor_has_the_shape_and_the_bytes_that_were_saved)
{
	struct sf_session s;
	char path[256];

	mg_open(&s, in_case(path, cases[_i].dir, "ckpt"));
	ck_assert_uint_eq(mg_check_case(&s, cases[_i].dir), cases[_i].tensors);
	ck_assert_msg(s.ckpt->nwarnings == 0, "%s", s.ckpt->warning[0].text);
	ck_assert_str_eq(s.ckpt->format, "megatron");
	ck_assert_str_eq(s.ckpt->writer, cases[_i].writer);
	ck_assert_uint_eq(s.ckpt->ranks, cases[_i].ranks);
	ck_assert_int_eq(s.ckpt->step, cases[_i].step);
	sf_session_close(&s);
}
END_TEST

START_TEST(both_readers_of_metadata_say_the_same_of_it)
{
	struct sf_buf text[2] = { { .limit = 1 << 20 }, { .limit = 1 << 20 } };
	char path[4096], below[256];
	struct sf_store *store;

	sf_test_data(path, in_case(below, cases[_i].dir, "ckpt"));
	ck_assert_int_ge(sf_store_open(load_io(), path, NULL, &store, NULL), 0);
	for (int i = 0; i < 2; i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct dcp_meta m = { 0 };
		ck_assert_msg(dcp_meta_read(&m, store, ".metadata", NULL,
		                            i ? DCP_READER_VALUES : DCP_READER_SCAN, &err) == 0,
		              "%s", err.msg);
		dcp_meta_text(&m, &text[i]);
		dcp_facts_text(&m, &text[i]);
		dcp_meta_release(&m);
	}
	ck_assert_str_eq(sf_buf_cstr(&text[0]), sf_buf_cstr(&text[1]));
	sf_buf_release(&text[0]);
	sf_buf_release(&text[1]);
	sf_store_free(store);
}
END_TEST

/* The plans of all ranks are most of a .metadata's end; what the scanner takes ends before them. */
START_TEST(the_plans_behind_everything_else_are_not_looked_at)
{
	struct mg_files f;
	struct sf_mem_object *o;
	struct sf_ckpt *ckpt;
	uint8_t *at;

	mg_load_files(&f, "megatron/0.19.2-basic/ckpt");
	o = mg_file(&f, ".metadata");
	at = (uint8_t *)(uintptr_t)o->at;
	uint8_t *plans = memmem(at, o->len, "all_local_plans", 15);
	ck_assert_ptr_nonnull(plans);
	/* no opcodes at all, but the last one */
	memset(plans + 16, 0xff, (size_t)(at + o->len - 1 - (plans + 16)));
	ckpt = mg_load(&f, NULL);
	ck_assert_uint_eq(ckpt->nwarnings, 0);
	ck_assert_uint_gt(ckpt->ntensors, 12);
	sf_ckpt_free(ckpt);
	at[o->len - 1] = 0;
	mg_refused(&f, NULL, -EBADMSG, ".metadata");
	mg_release(&f);
}
END_TEST

START_TEST(the_common_state_has_keys_of_its_own_beside_the_checkpoint)
{
	static const char *const dirs[] = { "megatron/0.15.3-flat/ckpt",
		                            "megatron/0.19.2-basic/ckpt" };
	struct sf_session s;

	mg_open(&s, dirs[_i]);
	mg_check_value(&s, "common.iteration", "1011\n");
	mg_check_value(&s, "common.opt_param_scheduler.lr_decay_style", "\"cosine\"\n");
	mg_check_value(&s, "common.nothing", "null\n");
	mg_check_value(&s, "common.0.1.a", "2\n");
	mg_check_value(&s, "common.big", "{\"$int\": \"1180591620717411303435\"}\n");
	const struct sf_entry *small = &s.catalog->entry[mg_entry(&s, "common.small_tensor")];
	ck_assert_uint_ne(small->tensor, SF_NONE);
	const struct sf_group *common = load_group(s.ckpt, "common");
	ck_assert_uint_eq(common->ntensors, 3);
	ck_assert_int_eq(common->role, SF_ROLE_OTHER);
	for (uint32_t i = 0; i < s.ckpt->nkeys; i++)
		ck_assert_int_eq(i >= s.ckpt->nmain,
		                 strncmp(s.ckpt->key[i].name, "common.", 7) == 0);
	ck_assert_str_eq(s.ckpt->content_metadata,
	                 "{\"distrib_optim_sharding_type\": \"fully_sharded_model_space\", "
	                 "\"singleton_local_shards\": false, \"chained_optim_avoid_prefix\": "
	                 "true}");
	sf_session_close(&s);
}
END_TEST

START_TEST(objects_are_taken_out_of_the_lists_that_they_are_stored_in)
{
	struct sf_session s;

	mg_open(&s, "megatron/0.19.2-basic/ckpt");
	mg_check_value(&s, "decoder.layers.mlp.linear_fc1._extra_state/shard_1_2", "null\n");
	mg_check_value(&s, "optimizer.distributed.dp_group_idx_0.optimizer/shard_0_1",
	               "{\"optimizer\": {\"param_groups\": [{\"lr\": 0.0001, \"step\": 5}]}}\n");
	sf_session_close(&s);
}
END_TEST

static void check_role(const struct sf_ckpt *ckpt, const char *key, const char *group,
                       enum sf_role role)
{
	for (uint32_t i = 0; i < ckpt->nkeys; i++) {
		const struct sf_group *g = &ckpt->group[ckpt->key[i].group];
		if (strcmp(ckpt->key[i].name, key) != 0)
			continue;
		ck_assert_str_eq(g->name, group);
		ck_assert_int_eq(g->role, role);
		return;
	}
	ck_abort_msg("no key '%s'", key);
}

START_TEST(names_say_whose_a_key_is)
{
	struct sf_ckpt *ckpt = load_good("megatron/0.19.2-basic/ckpt");

	check_role(ckpt, "decoder.final_layernorm.weight", "model", SF_ROLE_MODEL);
	check_role(ckpt, "decoder.layers.mlp.linear_fc1._extra_state/shard_1_2", "model",
	           SF_ROLE_MODEL);
	check_role(ckpt, "optimizer.distributed.dp_group_idx_0.optimizer/shard_0_1", "optimizer",
	           SF_ROLE_OPTIM);
	check_role(ckpt, "rng_state/shard_0.0_2.2", "rng_state", SF_ROLE_OTHER);
	check_role(ckpt, "common_state/shard_0_1", "common_state", SF_ROLE_OTHER);
	check_role(ckpt, "common.optimizer.param_state_sharding_type", "common", SF_ROLE_OTHER);
	sf_ckpt_free(ckpt);
}
END_TEST

/* ---- what is not whole ---- */

START_TEST(a_save_without_metadata_json_was_not_committed)
{
	static const struct sf_load_options dcp = { .source_format = "dcp" };
	static const char *const dirs[] = { "megatron/0.15.3-irregular/ckpt",
		                            "megatron/0.19.2-basic/ckpt" };
	struct sf_ckpt *ckpt;
	struct mg_files f;

	for (size_t i = 0; i < SF_ARRAY_LEN(dirs); i++) {
		mg_load_files(&f, dirs[i]);
		mg_remove(&f, "metadata.json");
		mg_refused(&f, NULL, -ENOENT, "not committed");
		ckpt = mg_load(&f, &dcp);
		ck_assert_str_eq(ckpt->format, "dcp");
		sf_ckpt_free(ckpt);
		mg_release(&f);
	}
}
END_TEST

START_TEST(metadata_json_alone_says_what_is_missing)
{
	struct mg_files f;

	mg_load_files(&f, "megatron/0.19.2-basic/ckpt");
	mg_remove(&f, ".metadata");
	mg_refused(&f, NULL, -ENOENT, "but .metadata is missing");
	mg_release(&f);
}
END_TEST

START_TEST(a_common_state_that_cannot_be_read_is_a_warning)
{
	struct sf_ckpt *ckpt;
	struct mg_files f;

	mg_load_files(&f, "megatron/0.15.3-flat/ckpt");
	mg_file(&f, "common.pt")->len = 1000;
	ckpt = mg_load(&f, NULL);
	ck_assert_ptr_nonnull(load_warning(ckpt, "unreadable-file", "common.pt"));
	ck_assert_uint_eq(ckpt->ntensors, 19);
	sf_ckpt_free(ckpt);
	mg_release(&f);

	mg_load_files(&f, "megatron/0.19.2-basic/ckpt");
	mg_remove(&f, "__0_0.distcp");
	ckpt = mg_load(&f, NULL);
	ck_assert_ptr_nonnull(load_warning(ckpt, "unreadable-file", "common_state/shard_0_1"));
	ck_assert_ptr_nonnull(load_warning(ckpt, "missing-file", "__0_0.distcp"));
	sf_ckpt_free(ckpt);
	mg_release(&f);
}
END_TEST

START_TEST(nemos_weights_are_found_below_its_directory)
{
	struct sf_ckpt *ckpt;
	struct mg_files f;

	mg_load_files(&f, "megatron/0.15.3-irregular/ckpt");
	for (size_t i = 0; i < f.n; i++) {
		char name[256];
		snprintf(name, sizeof(name), "weights/%s", f.at[i].name);
		free((void *)(uintptr_t)f.at[i].name);
		f.at[i].name = strdup(name);
	}
	mg_set(&f, "context/io.json", "{}", 2);
	ckpt = mg_load(&f, NULL);
	ck_assert_str_eq(ckpt->format, "megatron");
	ck_assert_uint_eq(ckpt->ntensors, 4);
	ck_assert_uint_eq(ckpt->nwarnings, 0);
	sf_ckpt_free(ckpt);
	mg_remove(&f, "weights/metadata.json");
	mg_refused(&f, NULL, -ENOENT, "not committed: weights/common.pt is there");
	mg_release(&f);
}
END_TEST

static void put_file(const char *dir, const char *name, const void *at, size_t len)
{
	char path[4096];
	FILE *f;

	snprintf(path, sizeof(path), "%s/%s", dir, name);
	f = fopen(path, "wb");
	ck_assert_ptr_nonnull(f);
	ck_assert_uint_eq(fwrite(at, 1, len, f), len);
	ck_assert_int_eq(fclose(f), 0);
}

/* NeMo's marker is beside the checkpoint's directory. */
START_TEST(nemos_marker_says_that_a_save_is_not_finished)
{
	char top[] = "/tmp/sf-megatron-XXXXXX", path[4096], msg[SF_ERROR_MAX];
	struct sf_ckpt *ckpt = NULL;
	struct sf_store *store;
	struct mg_files f;

	ck_assert_ptr_nonnull(mkdtemp(top));
	snprintf(path, sizeof(path), "%s/step=9-last", top);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	snprintf(path, sizeof(path), "%s/step=9-last/weights", top);
	ck_assert_int_eq(mkdir(path, 0755), 0);
	mg_load_files(&f, "megatron/0.15.3-irregular/ckpt");
	for (size_t i = 0; i < f.n; i++)
		put_file(path, f.at[i].name, f.at[i].at, f.at[i].len);
	for (int unfinished = 1; unfinished >= 0; unfinished--) {
		if (unfinished)
			put_file(top, "step=9-last-unfinished", "", 0);
		snprintf(path, sizeof(path), "%s/step=9-last", top);
		ck_assert_int_ge(sf_store_open(load_io(), path, NULL, &store, NULL), 0);
		int r = load_store(store, NULL, &ckpt, msg);
		ck_assert_msg(r == (unfinished ? -ENOENT : 0), "%s", msg);
		ck_assert_msg(!unfinished || strstr(msg, "'step=9-last-unfinished' beside it"),
		              "%s", msg);
		snprintf(path, sizeof(path), "%s/step=9-last-unfinished", top);
		ck_assert_int_eq(unlink(path), unfinished ? 0 : -1);
	}
	sf_ckpt_free(ckpt);
	for (size_t i = 0; i < f.n; i++) {
		snprintf(path, sizeof(path), "%s/step=9-last/weights/%s", top, f.at[i].name);
		ck_assert_int_eq(unlink(path), 0);
	}
	snprintf(path, sizeof(path), "%s/step=9-last/weights", top);
	ck_assert_int_eq(rmdir(path), 0);
	snprintf(path, sizeof(path), "%s/step=9-last", top);
	ck_assert_int_eq(rmdir(path), 0);
	ck_assert_int_eq(rmdir(top), 0);
	mg_release(&f);
}
END_TEST

START_TEST(as_plain_dcp_it_is_as_it_is_stored)
{
	static const struct sf_load_options dcp = { .source_format = "dcp" };
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];

	ck_assert_int_eq(load_data("megatron/0.9.0-flat/ckpt", &dcp, &ckpt, msg), 0);
	ck_assert_ptr_nonnull(load_warning(ckpt, "plain-reading", "common.pt is not read"));
	for (uint32_t i = 0; i < ckpt->nkeys; i++)
		if (strcmp(ckpt->key[i].name,
		           "optimizer.state.exp_avg.embedding.word_embeddings.weight") == 0)
			ck_assert_uint_eq(ckpt->tensor[ckpt->key[i].tensor].ndim, 3);
	sf_ckpt_free(ckpt);
}
END_TEST

/* ---- flattened tensors against a slow reference ---- */

struct flat_world {
	struct dcp_meta m;
	struct dcp_tensor t;
	unsigned ndim;
	uint64_t shape[5], grid[5], block[5], numel, nblocks;
};

/* Blocks of a random grid, each cut into random runs. */
static void flat_make(struct flat_world *w, unsigned seed)
{
	uint64_t origin[6], extent[6], stored[6];

	srand(seed);
	*w = (struct flat_world){ .ndim = 1 + (unsigned)rand() % 4, .numel = 1, .nblocks = 1 };
	for (unsigned d = 0; d < w->ndim; d++) {
		stored[d] = w->grid[d] = 1 + (uint64_t)rand() % 3;
		w->block[d] = 1 + (uint64_t)rand() % 4;
		w->shape[d] = w->grid[d] * w->block[d];
		w->numel *= w->block[d];
		w->nblocks *= w->grid[d];
		extent[d] = 1;
	}
	stored[w->ndim] = w->numel;
	w->t = (struct dcp_tensor){ .ndim = (uint8_t)(w->ndim + 1),
		                    .flat = true,
		                    .flat_ndim = (uint8_t)w->ndim,
		                    .flat_shape0 = w->ndim + 1 };
	for (unsigned d = 0; d <= w->ndim; d++)
		ck_assert_int_ge(dcp_u64s_push(&w->m.dims, stored[d]), 0);
	for (unsigned d = 0; d < w->ndim; d++)
		ck_assert_int_ge(dcp_u64s_push(&w->m.dims, w->shape[d]), 0);
	for (uint64_t b = 0; b < w->nblocks; b++) {
		uint64_t rest = b, from = 0, len;
		uint32_t run;
		for (unsigned d = w->ndim; d-- > 0; rest /= w->grid[d])
			origin[d] = rest % w->grid[d];
		for (; from < w->numel; from += len) {
			len = 1 + (uint64_t)rand() % (w->numel - from);
			origin[w->ndim] = from;
			extent[w->ndim] = len;
			ck_assert_int_ge(dcp_meta_chunk(&w->m, origin, extent, w->ndim + 1, &run),
			                 0);
			w->m.run.at[run].first = w->t.nchunks++;
			w->t.nruns++;
		}
	}
}

START_TEST(a_run_of_a_block_is_where_unravelling_puts_it)
{
	struct flat_world w;
	struct dcp_flat f;

	flat_make(&w, (unsigned)_i);
	dcp_flat_init(&w.m, &w.t, &f);
	ck_assert(f.fits);
	for (uint32_t i = 0; i < w.t.nchunks; i++) {
		const struct dcp_run *run = &w.m.run.at[i];
		uint64_t o[6], e[6], origin[5], off, len;
		for (unsigned d = 0; d <= w.ndim; d++) {
			o[d] = dcp_coord(&w.m, run, 0, d);
			e[d] = dcp_coord(&w.m, run, 0, w.ndim + 1 + d);
		}
		dcp_flat_chunk(&f, o, e, origin, &off, &len);
		ck_assert_uint_eq(off, o[w.ndim]);
		ck_assert_uint_eq(len, e[w.ndim]);
		for (unsigned d = 0; d < w.ndim; d++) {
			ck_assert_uint_eq(origin[d], o[d] * w.block[d]);
			ck_assert_uint_eq(f.block[d], w.block[d]);
		}
	}
	dcp_meta_release(&w.m);
}
END_TEST

START_TEST(shapes_that_contradict_each_other_do_not_fit)
{
	struct flat_world w;
	struct dcp_flat f;

	flat_make(&w, (unsigned)_i);
	w.m.dims.at[w.t.flat_shape0] += w.grid[0]; /* blocks are larger then */
	dcp_flat_init(&w.m, &w.t, &f);
	ck_assert(!f.fits);
	w.m.dims.at[w.t.flat_shape0] -= w.grid[0];
	w.m.dims.at[w.t.shape0] = 0; /* no blocks */
	dcp_flat_init(&w.m, &w.t, &f);
	ck_assert(!f.fits);
	w.m.dims.at[w.t.shape0] = w.grid[0];
	w.t.flat_ndim--;
	dcp_flat_init(&w.m, &w.t, &f);
	ck_assert(!f.fits);
	w.t.flat_ndim++;
	w.m.coord.at[w.ndim + 1] = 2; /* a chunk in two blocks */
	dcp_flat_init(&w.m, &w.t, &f);
	ck_assert(!f.fits);
	dcp_meta_release(&w.m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("megatron");
	TCase *tc = tcase_create("megatron");

	tcase_add_loop_test(tc, every_tensor_has_the_shape_and_the_bytes_that_were_saved, 0,
	                    SF_ARRAY_LEN(cases));
	tcase_add_loop_test(tc, both_readers_of_metadata_say_the_same_of_it, 0, DIST_CASES);
	tcase_add_test(tc, the_plans_behind_everything_else_are_not_looked_at);
	tcase_add_loop_test(tc, the_common_state_has_keys_of_its_own_beside_the_checkpoint, 0, 2);
	tcase_add_test(tc, objects_are_taken_out_of_the_lists_that_they_are_stored_in);
	tcase_add_test(tc, names_say_whose_a_key_is);
	tcase_add_test(tc, a_save_without_metadata_json_was_not_committed);
	tcase_add_test(tc, metadata_json_alone_says_what_is_missing);
	tcase_add_test(tc, a_common_state_that_cannot_be_read_is_a_warning);
	tcase_add_test(tc, nemos_weights_are_found_below_its_directory);
	tcase_add_test(tc, nemos_marker_says_that_a_save_is_not_finished);
	tcase_add_test(tc, as_plain_dcp_it_is_as_it_is_stored);
	tcase_add_loop_test(tc, a_run_of_a_block_is_where_unravelling_puts_it, 0, 50);
	tcase_add_loop_test(tc, shapes_that_contradict_each_other_do_not_fit, 0, 20);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
