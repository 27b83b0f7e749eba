#include "config.h"

#include "seam_torch.h"
#include "seam_tree.h"
#include "tests/lib/value_lines.h"

/* Files of torch.save as parts of a checkpoint. */

static const char *const files[] = { "zip", "stream", "tar" };

/* Those three, and what is none. */
struct parts {
	struct sf_io io;
	struct sf_mem_object object[5];
	uint8_t at[3][16384];
	struct sf_store *store;
	struct sf_objinfo info[6];
	struct sf_torch_part part[6];
};

static void parts_open(struct parts *w)
{
	static const uint8_t zeros[600];

	ck_assert_int_eq(sf_io_init(&w->io, 2, NULL), 0);
	for (size_t i = 0; i < 3; i++) {
		load_torch(files[i]);
		memcpy(w->at[i], torch_file.at, torch_file.len);
		w->object[i] = (struct sf_mem_object){ files[i], w->at[i], torch_file.len };
	}
	sf_buf_release(&torch_file.leaves);
	w->object[3] = (struct sf_mem_object){ "zeros", zeros, sizeof(zeros) };
	w->object[4] = (struct sf_mem_object){ "empty", zeros, 0 };
	ck_assert_int_eq(sf_store_mem(&w->io, w->object, 5, &w->store, NULL), 0);
	for (size_t i = 0; i < 6; i++) {
		w->info[i] = (struct sf_objinfo){ .name = i < 5 ? w->object[i].name : "gone" };
		w->info[i].size = i < 5 ? w->object[i].len : 7;
		w->part[i].file = &w->info[i];
	}
}

static void parts_close(struct parts *w)
{
	sf_torch_parts_release(w->part, 6);
	sf_store_free(w->store);
	sf_io_release(&w->io);
}

START_TEST(many_files_are_opened_and_one_that_fails_says_why)
{
	struct parts *w = calloc(1, sizeof(*w));

	parts_open(w);
	ck_assert_int_eq(sf_torch_parts_open(w->store, w->part, 6, 0, NULL), 0);
	for (size_t i = 0; i < 3; i++) {
		ck_assert_msg(w->part[i].r == 0, "%s", w->part[i].err.msg);
		ck_assert_uint_eq(w->part[i].len, w->info[i].size);
		ck_assert_uint_gt(w->part[i].archive.nstorages, 0);
		ck_assert_uint_eq(w->part[i].place, SF_NONE);
	}
	ck_assert_int_eq(w->part[3].r, -ENOTSUP);
	ck_assert_int_lt(w->part[4].r, 0);
	ck_assert_int_eq(w->part[5].r, -ENOENT);
	for (size_t i = 3; i < 6; i++)
		ck_assert_msg(strstr(w->part[i].err.msg, w->info[i].name) != NULL, "%s",
		              w->part[i].err.msg);
	parts_close(w);
	free(w);
}
END_TEST

START_TEST(a_value_that_is_larger_than_allowed_is_refused)
{
	struct parts *w = calloc(1, sizeof(*w));

	parts_open(w);
	ck_assert_int_eq(sf_torch_parts_open(w->store, w->part, 1, 16, NULL), 0);
	ck_assert_int_eq(w->part[0].r, -E2BIG);
	parts_close(w);
	free(w);
}
END_TEST

/* ---- all of it ---- */

static int lower_file(struct sf_ckpt_builder *b, struct sf_error *err)
{
	return seam_torch_lower(b, SF_NONE, err);
}

