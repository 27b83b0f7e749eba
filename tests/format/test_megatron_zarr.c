#include "config.h"

#include "tests/format/megatron_world.h"

/* Megatron's zarr backend: arrays that were altered. */

#define CASE "megatron/0.12.3-zarr/ckpt"
#define KEY "embedding.word_embeddings.weight"
#define HEAD "{\"zarr_format\": 2, \"compressor\": null, \"filters\": null, \"shape\": "

/* A checkpoint of one array, KEY. */
static void one_array(struct mg_files *f, const char *zarray)
{
	static const char json[] =
		"{\"sharded_backend\": \"zarr\", \"sharded_backend_version\": 1}";

	f->n = 0;
	mg_set(f, "metadata.json", json, sizeof(json) - 1);
	mg_set(f, KEY "/.zarray", zarray, strlen(zarray));
}

/* All of the one tensor, through a reader. */
static uint8_t *read_one(struct mg_files *f, struct sf_ckpt *ckpt, uint64_t *ret_len)
{
	struct sf_session s = { .io = load_io(), .ckpt = ckpt };
	struct sf_view_options opt;
	struct sf_vfile *v;
	uint8_t *at;

	ck_assert_int_eq(sf_store_mem(s.io, f->at, f->n, &s.store, NULL), 0);
	sf_view_options_init(&opt);
	ck_assert_int_ge(sf_reader_new(ckpt, s.store, &s.reader, NULL), 0);
	ck_assert_int_ge(sf_catalog_new(ckpt, &opt, &s.catalog, NULL), 0);
	ck_assert_int_ge(sf_view_raw(s.catalog, s.reader, mg_entry(&s, KEY), &v, NULL), 0);
	at = mg_read(v, ret_len);
	sf_catalog_free(s.catalog);
	sf_reader_free(s.reader);
	sf_store_free(s.store);
	return at;
}

/* [3, 5] bytes in chunks of [2, 3], which are stored whole; a chunk is 10 * its number + i. */
static void put_chunks(struct mg_files *f, bool column_major)
{
	static const char *const names[] = { "0.0", "0.1", "1.0", "1.1" };
	char name[64];

	for (int c = 0; c < 4; c++) {
		uint8_t chunk[6];
		for (int i = 0; i < 6; i++)
			chunk[column_major ? i % 3 * 2 + i / 3 : i] = (uint8_t)(10 * c + i);
		snprintf(name, sizeof(name), KEY "/%s", names[c]);
		mg_set(f, name, chunk, 6);
	}
}

static const uint8_t want[15] = { 0, 1, 2, 10, 11, 3, 4, 5, 13, 14, 20, 21, 22, 30, 31 };

START_TEST(chunks_that_an_array_ends_inside_of_are_cut)
{
	struct sf_ckpt *ckpt;
	struct mg_files f;
	uint64_t len;

	one_array(&f, _i ? HEAD "[3, 5], \"chunks\": [2, 3], \"dtype\": \"|u1\", \"order\": \"F\"}"
	                 : HEAD "[3, 5], \"chunks\": [2, 3], \"dtype\": \"|u1\"}");
	put_chunks(&f, _i);
	ckpt = mg_load(&f, NULL);
	ck_assert_uint_eq(ckpt->nwarnings, 0);
	uint8_t *at = read_one(&f, ckpt, &len);
	ck_assert_uint_eq(len, 15);
	ck_assert_mem_eq(at, want, 15);
	free(at);
	sf_ckpt_free(ckpt);
	mg_release(&f);
}
END_TEST

START_TEST(a_chunk_that_was_never_stored_is_its_fill_value)
{
	struct sf_ckpt *ckpt;
	struct mg_files f;
	uint64_t len;

	one_array(&f, _i ? HEAD "[3, 5], \"chunks\": [2, 3], \"dtype\": \"|u1\", \"fill_value\": 7}"
	                 : HEAD "[3, 5], \"chunks\": [2, 3], \"dtype\": \"|u1\", "
	                        "\"fill_value\": null}");
	put_chunks(&f, false);
	mg_remove(&f, KEY "/0.1");
	ckpt = mg_load(&f, NULL);
	uint8_t *at = read_one(&f, ckpt, &len);
	ck_assert_uint_eq(at[3], _i ? 7 : 0);
	ck_assert_uint_eq(at[9], _i ? 7 : 0);
	ck_assert_uint_eq(at[2], 2);
	ck_assert_uint_eq(ckpt->nwarnings, _i ? 0 : 1);
	if (!_i)
		ck_assert_ptr_nonnull(load_warning(ckpt, "missing-chunk", "1 of its 4 chunks"));
	free(at);
	sf_ckpt_free(ckpt);
	mg_release(&f);
}
END_TEST

