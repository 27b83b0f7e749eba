#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "format/dcp/dcp_read.h"
#include "tests/lib/test_stores.h"
#include "tests/format/dcp_meta_text.h"
#include "tests/format/dcp_pickler.h"
#include "tests/lib/sf_test.h"

static int read_meta(const struct sf_buf *pickle, enum dcp_reader reader, struct dcp_meta *m,
                     struct sf_error *err)
{
	const struct sf_mem_object file = { ".metadata", pickle->at, pickle->len };
	struct sf_store *store;
	static struct sf_io io; /* of this test's process */
	int r;

	if (!io.pool)
		ck_assert_int_eq(sf_io_init(&io, 1, NULL), 0);
	ck_assert_int_eq(sf_store_mem(&io, &file, 1, &store, NULL), 0);
	r = dcp_meta_read(m, store, ".metadata", NULL, reader, err);
	sf_store_free(store);
	return r;
}

static uint64_t passed_over(const struct sf_buf *pickle)
{
	struct dcp_meta m = { 0 };
	uint64_t n;

	ck_assert_int_eq(read_meta(pickle, DCP_READER_SCAN, &m, NULL), 0);
	n = m.facts.passed_over;
	dcp_meta_release(&m);
	return n;
}

/* "" or the text of what was read. */
static void read_text(const struct sf_buf *pickle, enum dcp_reader reader, bool facts,
                      struct sf_buf *out, int *ret)
{
	struct sf_error err = SF_ERROR_INIT;
	struct dcp_meta m = { 0 };

	*ret = read_meta(pickle, reader, &m, &err);
	if (*ret >= 0)
		dcp_meta_text(&m, out);
	if (*ret >= 0 && facts)
		dcp_facts_text(&m, out);
	if (*ret < 0)
		sf_buf_str(out, err.msg);
	dcp_meta_release(&m);
}

/* Long texts: only the first line that differs. */
static void same_text(struct sf_buf *got, struct sf_buf *want, const char *who)
{
	const char *g = sf_buf_cstr(got), *w = sf_buf_cstr(want), *gl = g, *wl = w;

	for (; *g && *g == *w; g++, w++)
		if (*g == '\n') {
			gl = g + 1;
			wl = w + 1;
		}
	ck_assert_msg(*g == *w, "%s: '%.*s', not '%.*s'", who, (int)strcspn(gl, "\n"), gl,
	              (int)strcspn(wl, "\n"), wl);
}

static void check_spelling(struct spelling *how, uint64_t seed, bool scanner_must)
{
	struct truth x;
	struct writer w = { .how = how, .seed = seed };
	struct sf_buf want = { 0 }, scan = { 0 }, values = { 0 };
	int r;

	make_truth(how, &x, &seed);
	w.size_memo = calloc((size_t)MAX_TENSORS * MAX_CHUNKS, sizeof(*w.size_memo));
	ck_assert_ptr_nonnull(w.size_memo);
	write_pickle(&w, &x);
	write_truth(how, &x, &want);
	read_text(&w.out, DCP_READER_VALUES, true, &values, &r);
	ck_assert_msg(r >= 0, "values: %s", sf_buf_cstr(&values));
	same_text(&values, &want, "values");
	read_text(&w.out, scanner_must ? DCP_READER_SCAN : DCP_READER_AUTO, true, &scan, &r);
	ck_assert_msg(r >= 0, "scan: %s", sf_buf_cstr(&scan));
	same_text(&scan, &want, "scan");
	free(w.size_memo);
	sf_buf_release(&w.out);
	sf_buf_release(&want);
	sf_buf_release(&scan);
	sf_buf_release(&values);
}

START_TEST(a_gathered_save_reads_the_same_from_both_readers)
{
	struct spelling how = { .memo = MEMO_IMPLICIT,
		                .frame_every = 65536,
		                .hints = true,
		                .by_rank = true,
		                .tensors = 30,
		                .chunks = 300,
		                .dims = 3 };
	check_spelling(&how, sf_test_seed("gathered"), true);
}
END_TEST

