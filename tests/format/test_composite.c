#include "config.h"
#include <stddef.h>

#include "tests/lib/ckpt_find.h"
#include "tests/lib/test_stores.h"
#include "base/mem.h"
#include "read/reader.h"
#include "tests/lib/load.h"

/* Directories that hold several checkpoints, or one and other files: all of it is shown or named. */

#define FILES_MAX 512

struct tree {
	struct sf_mem_object at[FILES_MAX];
	size_t n;
	char name[FILES_MAX][64];
};

static void put(struct tree *t, const char *name, const void *at, size_t len)
{
	ck_assert_uint_lt(t->n, FILES_MAX);
	snprintf(t->name[t->n], sizeof(t->name[0]), "%s", name);
	t->at[t->n] = (struct sf_mem_object){ t->name[t->n], at, len };
	t->n++;
}

static void put_text(struct tree *t, const char *name, const char *text)
{
	put(t, name, text, strlen(text));
}

/* Zeroed memory for the life of the process, reachable for LeakSanitizer. */
static void *kept(size_t len)
{
	static struct block {
		struct block *next;
		max_align_t at[];
	} * all;
	struct block *b = calloc(1, sizeof(*b) + len);

	ck_assert_ptr_nonnull(b);
	b->next = all;
	all = b;
	return b->at;
}

/* A file of the test data. */
static void put_data(struct tree *t, const char *name, const char *below)
{
	char path[4096];
	FILE *f = fopen(sf_test_data(path, below), "rb");
	uint8_t *at = kept(1 << 20);
	size_t n;

	ck_assert_msg(f != NULL, "%s", path);
	n = fread(at, 1, 1 << 20, f);
	fclose(f);
	put(t, name, at, n);
}

/* One float32 tensor of two elements. */
static void put_tensors(struct tree *t, const char *name, const char *key)
{
	char *at = kept(512);
	int n = snprintf(at + 8, 400,
	                 "{\"%s\":{\"dtype\":\"F32\",\"shape\":[2],\"data_offsets\":[0,8]}}", key);

	sf_put_le64((uint8_t *)at, (uint64_t)n);
	put(t, name, at, 8 + (size_t)n + 8);
}

/* dcp/flat, two ranks, in @dir. */
static void put_dcp(struct tree *t, const char *dir)
{
	static const char *const files[] = { ".metadata", "__0_0.distcp", "__1_0.distcp" };
	char name[64], below[64];

	for (size_t i = 0; i < SF_ARRAY_LEN(files); i++) {
		snprintf(name, sizeof(name), "%s/%s", dir, files[i]);
		snprintf(below, sizeof(below), "dcp/flat/ckpt/%s", files[i]);
		put_data(t, name, below);
	}
}

static struct sf_ckpt *load(const struct tree *t)
{
	char msg[SF_ERROR_MAX];
	struct sf_ckpt *ckpt = NULL;
	int r = load_mem(t->at, t->n, NULL, &ckpt, msg);

	ck_assert_msg(r == 0, "%d %s", r, msg);
	return ckpt;
}

/* Every tensor of a checkpoint, read. */
static uint8_t *read_all(const struct tree *t, const struct sf_ckpt *ckpt, uint64_t *ret_len)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_reader *reader;
	struct sf_store *store;
	uint8_t *at = kept(1 << 20);

	*ret_len = 0;
	ck_assert_int_eq(sf_store_mem(load_io(), t->at, t->n, &store, NULL), 0);
	ck_assert_int_eq(sf_reader_new(ckpt, store, &reader, NULL), 0);
	for (uint32_t i = 0; i < ckpt->ntensors; i++) {
		const uint64_t bytes = ckpt->tensor[i].bytes;
		ck_assert_uint_le(*ret_len + bytes, 1 << 20);
		ck_assert_msg(sf_read_tensor(reader, i, 0, at + *ret_len, bytes, &err) >= 0, "%s",
		              err.msg);
		*ret_len += bytes;
	}
	sf_reader_free(reader);
	sf_store_free(store);
	return at;
}

static bool has(const struct sf_ckpt *ckpt, const char *key)
{
	return ckpt_find(ckpt, key, strlen(key)) != SF_NONE;
}

