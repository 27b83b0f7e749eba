#include "config.h"

#include "tests/lib/hf_world.h"

static int natural(const char *a, const char *b)
{
	return sf_natural_compare(a, strlen(a), b, strlen(b));
}

/* All names in order, '|' between tensors, '#' between files. */
static char *names(const struct sf_hf *hf)
{
	struct sf_buf b = { 0 };

	for (uint32_t f = 0; f < hf->nfiles; f++)
		for (uint32_t i = 0; i < hf->file[f].sel.n; i++)
			sf_buf_printf(&b, "%s%s", i ? "|" : f ? "#" : "", hf->file[f].sel.names[i]);
	sf_buf_byte(&b, 0);
	return (char *)b.at;
}

static void check_names(struct vw *w, const char *want)
{
	struct sf_hf *hf = hf_of(w);
	SF_FREE char *got = names(hf);

	ck_assert_str_eq(got, want);
	sf_hf_free(hf);
}

START_TEST(wrappers_are_taken_out_and_a_common_module)
{
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.module._orig_mod.layers.10._checkpoint_wrapped_module.w", SF_FLOAT32,
	          2, two);
	vw_tensor(&w, "model._orig_mod.module.layers.9._fsdp_wrapped_module.w", SF_FLOAT32, 2, two);
	vw_tensor(&w, "model.module.embed", SF_FLOAT32, 2, two);
	vw_tensor(&w, "model.module.attn._extra_state", SF_UINT8, 2, two);
	vw_tensor(&w, "model.module.c", SF_COMPLEX128, 2, two);
	vw_object(&w, "model.module.x._extra_state");
	vw_tensor(&w, "optim.module.embed", SF_FLOAT32, 2, two);
	check_names(&w, "embed|layers.9.w|layers.10.w");
	w.opt.hf_strip = false;
	check_names(&w, "_orig_mod.module.layers.9._fsdp_wrapped_module.w|module._orig_mod.layers."
	                "10._checkpoint_wrapped_module.w|"
	                "module.embed");
	vw_close(&w);
}
END_TEST

START_TEST(a_name_may_hold_a_nul)
{
	static const char *const names[] = { "module.a", "module.a\0b", "module._orig_mod.a\0c" };
	static const size_t len[] = { 8, 10, 20 };
	struct sf_vfile *f;
	struct sf_hf *hf;
	struct vw w;
	uint64_t size;

	vw_init(&w);
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++)
		vw_flat(&w, names[i], len[i]);
	w.opt.hf_group = "";
	w.opt.max_shard_size = 8; /* two tensors a file: there is an index */
	hf = hf_of(&w);
	ck_assert_uint_eq(hf->nfiles, 2);
	ck_assert_uint_eq(hf->file[0].sel.name_lens[0], 1);
	ck_assert_uint_eq(hf->file[0].sel.name_lens[1], 3);
	ck_assert_int_eq(memcmp(hf->file[0].sel.names[1], "a\0b", 4), 0);
	ck_assert_uint_eq(hf->file[1].sel.name_lens[0], 3);
	ck_assert_int_eq(memcmp(hf->file[1].sel.names[0], "a\0c", 4), 0);
	ck_assert_ptr_nonnull(strstr(hf->index_json, "\"a\": \"model-00001-of-00002"));
	ck_assert_ptr_nonnull(strstr(hf->index_json, "\"a\\u0000b\": \"model-00001-of-00002"));
	ck_assert_ptr_nonnull(strstr(hf->index_json, "\"a\\u0000c\": \"model-00002-of-00002"));
	vw_ok(sf_view_safetensors(w.cat, w.reader, &hf->file[1].sel, &f, &err));
	SF_FREE uint8_t *text = vw_read(f, &size);
	ck_assert_ptr_nonnull(memmem(text, size, "\"a\\u0000c\"", 10));
	sf_hf_free(hf);
	vw_close(&w);
}
END_TEST

START_TEST(a_module_that_not_all_have_stays)
{
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.module.a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "model.modules.b", SF_FLOAT32, 2, two);
	vw_tensor(&w, "optim.a", SF_FLOAT32, 2,
	          two); /* or `module` below the one root would be the group */
	check_names(&w, "module.a|modules.b");
	vw_close(&w);
}
END_TEST