START_TEST(a_save_by_one_process_shares_sizes_and_names)
{
	struct spelling how = { .memo = MEMO_IMPLICIT,
		                .frame_every = 65536,
		                .hints = true,
		                .share_sizes = true,
		                .share_names = true,
		                .tensors = 30,
		                .chunks = 300,
		                .dims = 3 };
	check_spelling(&how, sf_test_seed("one process"), true);
}
END_TEST

START_TEST(several_shards_of_one_rank_share_a_name)
{
	struct spelling how = { .memo = MEMO_IMPLICIT,
		                .frame_every = 65536,
		                .hints = true,
		                .refetch_names = true,
		                .tensors = 10,
		                .chunks = 300,
		                .dims = 2 };
	check_spelling(&how, sf_test_seed("several shards"), true);
}
END_TEST

START_TEST(protocol_2_without_memo_reads_the_same)
{
	struct spelling how = {
		.memo = MEMO_NONE, .hints = true, .tensors = 20, .chunks = 30, .dims = 3
	};
	check_spelling(&how, sf_test_seed("no memo"), true);
}
END_TEST

START_TEST(more_than_a_thousand_chunks_of_one_tensor_come_in_batches)
{
	struct spelling how = { .memo = MEMO_IMPLICIT,
		                .frame_every = 65536,
		                .hints = true,
		                .tensors = 6,
		                .chunks = 1200,
		                .dims = 2 };
	check_spelling(&how, sf_test_seed("batches"), true);
}
END_TEST

/* Chunks and items past 2^32, taken by the short way too. */
START_TEST(wide_coordinates_read_the_same)
{
	struct spelling how = { .memo = MEMO_IMPLICIT,
		                .frame_every = 65536,
		                .hints = true,
		                .by_rank = _i & 1,
		                .share_sizes = _i & 2,
		                .refetch_names = _i & 2,
		                .wide = true,
		                .tensors = 30,
		                .chunks = 100,
		                .dims = 3 };
	check_spelling(&how, sf_test_seed("wide"), true);
}
END_TEST

/* Several windows of the file are looked at; one string and one payload are longer than any. */
START_TEST(a_file_of_many_windows_reads_the_same)
{
	struct spelling how = { .memo = MEMO_IMPLICIT,
		                .frame_every = 65536,
		                .hints = true,
		                .by_rank = true,
		                .bulk = (3 << 20) + 777,
		                .tensors = 20,
		                .chunks = 1200,
		                .dims = 2 };
	check_spelling(&how, sf_test_seed("windows"), true);
}
END_TEST

/* Pairs of an index and a place in a dict that is not storage_data are nobody's items. */
START_TEST(a_dict_like_storage_data_is_not_taken_for_it)
{
	struct spelling how = { .memo = MEMO_IMPLICIT,
		                .hints = true,
		                .decoy = true,
		                .by_rank = true,
		                .tensors = 10,
		                .chunks = 200,
		                .dims = 2 };
	check_spelling(&how, sf_test_seed("decoy"), false);
}
END_TEST

