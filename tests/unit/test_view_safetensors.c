#include "config.h"

#include <string.h>

#include "base/json.h"
#include "parse/safetensors.h"
#include "view_world.h"

static const uint64_t two[2] = { 2, 3 };

static struct sf_vfile *file_of(struct vw *w, const struct sf_selection *sel)
{
	struct sf_vfile *f = NULL;

	vw_ok(sf_view_safetensors(w->cat, w->reader, sel, &f, &err));
	return f;
}

/* A file read back by the parser that checks what the real reader does. */
struct back {
	uint8_t *at;
	uint64_t len;
	struct sf_arena arena;
	struct sf_st_header head;
};

static void read_back(struct sf_vfile *f, struct back *b)
{
	*b = (struct back){ 0 };
	b->at = vw_read(f, &b->len);
	ck_assert_uint_ge(b->len, 8);
	uint64_t n = sf_le64(b->at);
	ck_assert_uint_eq(n % 8, 0);
	ck_assert_uint_le(8 + n, b->len);
	ck_assert_uint_eq(b->at[8], '{');
	vw_ok(sf_st_parse(b->at + 8, n, &b->arena, &b->head, &err));
	ck_assert_uint_eq(b->head.data_off + b->head.data_len, b->len);
}

static void release(struct back *b)
{
	sf_arena_release(&b->arena);
	free(b->at);
}

static uint32_t *all(const struct vw *w)
{
	uint32_t *at = calloc(w->cat->n, sizeof(*at));

	for (uint32_t i = 0; i < w->cat->n; i++)
		at[i] = i;
	return at;
}

START_TEST(every_tensor_is_there_in_the_formats_own_order)
{
	static const enum sf_dtype dtypes[] = { SF_BOOL,         SF_UINT8,     SF_INT64,
		                                SF_FLOAT16,      SF_BFLOAT16,  SF_FLOAT32,
		                                SF_FLOAT64,      SF_F8_E4M3FN, SF_UINT64,
		                                SF_F4_E2M1FN_X2, SF_INT16 };
	uint64_t rnd = sf_test_seed("every_tensor_is_there_in_the_formats_own_order");
	struct back b;
	struct vw w;

	vw_init(&w);
	for (int i = 0; i < 60; i++) {
		const uint64_t shape[3] = { 1 + sf_test_below(&rnd, 4), sf_test_below(&rnd, 5),
			                    1 + sf_test_below(&rnd, 3) };
		enum sf_dtype dtype = dtypes[sf_test_below(&rnd, SF_ARRAY_LEN(dtypes))];
		char name[32];
		snprintf(name, sizeof(name), "k%d.\xc3\xa9\"%d", (int)sf_test_below(&rnd, 40), i);
		unsigned ndim = (unsigned)sf_test_below(&rnd, 4);
		vw_tensor_n(&w, name, strlen(name), dtype,
		            dtype == SF_F4_E2M1FN_X2 && !ndim ? 1 : ndim, shape, 1);
	}
	vw_open(&w);
	SF_FREE uint32_t *entry = all(&w);
	const struct sf_selection sel = { .entry = entry, .n = w.cat->n };
	read_back(file_of(&w, &sel), &b);
	ck_assert_uint_eq(b.head.n, 60);
	ck_assert_mem_eq(b.at + 8, "{\"__metadata__\":{\"format\":\"pt\"},\"", 33);
	for (size_t i = 0; i < b.head.n; i++) {
		const struct sf_st_tensor *t = &b.head.at[i];
		uint32_t e = sf_catalog_find(w.cat, t->name, t->name_len);
		uint64_t len;
		ck_assert_uint_ne(e, SF_NONE);
		SF_FREE uint8_t *want = vw_dense(&w, e, &len);
		ck_assert_uint_eq(t->dtype, w.cat->entry[e].dtype);
		ck_assert_uint_eq(t->end - t->begin, len);
		ck_assert_mem_eq(b.at + b.head.data_off + t->begin, want, len);
		if (i) {
			const struct sf_st_tensor *p = &b.head.at[i - 1];
			int x = sf_dtype_info(p->dtype)->st_order,
			    y = sf_dtype_info(t->dtype)->st_order;
			ck_assert_uint_eq(p->end, t->begin);
			ck_assert(x > y || (x == y && strcmp(p->name, t->name) < 0));
		}
	}
	release(&b);
	struct sf_vfile *f = file_of(&w, &sel);
	vw_check_ranges(f, &rnd, 300);
	sf_vfile_unref(f);
	vw_close(&w);
}
END_TEST