START_TEST(files_of_another_size_are_told)
{
	struct sf_ckpt *ckpt;
	struct mg_files f;

	one_array(&f, HEAD "[3, 5], \"chunks\": [2, 3], \"dtype\": \"|u1\"}");
	put_chunks(&f, false);
	mg_set(&f, KEY "/0.0", "abc", 3);
	mg_set(&f, KEY "/0.1", "abcdefgh", 8);
	ckpt = mg_load(&f, NULL);
	ck_assert_ptr_nonnull(load_warning(ckpt, "truncated-file", KEY "/0.0"));
	ck_assert_ptr_nonnull(load_warning(ckpt, "zarr-chunk", "8 bytes for 6"));
	sf_ckpt_free(ckpt);
	mg_release(&f);
}
END_TEST

START_TEST(an_array_that_cannot_be_read_costs_itself)
{
	static const struct {
		const char *text, *words;
	} cases[] = {
		{ "{", "malformed" },
		{ HEAD "[1000000, 1000000, 1000], \"chunks\": [1, 1, 1], \"dtype\": \"|u1\"}",
		  "speaks of 1000000000000000 chunks" },
		{ HEAD "[3], \"chunks\": [3], \"dtype\": \"|u1\", \"dimension_separator\": \"/\"}",
		  "directories of their own" },
		{ HEAD "[3], \"chunks\": [3], \"dtype\": \">f8\"}", "'>f8'" },
	};
	struct sf_ckpt *ckpt;
	struct mg_files f;

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		mg_load_files(&f, CASE);
		mg_set(&f, KEY "/.zarray", cases[i].text, strlen(cases[i].text));
		ckpt = mg_load(&f, NULL);
		ck_assert_msg(load_warning(ckpt, "unreadable-file", cases[i].words) != NULL, "%s",
		              ckpt->nwarnings ? ckpt->warning[0].text : "no warning");
		ck_assert_uint_eq(ckpt->ntensors, 27 + 3); /* 3 of the common state */
		sf_ckpt_free(ckpt);
		mg_release(&f);
	}
}
END_TEST

START_TEST(locks_beside_arrays_are_passed_over)
{
	struct sf_ckpt *ckpt;
	struct mg_files f;

	mg_load_files(&f, CASE);
	mg_set(&f, KEY ".sync/0.0", "x", 1);
	mg_set(&f, KEY ".sync/.zarray", "x", 1);
	ckpt = mg_load(&f, NULL);
	ck_assert_uint_eq(ckpt->nwarnings, 0);
	sf_ckpt_free(ckpt);
	mg_release(&f);
}
END_TEST

START_TEST(arrays_without_metadata_json_were_not_committed)
{
	struct mg_files f;

	mg_load_files(&f, CASE);
	mg_remove(&f, "metadata.json");
	mg_refused(&f, NULL, -ENOENT, "not committed: decoder.final_layernorm.weight/.zarray is there");
	mg_release(&f);
}
END_TEST

START_TEST(objects_are_files_of_their_own)
{
	struct sf_session s;

	mg_open(&s, CASE);
	mg_check_value(&s, "decoder.layers.mlp.linear_fc1._extra_state/shard_1_2", "null\n");
	mg_check_value(&s, "optimizer.distributed.dp_group_idx_0.optimizer/shard_0_1",
	               "{\"optimizer\": {\"param_groups\": [{\"lr\": 0.0001, \"step\": 5}]}}\n");
	sf_session_close(&s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("megatron_zarr");
	TCase *tc = tcase_create("zarr");

	tcase_add_loop_test(tc, chunks_that_an_array_ends_inside_of_are_cut, 0, 2);
	tcase_add_loop_test(tc, a_chunk_that_was_never_stored_is_its_fill_value, 0, 2);
	tcase_add_test(tc, files_of_another_size_are_told);
	tcase_add_test(tc, an_array_that_cannot_be_read_costs_itself);
	tcase_add_test(tc, locks_beside_arrays_are_passed_over);
	tcase_add_test(tc, arrays_without_metadata_json_were_not_committed);
	tcase_add_test(tc, objects_are_files_of_their_own);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
