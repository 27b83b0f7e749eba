#include "config.h"

#include "seam_torch.h"
#include "seam_tree.h"
#include "value/object.h"
#include "value_lines.h"

/* What a format may say of values, keys and storages beyond DCP, read back through the views. */

#define E(text, how)                        \
	{                                   \
		text, sizeof(text) - 1, how \
	}
#define PATH(...)                                       \
	((const struct sf_path_elem[]){ __VA_ARGS__ }), \
		sizeof((const struct sf_path_elem[]){ __VA_ARGS__ }) / sizeof(struct sf_path_elem)

/* All of the checkpoint in one .pt file: a line for each leaf, without the digests. */
static void check_pt(struct seam *w, const char *want)
{
	uint32_t entry[64];
	struct sf_selection sel = { .entry = entry, .n = w->s.catalog->n };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	struct sf_buf lines = { 0 }, text = { 0 };
	uint8_t *at;
	uint64_t len;

	for (uint32_t i = 0; i < sel.n; i++)
		entry[i] = i;
	open_pt(w, &sel, &arena, &at, &len, &a);
	value_lines(&lines, at, &a);
	for (char *line = (char *)sf_buf_cstr(&lines), *end; *line; line = end + 1) {
		end = strchr(line, '\n');
		*end = '\0';
		char *dtype = line[0] == 'T' ? strchr(line + 2, ' ') : NULL;
		sf_buf_printf(&text, "%.*s\n", (int)(dtype ? dtype - line : end - line), line);
	}
	ck_assert_str_eq(sf_buf_cstr(&text), want);
	free(at);
	sf_arena_release(&arena);
	sf_buf_release(&lines);
	sf_buf_release(&text);
}

/* A float32 [2, 3] at byte @off of file "data", under a path. */
static int add(struct sf_ckpt_builder *b, const char *key, uint64_t off,
               const struct sf_path_elem *path, size_t npath, uint32_t *ret, struct sf_error *err)
{
	const uint64_t shape[2] = { 2, 3 }, zero[2] = { 0 };
	uint32_t place, t;
	int r = sf_ckpt_builder_place(b, "data", 4, SF_ITEM_RAW, SF_CODEC_NONE, &place, err);

	if (r >= 0)
		r = sf_ckpt_builder_tensor(b, key, strlen(key), SF_FLOAT32, shape, 2, &t, err);
	if (r >= 0)
		r = sf_ckpt_builder_chunk(b, zero, shape, err);
	if (r < 0)
		return r;
	sf_ckpt_builder_set_item(b, t, 0, place, off, 24);
	if (ret)
		*ret = t;
	return npath ? sf_ckpt_builder_path(b, key, strlen(key), path, npath, err) : 0;
}

/* Bytes that count up. */
static void data_file(struct seam *w, uint8_t at[256])
{
	for (int i = 0; i < 256; i++)
		at[i] = (uint8_t)(i * 7);
	seam_file(w, "data", at, 256);
}

/* ---- what a path says of containers ---- */

static int lower_containers(struct sf_ckpt_builder *b, struct sf_error *err)
{
	static const struct {
		const char *key;
		struct sf_path_elem path[3];
		size_t n;
	} keys[] = {
		/* an optimizer's state: int keys without a gap stay a dict */
		{ "state.0.m",
		  { E("state", SF_PATH_TEXT), E("0", SF_PATH_INT), E("m", SF_PATH_TEXT) },
		  3 },
		{ "state.1.m",
		  { E("state", SF_PATH_TEXT), E("1", SF_PATH_INT), E("m", SF_PATH_TEXT) },
		  3 },
		{ "ids.-3", { E("ids", SF_PATH_TEXT), E("-3", SF_PATH_INT) }, 2 },
		{ "ids.5000000000", { E("ids", SF_PATH_TEXT), E("5000000000", SF_PATH_INT) }, 2 },
		{ "ids.9", { E("ids", SF_PATH_TEXT), E("9", SF_PATH_INT) }, 2 },
		{ "ids.9.text", { E("ids", SF_PATH_TEXT), E("9", SF_PATH_TEXT) }, 2 },
		{ "list.1", { E("list", SF_PATH_TEXT), E("1", SF_PATH_LIST) }, 2 },
		{ "list.0.0",
		  { E("list", SF_PATH_TEXT), E("0", SF_PATH_LIST), E("0", SF_PATH_TUPLE) },
		  3 },
		{ "list.0.2",
		  { E("list", SF_PATH_TEXT), E("0", SF_PATH_LIST), E("2", SF_PATH_TUPLE) },
		  3 },
		{ "one.0", { E("one", SF_PATH_TEXT), E("0", SF_PATH_TUPLE) }, 2 },
		{ "mixed.0", { E("mixed", SF_PATH_TEXT), E("0", SF_PATH_TUPLE) }, 2 },
		{ "mixed.x", { E("mixed", SF_PATH_TEXT), E("x", SF_PATH_TEXT) }, 2 },
	};
	int r = 0;

	for (size_t i = 0; i < SF_ARRAY_LEN(keys) && r >= 0; i++)
		r = add(b, keys[i].key, i * 8, keys[i].path, keys[i].n, NULL, err);
	return r;
}

