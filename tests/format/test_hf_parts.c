/* Hugging Face files whose parts are copies of each other, contradict each other, or are not those
 * the index means. */
#include "config.h"

#include <errno.h>

#include "ckpt/place.h"
#include "tests/lib/ckpt_find.h"
#include "tests/lib/test_stores.h"
#include "base/buf.h"
#include "base/path.h"
#include "tests/lib/load.h"

struct part {
	const char *name, *dtype;
	unsigned ndim;
	uint64_t origin, shape[2]; /* the origin's first coordinate; the second is 0 */
	uint64_t bytes;
};

/* A safetensors file of @n parts with sharding info; its payload is @fill. @pad: bytes that the
 * header is made longer by, none of them at its end. */
static void put_file(struct sf_buf *out, const struct part *p, size_t n, uint8_t fill, size_t pad)
{
	struct sf_buf info = { 0 };
	uint64_t at = 0;

	sf_buf_byte(&info, '{');
	for (size_t i = 0; i < n; i++)
		sf_buf_printf(&info, "%s\"%s\": {\"saved_offsets\": [%llu%s]}", i ? ", " : "",
		              p[i].name, (unsigned long long)p[i].origin,
		              p[i].ndim > 1 ? ", 0" : "");
	sf_buf_byte(&info, '}');
	sf_buf_reset(out);
	sf_buf_str(out, "????????{\"__metadata__\":{\"DCP_SHARDING_INFO\":");
	sf_escape_json(out, (const char *)info.at, info.len);
	sf_buf_byte(out, '}');
	while (pad--)
		sf_buf_byte(out, ' ');
	for (size_t i = 0; i < n; i++) {
		sf_buf_printf(out, ",\"%s\":{\"dtype\":\"%s\",\"shape\":[%llu", p[i].name,
		              p[i].dtype, (unsigned long long)p[i].shape[0]);
		if (p[i].ndim > 1)
			sf_buf_printf(out, ",%llu", (unsigned long long)p[i].shape[1]);
		sf_buf_printf(out, "],\"data_offsets\":[%llu,%llu]}", (unsigned long long)at,
		              (unsigned long long)(at + p[i].bytes));
		at += p[i].bytes;
	}
	sf_buf_byte(out, '}');
	sf_put_le64(out->at, out->len - 8);
	memset(sf_buf_extend(out, at), fill, at);
	ck_assert_int_eq(sf_buf_check(out), 0);
	sf_buf_release(&info);
}

static const struct sf_tensor *tensor_of(const struct sf_ckpt *ckpt, const char *name)
{
	uint32_t key = ckpt_find(ckpt, name, strlen(name));

	return key == SF_NONE ? NULL : &ckpt->tensor[ckpt->key[key].tensor];
}

static const char *file_of(const struct sf_ckpt *ckpt, const struct sf_tensor *t, uint32_t chunk)
{
	return sf_place_file(ckpt, t->place[chunk])->name;
}

/* _i: the file that the index gives the tensor to. */
START_TEST(the_index_says_which_file_has_a_tensor)
{
	const struct part w = { "w", "U8", 1, 0, { 4 }, 4 },
			  v[2] = { { "v1", "U8", 1, 0, { 1 }, 1 }, { "v2", "U8", 1, 0, { 1 }, 1 } };
	struct sf_buf file[2] = { 0 }, index = { 0 };
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX], want[64];

	for (int i = 0; i < 2; i++)
		put_file(&file[i], (struct part[2]){ w, v[i] }, 2, (uint8_t)i, 0);
	snprintf(want, sizeof(want), "model-0000%d-of-00002.safetensors", _i + 1);
	/* files are looked at in the order the index names them: the other one comes first */
	sf_buf_printf(&index,
	              "{\"metadata\": {}, \"weight_map\": {\"v%d\": "
	              "\"model-0000%d-of-00002.safetensors\", "
	              "\"v%d\": \"%s\", \"w\": \"%s\"}}",
	              2 - _i, 2 - _i, _i + 1, want, want);
	const struct sf_mem_object files[] = {
		{ "model.safetensors.index.json", index.at, index.len },
		{ "model-00001-of-00002.safetensors", file[0].at, file[0].len },
		{ "model-00002-of-00002.safetensors", file[1].at, file[1].len },
	};
	int r = load_mem(files, 3, NULL, &ckpt, msg);
	ck_assert_msg(r == 0, "%s", msg);
	ck_assert_uint_eq(ckpt->ntensors, 3);
	const struct sf_tensor *t = tensor_of(ckpt, "w");
	ck_assert_uint_eq(t->nchunks, 1);
	ck_assert_str_eq(file_of(ckpt, t, 0), want);
	sf_ckpt_free(ckpt);
	for (int i = 0; i < 2; i++)
		sf_buf_release(&file[i]);
	sf_buf_release(&index);
}
END_TEST