/* The list in __metadata__, as JSON; the header's text around it is ours. */
static struct sf_json *skipped(const struct back *b)
{
	struct sf_json *head, *list = NULL;
	const struct cJSON *meta;
	const char *text;

	vw_ok(sf_json_parse((const char *)b->at + 8, sf_le64(b->at), &head, &err));
	vw_ok(sf_json_get_obj(sf_json_root(head), "__metadata__", &meta, &err));
	if (sf_json_get_str(meta, "shardfuse.skipped", &text, NULL) == 0) {
		ck_assert_uint_le(strlen(text), 1 << 20);
		vw_ok(sf_json_parse(text, strlen(text), &list, &err));
	}
	sf_json_free(head);
	return list;
}

static const char *why(const struct sf_json *list, const char *key)
{
	for (const struct cJSON *e = NULL; (e = sf_json_next(sf_json_root(list), e));) {
		const char *k = NULL, *text = NULL;
		vw_ok(sf_json_get_str(e, "key", &k, &err));
		vw_ok(sf_json_get_str(e, "why", &text, &err));
		if (strcmp(k, key) == 0)
			return text;
	}
	return NULL;
}

START_TEST(what_the_format_cannot_hold_is_listed_with_the_reason)
{
	struct back b;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "ok", SF_FLOAT32, 2, two);
	vw_tensor(&w, "c128", SF_COMPLEX128, 2, two);
	vw_tensor(&w, "c64", SF_COMPLEX64, 2, two);
	vw_tensor(&w, "fnuz", SF_F8_E4M3FNUZ, 2, two);
	vw_tensor(&w, "__metadata__", SF_FLOAT32, 2, two);
	vw_tensor(&w, "f4", SF_F4_E2M1FN_X2, 0, two);
	vw_object(&w, "step");
	for (int all_dtypes = 0; all_dtypes < 2; all_dtypes++) {
		w.opt.st_all_dtypes = all_dtypes;
		vw_open(&w);
		SF_FREE uint32_t *entry = all(&w);
		const struct sf_selection sel = { .entry = entry, .n = w.cat->n };
		read_back(file_of(&w, &sel), &b);
		ck_assert_uint_eq(b.head.n, all_dtypes ? 3 : 1);
		struct sf_json *list = skipped(&b);
		ck_assert_str_eq(why(list, "c128"), "safetensors has no complex128");
		ck_assert_str_eq(why(list, "step"), "not a tensor");
		ck_assert_ptr_nonnull(why(list, "__metadata__"));
		ck_assert_ptr_nonnull(why(list, "f4"));
		ck_assert(all_dtypes == !why(list, "c64"));
		ck_assert(all_dtypes == !why(list, "fnuz"));
		ck_assert_ptr_null(why(list, "ok"));
		sf_json_free(list);
		release(&b);
		for (uint32_t i = 0; i < w.cat->n; i++)
			ck_assert(!sf_view_safetensors_refuses(w.cat, i, true) ==
			          (strcmp(w.cat->entry[i].name, "ok") == 0 ||
			           (all_dtypes && (strcmp(w.cat->entry[i].name, "c64") == 0 ||
			                           strcmp(w.cat->entry[i].name, "fnuz") == 0))));
	}
	vw_close(&w);
}
END_TEST

START_TEST(the_list_of_what_is_left_out_stays_below_a_mebibyte)
{
	struct back b;
	struct vw w;

	vw_init(&w);
	for (int i = 0; i < 6000; i++) {
		char name[256];
		snprintf(name, sizeof(name), "%0200d", i);
		vw_object(&w, name);
	}
	vw_tensor(&w, "ok", SF_FLOAT32, 2, two);
	vw_open(&w);
	SF_FREE uint32_t *entry = all(&w);
	const struct sf_selection sel = { .entry = entry, .n = w.cat->n };
	read_back(file_of(&w, &sel), &b);
	struct sf_json *list = skipped(&b);
	unsigned n = 0, more = 0;
	for (const struct cJSON *e = NULL; (e = sf_json_next(sf_json_root(list), e));)
		n++;
	ck_assert_int_eq(sscanf(why(list, ""), "%u more", &more), 1);
	ck_assert_uint_eq(n - 1 + more, 6000);
	sf_json_free(list);
	release(&b);
	vw_close(&w);
}
END_TEST