START_TEST(hf_map_comes_last_and_two_keys_to_one_name_are_refused)
{
	struct sf_map_rule rule[2] = { { "layers.*.wq", "model.layers.*.self_attn.q_proj" },
		                       { "layers", "x" } };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_hf *hf;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model._orig_mod.layers.0.wq.weight", SF_FLOAT32, 2, two);
	vw_tensor(&w, "model.layers.1.wk.weight", SF_FLOAT32, 2, two);
	w.opt.hf_map = rule;
	w.opt.nhf_map = 2;
	check_names(&w, "model.layers.0.self_attn.q_proj.weight|x.1.wk.weight");
	rule[0] = (struct sf_map_rule){ "layers.*", "same" };
	rule[1] = (struct sf_map_rule){ "same.wk", "same.wq" };
	w.opt.nhf_map = 1;
	check_names(&w, "same.wk.weight|same.wq.weight");
	rule[0] = (struct sf_map_rule){ "layers.0.wq", "w" };
	rule[1] = (struct sf_map_rule){ "layers.1.wk", "w" };
	w.opt.nhf_map = 2;
	vw_open(&w);
	ck_assert_int_eq(sf_hf_new(w.cat, &hf, &err), -EINVAL);
	ck_assert_ptr_nonnull(strstr(err.msg, "layers.0.wq.weight"));
	ck_assert_ptr_nonnull(strstr(err.msg, "layers.1.wk.weight"));
	vw_close(&w);
}
END_TEST

START_TEST(another_group_can_be_shown)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_hf *hf;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "ema.b", SF_FLOAT32, 2, two);
	w.opt.hf_group = "ema";
	w.opt.hf_name = "adapter_model";
	hf = hf_of(&w);
	ck_assert_str_eq(hf->file[0].name, "adapter_model.safetensors");
	ck_assert_str_eq(hf->file[0].sel.names[0], "b");
	sf_hf_free(hf);
	w.opt.hf_group = "emma";
	ck_assert_int_eq(sf_hf_new(w.cat, &hf, &err), -ENOENT);
	w.opt.hf_group = NULL;
	w.opt.hf_name = "../x";
	ck_assert_int_eq(sf_hf_new(w.cat, &hf, &err), -EINVAL);
	vw_close(&w);
}
END_TEST

START_TEST(shards_are_filled_in_natural_order)
{
	/* bytes: layers.0 40, layers.1 30, layers.2 200 (larger than a file), layers.10 50,
	 * layers.11 20 */
	static const struct {
		const char *name;
		uint64_t bytes;
	} t[] = { { "model.layers.10", 50 },
		  { "model.layers.2", 200 },
		  { "model.layers.0", 40 },
		  { "model.layers.11", 20 },
		  { "model.layers.1", 30 } };
	struct sf_json *j = NULL;
	const struct cJSON *map;
	const char *file;
	struct sf_hf *hf;
	struct vw w;

	vw_init(&w);
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++)
		vw_tensor(&w, t[i].name, SF_INT8, 1, &t[i].bytes);
	w.opt.max_shard_size = 80;
	hf = hf_of(&w);
	SF_FREE char *got = names(hf);
	/* the large one alone; the file begun before it goes on behind it */
	ck_assert_str_eq(got, "layers.0|layers.1#layers.2#layers.10|layers.11");
	ck_assert_uint_eq(hf->total_size, 340);
	ck_assert_str_eq(hf->file[2].name, "model-00003-of-00003.safetensors");
	ck_assert_str_eq(hf->index_name, "model.safetensors.index.json");
	vw_ok(sf_json_parse(hf->index_json, hf->index_len, &j, &err));
	vw_ok(sf_json_get_obj(sf_json_root(j), "weight_map", &map, &err));
	vw_ok(sf_json_get_str(map, "layers.2", &file, &err));
	ck_assert_str_eq(file, "model-00002-of-00003.safetensors");
	sf_json_free(j);
	ck_assert_str_eq(
		hf->index_json,
		"{\n  \"metadata\": {\n    \"total_size\": 340\n  },\n  \"weight_map\": {\n"
		"    \"layers.0\": \"model-00001-of-00003.safetensors\",\n"
		"    \"layers.1\": \"model-00001-of-00003.safetensors\",\n"
		"    \"layers.10\": \"model-00003-of-00003.safetensors\",\n"
		"    \"layers.11\": \"model-00003-of-00003.safetensors\",\n"
		"    \"layers.2\": \"model-00002-of-00003.safetensors\"\n  }\n}\n");
	for (uint32_t f = 0; f < hf->nfiles; f++) { /* and they are files */
		struct sf_vfile *v;
		uint64_t len;
		vw_ok(sf_view_safetensors(w.cat, w.reader, &hf->file[f].sel, &v, &err));
		SF_FREE uint8_t *text = vw_read(v, &len);
		ck_assert_ptr_nonnull(memmem(text, len, hf->file[f].sel.names[0],
		                             strlen(hf->file[f].sel.names[0])));
	}
	sf_hf_free(hf);
	w.opt.max_shard_size = 340;
	hf = hf_of(&w);
	ck_assert_uint_eq(hf->nfiles, 1);
	ck_assert_str_eq(hf->file[0].name, "model.safetensors");
	ck_assert_ptr_null(hf->index_json);
	sf_hf_free(hf);
	vw_close(&w);
}
END_TEST