/* Four files: parts A, B, B again, A again. */
START_TEST(a_part_that_was_there_already_is_a_copy)
{
	static const uint64_t origin[] = { 0, 4, 4, 0 };
	struct sf_mem_object files[4];
	struct sf_buf file[4] = { 0 };
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];
	static const char *const names[] = { "shard-00001-model-00001-of-00001.safetensors",
		                             "shard-00002-model-00001-of-00001.safetensors",
		                             "shard-00003-model-00001-of-00001.safetensors",
		                             "shard-00004-model-00001-of-00001.safetensors" };

	for (int i = 0; i < 4; i++) {
		put_file(&file[i], &(struct part){ "w", "U8", 1, origin[i], { 4 }, 4 }, 1,
		         (uint8_t)i, 0);
		files[i] = (struct sf_mem_object){ names[i], file[i].at, file[i].len };
	}
	int r = load_mem(files, 4, NULL, &ckpt, msg);
	ck_assert_msg(r == 0, "%s", msg);
	const struct sf_tensor *t = tensor_of(ckpt, "w");
	ck_assert_uint_eq(t->shape[0], 8);
	ck_assert_uint_eq(t->nchunks, 2);
	ck_assert_str_eq(file_of(ckpt, t, 0), names[0]);
	ck_assert_str_eq(file_of(ckpt, t, 1), names[1]);
	ck_assert_uint_eq(ckpt->nwarnings, 0);
	sf_ckpt_free(ckpt);
	for (int i = 0; i < 4; i++)
		sf_buf_release(&file[i]);
}
END_TEST

/* _i: what differs: dtype of one size, dimensions; 2: nothing. */
START_TEST(parts_of_different_tensors_are_not_put_together)
{
	const struct part first[2] = { { "w", "BF16", 1, 0, { 4 }, 8 },
		                       { "ok", "U8", 1, 0, { 1 }, 1 } };
	struct part second = { "w", "BF16", 1, 4, { 4 }, 8 };
	struct sf_buf file[2] = { 0 };
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];

	if (_i == 0)
		second.dtype = "F16";
	if (_i == 1) {
		second.ndim = 2;
		second.shape[1] = 1;
	}
	put_file(&file[0], first, 2, 1, 0);
	put_file(&file[1], &second, 1, 2, 0);
	const struct sf_mem_object files[] = {
		{ "shard-00001-model-00001-of-00001.safetensors", file[0].at, file[0].len },
		{ "shard-00002-model-00001-of-00001.safetensors", file[1].at, file[1].len },
	};
	int r = load_mem(files, 2, NULL, &ckpt, msg);
	ck_assert_msg(r == 0, "%s", msg);
	ck_assert_ptr_nonnull(tensor_of(ckpt, "ok"));
	ck_assert_int_eq(tensor_of(ckpt, "w") != NULL, _i == 2);
	ck_assert_int_eq(load_warning(ckpt, "malformed-tensor", "'w'") != NULL, _i != 2);
	sf_ckpt_free(ckpt);
	for (int i = 0; i < 2; i++)
		sf_buf_release(&file[i]);
}
END_TEST

