#include "config.h"

#include "tests/lib/pt_read_back.h"

/* Keys with random paths over a small alphabet: prefixes of each other, lists, mixed containers. */
static void random_world(struct world *w, uint64_t *seed, unsigned n)
{
	static const char *const part[] = { "a", "b", "c", "#0", "#1", "#2", "#6" };
	static const enum sf_dtype dtypes[] = { SF_FLOAT32,   SF_BFLOAT16,  SF_UINT8,  SF_INT64,
		                                SF_F8_E4M3FN, SF_COMPLEX64, SF_UINT16, SF_BOOL };

	world_init(w);
	while (w->n < n) {
		char path[64] = "";
		bool again = false;
		for (unsigned d = 0, depth = 1 + (unsigned)sf_test_below(seed, 5); d < depth; d++)
			snprintf(path + strlen(path), sizeof(path) - strlen(path), "%s%s",
			         d ? "/" : "", part[sf_test_below(seed, SF_ARRAY_LEN(part))]);
		uint64_t shape[3] = { sf_test_below(seed, 4), 1 + sf_test_below(seed, 300), 2 };
		struct world_key *k =
			world_tensor(w, path, dtypes[sf_test_below(seed, SF_ARRAY_LEN(dtypes))],
		                     (unsigned)sf_test_below(seed, 4), shape);
		for (uint32_t i = 0; i + 1 < w->n; i++)
			again |= strcmp(w->key[i].name, k->name) == 0;
		if (again) {
			memset(k, 0, sizeof(*k));
			w->n--;
		}
	}
}

/* Is one path the other's begin, or the same? */
static bool clash(const struct sf_path_elem *a, unsigned na, const struct sf_path_elem *b,
                  unsigned nb)
{
	for (unsigned i = 0; i < SF_MIN(na, nb); i++)
		if (a[i].kind != b[i].kind || a[i].len != b[i].len ||
		    memcmp(a[i].s, b[i].s, a[i].len) != 0)
			return false;
	return true;
}

static size_t count_tensors(const struct sf_pv *v)
{
	size_t n = 0;

	if (v->kind != SF_PV_LIST && v->kind != SF_PV_DICT)
		return v->kind == SF_PV_CALL;
	for (size_t i = v->kind == SF_PV_DICT; i < v->seq.n; i += 1 + (v->kind == SF_PV_DICT))
		n += count_tensors(v->seq.at[i]);
	return n;
}

/* Property, against a slow reference: the first key to want a place has it, others are at the root
 * by name, or nowhere. */
START_TEST(every_key_is_found_at_its_path_with_its_bytes)
{
	uint64_t seed = sf_test_seed("every_key_is_found_at_its_path_with_its_bytes");

	for (unsigned round = 0; round < 40; round++) {
		struct world w;
		struct sf_vfile *f;
		struct read_back rb;
		random_world(&w, &seed, 1 + (unsigned)sf_test_below(&seed, 60));
		world_open(&w);
		open_all(&w, (struct sf_selection){ 0 }, &f, &rb);

		struct sf_path_elem name[WORLD_KEYS];
		const struct sf_path_elem *placed[WORLD_KEYS];
		unsigned nplaced[WORLD_KEYS], there = 0;
		for (uint32_t i = 0; i < w.n; i++) {
			const struct world_key *k = &w.key[i];
			name[i] = (struct sf_path_elem){ k->name, (uint32_t)strlen(k->name), 0 };
			bool taken = false, name_taken = false;
			for (unsigned j = 0; j < there; j++) {
				taken |= clash(placed[j], nplaced[j], k->path, k->npath);
				name_taken |= clash(placed[j], nplaced[j], &name[i], 1);
			}
			if (taken && name_taken)
				continue;
			placed[there] = taken ? &name[i] : k->path;
			nplaced[there] = taken ? 1 : k->npath;
			check_stored(&w, &rb, walk(rb.root, placed[there], nplaced[there]), k);
			there++;
		}
		ck_assert_uint_eq(count_tensors(rb.root), there);
		ck_assert_uint_eq(rb.dir.n, there + 3);
		release(&rb);
		sf_vfile_unref(f);
		world_close(&w);
	}
}
END_TEST

