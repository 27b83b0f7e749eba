#include "config.h"

#include "tests/format/dcp_world.h"

START_TEST(what_was_not_committed_says_so)
{
	const struct sf_mem_object tmp[] = { { ".metadata.tmp", "x", 1 },
		                             { "__0_0.distcp", "x", 1 } },
				   data[] = { { "__0_0.distcp", "x", 1 } },
				   other[] = { { "README", "x", 1 } },
				   rank[] = { { "__0.metadata", "x", 1 },
		                              { "__2.metadata", "x", 1 } };
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];

	ck_assert_int_eq(load_mem(tmp, 2, NULL, &ckpt, msg), -ENOENT);
	ck_assert_msg(strstr(msg, "not committed: .metadata.tmp only") != NULL, "%s", msg);
	ck_assert_int_eq(load_mem(data, 1, NULL, &ckpt, msg), -ENOENT);
	ck_assert_msg(strstr(msg, "not committed") != NULL && strstr(msg, "__0_0.distcp"), "%s",
	              msg);
	ck_assert_int_eq(load_mem(other, 1, NULL, &ckpt, msg), -ENOENT);
	ck_assert_msg(strstr(msg, "README") != NULL, "%s", msg);
	ck_assert_int_eq(load_mem(rank, 2, NULL, &ckpt, msg), -ENOENT);
	ck_assert_msg(strstr(msg, "__1.metadata") != NULL, "%s", msg);
}
END_TEST

START_TEST(unreadable_metadata_gives_way_to_the_ranks_own)
{
	struct sf_mem_object files[32];
	size_t n = objects_of("dcp/ranklocal/ckpt", "", files, 31);
	struct sf_ckpt *alone = NULL, *both = NULL, *none = NULL;
	char msg[SF_ERROR_MAX];

	ck_assert_int_eq(load_mem(files, n, NULL, &alone, msg), 0);
	ck_assert_uint_eq(alone->nwarnings, 0);
	files[n++] = (struct sf_mem_object){ strdup(".metadata"), memset(malloc(9), 'x', 9), 9 };
	ck_assert_msg(load_mem(files, n, NULL, &both, msg) == 0, "%s", msg);
	ck_assert_uint_gt(both->nkeys, 0);
	ck_assert_uint_eq(both->nkeys, alone->nkeys);
	ck_assert_uint_eq(both->nchunks, alone->nchunks);
	ck_assert(warned(both, "unread-metadata", ".metadata"));
	/* nor is a rank's readable: both are said */
	for (size_t i = 0; i < n; i++)
		if (strcmp(files[i].name, "__0.metadata") == 0)
			files[i].len = 5;
	ck_assert_int_eq(load_mem(files, n, NULL, &none, msg), -EBADMSG);
	ck_assert_msg(strstr(msg, "'.metadata'") && strstr(msg, "__0.metadata"), "%s", msg);
	sf_ckpt_free(alone);
	sf_ckpt_free(both);
	free_objects(files, n);
}
END_TEST

/* The first: its own read; the second: the first rank's, when it turned out to be malformed. */
START_TEST(metadata_that_could_not_be_read_this_time_fails_the_load)
{
	struct sf_mem_object files[32];
	size_t n = objects_of("dcp/ranklocal/ckpt", "", files, 31);
	struct sf_fault plan = { .fail_at = _i ? 2 : 0, .code = -EIO };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *inner, *store;
	struct sf_ckpt *ckpt = NULL;

	files[n++] = (struct sf_mem_object){ strdup(".metadata"), memset(malloc(9), 'x', 9), 9 };
	ck_assert_int_eq(sf_store_mem(io(), files, n, &inner, NULL), 0);
	ck_assert_int_eq(sf_store_fault(inner, &plan, &store, NULL), 0);
	ck_assert_int_eq(sf_ckpt_load(store, NULL, &ckpt, &err), -EIO);
	ck_assert_msg(strstr(err.msg, ".metadata") != NULL, "%s", err.msg);
	sf_store_free(store);
	free_objects(files, n);
}
END_TEST