/* What is read first ends in, at and behind the header. */
START_TEST(a_header_as_long_as_what_is_read_first_is_read_whole)
{
	const struct part w = { "w", "U8", 1, 0, { 3 }, 3 };
	struct sf_buf file = { 0 };
	char msg[SF_ERROR_MAX];

	for (size_t end = 65536 - 3; end < 65536 + 4; end++) {
		struct sf_ckpt *ckpt;
		put_file(&file, &w, 1, 9, 0);
		put_file(&file, &w, 1, 9, end - (file.len - 3));
		ck_assert_uint_eq(file.len, end + 3);
		ck_assert_uint_eq(file.at[end - 1], '}');
		const struct sf_mem_object one = { "shard-00001-model-00001-of-00001.safetensors",
			                           file.at, file.len };
		int r = load_mem(&one, 1, NULL, &ckpt, msg);
		ck_assert_msg(r == 0, "%zu: %s", end, msg);
		ck_assert_uint_eq(tensor_of(ckpt, "w")->off[0], end);
		sf_ckpt_free(ckpt);
	}
	sf_buf_release(&file);
}
END_TEST

/* Writes @new over the first @old of the file. */
static void patch(struct sf_buf *file, const char *old, const char *new)
{
	char *at = memmem(file->at, file->len, old, strlen(old));

	ck_assert_ptr_nonnull(at);
	memcpy(at, new, strlen(new));
}

/*
 * Two shards: 1 has u and the first half of w, 2 the second half of w and v. _i: what of 2's
 * sharding info is malformed: nothing, the offset of w, all of it.
 */
START_TEST(malformed_offsets_cost_the_tensors_they_are_of)
{
	const struct part first[2] = { { "u", "U8", 1, 0, { 1 }, 1 },
		                       { "w", "U8", 1, 0, { 4 }, 4 } },
			  second[2] = { { "w", "U8", 1, 4, { 4 }, 4 },
		                        { "v", "U8", 1, 0, { 1 }, 1 } };
	struct sf_buf file[2] = { 0 };
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];

	put_file(&file[0], first, 2, 1, 0);
	put_file(&file[1], second, 2, 2, 0);
	if (_i == 1)
		patch(&file[1], ": [4]", ": 444");
	if (_i == 2)
		patch(&file[1], "\"{", "\"!");
	const struct sf_mem_object files[] = {
		{ "shard-00001-model-00001-of-00001.safetensors", file[0].at, file[0].len },
		{ "shard-00002-model-00001-of-00001.safetensors", file[1].at, file[1].len },
	};
	int r = load_mem(files, 2, NULL, &ckpt, msg);
	ck_assert_msg(r == 0, "%s", msg);
	ck_assert_ptr_nonnull(tensor_of(ckpt, "u"));
	ck_assert_int_eq(tensor_of(ckpt, "w") != NULL, _i == 0);
	ck_assert_int_eq(tensor_of(ckpt, "v") != NULL, _i < 2);
	ck_assert_int_eq(load_warning(ckpt, "malformed-tensor", "shard-00002") != NULL, _i == 1);
	ck_assert_int_eq(load_warning(ckpt, "unreadable-file", "shard-00002") != NULL, _i == 2);
	sf_ckpt_free(ckpt);
	if (_i == 2) { /* by itself nothing is left */
		ck_assert_int_eq(load_mem(files + 1, 1, NULL, &ckpt, msg), -EBADMSG);
		ck_assert_msg(strstr(msg, "none of the 2 tensors"), "%s", msg);
	}
	for (int i = 0; i < 2; i++)
		sf_buf_release(&file[i]);
}
END_TEST