START_TEST(any_spelling_reads_the_same_from_both_readers)
{
	uint64_t seed = sf_test_seed("any spelling");

	for (int i = 0; i < 150; i++) {
		struct spelling how = {
			.memo = (enum memo_style)sf_test_below(&seed, 3),
			.frame_every = (unsigned)sf_test_below(&seed, 2) *
			               (unsigned)(1 + sf_test_below(&seed, 5000)),
			.share_sizes = sf_test_below(&seed, 2),
			.share_names = sf_test_below(&seed, 2),
			.refetch_names = sf_test_below(&seed, 2),
			.share_extents = sf_test_below(&seed, 3) == 0,
			.share_zeros = sf_test_below(&seed, 4) == 0,
			.fresh_files = sf_test_below(&seed, 2),
			.fresh_transforms = sf_test_below(&seed, 2),
			.no_index = sf_test_below(&seed, 4) == 0,
			.long_gets = sf_test_below(&seed, 4) == 0,
			.hints = sf_test_below(&seed, 4),
			.wrong_hints = sf_test_below(&seed, 4) == 0,
			.transforms = sf_test_below(&seed, 3) == 0,
			.items_first = sf_test_below(&seed, 6) == 0,
			.odd = sf_test_below(&seed, 3) == 0,
			.by_rank = sf_test_below(&seed, 2),
			.wide = sf_test_below(&seed, 4) == 0,
			.padded = sf_test_below(&seed, 4) == 0,
			.shard_package = sf_test_below(&seed, 4) == 0,
			.tensors = 1 + (uint32_t)sf_test_below(&seed, 20),
			.chunks = 1 + (uint32_t)sf_test_below(&seed, 100),
			.dims = (uint32_t)sf_test_below(&seed, MAX_DIMS + 1),
		};
		check_spelling(&how, sf_test_rand(&seed), false);
	}
}
END_TEST

/* Spellings that pickle may choose must not cost the short way: nearly all records are passed over. */
START_TEST(no_usual_spelling_goes_through_the_opcodes)
{
	const struct spelling ways[] = {
		{ .hints = true },
		{ .hints = true, .fresh_files = true },
		{ .hints = true, .share_sizes = true, .share_names = true },
		{ .hints = true, .share_extents = true },
		{ .hints = true, .share_zeros = true },
		{ .hints = true, .long_gets = true },
		{ .hints = true, .wrong_hints = true },
		{ .hints = true, .transforms = true },
		{ .hints = true, .transforms = true, .fresh_transforms = true },
		{ .hints = false },
		{ .no_index = true, .fresh_files = true },
		{ .no_index = true, .items_first = true },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(ways); i++) {
		struct spelling how = ways[i];
		struct writer w = { .how = &how };
		uint64_t seed = 11, records = 0;
		struct truth x;
		how.memo = MEMO_IMPLICIT;
		how.frame_every = 65536;
		how.by_rank = true;
		how.tensors = 30;
		how.chunks = 400;
		how.dims = 3;
		make_truth(&how, &x, &seed);
		for (uint32_t t = 0; t < how.tensors; t++)
			records += x.t[t].bytes ? 0 : 2 * x.t[t].chunks;
		w.size_memo = calloc((size_t)MAX_TENSORS * MAX_CHUNKS, sizeof(*w.size_memo));
		ck_assert_ptr_nonnull(w.size_memo);
		write_pickle(&w, &x);
		ck_assert_uint_gt(passed_over(&w.out), records * 9 / 10);
		free(w.size_memo);
		sf_buf_release(&w.out);
		check_spelling(&how, seed, true);
	}
}
END_TEST

/* Every cut of a small file is an error from either reader, with a message, never a crash. */
START_TEST(a_cut_file_is_refused_by_both)
{
	struct spelling how = {
		.memo = MEMO_IMPLICIT, .hints = true, .tensors = 3, .chunks = 3, .dims = 2
	};
	struct writer w = { .how = &how };
	uint64_t seed = 5;
	struct truth x;

	make_truth(&how, &x, &seed);
	w.size_memo = calloc((size_t)MAX_TENSORS * MAX_CHUNKS, sizeof(*w.size_memo));
	ck_assert_ptr_nonnull(w.size_memo);
	write_pickle(&w, &x);
	for (size_t len = 0; len < w.out.len; len++) {
		struct sf_buf cut = { .at = w.out.at, .len = len }, out = { 0 };
		int r;
		read_text(&cut, DCP_READER_AUTO, false, &out, &r);
		ck_assert_int_eq(r, -EBADMSG);
		ck_assert_msg(strstr(sf_buf_cstr(&out), ".metadata") != NULL, "%s",
		              sf_buf_cstr(&out));
		sf_buf_reset(&out);
		read_text(&cut, DCP_READER_VALUES, false, &out, &r);
		ck_assert_int_eq(r, -EBADMSG);
		sf_buf_release(&out);
	}
	free(w.size_memo);
	sf_buf_release(&w.out);
}
END_TEST

