#include "config.h"

#include "tests/format/dcp_world.h"

static struct sf_ckpt *load_dir(const char *path)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt *ckpt = NULL;
	struct sf_store *store;
	int r = sf_store_open(io(), path, NULL, &store, &err);

	ck_assert_msg(r >= 0, "%s", err.msg);
	r = sf_ckpt_load(store, NULL, &ckpt, &err);
	ck_assert_msg(r >= 0, "%s: %s", path, err.msg);
	sf_store_free(store);
	return ckpt;
}

/* Is it DCP's? Composer's other forms are beside those of its that are. */
static bool is_dcp(const char *dir)
{
	return !strstr(dir, "composer-") || strstr(dir, "/ep0-ba2");
}

/* Calls @each for every case folder of the test data; returns how many. */
static int each_case(void (*each)(const char *dir))
{
	static const char *const folders[] = { "dcp", "dcp-2.14", "dcp-2.6", "composer-0.32",
		                               "lightning-2.6" };
	char path[4096], dir[8192];
	int n = 0;

	for (size_t i = 0; i < SF_ARRAY_LEN(folders); i++) {
		DIR *d = opendir(sf_test_data(path, folders[i]));
		struct dirent *e;
		while (d && (e = readdir(d))) {
			if (e->d_name[0] == '.')
				continue;
			snprintf(dir, sizeof(dir), "%s/%s", path, e->d_name);
			if (!is_dcp(dir))
				continue;
			each(dir);
			n++;
		}
		if (d)
			closedir(d);
	}
	return n;
}

/* The key of this name, with or without the container a composite gives it. */
static const struct sf_key *find(const struct sf_ckpt *ckpt, const char *name, const char *role)
{
	char longer[4096];
	uint32_t at = ckpt_find(ckpt, name, strlen(name));

	if (at == SF_NONE && role) {
		snprintf(longer, sizeof(longer), "%s.%s", role, name);
		at = ckpt_find(ckpt, longer, strlen(longer));
	}
	return at == SF_NONE ? NULL : &ckpt->key[at];
}

static uint32_t check_keys(const char *dir, const struct sf_ckpt *ckpt, const struct cJSON *expect,
                           const char *role)
{
	const struct cJSON *list, *item;
	uint64_t shape[SF_DIMS_MAX];
	uint32_t n = 0;

	ck_assert_int_ge(sf_json_get_obj(expect, "tensors", &list, NULL), 0);
	for (item = sf_json_next(list, NULL); item; item = sf_json_next(list, item), n++) {
		const struct sf_key *key = find(ckpt, sf_json_name(item), role);
		const struct sf_tensor *t;
		const char *dtype;
		int ndim = sf_json_get_u64s(item, "shape", shape, SF_DIMS_MAX, NULL);
		ck_assert_msg(key && key->tensor != SF_NONE, "%s: no tensor '%s'", dir,
		              sf_json_name(item));
		t = &ckpt->tensor[key->tensor];
		ck_assert_int_ge(sf_json_get_str(item, "dtype", &dtype, NULL), 0);
		ck_assert_str_eq(sf_dtype_info((enum sf_dtype)t->dtype)->torch, dtype);
		ck_assert_int_eq(t->ndim, ndim);
		for (int k = 0; k < ndim; k++)
			ck_assert_uint_eq(t->shape[k], shape[k]);
		ck_assert_int_eq(
			t->flags & (SF_TENSOR_HOLE | SF_TENSOR_DAMAGED | SF_TENSOR_OVERLAP), 0);
		if (role)
			ck_assert_int_eq(ckpt->group[key->group].role, strcmp(role, "model") == 0
			                                                       ? SF_ROLE_MODEL
			                                                       : SF_ROLE_OPTIM);
	}
	if (sf_json_get_obj(expect, "objects", &list, NULL) >= 0) {
		for (item = sf_json_next(list, NULL); item; item = sf_json_next(list, item), n++) {
			const struct sf_key *key = find(ckpt, sf_json_name(item), role);
			ck_assert_msg(key && key->object != SF_NONE, "%s: no object '%s'", dir,
			              sf_json_name(item));
			ck_assert_uint_ne(ckpt->object[key->object].place, SF_NONE);
		}
	}
	return n;
}