/* Property: the files hold every tensor once, and none but a lone one passes the limit. */
START_TEST(no_file_passes_the_limit)
{
	uint64_t rnd = sf_test_seed("no_file_passes_the_limit");

	for (int round = 0; round < 30; round++) {
		struct sf_hf *hf;
		struct vw w;
		uint32_t n = 0, total = 1 + (uint32_t)sf_test_below(&rnd, 60);
		vw_init(&w);
		for (uint32_t i = 0; i < total; i++) {
			uint64_t bytes = sf_test_below(&rnd, 100);
			char name[32];
			snprintf(name, sizeof(name), "model.l%u", (unsigned)(i * 7 % 61));
			vw_tensor(&w, name, SF_INT8, 1, &bytes);
		}
		w.opt.max_shard_size = 1 + sf_test_below(&rnd, 120);
		hf = hf_of(&w);
		for (uint32_t f = 0; f < hf->nfiles; f++) {
			uint64_t bytes = 0;
			ck_assert_uint_gt(hf->file[f].sel.n, 0);
			for (uint32_t i = 0; i < hf->file[f].sel.n; i++, n++) {
				bytes += w.ckpt->tensor[w.cat->entry[hf->file[f].sel.entry[i]]
				                                .tensor]
				                 .bytes;
				if (i)
					ck_assert_int_lt(natural(hf->file[f].sel.names[i - 1],
					                         hf->file[f].sel.names[i]),
					                 0);
			}
			ck_assert(bytes <= w.opt.max_shard_size || hf->file[f].sel.n == 1);
		}
		ck_assert_uint_eq(n, total);
		sf_hf_free(hf);
		vw_close(&w);
	}
}
END_TEST

START_TEST(digits_compare_as_numbers)
{
	static const char *const sorted[] = { "",       "0", "1",        "2",        "002",
		                              "10",     "a", "a.2",      "a.2.b",    "a.10",
		                              "a.10.b", "b", "layers.9", "layers.10" };

	for (size_t i = 0; i < SF_ARRAY_LEN(sorted); i++)
		for (size_t k = 0; k < SF_ARRAY_LEN(sorted); k++) {
			int d = natural(sorted[i], sorted[k]);
			if (i == k)
				ck_assert_int_eq(d, 0);
			else if (strcmp(sorted[i], "002") && strcmp(sorted[k], "002"))
				ck_assert_msg(i < k ? d < 0 : d > 0, "'%s' and '%s': %d", sorted[i],
				              sorted[k], d);
			else
				ck_assert_int_ne(d,
				                 0); /* 2 and 002 differ, whichever comes first */
		}
}
END_TEST

static void check_config(const char *in, const char *want)
{
	struct sf_buf b = { 0 };

	sf_hf_set_dtype(in, strlen(in), "bfloat16", &b);
	ck_assert_str_eq(sf_buf_cstr(&b), want);
	sf_buf_release(&b);
}

START_TEST(the_dtype_field_alone_changes)
{
	check_config("{\n  \"a\": 1,\n  \"torch_dtype\" : \"float32\"\n}\n",
	             "{\n  \"a\": 1,\n  \"torch_dtype\" : \"bfloat16\"\n}\n");
	check_config("{\"dtype\":\"float32\",\"x\":[\"dtype\", \"torch_dtype\"]}",
	             "{\"dtype\":\"bfloat16\",\"x\":[\"dtype\", \"torch_dtype\"]}");
	check_config("{\"q\": {\"dtype\": \"int4\"}, \"dtype\": null}",
	             "{\"q\": {\"dtype\": \"int4\"}, \"dtype\": null}");
	check_config("{\"a\": \"\\\"dtype\\\": \\\"x\\\"\", \"b\": \"dtype\"}",
	             "{\"a\": \"\\\"dtype\\\": \\\"x\\\"\", \"b\": \"dtype\"}");
	check_config("{\"dtype\": \"flo", "{\"dtype\": \"bfloat16\""); /* no JSON, no crash */
	check_config("\"dtype\": \"x\"", "\"dtype\": \"x\"");
	check_config("", "");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("view_hf");
	TCase *t = tcase_create("all");

	tcase_add_test(t, wrappers_are_taken_out_and_a_common_module);
	tcase_add_test(t, a_name_may_hold_a_nul);
	tcase_add_test(t, a_module_that_not_all_have_stays);
	tcase_add_test(t, hf_map_comes_last_and_two_keys_to_one_name_are_refused);
	tcase_add_test(t, another_group_can_be_shown);
	tcase_add_test(t, shards_are_filled_in_natural_order);
	tcase_add_test(t, no_file_passes_the_limit);
	tcase_add_test(t, digits_compare_as_numbers);
	tcase_add_test(t, the_dtype_field_alone_changes);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
