#include "config.h"

#include <string.h>

#include "base/json.h"
#include "view/entry_json.h"
#include "view_world.h"

static const uint64_t two[2] = { 2, 3 };

static struct sf_json *parse(const uint8_t *at, uint64_t len)
{
	struct sf_json *j = NULL;

	vw_ok(sf_json_parse((const char *)at, len, &j, &err));
	return j;
}

static void check_str(const struct cJSON *o, const char *name, const char *want)
{
	const char *s = NULL;

	vw_ok(sf_json_get_str(o, name, &s, &err));
	ck_assert_str_eq(s, want);
}

static void check_u64(const struct cJSON *o, const char *name, uint64_t want)
{
	uint64_t n = 0;

	vw_ok(sf_json_get_u64(o, name, &n, &err));
	ck_assert_uint_eq(n, want);
}

static void ordinary(struct vw *w)
{
	const uint64_t rows[2] = { 700, 2 };

	vw_init(w);
	vw_tensor(w, "model.a", SF_FLOAT32, 2, two);
	vw_tensor_n(w, "model.sharded\n", 14, SF_INT8, 2, rows, 700);
	vw_split(w, "model.sharded\n", 14);
	vw_object(w, "train.step");
	vw_tensor(w, "optim.s", SF_BFLOAT16, 0, two);
	sf_ckpt_builder_facts(w->b, "torch 2.14", "{\"x\": [1]}", 4000, 2, 1);
	vw_ok(sf_ckpt_builder_warn(w->b, "model.a", "odd", "it is %s", "odd"));
}

START_TEST(info_has_the_facts)
{
	const struct cJSON *root, *groups, *g, *x;
	struct sf_vfile *f;
	uint64_t len;
	struct vw w;

	ordinary(&w);
	vw_open(&w);
	vw_ok(sf_view_info_json(w.cat, w.reader, &f, &err));
	SF_FREE uint8_t *text = vw_read(f, &len);
	struct sf_json *j = parse(text, len);
	root = sf_json_root(j);
	check_u64(root, "schema", 1);
	check_str(root, "format", "test");
	check_str(root, "writer", "torch 2.14");
	check_u64(root, "step", 4000);
	check_u64(root, "ranks", 2);
	check_u64(root, "tensors", 3);
	check_u64(root, "objects", 1);
	check_u64(root, "bytes", 24 + 1400 + 2);
	vw_ok(sf_json_get_obj(root, "content_metadata", &x, &err));
	groups = NULL;
	for (const struct cJSON *m = NULL; (m = sf_json_next(root, m));)
		if (strcmp(sf_json_name(m), "groups") == 0)
			groups = m;
	g = sf_json_next(groups, NULL);
	check_str(g, "name", "model");
	check_str(g, "role", "model");
	check_u64(g, "tensors", 2);
	check_u64(g, "bytes", 1424);
	g = sf_json_next(groups, g);
	check_str(g, "name", "train");
	check_u64(g, "objects", 1);
	ck_assert_ptr_nonnull(strstr((char *)text, "\"text\": \"it is odd\""));
	sf_json_free(j);
	vw_close(&w);
}
END_TEST

START_TEST(tensors_json_has_an_entry_per_tensor)
{
	uint64_t rnd = sf_test_seed("tensors_json_has_an_entry_per_tensor"), len, shape[2];
	const struct cJSON *list = NULL, *e = NULL;
	struct sf_vfile *f;
	struct vw w;

	ordinary(&w);
	vw_open(&w);
	vw_ok(sf_view_tensors_json(w.cat, w.reader, &f, &err));
	ck_assert_int_eq(sf_vfile_size(f, &len), -EAGAIN); /* sized when somebody asks */
	vw_check_ranges(f, &rnd, 200);
	SF_FREE uint8_t *text = vw_read(f, &len);
	struct sf_json *j = parse(text, len);
	for (const struct cJSON *m = NULL; (m = sf_json_next(sf_json_root(j), m));)
		if (strcmp(sf_json_name(m), "tensors") == 0)
			list = m;
	for (uint32_t i = 0; i < w.cat->n; i++) {
		struct sf_buf one = { 0 };
		if (w.cat->entry[i].tensor == SF_NONE)
			continue;
		e = sf_json_next(list, e);
		ck_assert_ptr_nonnull(e);
		check_u64(e, "bytes", w.ckpt->tensor[w.cat->entry[i].tensor].bytes);
		/* and it is what stands in the key's own info.json */
		sf_entry_json(&one, w.cat, i);
		ck_assert_ptr_nonnull(memmem(text, len, one.at, one.len));
		vw_ok(sf_view_entry_json(w.cat, w.reader, i, &f, &err));
		SF_FREE uint8_t *own = vw_read(f, &len);
		ck_assert_uint_eq(len, one.len + 1);
		ck_assert_mem_eq(own, one.at, one.len);
		sf_buf_release(&one);
		len = strlen((char *)text);
	}
	ck_assert_ptr_null(sf_json_next(list, e));
	e = sf_json_next(list, NULL);
	check_str(e, "key", "model.a");
	check_str(e, "stored_name", "model.a");
	check_str(e, "dtype", "float32");
	check_str(e, "group", "model");
	ck_assert_int_eq(sf_json_get_u64s(e, "shape", shape, 2, NULL), 2);
	ck_assert_uint_eq(shape[1], 3);
	sf_json_free(j);
	vw_close(&w);
}
END_TEST