static void case_keys(const char *dir)
{
	struct sf_json *json = NULL;
	const struct cJSON *list, *child;
	struct sf_ckpt *ckpt;
	const char *role;
	char path[9000];
	uint32_t n = 0;
	size_t len;
	uint8_t *text;

	snprintf(path, sizeof(path), "%s/ckpt", dir);
	ckpt = load_dir(path);
	ck_assert_msg(ckpt->nwarnings == 0, "%s: %s", dir,
	              ckpt->nwarnings ? ckpt->warning[0].text : "");
	snprintf(path, sizeof(path), "%s/expect.json", dir);
	text = slurp(path, &len);
	ck_assert_ptr_nonnull(text);
	if (sf_json_parse((char *)text, len, &json, NULL) >=
	    0) { /* lone surrogates in names are no JSON to the parser */
		if (sf_json_get_obj(sf_json_root(json), "composite", &list, NULL) >= 0) {
			for (child = sf_json_next(list, NULL); child;
			     child = sf_json_next(list, child)) {
				ck_assert_int_ge(sf_json_get_str(child, "role", &role, NULL), 0);
				n += check_keys(dir, ckpt, child, role);
			}
		} else {
			n = check_keys(dir, ckpt, sf_json_root(json), NULL);
		}
		ck_assert_msg(n == ckpt->nkeys, "%s: %u keys, not %u", dir, ckpt->nkeys, n);
	}
	sf_json_free(json);
	free(text);
	sf_ckpt_free(ckpt);
}

START_TEST(every_case_has_its_keys_with_dtype_and_shape)
{
	ck_assert_int_ge(each_case(case_keys), 30);
}
END_TEST

static void case_readers(const char *dir)
{
	static const char *const names[] = { ".metadata", "__0.metadata", "model/.metadata",
		                             "optimizer_0/.metadata" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *store;
	char path[9000];

	snprintf(path, sizeof(path), "%s/ckpt", dir);
	ck_assert_int_ge(sf_store_open(io(), path, NULL, &store, NULL), 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		struct sf_buf a = { 0 }, b = { 0 };
		struct dcp_meta m = { 0 };
		int r;
		if (store_exists(store, names[i]) <= 0)
			continue;
		r = dcp_meta_read(&m, store, names[i], NULL, DCP_READER_VALUES, &err);
		ck_assert_msg(r >= 0, "%s: %s", dir, err.msg);
		dcp_meta_text(&m, &a);
		dcp_facts_text(&m, &a);
		/* a surrogate in a name, and several transforms, are left to the value reader */
		bool left = strstr(dir, "surrogate") || strstr(dir, "zstd_twice");
		r = dcp_meta_read(&m, store, names[i], NULL,
		                  left ? DCP_READER_AUTO : DCP_READER_SCAN, &err);
		ck_assert_msg(r >= 0, "%s: %s", dir, err.msg);
		dcp_meta_text(&m, &b);
		dcp_facts_text(&m, &b);
		ck_assert_msg(strcmp(sf_buf_cstr(&a), sf_buf_cstr(&b)) == 0,
		              "%s/%s: the readers differ", dir, names[i]);
		dcp_meta_release(&m);
		sf_buf_release(&a);
		sf_buf_release(&b);
	}
	sf_store_free(store);
}

START_TEST(both_readers_agree_on_every_case)
{
	ck_assert_int_ge(each_case(case_readers), 30);
}
END_TEST

START_TEST(lone_surrogates_of_names_are_the_bytes_they_stand_for)
{
	static const char *const want[] = { "\xff", "%\xff/", "\xc3\xa9\xc3", "ok.\x80\xfe.w",
		                            "plain\xff" };
	char path[4096];
	struct sf_ckpt *ckpt = load_dir(sf_test_data(path, "dcp/names_surrogate/ckpt"));

	ck_assert_uint_eq(ckpt->nkeys, SF_ARRAY_LEN(want));
	for (size_t i = 0; i < SF_ARRAY_LEN(want); i++) {
		size_t len = strlen(want[i]);
		const struct sf_key *key = NULL;
		for (uint32_t k = 0; k < ckpt->nkeys && !key; k++)
			if (ckpt->key[k].len == len && memcmp(ckpt->key[k].name, want[i], len) == 0)
				key = &ckpt->key[k];
		ck_assert_msg(key != NULL, "key %zu", i);
		ck_assert_uint_eq(key->npath, 1); /* flat: the name whole */
		ck_assert_uint_eq(key->path[0].len, len);
		ck_assert_int_eq(memcmp(key->path[0].s, want[i], len), 0);
	}
	sf_ckpt_free(ckpt);
}
END_TEST

/* Keys that are two in Python and one as bytes: a surrogate pair that spells a character. */
START_TEST(two_keys_of_the_same_bytes_are_refused_with_the_reason)
{
	static const char *const names[] = { "a\xc3\xa9", "a\xed\xb3\x83\xed\xb2\xa9" };
	const struct sf_format_dir src = { .dir = "" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt_builder *b;
	struct dcp_meta m = { 0 };

	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		struct dcp_key key = { .tensor = DCP_NONE };
		ck_assert_int_ge(dcp_meta_str(&m, names[i], strlen(names[i]), &key.name), 0);
		ck_assert_int_ge(dcp_keys_push(&m.key, key), 0);
	}
	ck_assert_int_eq(sf_ckpt_builder_new("dcp", "here", &b, &err), 0);
	ck_assert_int_eq(dcp_lower(&m, &src, b, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "surrogates") && strstr(err.msg, "twice"), "%s", err.msg);
	sf_ckpt_builder_free(b);
	dcp_meta_release(&m);
}
END_TEST

START_TEST(a_file_name_that_leads_outside_is_refused)
{
	static const char *const names[] = { "../../distcp", "/etc/passwd0", "a//b/0distcp",
		                             "./0_0.distcp" };
	const struct sf_load_options complete = { .complete = true };
	char msg[SF_ERROR_MAX];

	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		size_t len;
		uint8_t *at = patched("dcp/fsdp4/ckpt/.metadata", "__0_0.distcp", names[i], &len);
		const struct sf_mem_object files[] = { { ".metadata", at, len } };
		struct sf_ckpt *ckpt = NULL;
		ck_assert_int_eq(load_mem(files, 1, NULL, &ckpt, msg), 0);
		ck_assert(warned(ckpt, "unsafe-name", names[i]));
		for (uint32_t k = 0; k < ckpt->nfiles; k++)
			ck_assert_str_ne(ckpt->file[k].name, names[i]);
		for (uint32_t t = 0; t < ckpt->ntensors; t++) {
			struct sf_chunk c;
			sf_tensor_chunk(&ckpt->tensor[t], 0, &c);
			if (c.place == SF_NONE)
				ck_assert_int_ne(ckpt->tensor[t].flags & SF_TENSOR_DAMAGED, 0);
		}
		sf_ckpt_free(ckpt);
		ck_assert_int_eq(load_mem(files, 1, &complete, &ckpt, msg), -EBADMSG);
		free(at);
	}
}
END_TEST