START_TEST(dicts_of_ints_lists_and_tuples_are_what_their_paths_say)
{
	uint8_t want[256];
	struct seam w = { 0 };

	data_file(&w, want);
	seam_open(&w, lower_containers);
	check_pt(&w,
	         "T /state#0/m\nT /state#1/m\nT /ids#-3\nT /ids#5000000000\nT /ids#9\nT /ids/9\n"
	         "T /list[0](0)\nV /list[0](1)\nT /list[0](2)\nT /list[1]\nT /one(0)\n"
	         "T /mixed#0\nT /mixed/x\n");
	seam_check(&w, "state.1.m", want + 8, 24);
	seam_check(&w, "list.0.2", want + 64, 24);
	seam_check(&w, "one.0", want + 72, 24);
	ck_assert_uint_eq(w.s.ckpt->nwarnings, 0);
	seam_verify(&w, NULL);
	seam_close(&w);
}
END_TEST

static int lower_clash(struct sf_ckpt_builder *b, struct sf_error *err)
{
	int r = add(b, "a", 0, PATH(E("d", SF_PATH_TEXT), E("3", SF_PATH_INT)), NULL, err);

	if (r >= 0) /* the same place in Python */
		r = add(b, "b", 8, PATH(E("d", SF_PATH_TEXT), E("3", SF_PATH_LIST)), NULL, err);
	if (r >= 0) /* a text of the same digits is another */
		r = add(b, "c", 16, PATH(E("d", SF_PATH_TEXT), E("3", SF_PATH_TEXT)), NULL, err);
	return r;
}

START_TEST(a_number_is_one_key_whatever_holds_it)
{
	uint8_t want[256];
	struct seam w = { 0 };

	data_file(&w, want);
	seam_open(&w, lower_clash);
	check_pt(&w, "T /d#3\nT /d/3\nT /b\n");
	seam_close(&w);
}
END_TEST

/* A group file's root is a container of the path, too. */
static int lower_group(struct sf_ckpt_builder *b, struct sf_error *err)
{
	int r = add(b, "model.0", 0, PATH(E("model", SF_PATH_TEXT), E("0", SF_PATH_TUPLE)), NULL,
	            err);

	return r < 0 ? r
	             : add(b, "model.1", 8, PATH(E("model", SF_PATH_TEXT), E("1", SF_PATH_TUPLE)),
	                   NULL, err);
}

START_TEST(a_group_file_may_be_a_tuple)
{
	const uint32_t entry[2] = { 0, 1 };
	const struct sf_selection sel = { .entry = entry, .n = 2, .strip = 1 };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	uint8_t want[256], *at;
	struct seam w = { 0 };
	uint64_t len;

	data_file(&w, want);
	seam_open(&w, lower_group);
	open_pt(&w, &sel, &arena, &at, &len, &a);
	ck_assert_int_eq(a.root->kind, SF_PV_TUPLE);
	ck_assert_uint_eq(a.root->seq.n, 2);
	ck_assert_int_eq(a.root->seq.at[1]->kind, SF_PV_CALL);
	free(at);
	sf_arena_release(&arena);
	seam_close(&w);
}
END_TEST

/* ---- a file of torch.save whose leaves are keys ---- */