START_TEST(shards_say_file_offset_and_box)
{
	const struct cJSON *shards = NULL, *s = NULL;
	uint64_t len, n = 0, at[2];
	struct sf_vfile *f;
	struct vw w;

	ordinary(&w);
	vw_open(&w);
	vw_ok(sf_view_entry_json(w.cat, w.reader, 1, &f, &err));
	SF_FREE uint8_t *text = vw_read(f, &len);
	ck_assert_ptr_nonnull(strstr((char *)text, "\"model.sharded\\n\""));
	struct sf_json *j = parse(text, len);
	for (const struct cJSON *m = NULL; (m = sf_json_next(sf_json_root(j), m));)
		if (strcmp(sf_json_name(m), "shards") == 0)
			shards = m;
	for (; (s = sf_json_next(shards, s)); n++) {
		struct sf_chunk c;
		sf_tensor_chunk(&w.ckpt->tensor[1], (uint32_t)n, &c);
		check_str(s, "file", "data");
		check_u64(s, "offset", c.off);
		check_u64(s, "length", c.len);
		ck_assert_int_eq(sf_json_get_u64s(s, "origin", at, 2, NULL), 2);
		ck_assert_uint_eq(at[0], n);
		ck_assert_int_eq(sf_json_get_u64s(s, "extent", at, 2, NULL), 2);
		ck_assert_uint_eq(at[0], 1);
	}
	ck_assert_uint_eq(n, 700);
	sf_json_free(j);
	vw_close(&w);
}
END_TEST

START_TEST(objects_have_one_shard_and_casts_are_told)
{
	struct sf_buf b = { 0 };
	struct vw w;

	ordinary(&w);
	w.opt.dtype = SF_BFLOAT16;
	vw_open(&w);
	sf_entry_json(&b, w.cat, 2);
	ck_assert_ptr_nonnull(strstr(sf_buf_cstr(&b), "\"object\": true"));
	sf_buf_reset(&b);
	sf_entry_json(&b, w.cat, 0);
	ck_assert_ptr_nonnull(
		strstr(sf_buf_cstr(&b), "\"dtype\": \"float32\", \"shown_dtype\": \"bfloat16\""));
	sf_buf_release(&b);
	vw_close(&w);
}
END_TEST

START_TEST(bytes_that_are_not_utf8_are_escaped_as_python_does)
{
	struct sf_buf b = { 0 };
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.\xff", SF_FLOAT32, 2, two);
	vw_open(&w);
	sf_entry_json(&b, w.cat, 0);
	ck_assert_ptr_nonnull(
		strstr(sf_buf_cstr(&b),
	               "{\"key\": \"model.\\udcff\", \"stored_name\": \"model.\\udcff\","));
	sf_buf_release(&b);
	vw_close(&w);
}
END_TEST

START_TEST(the_readme_names_what_is_there)
{
	struct sf_vfile *f;
	uint64_t len;
	struct vw w;

	ordinary(&w);
	vw_open(&w);
	vw_ok(sf_view_readme(w.cat, w.reader, &f, &err));
	SF_FREE uint8_t *text = vw_read(f, &len);
	ck_assert_ptr_nonnull(
		strstr((char *)text, "torch.load(\"MNT/model.pt\", mmap=True, weights_only=True)"));
	ck_assert_ptr_nonnull(strstr((char *)text, "numpy.load(\"MNT/npy/model.a.npy\""));
	ck_assert_ptr_nonnull(
		strstr((char *)text, "astype(\"<u4\") << 16")); /* there is a bfloat16 */
	ck_assert_ptr_nonnull(strstr((char *)text, "cp -r"));
	ck_assert_ptr_null(strstr((char *)text, "is not known"));
	ck_assert_ptr_nonnull(strstr((char *)text, "ls MNT/state/model/a/\n"));
	ck_assert_ptr_nonnull(strstr((char *)text, "no config.json: add -o hf_files=DIR"));
	ck_assert_ptr_nonnull(strstr((char *)text, "it is odd"));
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("view_json");
	TCase *t = tcase_create("all");

	tcase_add_test(t, info_has_the_facts);
	tcase_add_test(t, tensors_json_has_an_entry_per_tensor);
	tcase_add_test(t, shards_say_file_offset_and_box);
	tcase_add_test(t, objects_have_one_shard_and_casts_are_told);
	tcase_add_test(t, bytes_that_are_not_utf8_are_escaped_as_python_does);
	tcase_add_test(t, the_readme_names_what_is_there);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