START_TEST(an_unknown_transform_is_named_and_its_keys_stay)
{
	size_t len;
	uint8_t *at = patched("dcp/zstd/ckpt/.metadata", "stream.zstd/1", "stream.zstd/2", &len);
	const struct sf_mem_object files[] = { { ".metadata", at, len } };
	struct sf_ckpt *ckpt = NULL;
	char msg[SF_ERROR_MAX];

	ck_assert_int_eq(load_mem(files, 1, NULL, &ckpt, msg), 0);
	unsigned told = 0;
	for (uint32_t i = 0; i < ckpt->nwarnings; i++) {
		if (strcmp(ckpt->warning[i].code, "transform") != 0)
			continue;
		ck_assert_ptr_nonnull(
			strstr(ckpt->warning[i].text, "through 'stream.zstd/2', which"));
		told++;
	}
	ck_assert_uint_eq(told, 2); /* files */
	ck_assert_uint_gt(ckpt->ntensors, 0);
	for (uint32_t i = 0; i < ckpt->nplaces; i++)
		ck_assert_ptr_nonnull(strstr(sf_place_why(ckpt, i), "'stream.zstd/2'"));
	/* a read says which file, and through what it was written */
	struct sf_error err = SF_ERROR_INIT;
	struct sf_reader *reader;
	struct sf_store *store;
	uint8_t byte;
	ck_assert_int_eq(sf_store_mem(io(), files, 1, &store, NULL), 0);
	ck_assert_int_eq(sf_reader_new(ckpt, store, &reader, NULL), 0);
	ck_assert_int_eq(sf_read_tensor(reader, 0, 0, &byte, 1, &err), -ENOTSUP);
	ck_assert_msg(strstr(err.msg, "stream.zstd/2") && strstr(err.msg, ".distcp"), "%s",
	              err.msg);
	sf_reader_free(reader);
	sf_store_free(store);
	sf_ckpt_free(ckpt);
	free(at);
}
END_TEST

/* A child whose keys get its container in front, and whose data is safetensors: there they have
 * their own names. */