START_TEST(every_tensor_is_one_whatever_its_strides)
{
	struct sf_buf lines = { 0 };
	struct sf_arena arena = { 0 };
	struct sf_torch_archive a;
	struct seam w = { 0 };
	uint32_t entry[64], tensors = 0;
	uint8_t *at;
	uint64_t len;

	seam_values_only_dense = false;
	load_torch(files[_i]);
	seam_file(&w, "file.pt", torch_file.at, torch_file.len);
	seam_open(&w, lower_file);
	const struct sf_selection sel = { .entry = entry, .n = w.s.catalog->n };
	for (uint32_t i = 0; i < sel.n; i++)
		entry[i] = i;
	for (uint32_t i = 0; i < w.s.ckpt->nobjects; i++)
		ck_assert_uint_eq(w.s.ckpt->object[i].inlined->nstorages, 0);
	open_pt(&w, &sel, &arena, &at, &len, &a);
	value_lines(&lines, at, &a);
	ck_assert_str_eq(sf_buf_cstr(&lines), sf_buf_cstr(&torch_file.leaves));
	for (const char *s = sf_buf_cstr(&lines); s;
	     s = strchr(s, '\n') ? strchr(s, '\n') + 1 : NULL)
		tensors += *s == 'T';
	ck_assert_uint_eq(w.s.ckpt->ntensors, tensors);
	seam_verify(&w, NULL);
	free(at);
	sf_arena_release(&arena);
	sf_buf_release(&lines);
	sf_buf_release(&torch_file.leaves);
	seam_close(&w);
}
END_TEST

/* ---- below a prefix, with what the caller takes himself ---- */

struct taken {
	struct sf_torch_part *part;
	unsigned n;
};

static int take_numbers(void *arg, struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	struct taken *t = arg;

	t->n += what == SF_WALK_VALUE && v->kind == SF_PV_INT;
	return what == SF_WALK_VALUE && v->kind == SF_PV_INT;
}

static unsigned taken;

static int lower_twice(struct sf_ckpt_builder *b, struct sf_error *err)
{
	static const struct sf_path_elem prefix[] = { { "rank", 4, SF_PATH_TEXT },
		                                      { "3", 1, SF_PATH_INT } };
	const struct sf_torch_input in = { torch_file.len, torch_file.at, NULL, NULL };
	const struct sf_torch_options opt = { 0 };
	const struct sf_objinfo file = { .name = "file.pt", .size = torch_file.len };
	struct sf_torch_part part = { .file = &file, .len = torch_file.len, .place = SF_NONE };
	struct taken t = { .n = 0 };
	const struct sf_torch_lower l = { .b = b,
		                          .part = &part,
		                          .prefix = prefix,
		                          .nprefix = 2,
		                          .leaf = take_numbers,
		                          .arg = &t };
	int r = sf_torch_open(&in, &opt, &part.arena, &part.archive, err);

	if (r >= 0)
		r = sf_torch_lower(&l, part.archive.root, err);
	taken = t.n;
	if (r >= 0) /* all of it is there */
		r = sf_torch_lower(&l, part.archive.root, err);
	sf_torch_parts_release(&part, 1);
	return r;
}

START_TEST(keys_stand_below_a_prefix_and_are_there_once)
{
	struct seam w = { 0 };
	const struct sf_ckpt *c;

	load_torch("zip");
	sf_buf_release(&torch_file.leaves);
	seam_file(&w, "file.pt", torch_file.at, torch_file.len);
	seam_open(&w, lower_twice);
	c = w.s.ckpt;
	ck_assert_uint_gt(taken, 0);
	ck_assert_uint_gt(c->nkeys, 2);
	/* each leaf the second time */
	ck_assert_uint_ge(c->nwarnings, c->nkeys);
	for (uint32_t i = 0; i < c->nkeys; i++) {
		ck_assert_msg(strncmp(c->key[i].name, "rank.3", 6) == 0, "%s", c->key[i].name);
		ck_assert_uint_ge(c->key[i].npath, 2);
		ck_assert_int_eq(c->key[i].path[1].kind, SF_PATH_INT);
		ck_assert_str_eq(c->warning[i].code, "same-name");
		ck_assert_msg(strstr(c->warning[i].text, "'rank.3") != NULL, "%s",
		              c->warning[i].text);
	}
	seam_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("torch_lower");
	TCase *tc = tcase_create("torch_lower");

	tcase_add_test(tc, many_files_are_opened_and_one_that_fails_says_why);
	tcase_add_test(tc, a_value_that_is_larger_than_allowed_is_refused);
	tcase_add_loop_test(tc, every_tensor_is_one_whatever_its_strides, 0, SF_ARRAY_LEN(files));
	tcase_add_test(tc, keys_stand_below_a_prefix_and_are_there_once);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
