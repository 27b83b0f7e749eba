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

/* 0, 3, 6 … 189 as int32, as numcodecs 0.15 compresses them. */
static const char in_lz4[] = "\x02\x01\x31\x04\x00\x01\x00\x00\x00\x01\x00\x00\x68\x00\x00\x00"
			     "\x14\x00\x00\x00\x50\x00\x00\x00\xff\x36\x00\x03\x06\x09\x0c\x0f"
			     "\x12\x15\x18\x1b\x1e\x21\x24\x27\x2a\x2d\x30\x33\x36\x39\x3c\x3f"
			     "\x42\x45\x48\x4b\x4e\x51\x54\x57\x5a\x5d\x60\x63\x66\x69\x6c\x6f"
			     "\x72\x75\x78\x7b\x7e\x81\x84\x87\x8a\x8d\x90\x93\x96\x99\x9c\x9f"
			     "\xa2\xa5\xa8\xab\xae\xb1\xb4\xb7\xba\xbd\x00\x00\x00\x00\x00\x05"
			     "\x00\xa3\x50\x00\x00\x00\x00\x00";
static const char in_blosclz[] = "\x02\x01\x11\x04\x00\x01\x00\x00\x00\x01\x00\x00\x62\x00\x00\x00"
				 "\x14\x00\x00\x00\x4a\x00\x00\x00\x3f\x00\x03\x06\x09\x0c\x0f\x12"
				 "\x15\x18\x1b\x1e\x21\x24\x27\x2a\x2d\x30\x33\x36\x39\x3c\x3f\x42"
				 "\x45\x48\x4b\x4e\x51\x54\x57\x5a\x5d\x1f\x60\x63\x66\x69\x6c\x6f"
				 "\x72\x75\x78\x7b\x7e\x81\x84\x87\x8a\x8d\x90\x93\x96\x99\x9c\x9f"
				 "\xa2\xa5\xa8\xab\xae\xb1\xb4\xb7\xba\xbd\x00\x00\xe0\xb4\x00\x01"
				 "\x00\x00";
static const char in_zstd[] = "\x28\xb5\x2f\xfd\x60\x00\x00\xdd\x03\x00\x06\xd0\x1d\x1d\x50\xdb"
			      "\x66\x50\xd7\x75\x5d\xd7\x75\x5d\xd7\x75\x5d\xd7\x75\x5d\xd7\x75"
			      "\x5d\xd7\x75\x5d\xd7\x75\x5d\xd7\x2d\x9c\x14\x14\x00\x15\x00\x15"
			      "\x00\x6f\x9c\xf1\xc5\x15\x4f\x1c\xf1\xc3\x0d\x2f\x9c\xf0\xc1\x05"
			      "\x0f\x1c\xf0\xef\x03\xef\x9c\xf3\xcd\x35\xcf\x1c\xf3\xcb\x2d\xaf"
			      "\x9c\xf2\xc9\x25\x8f\x1c\xf2\xc7\x1d\x01\x6f\x9d\xf5\xd5\x55\x4f"
			      "\x1d\xf5\xd3\x4d\x2f\x9d\xf4\xd1\x45\x0f\x1d\xf4\xcf\x3d\x01\xef"
			      "\x9d\xf7\xdd\x75\xcf\x1d\xf7\xdb\x6d\xaf\x9d\xf6\xd9\x65\x8f\x1d"
			      "\xf6\xd7\x5d\x01\x00";
static const struct {
	const char *id, *at;
	size_t len;
	enum sf_codec codec;
} packed[] = { { "blosc", in_lz4, sizeof(in_lz4) - 1, SF_CODEC_BLOSC },
	       { "blosc", in_blosclz, sizeof(in_blosclz) - 1, SF_CODEC_BLOSC },
	       { "zstd", in_zstd, sizeof(in_zstd) - 1, SF_CODEC_ZSTD } };