START_TEST(a_composite_of_safetensors_mode_reads_as_its_child_alone)
{
	struct sf_mem_object files[2][32];
	struct sf_ckpt *ckpt[2];
	struct sf_reader *reader[2];
	struct sf_store *store[2];
	struct sf_error err = SF_ERROR_INIT;
	size_t n[2], blobs = 0;

	for (int k = 0; k < 2; k++) {
		n[k] = objects_of("dcp/safetensors/ckpt", k ? "optim/" : "", files[k], 32);
		ck_assert_int_eq(sf_store_mem(io(), files[k], n[k], &store[k], NULL), 0);
		ck_assert_msg(sf_ckpt_load(store[k], NULL, &ckpt[k], &err) == 0, "%s", err.msg);
		ck_assert_int_eq(sf_reader_new(ckpt[k], store[k], &reader[k], NULL), 0);
	}
	ck_assert_uint_gt(ckpt[0]->ntensors, 0);
	for (uint32_t t = 0; t < ckpt[0]->ntensors; t++) {
		const struct sf_tensor *a = &ckpt[0]->tensor[t];
		const struct sf_key *key = &ckpt[0]->key[a->key], *longer = NULL;
		char name[4096];
		snprintf(name, sizeof(name), "optim.%s", key->name);
		uint32_t at = ckpt_find(ckpt[1], name, strlen(name));
		ck_assert_msg(at != SF_NONE, "no %s", name);
		longer = &ckpt[1]->key[at];
		blobs += a->nchunks && a->place[0] != SF_NONE &&
		         ckpt[0]->place[a->place[0]].form == SF_ITEM_ST_BLOB;
		uint8_t *x = malloc(a->bytes + 1), *y = malloc(a->bytes + 1);
		int r = sf_read_tensor(reader[0], t, 0, x, a->bytes, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		r = sf_read_tensor(reader[1], longer->tensor, 0, y, a->bytes, &err);
		ck_assert_msg(r == 0, "%s", err.msg);
		ck_assert_mem_eq(x, y, a->bytes);
		free(x);
		free(y);
	}
	ck_assert_uint_gt(blobs, 0);
	for (int k = 0; k < 2; k++) {
		sf_reader_free(reader[k]);
		sf_ckpt_free(ckpt[k]);
		sf_store_free(store[k]);
		free_objects(files[k], n[k]);
	}
}
END_TEST

/* One safetensors file whose every tensor has a place in DCP_SHARDING_INFO: looking through the
 * list for each would take a minute. */
START_TEST(a_shard_of_many_tensors_is_read_in_linear_time)
{
	enum { N = 60000 };
	struct sf_buf info = { 0 }, file = { 0 };
	struct sf_ckpt *ckpt = NULL;
	char msg[SF_ERROR_MAX];
	uint32_t key;

	sf_buf_byte(&info, '{');
	for (int i = 0; i < N; i++)
		sf_buf_printf(&info, "%s\"model.layers.%d.w\": {\"saved_offsets\": [%d]}",
		              i ? ", " : "", i, i % 3);
	sf_buf_byte(&info, '}');
	sf_buf_str(&file, "????????{\"__metadata__\":{\"DCP_SHARDING_INFO\":");
	sf_escape_json(&file, (const char *)info.at, info.len);
	sf_buf_byte(&file, '}');
	for (int i = 0; i < N; i++)
		sf_buf_printf(&file,
		              ",\"model.layers.%d.w\":{\"dtype\":\"U8\",\"shape\":[1],\"data_"
		              "offsets\":[%d,%d]}",
		              i, i, i + 1);
	sf_buf_byte(&file, '}');
	sf_put_le64(file.at, file.len - 8);
	memset(sf_buf_extend(&file, N), 7, N);
	const struct sf_mem_object files[] = { { "shard-00001-model-00001-of-00001.safetensors",
		                                 file.at, file.len } };
	int r = load_mem(files, 1, NULL, &ckpt, msg);
	ck_assert_msg(r == 0, "%s", msg);
	ck_assert_uint_eq(ckpt->ntensors, N);
	key = ckpt_find(ckpt, "model.layers.5.w", 16);
	ck_assert_uint_ne(key, SF_NONE);
	ck_assert_uint_eq(ckpt->tensor[ckpt->key[key].tensor].shape[0], 3); /* 2, 1 long */
	sf_ckpt_free(ckpt);
	sf_buf_release(&info);
	sf_buf_release(&file);
}
END_TEST

START_TEST(an_unknown_source_format_is_refused_by_name)
{
	const struct sf_load_options opt = { .source_format = "zarr9" };
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];

	ck_assert_int_eq(load_mem(NULL, 0, &opt, &ckpt, msg), -EINVAL);
	ck_assert_msg(strstr(msg, "zarr9") != NULL, "%s", msg);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("format_dcp");
	TCase *tc = tcase_create("cases");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, every_case_has_its_keys_with_dtype_and_shape);
	tcase_add_test(tc, both_readers_agree_on_every_case);
	tcase_add_test(tc, lone_surrogates_of_names_are_the_bytes_they_stand_for);
	tcase_add_test(tc, two_keys_of_the_same_bytes_are_refused_with_the_reason);
	tcase_add_test(tc, a_file_name_that_leads_outside_is_refused);
	tcase_add_test(tc, an_unknown_transform_is_named_and_its_keys_stay);
	tcase_add_test(tc, a_composite_of_safetensors_mode_reads_as_its_child_alone);
	tcase_add_test(tc, an_unknown_source_format_is_refused_by_name);
	suite_add_tcase(s, tc);
	tc = tcase_create("sizes"); /* with the ordinary limit of time */
	tcase_add_test(tc, a_shard_of_many_tensors_is_read_in_linear_time);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