static void put_text(struct sf_buf *out, const char *s)
{
	uint8_t len[4];

	sf_put_le32(len, (uint32_t)strlen(s));
	sf_buf_byte(out, 'X');
	sf_buf_add(out, len, 4);
	sf_buf_str(out, s);
}

/* "torch.distributed.checkpoint.metadata.NAME", an instance without attributes. */
static void put_instance(struct sf_buf *out, const char *name)
{
	sf_buf_printf(out, "ctorch.distributed.checkpoint.metadata\n%s\n)\x81", name);
}

/* Metadata whose keys, all bytes items, are the words of @keys and whose planner_data has a pair of
 * words for each of @paths, key and path. Its class is called @cls. */
static void put_small(struct sf_buf *out, const char *cls, const char *const *keys,
                      const char *const (*paths)[2])
{
	sf_buf_reset(out);
	sf_buf_str(out, "\x80\x02");
	put_instance(out, cls);
	sf_buf_str(out, "}(");
	put_text(out, "state_dict_metadata");
	sf_buf_str(out, "}(");
	for (; *keys; keys++) {
		put_text(out, *keys);
		put_instance(out, "BytesStorageMetadata");
	}
	sf_buf_byte(out, 'u');
	put_text(out, "planner_data");
	sf_buf_str(out, "}(");
	for (; (*paths)[0]; paths++) {
		put_text(out, (*paths)[0]);
		put_text(out, (*paths)[1]);
		sf_buf_byte(out, 0x85);
	}
	sf_buf_byte(out, 'u');
	put_text(out, "storage_data");
	sf_buf_str(out, "}ub.");
	ck_assert_int_eq(sf_buf_check(out), 0);
}

/* As Python's dict: the last of equal keys gives the value, the first the place. */
START_TEST(of_equal_keys_both_readers_take_pythons)
{
	static const char *const once[] = { "a", "b", "c", NULL }, *const twice[] = { "a", "b", "a",
		                                                                      "c", NULL };
	static const char *const paths[][2] = { { "a", "x" }, { "b", "y" }, { "a", "z" },
		                                { "c", "w" }, { "b", "v" }, { NULL, NULL } };
	static const char want[] = "a bytes\nb bytes\nc bytes\n"
				   "a = z\nb = v\nc = w\nstray 0 no_paths 0\n";

	for (enum dcp_reader reader = DCP_READER_AUTO; reader <= DCP_READER_VALUES; reader++) {
		struct sf_buf file = { 0 }, out = { 0 };
		int r;
		put_small(&file, "Metadata", once, paths);
		read_text(&file, reader, false, &out, &r);
		ck_assert_str_eq(sf_buf_cstr(&out), want);
		ck_assert_int_eq(r, 0);
		put_small(&file, "Metadata", twice, paths);
		sf_buf_reset(&out);
		read_text(&file, reader, false, &out, &r);
		if (reader == DCP_READER_SCAN) /* it gives up */
			ck_assert_int_eq(r, -ENOTSUP);
		else
			ck_assert_str_eq(sf_buf_cstr(&out), want);
		sf_buf_release(&file);
		sf_buf_release(&out);
	}
}
END_TEST