static int lower_torch(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t place;
	int r = sf_ckpt_builder_place(b, "file.pt", 7, SF_ITEM_RAW, SF_CODEC_NONE, &place, err);

	return r < 0 ? r : seam_torch_lower(b, place, err);
}

static const char *const torch_files[] = { "zip", "stream", "stream_p4", "stream_views", "tar" };

/* Every leaf a key of its own, plain values and strided tensors as values of their own: in one .pt
 * file it is the same value again. */
START_TEST(the_leaves_of_one_pickle_are_keys)
{
	struct seam w = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	struct sf_buf lines = { 0 };
	uint32_t entry[64];
	uint8_t *at;
	uint64_t len;

	load_torch(torch_files[_i]);
	seam_file(&w, "file.pt", torch_file.at, torch_file.len);
	seam_open(&w, lower_torch);
	const struct sf_selection sel = { .entry = entry, .n = w.s.catalog->n };
	for (uint32_t i = 0; i < sel.n; i++)
		entry[i] = i;
	open_pt(&w, &sel, &arena, &at, &len, &a);
	value_lines(&lines, at, &a);
	ck_assert_str_eq(sf_buf_cstr(&lines), sf_buf_cstr(&torch_file.leaves));
	const char *out = getenv("SF_SEAM_OUT"); /* tests/interop/test_seam_values.py */
	if (out) {
		char path[4096];
		snprintf(path, sizeof(path), "%s/%s.pt", out, torch_files[_i]);
		FILE *f = fopen(path, "wb");
		ck_assert_msg(f && fwrite(at, 1, len, f) == len && fclose(f) == 0, "%s", path);
	}
	/* and nothing in it is damaged */
	seam_verify(&w, NULL);
	free(at);
	sf_arena_release(&arena);
	sf_buf_release(&lines);
	sf_buf_release(&torch_file.leaves);
	seam_close(&w);
}
END_TEST

static void check_json(struct seam *w, const char *key, const char *want)
{
	const uint32_t entry = seam_entry(w, key);
	struct sf_error err = SF_ERROR_INIT;
	struct sf_vfile *f;
	uint64_t len;

	ck_assert_msg(sf_view_value_json(w->s.catalog, w->s.reader, entry, &f, &err) >= 0, "%s",
	              err.msg);
	char *json = (char *)seam_read(f, &len);
	json[len] = '\0';
	ck_assert_msg(strstr(json, want) != NULL, "%s", json);
	free(json);
}

START_TEST(a_value_of_a_pickle_is_an_object_in_every_view)
{
	struct seam w = { 0 };
	struct sf_vfile *f;
	uint64_t len;

	load_torch("zip");
	seam_file(&w, "file.pt", torch_file.at, torch_file.len);
	seam_open(&w, lower_torch);
	check_json(&w, "epoch", "3");
	check_json(&w, "optim.param_groups.0.betas.1", "0.999");
	check_json(&w, "none", "null");
	check_json(&w, "classes", "1, 2");
	/* alone in a file; its storage is read where it lies in the file of torch.save */
	const uint32_t entry = seam_entry(&w, "model.wt");
	const struct sf_object *o = &w.s.ckpt->object[w.s.catalog->entry[entry].object];
	ck_assert(o->inlined && o->inlined->nstorages == 1 &&
	          sf_object_bytes(o) == o->inlined->len);
	const struct sf_selection sel = { .entry = &entry, .n = 1, .bare = true };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	struct sf_torch_tensor t;
	uint8_t *at;
	open_pt(&w, &sel, &arena, &at, &len, &a);
	ck_assert_int_eq(sf_torch_tensor_from_pv(a.root, &t, NULL), 1);
	ck_assert(t.shape[0] == 3 && t.stride[0] == 1 && a.nstorages == 1);
	ck_assert_mem_eq(at + a.storage[0].off, torch_file.at + o->inlined->storage[0].off, 48);
	free(at);
	sf_arena_release(&arena);
	/* what is said of it counts its own bytes */
	char text[64];
	ck_assert_int_eq(sf_view_entry_json(w.s.catalog, w.s.reader, entry, &f, NULL), 0);
	char *json = (char *)seam_read(f, &len);
	json[len] = '\0';
	snprintf(text, sizeof(text), "\"bytes\": %llu,", (unsigned long long)o->inlined->len);
	ck_assert_msg(strstr(json, text) && strstr(json, "\"file\": \"file.pt\""), "%s", json);
	free(json);
	sf_buf_release(&torch_file.leaves);
	seam_close(&w);
}
END_TEST