/* Names beside a good file, whose header is malformed: only DCP's own may hide a part of all. */
START_TEST(only_the_exact_name_makes_a_shard)
{
	static const struct {
		const char *name;
		bool shard;
	} names[] = {
		{ "shard-00002-model-00001-of-00001.safetensors", true },
		{ "shard-123456-model-00001-of-00001.safetensors", true },
		{ "shard-2-model-00001-of-00001.safetensors", false },
		{ "shard-00002.safetensors", false },
		{ "shard-00002-model-00001-of-00001.fp16.safetensors", false },
		{ "my-shard-00002-model-00001-of-00001.safetensors", false },
		{ "model-00002-of-00002.shard-1.safetensors", false },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		const struct part w = { "w", "U8", 1, 0, { 4 }, 4 };
		struct sf_buf file = { 0 };
		struct sf_ckpt *ckpt;
		char msg[SF_ERROR_MAX];
		put_file(&file, &w, 1, 1, 0);
		/* the good file has no sharding info: two names would do without, too */
		patch(&file, "DCP_SHARDING_INFO", "DCP_SHARDING_NONE");
		const struct sf_mem_object files[] = {
			{ "model-00001-of-00001.safetensors", file.at, file.len },
			{ names[i].name, "short", 5 },
		};
		int r = load_mem(files, 2, NULL, &ckpt, msg);
		if (names[i].shard) {
			ck_assert_msg(r == -EBADMSG && strstr(msg, "every tensor"), "%s: %d %s",
			              names[i].name, r, msg);
		} else {
			ck_assert_msg(r == 0, "%s: %s", names[i].name, msg);
			ck_assert_ptr_nonnull(tensor_of(ckpt, "w"));
			sf_ckpt_free(ckpt);
		}
		sf_buf_release(&file);
	}
}
END_TEST

/* What may be over the next time fails the load; what is malformed stays so. */
START_TEST(a_header_that_cannot_be_read_fails_the_load)
{
	static const struct {
		int code;
		bool fails;
	} cases[] = { { -EIO, true },
		      { -ETIMEDOUT, true },
		      { -ESTALE, true },
		      { -ENOENT, true },
		      { -EBADMSG, false } };
	const struct part part[2] = { { "a", "U8", 1, 0, { 4 }, 4 },
		                      { "b", "U8", 1, 0, { 4 }, 4 } };
	struct sf_buf file[2] = { 0 };
	struct sf_mem_object files[2] = { { "model-00001-of-00002.safetensors" },
		                          { "model-00002-of-00002.safetensors" } };

	for (int i = 0; i < 2; i++) {
		put_file(&file[i], &part[i], 1, 1, 0);
		patch(&file[i], "DCP_SHARDING_INFO", "DCP_SHARDING_NONE");
		files[i].at = file[i].at;
		files[i].len = file[i].len;
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct sf_fault plan = { .fail_at = 1, .code = cases[i].code };
		struct sf_store *inner, *store;
		struct sf_ckpt *ckpt;
		char msg[SF_ERROR_MAX];
		ck_assert_int_eq(sf_store_mem(load_io(), files, 2, &inner, NULL), 0);
		ck_assert_int_eq(sf_store_fault(inner, &plan, &store, NULL), 0);
		int r = load_store(store, NULL, &ckpt, msg);
		ck_assert_msg(r == (cases[i].fails ? cases[i].code : 0), "%d: %d %s", cases[i].code,
		              r, msg);
		if (r < 0)
			continue;
		ck_assert_ptr_nonnull(tensor_of(ckpt, "a"));
		ck_assert_ptr_null(tensor_of(ckpt, "b"));
		ck_assert_ptr_nonnull(load_warning(ckpt, "unreadable-file", "model-00002"));
		sf_ckpt_free(ckpt);
	}
	for (int i = 0; i < 2; i++)
		sf_buf_release(&file[i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("hf_parts");
	TCase *t = tcase_create("hf_parts");

	tcase_add_loop_test(t, the_index_says_which_file_has_a_tensor, 0, 2);
	tcase_add_test(t, a_part_that_was_there_already_is_a_copy);
	tcase_add_loop_test(t, parts_of_different_tensors_are_not_put_together, 0, 3);
	tcase_add_loop_test(t, malformed_offsets_cost_the_tensors_they_are_of, 0, 3);
	tcase_add_test(t, only_the_exact_name_makes_a_shard);
	tcase_add_test(t, a_header_that_cannot_be_read_fails_the_load);
	tcase_add_test(t, a_header_as_long_as_what_is_read_first_is_read_whole);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