/* Python's pickle decodes the lines of GLOBAL strictly, other text with surrogates let through. */
START_TEST(names_of_classes_are_utf8)
{
	static const char *const keys[] = { "a", NULL };
	static const char *const paths[][2] = { { NULL, NULL } };
	static const struct {
		const char *cls;
		bool good;
	} cases[] = {
		{ "M\xc3\xa9tadata", true },
		{ "M\xe9tadata", false },
		{ "M\xed\xb3\xa9tadata", false },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++)
		for (enum dcp_reader reader = DCP_READER_AUTO; reader <= DCP_READER_VALUES;
		     reader++) {
			struct sf_buf file = { 0 }, out = { 0 };
			int r;
			put_small(&file, cases[i].cls, keys, paths);
			read_text(&file, reader, false, &out, &r);
			ck_assert_msg(r == (cases[i].good               ? 0
			                    : reader == DCP_READER_SCAN ? -ENOTSUP
			                                                : -EBADMSG),
			              "case %zu, reader %d: %d %s", i, (int)reader, r,
			              sf_buf_cstr(&out));
			sf_buf_release(&file);
			sf_buf_release(&out);
		}
}
END_TEST

/* A flipped byte gives an error or a description; the scanner and the values never disagree on
 * which it is, and on what. */
START_TEST(a_damaged_file_reads_the_same_from_both_readers)
{
	struct spelling how = { .memo = MEMO_IMPLICIT,
		                .hints = true,
		                .tensors = 3,
		                .chunks = 60,
		                .dims = 2,
		                .by_rank = true };
	uint64_t seed = sf_test_seed("damage");
	struct writer w = { .how = &how };
	struct truth x;

	make_truth(&how, &x, &seed);
	w.size_memo = calloc((size_t)MAX_TENSORS * MAX_CHUNKS, sizeof(*w.size_memo));
	ck_assert_ptr_nonnull(w.size_memo);
	write_pickle(&w, &x);
	for (int i = 0; i < 3000; i++) {
		size_t at = sf_test_below(&seed, w.out.len);
		uint8_t old = w.out.at[at];
		struct sf_buf a = { 0 }, b = { 0 };
		int ra, rb;
		uint8_t byte = (uint8_t)sf_test_rand(&seed);
		w.out.at[at] = byte;
		read_text(&w.out, DCP_READER_SCAN, false, &a, &ra);
		read_text(&w.out, DCP_READER_VALUES, false, &b, &rb);
		if (ra != -ENOTSUP) { /* it did not give up */
			ck_assert_msg(
				(ra < 0) == (rb < 0),
				"byte %zu is 0x%02x: scan %d, values %d: only one of them says: %s",
				at, w.out.at[at], ra, rb, sf_buf_cstr(ra < 0 ? &a : &b));
			char who[64];
			snprintf(who, sizeof(who), "byte %zu is 0x%02x, was 0x%02x: scan, values",
			         at, w.out.at[at], old);
			if (ra >= 0)
				same_text(&a, &b, who);
		}
		w.out.at[at] = old;
		sf_buf_release(&a);
		sf_buf_release(&b);
	}
	free(w.size_memo);
	sf_buf_release(&w.out);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dcp_meta");
	TCase *tc = tcase_create("both readers");

	tcase_set_timeout(tc, 60);
	tcase_add_test(tc, a_gathered_save_reads_the_same_from_both_readers);
	tcase_add_test(tc, a_save_by_one_process_shares_sizes_and_names);
	tcase_add_test(tc, several_shards_of_one_rank_share_a_name);
	tcase_add_test(tc, protocol_2_without_memo_reads_the_same);
	tcase_add_test(tc, more_than_a_thousand_chunks_of_one_tensor_come_in_batches);
	tcase_add_loop_test(tc, wide_coordinates_read_the_same, 0, 4);
	tcase_add_test(tc, a_file_of_many_windows_reads_the_same);
	tcase_add_test(tc, a_dict_like_storage_data_is_not_taken_for_it);
	tcase_add_test(tc, any_spelling_reads_the_same_from_both_readers);
	tcase_add_test(tc, no_usual_spelling_goes_through_the_opcodes);
	tcase_add_test(tc, of_equal_keys_both_readers_take_pythons);
	tcase_add_test(tc, names_of_classes_are_utf8);
	tcase_add_test(tc, a_cut_file_is_refused_by_both);
	tcase_add_test(tc, a_damaged_file_reads_the_same_from_both_readers);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