/* A safetensors file of many keys has what is inside values, where it can. */
START_TEST(tensors_inside_values_are_in_safetensors_files)
{
	uint32_t entry[64];
	struct seam w = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_arena arena = { 0 };
	struct sf_st_header head;
	struct sf_vfile *f;
	uint64_t size;

	load_torch("zip");
	seam_file(&w, "file.pt", torch_file.at, torch_file.len);
	seam_open(&w, lower_torch);
	const struct sf_selection sel = { .entry = entry, .n = w.s.catalog->n };
	for (uint32_t i = 0; i < sel.n; i++)
		entry[i] = i;
	ck_assert_int_eq(sf_view_safetensors(w.s.catalog, w.s.reader, &sel, &f, &err), 0);
	uint8_t *at = seam_read(f, &size);
	ck_assert_int_eq(sf_st_parse(at + 8, sf_le64(at), &arena, &head, &err), 0);
	/* w, tied, rows, empty, step, exp_avg, the one in a tuple, u16; the others are strided */
	ck_assert_uint_eq(head.n, 8);
	free(at);
	sf_arena_release(&arena);
	sf_buf_release(&torch_file.leaves);
	seam_close(&w);
}
END_TEST

static int no_value(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	ck_abort_msg("object %u", object);
	return 0;
}

/* The file that values came from has lost its end since. */
START_TEST(a_value_of_a_file_that_is_cut_is_damaged)
{
	const uint32_t object = 0;
	struct sf_error err = SF_ERROR_INIT;
	struct seam w = { 0 };

	load_torch("zip");
	seam_file(&w, "file.pt", torch_file.at, torch_file.len - 1);
	seam_open(&w, lower_torch);
	seam_warns(&w, "truncated-file", ((const char *const[]){ "file.pt", NULL }));
	ck_assert_int_eq(sf_objects_load(w.s.reader, &object, 1, no_value, NULL, &err), -EBADMSG);
	sf_buf_release(&torch_file.leaves);
	seam_close(&w);
}
END_TEST

