/* What a checkpoint of many shards costs on a server, by its counters: one tensor of it, and its load. */
#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "format/format.h"
#include "read/reader.h"
#include "tests/lib/sf_fake_ckpt.h"
#include "tests/lib/store_far.h"

#define SHARDS 64
#define TENSORS 5
#define PART ((uint64_t)150000) /* bytes of a tensor's shard */

static struct sf_io io;
static struct sf_far far;
static struct sf_store *store;

/* As of a web server or a bucket (remote.c). */
static const struct sf_source_hints remote = { .range_max = UINT64_C(8) << 20,
	                                       .gap_max = UINT64_C(1) << 20,
	                                       .head_guess = 4096,
	                                       .inflight = 16 };

static struct sf_ckpt_builder *builder;
static struct sf_buf file[SHARDS];
static char name[SHARDS][32];
static uint8_t *dense[TENSORS];

/* Each file has a shard of each tensor, an archive of torch's, one behind the other. */
static void make_shards(void)
{
	const uint64_t shape = SHARDS * PART, extent = PART, one = 1;
	uint64_t seed = 7;
	uint32_t number, place;
	char key[16];

	ck_assert_int_eq(sf_ckpt_builder_new("fake", "memory", &builder, NULL), 0);
	for (unsigned k = 0; k < SHARDS; k++)
		snprintf(name[k], sizeof(name[k]), "__%u_0.distcp", k);
	for (unsigned i = 0; i < TENSORS; i++) {
		dense[i] = malloc(shape);
		for (uint64_t b = 0; b < shape; b++)
			dense[i][b] = (uint8_t)sf_test_rand(&seed);
		snprintf(key, sizeof(key), "t%u", i);
		ck_assert_int_ge(sf_ckpt_builder_tensor(builder, key, strlen(key), SF_INT8, &shape,
		                                        1, &number, NULL),
		                 0);
		for (unsigned k = 0; k < SHARDS; k++) {
			const uint64_t origin = k * PART, off = file[k].len;
			struct sf_buf pkl = { 0 };
			fake_pkl(&pkl, SF_INT8, &extent, &one, 1, PART, 0, false);
			fake_zip(&file[k], &pkl, dense[i] + origin, PART, false);
			sf_buf_release(&pkl);
			ck_assert_int_ge(sf_ckpt_builder_chunk(builder, &origin, &extent, NULL), 0);
			ck_assert_int_ge(sf_ckpt_builder_place(builder, name[k], strlen(name[k]),
			                                       SF_ITEM_TORCH, SF_CODEC_NONE, &place,
			                                       NULL),
			                 0);
			sf_ckpt_builder_set_item(builder, number, k, place, off, file[k].len - off);
		}
	}
}

