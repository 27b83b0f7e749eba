#include "config.h"

#include "seam_world.h"
#include "value_lines.h"

/* What a format may say of values, keys and storages beyond DCP, read back through the views. */

#define E(text, how)                        \
	{                                   \
		text, sizeof(text) - 1, how \
	}
#define PATH(...)                                       \
	((const struct sf_path_elem[]){ __VA_ARGS__ }), \
		sizeof((const struct sf_path_elem[]){ __VA_ARGS__ }) / sizeof(struct sf_path_elem)

/* The .pt file of all keys, opened as any other. */
static void open_pt(struct seam *w, const struct sf_selection *sel, struct sf_arena *arena,
                    uint8_t **ret, uint64_t *ret_len, struct sf_torch_archive *a)
{
	struct sf_error err = SF_ERROR_INIT;
	const struct sf_torch_options opt = { 0 };
	struct sf_vfile *f;

	ck_assert_msg(sf_view_pt(w->s.catalog, w->s.reader, sel, &f, &err) >= 0, "%s", err.msg);
	*ret = seam_read(f, ret_len);
	const struct sf_torch_input in = { *ret_len, *ret, NULL, NULL };
	ck_assert_msg(sf_torch_open(&in, &opt, arena, a, &err) >= 0, "%s", err.msg);
}

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

int main(void)
{
	Suite *s = suite_create("seams_values");
	TCase *tc = tcase_create("seams_values");

	tcase_add_test(tc, dicts_of_ints_lists_and_tuples_are_what_their_paths_say);
	tcase_add_test(tc, a_number_is_one_key_whatever_holds_it);
	tcase_add_test(tc, a_group_file_may_be_a_tuple);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