static bool built_in(enum sf_codec codec)
{
	struct sf_decoder *d = NULL;
	const bool yes = sf_decoder_new(codec, 1, &d, NULL) >= 0;

	sf_decoder_free(d);
	return yes;
}

/* [60] in a chunk of 64: the last is stored whole. */
START_TEST(compressed_chunks_are_decoded)
{
	struct sf_ckpt *ckpt;
	struct mg_files f;
	char text[512];
	uint64_t len;

	if (!built_in(packed[_i].codec))
		return;
	snprintf(text, sizeof(text),
	         "{\"zarr_format\": 2, \"compressor\": {\"id\": \"%s\"}, \"shape\": [60], "
	         "\"chunks\": [64], \"dtype\": \"<i4\"}",
	         packed[_i].id);
	one_array(&f, text);
	mg_set(&f, KEY "/0", packed[_i].at, packed[_i].len);
	ckpt = mg_load(&f, NULL);
	ck_assert_uint_eq(ckpt->nwarnings, 0);
	uint8_t *at = read_one(&f, ckpt, &len);
	ck_assert_uint_eq(len, 240);
	for (uint32_t i = 0; i < 60; i++)
		ck_assert_uint_eq(sf_le32(at + 4 * i), 3 * i);
	free(at);
	sf_ckpt_free(ckpt);
	mg_release(&f);
}
END_TEST

/* Every byte wrong, cut anywhere, fed in pieces: an error or the bytes, and nothing else. */
START_TEST(damaged_blosc_is_an_error)
{
	const size_t n = sizeof(in_lz4) - 1;
	struct sf_decoder *d;
	uint8_t copy[sizeof(in_lz4)];

	if (!built_in(SF_CODEC_BLOSC))
		return;
	for (size_t step = 1; step <= n; step += 7) {
		struct sf_buf out = { .limit = 256 };
		ck_assert_int_eq(sf_decoder_new(SF_CODEC_BLOSC, 1, &d, NULL), 0);
		for (size_t at = 0; at < n; at += step)
			ck_assert_int_eq(sf_decoder_feed(d, (const uint8_t *)in_lz4 + at,
			                                 SF_MIN(step, n - at), &out, NULL),
			                 0);
		ck_assert_int_eq(sf_decoder_end(d, NULL), 0);
		ck_assert_uint_eq(out.len, 256);
		sf_decoder_free(d);
		sf_buf_release(&out);
	}
	for (size_t i = 0; i < 2 * n; i++) {
		struct sf_buf out = { .limit = 255 + i % 2 };
		const size_t len = i < n ? n : i - n;
		memcpy(copy, in_lz4, n);
		if (i < n)
			copy[i] ^= 0xa5;
		ck_assert_int_eq(sf_decoder_new(SF_CODEC_BLOSC, 1, &d, NULL), 0);
		int r = sf_decoder_feed(d, copy, len, &out, NULL);
		r = r < 0 ? r : sf_decoder_end(d, NULL);
		ck_assert(out.len <= 256 && (r < 0 || out.len > 0));
		ck_assert(i < n || r < 0);
		sf_decoder_free(d);
		sf_buf_release(&out);
	}
	ck_assert_int_eq(sf_decoder_new(SF_CODEC_BLOSC, 2, &d, NULL), -ENOTSUP);
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
	mg_refused(&f, NULL, -ENOENT,
	           "not committed: decoder.final_layernorm.weight/.zarray is there");
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
	tcase_add_loop_test(tc, compressed_chunks_are_decoded, 0, SF_ARRAY_LEN(packed));
	tcase_add_test(tc, damaged_blosc_is_an_error);
	tcase_add_test(tc, files_of_another_size_are_told);
	tcase_add_test(tc, an_array_that_cannot_be_read_costs_itself);
	tcase_add_test(tc, locks_beside_arrays_are_passed_over);
	tcase_add_test(tc, arrays_without_metadata_json_were_not_committed);
	tcase_add_test(tc, objects_are_files_of_their_own);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