START_TEST(a_name_that_is_not_utf8_is_left_out)
{
	struct back b;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "\xff", SF_FLOAT32, 2, two);
	vw_tensor(&w, "ok", SF_FLOAT32, 2, two);
	vw_open(&w);
	SF_FREE uint32_t *entry = all(&w);
	const struct sf_selection sel = { .entry = entry, .n = w.cat->n };
	read_back(file_of(&w, &sel), &b);
	ck_assert_uint_eq(b.head.n, 1);
	ck_assert_str_eq(b.head.at[0].name, "ok");
	/* Python's surrogateescape, inside a string inside a string */
	ck_assert_ptr_nonnull(memmem(b.at, b.len, "\\\"\\\\udcff\\\"", 11));
	release(&b);
	vw_close(&w);
}
END_TEST

START_TEST(a_groups_file_names_keys_without_the_group)
{
	const struct sf_path_elem path[2] = { { "model", 5, 0 }, { "b", 1, 0 } };
	struct back b;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "model.a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "model.b", SF_FLOAT32, 2, two);
	/* a key that sits in the group but is not named so: whole, unless its name is another's
	 * there */
	vw_tensor_n(&w, "b", 1, SF_INT64, 2, two, 1);
	vw_ok(sf_ckpt_builder_path(w.b, "b", 1, path, 2, &err));
	vw_tensor_n(&w, "c", 1, SF_INT64, 2, two, 1);
	vw_ok(sf_ckpt_builder_path(w.b, "c", 1, path, 2, &err));
	vw_open(&w);
	const struct sf_cat_group *g = &w.cat->group[w.cat->model_group];
	const struct sf_selection sel = {
		.entry = w.cat->by_group + g->first, .n = g->n, .strip = g->of->strip, .cast = true
	};
	ck_assert_uint_eq(g->n, 4);
	read_back(file_of(&w, &sel), &b);
	ck_assert_uint_eq(b.head.n, 3);
	ck_assert_str_eq(b.head.at[0].name, "c");
	ck_assert_str_eq(b.head.at[1].name, "a");
	ck_assert_str_eq(b.head.at[2].name, "b");
	struct sf_json *list = skipped(&b);
	ck_assert_ptr_nonnull(why(list, "b"));
	sf_json_free(list);
	release(&b);
	vw_close(&w);
}
END_TEST

START_TEST(casts_change_dtype_size_and_bytes)
{
	struct back b;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "a", SF_FLOAT32, 2, two);
	vw_tensor(&w, "b", SF_FLOAT64, 2, two);
	w.opt.dtype = SF_BFLOAT16;
	vw_open(&w);
	const uint32_t entry[2] = { 0, 1 };
	struct sf_selection sel = { .entry = entry, .n = 2, .cast = true };
	read_back(file_of(&w, &sel), &b);
	for (uint32_t i = 0; i < 2; i++) {
		uint8_t want[12];
		uint64_t len;
		SF_FREE uint8_t *raw = vw_dense(&w, i, &len);
		ck_assert_uint_eq(b.head.at[i].dtype, SF_BFLOAT16);
		sf_dtype_cast(want, SF_BFLOAT16, raw, w.ckpt->tensor[i].dtype, 6);
		ck_assert_mem_eq(b.at + b.head.data_off + b.head.at[i].begin, want, 12);
	}
	release(&b);
	sel.cast = false;
	read_back(file_of(&w, &sel), &b);
	ck_assert_uint_eq(b.head.at[0].dtype, SF_FLOAT64);
	release(&b);
	vw_close(&w);
}
END_TEST

START_TEST(a_file_without_tensors_is_valid)
{
	struct back b;
	struct vw w;

	vw_init(&w);
	vw_tensor(&w, "c", SF_COMPLEX128, 2, two);
	vw_open(&w);
	const uint32_t entry = 0;
	const struct sf_selection sel = { .entry = &entry, .n = 1 },
				  none = { .entry = &entry, .n = 0 };
	read_back(file_of(&w, &sel), &b);
	ck_assert_uint_eq(b.head.n, 0);
	release(&b);
	read_back(file_of(&w, &none), &b);
	ck_assert_uint_eq(b.len, 8 + 32); /* {"__metadata__":{"format":"pt"}} */
	release(&b);
	vw_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("view_safetensors");
	TCase *t = tcase_create("all");

	tcase_add_test(t, every_tensor_is_there_in_the_formats_own_order);
	tcase_add_test(t, what_the_format_cannot_hold_is_listed_with_the_reason);
	tcase_add_test(t, the_list_of_what_is_left_out_stays_below_a_mebibyte);
	tcase_add_test(t, a_name_that_is_not_utf8_is_left_out);
	tcase_add_test(t, a_groups_file_names_keys_without_the_group);
	tcase_add_test(t, casts_change_dtype_size_and_bytes);
	tcase_add_test(t, a_file_without_tensors_is_valid);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