START_TEST(one_tensor_of_64_shards_fetches_little_more_than_its_bytes)
{
	static struct sf_mem_object object[SHARDS];
	static struct sf_objinfo listed[SHARDS];
	const uint64_t bytes = SHARDS * PART;
	struct sf_reader *reader;
	struct sf_ckpt *ckpt;
	uint8_t *got = malloc(bytes);

	make_shards();
	for (unsigned k = 0; k < SHARDS; k++) {
		object[k] = (struct sf_mem_object){ name[k], file[k].at, file[k].len };
		listed[k] = (struct sf_objinfo){ .name = name[k], .size = file[k].len };
	}
	far = (struct sf_far){ .hints = remote };
	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	ck_assert_int_eq(sf_store_far(&io, object, SHARDS, &far, &store, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_listing(builder, listed, SHARDS, NULL), 0);
	ck_assert_int_ge(sf_ckpt_builder_finish(builder, &ckpt, NULL), 0);
	ck_assert_int_eq(sf_reader_new(ckpt, store, &reader, NULL), 0);
	sf_far_forget(&far);
	/* the one in the middle of each file */
	ck_assert_int_eq(sf_read_tensor(reader, 2, 0, got, bytes, NULL), 0);
	ck_assert_mem_eq(got, dense[2], bytes);
	ck_assert_uint_le(far.bytes, bytes + bytes / 20 + SHARDS * remote.head_guess);
	/* the headers came with them; some hold two range_max */
	ck_assert_uint_le(far.requests, SHARDS + 8);
	ck_assert_uint_eq(far.blind_opens, 0);
	/* again, when the headers are known */
	sf_far_forget(&far);
	ck_assert_int_eq(sf_read_tensor(reader, 2, 0, got, bytes, NULL), 0);
	ck_assert_uint_eq(far.bytes, bytes);
	/* a few rows of it: of their shard alone */
	sf_far_forget(&far);
	ck_assert_int_eq(sf_read_tensor(reader, 2, 9 * PART + 5, got, 100, NULL), 0);
	ck_assert_uint_eq(far.bytes, 100);
	sf_reader_free(reader);
	sf_ckpt_free(ckpt);
	sf_store_free(store);
	sf_io_release(&io);
	for (unsigned k = 0; k < SHARDS; k++)
		sf_buf_release(&file[k]);
	for (unsigned i = 0; i < TENSORS; i++)
		free(dense[i]);
	free(got);
}
END_TEST

#define FILES 1000

static void *file_at(const char *below, size_t *ret_len)
{
	char path[4096];
	FILE *f = fopen(sf_test_data(path, below), "rb");
	uint8_t *at = malloc(1 << 20);

	ck_assert_msg(f != NULL, "%s", path);
	*ret_len = fread(at, 1, 1 << 20, f);
	fclose(f);
	return at;
}

/* The listing, the metadata, and a look at one item whose metadata does not say all. */
START_TEST(a_load_of_a_thousand_files_takes_three_round_trips)
{
	static char names[FILES + 1][32];
	static struct sf_mem_object object[FILES + 1];
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;
	size_t len, metadata;
	uint64_t trips;
	uint8_t *at = file_at("dcp/fsdp4/ckpt/.metadata", &metadata), *shard[4] = { 0 };

	object[0] = (struct sf_mem_object){ ".metadata", at, metadata };
	for (unsigned i = 0; i < FILES; i++) {
		snprintf(names[i], sizeof(names[i]), "__%u_0.distcp", i);
		object[i + 1] = (struct sf_mem_object){ names[i], "", 0 };
		if (i < SF_ARRAY_LEN(shard)) {
			char below[64];
			snprintf(below, sizeof(below), "dcp/fsdp4/ckpt/%s", names[i]);
			shard[i] = file_at(below, &len);
			object[i + 1] = (struct sf_mem_object){ names[i], shard[i], len };
		}
	}
	far = (struct sf_far){ .hints = remote };
	ck_assert_int_eq(sf_io_init(&io, 4, NULL), 0);
	ck_assert_int_eq(sf_store_far(&io, object, FILES + 1, &far, &store, NULL), 0);
	ck_assert_msg(sf_ckpt_load(store, NULL, &ckpt, &err) == 0, "%s", err.msg);
	trips = far.rounds + far.lists;
	ck_assert_uint_le(trips, 3);
	ck_assert_uint_eq(far.blind_opens, 0);
	ck_assert_uint_le(far.bytes, metadata + 4096);
	ck_assert_uint_gt(ckpt->ntensors, 0);
	sf_ckpt_free(ckpt);
	sf_store_free(store);
	sf_io_release(&io);
	free(at);
	for (unsigned i = 0; i < SF_ARRAY_LEN(shard); i++)
		free(shard[i]);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("far_counts");
	TCase *t = tcase_create("far_counts");

	tcase_set_timeout(t, 120);
	tcase_add_test(t, one_tensor_of_64_shards_fetches_little_more_than_its_bytes);
	tcase_add_test(t, a_load_of_a_thousand_files_takes_three_round_trips);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