/* A child's blobs know nothing of the name that is put before its keys. */
START_TEST(blobs_of_children_are_read_under_their_own_names)
{
	static const char *const files[] = { ".metadata", "__0_0.distcp", "__1_0.distcp",
		                             "__2_0.distcp" };
	struct tree *t = calloc(1, sizeof(*t)), *alone = calloc(1, sizeof(*alone));
	char name[64], below[64];
	uint64_t len, twice;

	for (size_t i = 0; i < SF_ARRAY_LEN(files); i++) {
		snprintf(below, sizeof(below), "dcp/safetensors/ckpt/%s", files[i]);
		put_data(alone, files[i], below);
		for (int child = 0; child < 2; child++) {
			snprintf(name, sizeof(name), "%s/%s", child ? "optimizer" : "model",
			         files[i]);
			put_data(t, name, below);
		}
	}
	struct sf_ckpt *one = load(alone), *both = load(t);
	const uint8_t *want = read_all(alone, one, &len), *got = read_all(t, both, &twice);
	ck_assert_uint_gt(len, 100);
	ck_assert_uint_eq(both->ntensors, 2 * one->ntensors);
	ck_assert_uint_eq(twice, 2 * len);
	ck_assert_mem_eq(got, want, len);
	ck_assert_mem_eq(got + len, want, len);
	sf_ckpt_free(one);
	sf_ckpt_free(both);
	free(t);
	free(alone);
}
END_TEST

START_TEST(safetensors_beside_dcp_are_both_shown)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct sf_ckpt *ckpt;

	put_tensors(t, "model/model.safetensors", "model.layers.0.w");
	put_text(t, "model/config.json", "{}");
	put_dcp(t, "optim");
	ckpt = load(t);
	ck_assert_int_eq(load_group(ckpt, "model")->role, SF_ROLE_MODEL);
	ck_assert_uint_eq(load_group(ckpt, "model")->ntensors, 1);
	ck_assert_int_eq(load_group(ckpt, "optim")->role, SF_ROLE_OPTIM);
	ck_assert(has(ckpt, "model.model.layers.0.w"));
	ck_assert(has(ckpt, "optim.w"));
	ck_assert_uint_eq(ckpt->nwarnings, 0);
	sf_ckpt_free(ckpt);
	free(t);
}
END_TEST

START_TEST(safetensors_at_the_top_are_the_model_of_an_optimizer_below)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct sf_ckpt *ckpt;

	put_tensors(t, "model.safetensors", "w");
	put_dcp(t, "optimizer_0");
	put_text(t, "scheduler.pt", "x");
	ckpt = load(t);
	ck_assert(has(ckpt, "model.w"));
	ck_assert(has(ckpt, "optim.w"));
	ck_assert_ptr_nonnull(load_warning(ckpt, "unread-files", "scheduler.pt"));
	sf_ckpt_free(ckpt);

	/* not where they have a model already: then they are named */
	put_dcp(t, "pytorch_model_fsdp_0");
	ckpt = load(t);
	ck_assert_ptr_nonnull(load_warning(ckpt, "unread-files", "model.safetensors"));
	ck_assert_uint_eq(load_group(ckpt, "model")->nobjects,
	                  load_group(ckpt, "optim")->nobjects); /* dcp/flat, twice */
	sf_ckpt_free(ckpt);
	free(t);
}
END_TEST

START_TEST(what_lies_beside_safetensors_is_named)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct sf_ckpt *ckpt;
	const char *text;

	put_tensors(t, "model.safetensors", "w"); /* accelerate's save_state */
	put_text(t, "optimizer.bin", "x");
	put_text(t, "scheduler.bin", "x");
	put_text(t, "random_states_0.pkl", "x");
	put_text(t, "config.json", "{}");
	ckpt = load(t);
	text = load_warning(ckpt, "unread-files", "optimizer.bin");
	ck_assert_ptr_nonnull(text);
	ck_assert_ptr_nonnull(strstr(text, "scheduler.bin"));
	ck_assert_ptr_nonnull(strstr(text, "random_states_0.pkl"));
	ck_assert_ptr_null(strstr(text, "config.json"));
	ck_assert_ptr_null(strstr(text, "model.safetensors"));
	sf_ckpt_free(ckpt);

	for (int i = 1; i < 9; i++) {
		char name[64];
		snprintf(name, sizeof(name), "random_states_%d.pkl", i);
		put_text(t, name, "x");
	}
	ckpt = load(t);
	ck_assert_ptr_nonnull(load_warning(ckpt, "unread-files", "and 7 more"));
	sf_ckpt_free(ckpt);
	free(t);
}
END_TEST

START_TEST(a_checkpoint_below_a_dcp_directory_is_named)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct sf_ckpt *ckpt;

	put_data(t, ".metadata", "dcp/flat/ckpt/.metadata");
	put_data(t, "__0_0.distcp", "dcp/flat/ckpt/__0_0.distcp");
	put_data(t, "__1_0.distcp", "dcp/flat/ckpt/__1_0.distcp");
	put_dcp(t, "modelopt_state");
	ckpt = load(t);
	ck_assert_ptr_nonnull(load_warning(ckpt, "unread-files", "modelopt_state/"));
	sf_ckpt_free(ckpt);
	free(t);
}
END_TEST