START_TEST(values_are_refused_that_do_not_fit_their_container)
{
	struct sf_error err = SF_ERROR_INIT;
	const struct sf_torch_options opt = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	struct sf_ckpt_builder *b;
	uint32_t raw, torch, o;

	load_torch("zip_big");
	const struct sf_torch_input in = { torch_file.len, torch_file.at, NULL, NULL };
	const uint64_t len = in.len;
	ck_assert_int_eq(sf_torch_open(&in, &opt, &arena, &a, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_new("seam", "src", &b, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_place(b, "f", 1, SF_ITEM_RAW, SF_CODEC_NONE, &raw, NULL),
	                 0);
	ck_assert_int_eq(
		sf_ckpt_builder_place(b, "f", 1, SF_ITEM_TORCH, SF_CODEC_NONE, &torch, NULL), 0);
	ck_assert_int_eq(sf_ckpt_builder_object(b, "key", 3, &o, NULL), 0);
#define SET(place, len) sf_ckpt_builder_set_value(b, o, a.root, &a, place, 0, len, &err)
	ck_assert_int_eq(SET(raw, len), -ENOTSUP);
	ck_assert_msg(strstr(err.msg, "'key'") && strstr(err.msg, "big-endian"), "%s", err.msg);
	a.big_endian = false;
	ck_assert_int_eq(SET(raw, 100), -EBADMSG);
	ck_assert_int_eq(SET(torch, len), -EBADMSG);
	ck_assert_int_eq(SET(torch + 1, len), -EBADMSG);
	a.nstorages = 0;
	ck_assert_int_eq(SET(raw, len), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "no storage '0'") != NULL, "%s", err.msg);
#undef SET
	sf_ckpt_builder_free(b);
	sf_arena_release(&arena);
	sf_buf_release(&torch_file.leaves);
}
END_TEST

/* ---- tied storages ---- */

static bool tie_them;

/* Two names of one storage, a third that only lies there, and one of its own. */
static int lower_tied(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t first, second, third;
	int r = add(b, "model.embed", 16, PATH(E("model", SF_PATH_TEXT), E("embed", SF_PATH_TEXT)),
	            &first, err);

	if (r >= 0)
		r = add(b, "model.head", 16,
		        PATH(E("model", SF_PATH_TEXT), E("head", SF_PATH_TEXT)), &second, err);
	if (r >= 0)
		r = add(b, "optim.master", 16,
		        PATH(E("optim", SF_PATH_TEXT), E("master", SF_PATH_TEXT)), &third, err);
	if (r >= 0)
		r = add(b, "model.own", 48, PATH(E("model", SF_PATH_TEXT), E("own", SF_PATH_TEXT)),
		        NULL, err);
	if (r >= 0 && tie_them)
		r = sf_ckpt_builder_tie(b, second, first, err);
	if (r >= 0 && tie_them)
		r = sf_ckpt_builder_tie(b, third, second, err);
	return r;
}

/* How many storages a .pt file of these keys has, and its bytes are those of the keys. */
static unsigned storages(struct seam *w, const uint32_t *entry, uint32_t n, bool cast,
                         uint64_t *ret_len)
{
	const struct sf_selection sel = { .entry = entry, .n = n, .cast = cast, .flat = true };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	uint8_t *at;

	open_pt(w, &sel, &arena, &at, ret_len, &a);
	ck_assert_int_eq(a.root->kind, SF_PV_DICT);
	ck_assert_uint_eq(a.root->seq.n, 2 * n);
	for (uint32_t i = 0; i < n; i++) {
		const struct sf_entry *e = &w->s.catalog->entry[entry[i]];
		const struct sf_torch_record *s;
		struct sf_torch_tensor t;
		uint8_t want[24];
		ck_assert_int_eq(sf_torch_tensor_from_pv(a.root->seq.at[2 * i + 1], &t, NULL), 1);
		s = sf_torch_record_find(a.storage, a.nstorages, t.storage_key->str.at,
		                         t.storage_key->str.len);
		ck_assert_int_eq(t.dtype, cast ? e->dtype : SF_FLOAT32);
		ck_assert(s && t.storage_off == 0);
		if (t.dtype != SF_FLOAT32)
			continue;
		ck_assert_int_ge(sf_read_tensor(w->s.reader, e->tensor, 0, want, 24, NULL), 0);
		ck_assert_mem_eq(at + s->off, want, 24);
	}
	const unsigned found = a.nstorages;
	free(at);
	sf_arena_release(&arena);
	return found;
}

START_TEST(tied_tensors_are_one_storage_in_a_pt_file)
{
	struct sf_error err = SF_ERROR_INIT;
	uint8_t want[256];
	struct seam w = { 0 };
	uint64_t tied, alone;

	tie_them = true;
	data_file(&w, want);
	seam_open(&w, lower_tied);
	const uint32_t embed = seam_entry(&w, "model.embed"), head = seam_entry(&w, "model.head"),
		       master = seam_entry(&w, "optim.master"), own = seam_entry(&w, "model.own");
	const uint32_t all[] = { embed, head, master, own }, late[] = { own, master, head };
	ck_assert_uint_eq(storages(&w, all, 4, false, &tied), 2);
	ck_assert_uint_eq(storages(&w, late, 3, false, &alone), 2); /* without the first of them */
	ck_assert_uint_eq(storages(&w, all + 1, 1, false, &alone), 1);
	check_pt(&w, "T /model/embed\nT /model/head\nT /model/own\nT /optim/master\n");
	/* every other view has its bytes anew, and nobody is warned of what is meant */
	seam_check(&w, "model.embed", want + 16, 24);
	seam_check(&w, "model.head", want + 16, 24);
	seam_check(&w, "optim.master", want + 16, 24);
	ck_assert_uint_eq(w.in_hf, 2); /* the model's two */
	ck_assert_uint_eq(w.s.ckpt->nwarnings, 0);
	struct sf_selection sel = { .entry = all, .n = 4 };
	struct sf_arena arena = { 0 };
	struct sf_st_header st;
	struct sf_vfile *f;
	uint64_t size;
	ck_assert_int_eq(sf_view_safetensors(w.s.catalog, w.s.reader, &sel, &f, &err), 0);
	uint8_t *at = seam_read(f, &size);
	ck_assert_int_eq(sf_st_parse(at + 8, sf_le64(at), &arena, &st, &err), 0);
	ck_assert_uint_eq(st.n, 4);
	ck_assert_uint_eq(size - st.data_off, 4 * 24);
	free(at);
	sf_arena_release(&arena);
	/* a cast that only some of them have parts them */
	w.opt.dtype = SF_FLOAT16;
	sf_catalog_free(w.s.catalog);
	ck_assert_int_eq(sf_catalog_new(w.s.ckpt, &w.opt, &w.s.catalog, &err), 0);
	ck_assert_uint_eq(storages(&w, all, 4, true, &alone), 3);
	ck_assert_uint_eq(storages(&w, all, 4, false, &alone), 2);
	seam_close(&w);
}
END_TEST

/* As it ever was: DCP says nothing of ties. */
START_TEST(what_only_lies_in_one_place_is_not_tied)
{
	const char *const texts[] = { "2 tensors", NULL };
	uint8_t want[256];
	struct seam w = { 0 };
	uint64_t len;

	tie_them = false;
	data_file(&w, want);
	seam_open(&w, lower_tied);
	const uint32_t all[] = { 0, 1, 2, 3 };
	ck_assert_uint_eq(storages(&w, all, 4, false, &len), 4);
	ck_assert_ptr_null(w.s.ckpt->tied);
	seam_warns(&w, "shared-item", texts);
	seam_close(&w);
}
END_TEST

static int lower_false_tie(struct sf_ckpt_builder *b, struct sf_error *err)
{
	uint32_t one, two;
	int r = add(b, "one", 16, NULL, 0, &one, err);

	if (r >= 0)
		r = add(b, "two", 24, NULL, 0, &two, err);
	return r < 0 ? r : sf_ckpt_builder_tie(b, two, one, err);
}

START_TEST(a_tie_of_what_differs_is_refused)
{
	const uint64_t shape[1] = { 6 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_ckpt_builder *b;
	uint8_t want[256];
	struct seam w = { 0 };
	uint32_t one, two;

	data_file(&w, want);
	ck_assert_int_eq(seam_try_open(&w, lower_false_tie, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "'two'") && strstr(err.msg, "'one'"), "%s", err.msg);
	sf_store_free(w.s.store);
	sf_io_release(&w.io);
	sf_buf_release(&w.data[0]);
	ck_assert_int_eq(sf_ckpt_builder_new("seam", "src", &b, NULL), 0);
	ck_assert_int_eq(add(b, "one", 0, NULL, 0, &one, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_tensor(b, "two", 3, SF_FLOAT32, shape, 1, &two, &err), 0);
	ck_assert_int_eq(sf_ckpt_builder_tie(b, two, one, &err), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_tie(b, one, two, &err), -EBADMSG); /* not an earlier one */
	ck_assert_int_eq(sf_ckpt_builder_tie(b, one, one, &err), -EBADMSG);
	ck_assert_int_eq(sf_ckpt_builder_tie(b, two + 1, one, &err), -EBADMSG);
	sf_ckpt_builder_free(b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("seams_values");
	TCase *tc = tcase_create("seams_values");

	tcase_add_test(tc, dicts_of_ints_lists_and_tuples_are_what_their_paths_say);
	tcase_add_test(tc, a_number_is_one_key_whatever_holds_it);
	tcase_add_test(tc, a_group_file_may_be_a_tuple);
	tcase_add_loop_test(tc, the_leaves_of_one_pickle_are_keys, 0, SF_ARRAY_LEN(torch_files));
	tcase_add_test(tc, a_value_of_a_pickle_is_an_object_in_every_view);
	tcase_add_test(tc, tensors_inside_values_are_in_safetensors_files);
	tcase_add_test(tc, a_value_of_a_file_that_is_cut_is_damaged);
	tcase_add_test(tc, values_are_refused_that_do_not_fit_their_container);
	tcase_add_test(tc, tied_tensors_are_one_storage_in_a_pt_file);
	tcase_add_test(tc, what_only_lies_in_one_place_is_not_tied);
	tcase_add_test(tc, a_tie_of_what_differs_is_refused);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