START_TEST(metadata_that_is_not_what_was_listed_is_stale)
{
	const struct sf_mem_object file = { ".metadata", "x", 1 };
	const struct sf_objinfo listed = { .name = ".metadata", .size = 2 };
	struct sf_error err = SF_ERROR_INIT;
	struct dcp_found found;
	struct dcp_meta m = { 0 };
	struct sf_store *store;

	ck_assert_int_eq(sf_store_mem(io(), &file, 1, &store, NULL), 0);
	ck_assert_int_eq(dcp_read_dir(&m, store, &listed, 1, "", &found, &err), -ESTALE);
	ck_assert_msg(strstr(err.msg, ".metadata") != NULL, "%s", err.msg);
	dcp_meta_release(&m);
	sf_store_free(store);
}
END_TEST

/* accelerate saves the model, then the optimizer; the job ended in between. */
START_TEST(a_child_that_was_not_committed_is_left_out_and_said)
{
	const struct sf_load_options complete = { .complete = true };
	struct sf_mem_object files[34];
	size_t n = objects_of("dcp/safetensors/ckpt", "pytorch_model_fsdp_0/", files, 32);
	struct sf_ckpt *ckpt = NULL;
	char msg[SF_ERROR_MAX];
	int r;

	files[n] = (struct sf_mem_object){ "optimizer_0/__0_0.distcp", "x", 1 };
	files[n + 1] = (struct sf_mem_object){ "optimizer_0/__1_0.distcp", "x", 1 };
	r = load_mem(files, n + 2, NULL, &ckpt, msg);
	ck_assert_msg(r == 0, "%s", msg);
	ck_assert(warned(ckpt, "not-committed", "optimizer_0/"));
	ck_assert_uint_eq(ckpt->nwarnings, 1);
	sf_ckpt_free(ckpt);
	ck_assert_int_eq(load_mem(files, n + 2, &complete, &ckpt, msg), -EBADMSG);
	ck_assert_msg(strstr(msg, "optimizer_0/") != NULL, "%s", msg);
	r = load_mem(files, n, NULL, &ckpt, msg);
	ck_assert_msg(r == 0, "%s", msg);
	ck_assert_uint_eq(ckpt->nwarnings, 0);
	sf_ckpt_free(ckpt);
	free_objects(files, n);
}
END_TEST

START_TEST(an_index_that_names_missing_files_warns)
{
	static const char index[] =
		"{\"metadata\": {}, \"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\", "
		"\"b\": \"model-00002-of-00002.safetensors\", \"c\": \"../x.safetensors\", \"d\": "
		"\"model-00001-of-00002.safetensors\"}}";
	static const char st[] = "\x40\0\0\0\0\0\0\0{\"a\":{\"dtype\":\"U8\",\"shape\":[2],\"data_"
				 "offsets\":[0,2]}}                   ";
	const struct sf_mem_object files[] = {
		{ "model.safetensors.index.json", index, sizeof(index) - 1 },
		{ "model-00001-of-00002.safetensors", st, 8 + 64 + 2 }
	};
	struct sf_ckpt *ckpt = NULL;
	char msg[SF_ERROR_MAX];
	int r;

	ck_assert_uint_ge(sizeof(st), 8 + 64 + 2);
	r = load_mem(files, 2, NULL, &ckpt, msg);
	ck_assert_msg(r == 0, "%s", msg);
	ck_assert_uint_eq(ckpt->nkeys, 1);
	ck_assert(warned(ckpt, "missing-file", "'b'"));
	ck_assert(warned(ckpt, "missing-file", "'c'"));
	ck_assert(warned(ckpt, "missing-item", "'d'"));
	ck_assert_str_eq(ckpt->format, "safetensors");
	sf_ckpt_free(ckpt);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dcp_damage");
	TCase *tc = tcase_create("cases");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, what_was_not_committed_says_so);
	tcase_add_test(tc, unreadable_metadata_gives_way_to_the_ranks_own);
	tcase_add_loop_test(tc, metadata_that_could_not_be_read_this_time_fails_the_load, 0, 2);
	tcase_add_test(tc, metadata_that_is_not_what_was_listed_is_stale);
	tcase_add_test(tc, a_child_that_was_not_committed_is_left_out_and_said);
	tcase_add_test(tc, an_index_that_names_missing_files_warns);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