START_TEST(more_than_64_children_are_all_shown)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct sf_ckpt *ckpt;
	char dir[64];

	put_dcp(t, "model");
	for (int i = 0; i < 100; i++) {
		snprintf(dir, sizeof(dir), "optimizer_%d", i);
		put_dcp(t, dir);
	}
	ckpt = load(t);
	ck_assert(has(ckpt, "model.w"));
	ck_assert(has(ckpt, "optim.w"));
	for (int i = 1; i < 100; i++) {
		snprintf(dir, sizeof(dir), "optimizer_%d.w", i);
		ck_assert_msg(has(ckpt, dir), "%s", dir);
	}
	ck_assert_uint_eq(ckpt->nwarnings, 0);
	sf_ckpt_free(ckpt);
	free(t);
}
END_TEST

START_TEST(a_malformed_header_costs_its_tensors)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];

	put_tensors(t, "model-00001-of-00002.safetensors", "a");
	put_text(t, "model-00002-of-00002.safetensors", "\377\377\377\377\377\377\377\377{}");
	ckpt = load(t);
	ck_assert(has(ckpt, "a"));
	ck_assert_ptr_nonnull(
		load_warning(ckpt, "unreadable-file", "model-00002-of-00002.safetensors"));
	sf_ckpt_free(ckpt);

	put_text(t, "model.safetensors.index.json",
	         "{\"weight_map\": {\"a\": \"model-00001-of-00002.safetensors\", "
	         "\"b\": \"model-00002-of-00002.safetensors\"}}");
	ckpt = load(t);
	ck_assert(has(ckpt, "a"));
	ck_assert_ptr_nonnull(load_warning(ckpt, "missing-item", "'b'"));
	ck_assert_ptr_nonnull(load_warning(ckpt, "unreadable-file", "limit"));
	sf_ckpt_free(ckpt);
	free(t);

	t = calloc(1, sizeof(*t)); /* nothing left */
	put_text(t, "model.safetensors", "short");
	ck_assert_int_eq(load_mem(t->at, t->n, NULL, &ckpt, msg), -EBADMSG);
	ck_assert_msg(strstr(msg, "model.safetensors") != NULL, "%s", msg);
	free(t);
}
END_TEST

/* Of DCP's shards each may have the end of every tensor: how large they are would be a guess. */
START_TEST(a_malformed_shard_is_an_error)
{
	static const char *const names[] = { "shard-00001-model-00001-of-00002.safetensors",
		                             "shard-00001-model-00002-of-00002.safetensors",
		                             "shard-00002-model-00001-of-00002.safetensors" };
	struct tree *t = calloc(1, sizeof(*t));
	char below[128], msg[SF_ERROR_MAX];
	struct sf_ckpt *ckpt;

	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		snprintf(below, sizeof(below), "dcp/hf_sharded/ckpt/%s", names[i]);
		put_data(t, names[i], below);
	}
	put_text(t, "shard-00002-model-00002-of-00002.safetensors", "short");
	ck_assert_int_eq(load_mem(t->at, t->n, NULL, &ckpt, msg), -EBADMSG);
	ck_assert_msg(strstr(msg, "it may hold a part of every tensor") != NULL, "%s", msg);
	free(t);
}
END_TEST

START_TEST(tensors_that_contradict_each_other_are_left_out)
{
	struct tree *t = calloc(1, sizeof(*t));
	struct sf_ckpt *ckpt;
	char *at = calloc(1, 512);
	int n = snprintf(at + 8, 400,
	                 "{\"a\":{\"dtype\":\"F16\",\"shape\":[4],\"data_offsets\":[0,8]}}");

	sf_put_le64((uint8_t *)at, (uint64_t)n);
	put_tensors(t, "one.safetensors", "a");
	put_tensors(t, "three.safetensors", "b");
	put(t, "two.safetensors", at, 8 + (size_t)n + 8);
	ckpt = load(t);
	ck_assert(!has(ckpt, "a"));
	ck_assert(has(ckpt, "b"));
	ck_assert_ptr_nonnull(load_warning(ckpt, "malformed-tensor", "'a'"));
	sf_ckpt_free(ckpt);
	free(at);
	free(t);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("composite");
	TCase *tc = tcase_create("composite");

	tcase_add_test(tc, blobs_of_children_are_read_under_their_own_names);
	tcase_add_test(tc, safetensors_beside_dcp_are_both_shown);
	tcase_add_test(tc, safetensors_at_the_top_are_the_model_of_an_optimizer_below);
	tcase_add_test(tc, what_lies_beside_safetensors_is_named);
	tcase_add_test(tc, a_checkpoint_below_a_dcp_directory_is_named);
	tcase_add_test(tc, more_than_64_children_are_all_shown);
	tcase_add_test(tc, a_malformed_header_costs_its_tensors);
	tcase_add_test(tc, a_malformed_shard_is_an_error);
	tcase_add_test(tc, tensors_that_contradict_each_other_are_left_out);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