START_TEST(any_range_reads_what_the_whole_file_has_there)
{
	uint64_t seed = sf_test_seed("any_range_reads_what_the_whole_file_has_there");
	struct sf_error err = SF_ERROR_INIT;
	struct world w;
	struct sf_vfile *f;
	struct read_back rb;
	uint8_t part[5000];

	random_world(&w, &seed, 40);
	world_open(&w);
	open_all(&w, (struct sf_selection){ 0 }, &f, &rb);
	for (unsigned i = 0; i < 4000; i++) {
		uint64_t off = sf_test_below(&seed, rb.len),
			 len = 1 + sf_test_below(&seed, i % 2 ? 20 : sizeof(part));
		int64_t n = sf_vfile_pread(f, off, part, len, &err);
		ck_assert_msg(n == (int64_t)SF_MIN(len, rb.len - off), "%" PRId64 ": %s", n,
		              err.msg);
		ck_assert_mem_eq(part, rb.at + off, (size_t)n);
	}
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

/* What dcp_to_torch_save nests: lists filled with None, keys in stored order. */
START_TEST(lists_are_filled_and_dicts_keep_the_stored_order)
{
	struct world w;
	struct sf_vfile *f;
	struct read_back rb;

	world_init(&w);
	world_tensor(&w, "m/l/#3/x", SF_FLOAT32, 1, (uint64_t[]){ 2 });
	world_tensor(&w, "z", SF_FLOAT32, 0, NULL);
	world_tensor(&w, "m/a", SF_FLOAT32, 1, (uint64_t[]){ 3 });
	world_tensor(&w, "m/l/#1", SF_FLOAT32, 1, (uint64_t[]){ 4 });
	world_open(&w);
	open_all(&w, (struct sf_selection){ 0 }, &f, &rb);
	ck_assert_uint_eq(rb.root->seq.n, 4);
	ck_assert(sf_pv_is_str(rb.root->seq.at[0], "m") && sf_pv_is_str(rb.root->seq.at[2], "z"));
	const struct sf_pv *m = rb.root->seq.at[1];
	ck_assert(sf_pv_is_str(m->seq.at[0], "l") && sf_pv_is_str(m->seq.at[2], "a"));
	const struct sf_pv *l = m->seq.at[1];
	ck_assert_int_eq(l->kind, SF_PV_LIST);
	ck_assert_uint_eq(l->seq.n, 4);
	ck_assert(l->seq.at[0]->kind == SF_PV_NONE && l->seq.at[2]->kind == SF_PV_NONE);
	check_stored(&w, &rb, l->seq.at[1], &w.key[3]);
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

START_TEST(a_group_file_is_nested_without_the_groups_key_and_flat_files_have_full_names)
{
	struct world w;
	struct sf_vfile *f;
	struct read_back rb;

	world_init(&w);
	world_tensor(&w, "model/a/w", SF_FLOAT32, 1, (uint64_t[]){ 2 });
	world_tensor(&w, "model/b", SF_INT8, 1, (uint64_t[]){ 5 });
	world_open(&w);
	open_all(&w, (struct sf_selection){ .strip = 1 }, &f, &rb);
	for (unsigned i = 0; i < 2; i++)
		check_stored(&w, &rb, walk(rb.root, w.key[i].path + 1, w.key[i].npath - 1),
		             &w.key[i]);
	release(&rb);
	sf_vfile_unref(f);

	open_all(&w, (struct sf_selection){ .flat = true }, &f, &rb);
	ck_assert_uint_eq(rb.root->seq.n, 4);
	check_stored(&w, &rb, walk(rb.root, &(struct sf_path_elem){ "model.a.w", 9, 0 }, 1),
	             &w.key[0]);
	release(&rb);
	sf_vfile_unref(f);

	open_all(&w, (struct sf_selection){ .flat = true, .strip = 1 }, &f, &rb);
	check_stored(&w, &rb, walk(rb.root, &(struct sf_path_elem){ "a.w", 3, 0 }, 1), &w.key[0]);
	release(&rb);
	sf_vfile_unref(f);

	open_all(&w, (struct sf_selection){ .entry = &(uint32_t){ 1 }, .n = 1, .bare = true }, &f,
	         &rb);
	check_stored(&w, &rb, rb.root, &w.key[1]);
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

START_TEST(bytes_that_are_not_utf8_are_pickled_as_the_surrogates_that_stand_for_them)
{
	static const struct {
		const char *key, *pickled;
	} t[] = { { "\xff", "X\3\0\0\0\xed\xb3\xbf" },
		  { "\xc3\xa9\xc3", "X\5\0\0\0\xc3\xa9\xed\xb3\x83" },
		  { "\xed\xb2\x80", "X\x09\0\0\0\xed\xb3\xad\xed\xb2\xb2\xed\xb2\x80" },
		  { "\xed\xa0\x80", "X\3\0\0\0\xed\xa0\x80" } };
	struct sf_selection sel = { .n = 1 };

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		struct sf_vfile *f;
		uint32_t entry = 0;
		uint64_t len;
		struct world w;
		world_init(&w);
		world_tensor(&w, t[i].key, SF_FLOAT32, 1, (uint64_t[]){ 3 });
		world_open(&w);
		sel.entry = &entry;
		f = make(&w, &sel);
		SF_FREE uint8_t *text = world_read(f, &len);
		ck_assert_msg(memmem(text, len, t[i].pickled, 5 + (size_t)t[i].pickled[1]), "%zu",
		              i);
		sf_vfile_unref(f);
		world_close(&w);
	}
}
END_TEST

START_TEST(a_cast_changes_dtype_size_and_bytes_where_the_selection_says_so)
{
	const float value[3] = { 1.5f, -2.25f, 3.0e38f };
	uint16_t half[3];
	struct world w;
	struct sf_vfile *f;
	struct read_back rb;

	world_init(&w);
	world_tensor(&w, "model/w", SF_FLOAT32, 1, (uint64_t[]){ 3 });
	world_tensor(&w, "model/n", SF_INT64, 1, (uint64_t[]){ 1 });
	memcpy(w.data.at + w.key[0].off, value, sizeof(value));
	w.opt.dtype = SF_BFLOAT16;
	world_open(&w);
	sf_dtype_cast(half, SF_BFLOAT16, value, SF_FLOAT32, 3);
	open_all(&w, (struct sf_selection){ .cast = true }, &f, &rb);
	check_tensor(&rb, walk(rb.root, w.key[0].path, 2), &w.key[0], half, sizeof(half),
	             SF_BFLOAT16);
	check_stored(&w, &rb, walk(rb.root, w.key[1].path, 2), &w.key[1]);
	release(&rb);
	sf_vfile_unref(f);
	open_all(&w, (struct sf_selection){ 0 }, &f, &rb);
	check_stored(&w, &rb, walk(rb.root, w.key[0].path, 2), &w.key[0]);
	release(&rb);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

struct payloads {
	const uint8_t *file;
	uint32_t crc[64], n;
};
static int one_payload(void *arg, uint32_t rec, uint64_t off, uint64_t len)
{
	struct payloads *p = arg;

	ck_assert_uint_eq(rec, p->n);
	p->crc[p->n++] = sf_crc32(0, p->file + off, len);
	return 0;
}

START_TEST(crcs_are_patched_by_export_and_change_no_length)
{
	uint64_t seed = sf_test_seed("crcs_are_patched_by_export_and_change_no_length");
	struct world w;
	struct sf_vfile *f;
	struct read_back rb, patched;
	struct payloads p = { 0 };

	random_world(&w, &seed, 30);
	world_open(&w);
	open_all(&w, (struct sf_selection){ 0 }, &f, &rb);
	p.file = rb.at;
	ck_assert_int_eq(sf_view_pt_payloads(f, one_payload, &p), 0);
	ck_assert_uint_eq(p.n + 3, rb.dir.n);
	ck_assert_int_lt(sf_view_pt_set_crcs(f, p.crc, p.n - 1), 0);
	ck_assert_int_eq(sf_view_pt_set_crcs(f, p.crc, p.n), 0);
	read_back(f, &patched);
	ck_assert_uint_eq(patched.len, rb.len);
	for (size_t i = 0; i < patched.dir.n; i++) {
		const struct sf_zip_record *z = &patched.dir.at[i];
		ck_assert_uint_eq(sf_crc32(0, record(&patched, z), z->size), z->crc);
	}
	release(&rb);
	release(&patched);
	sf_vfile_unref(f);
	world_close(&w);
}
END_TEST

START_TEST(the_same_selection_gives_the_same_bytes)
{
	struct world w;
	struct sf_vfile *f[2];
	struct read_back rb[2];

	object_world(&w);
	world_open(&w);
	for (unsigned i = 0; i < 2; i++)
		open_all(&w, (struct sf_selection){ 0 }, &f[i], &rb[i]);
	ck_assert_uint_eq(rb[0].len, rb[1].len);
	ck_assert_mem_eq(rb[0].at, rb[1].at, rb[0].len);
	for (unsigned i = 0; i < 2; i++) {
		release(&rb[i]);
		sf_vfile_unref(f[i]);
	}
	world_close(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("view_pt");
	TCase *tc = tcase_create("view_pt");

	tcase_add_test(tc, every_key_is_found_at_its_path_with_its_bytes);
	tcase_add_test(tc, any_range_reads_what_the_whole_file_has_there);
	tcase_add_test(tc, lists_are_filled_and_dicts_keep_the_stored_order);
	tcase_add_test(
		tc, a_group_file_is_nested_without_the_groups_key_and_flat_files_have_full_names);
	tcase_add_test(tc,
	               bytes_that_are_not_utf8_are_pickled_as_the_surrogates_that_stand_for_them);
	tcase_add_test(tc, a_cast_changes_dtype_size_and_bytes_where_the_selection_says_so);
	tcase_add_test(tc, crcs_are_patched_by_export_and_change_no_length);
	tcase_add_test(tc, the_same_selection_gives_the_same_bytes);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
