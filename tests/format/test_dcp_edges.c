/* `.metadata` that no writer makes, or hardly any: written by hand, read by both readers. */
#include "config.h"

#include <errno.h>
#include <string.h>

#include "tests/lib/test_stores.h"
#include "base/mem.h"
#include "format/dcp/dcp_read.h"
#include "tests/format/dcp_meta_text.h"
#include "tests/format/dcp_pickler.h"
#include "tests/lib/load.h"

static const struct spelling plain = { .memo = MEMO_NONE }, memoized = { .memo = MEMO_IMPLICIT };

static struct writer meta_begin(const struct spelling *how)
{
	static uint32_t size_memo[MAX_TENSORS * MAX_CHUNKS];
	struct writer w = { .how = how, .size_memo = size_memo };

	op(&w, 0x80);
	sf_buf_byte(&w.out, how->memo == MEMO_IMPLICIT ? 4 : 2);
	begin(&w, class_of(&w, "Metadata\n"));
	known(&w, "state_dict_metadata");
	op(&w, '}');
	memoize(&w);
	op(&w, '(');
	return w;
}

static void tensor_begin(struct writer *w, const char *name, const uint64_t *shape, unsigned ndim)
{
	text(w, name);
	begin(w, class_of(w, "TensorStorage"));
	known(w, "properties");
	known(w, class_of(w, "TensorProp"));
	op(w, ')');
	op(w, 0x81);
	memoize(w);
	op(w, '(');
	known(w, "torch\nbfloat16\n");
	op(w, 't');
	memoize(w);
	op(w, 'b');
	known(w, "size");
	size(w, shape, ndim);
	known(w, "chunks");
	op(w, ']');
	memoize(w);
	op(w, '(');
}

static void tensor_end(struct writer *w)
{
	op(w, 'e');
	end(w);
}

static void chunk(struct writer *w, const uint64_t *origin, unsigned norigin,
                  const uint64_t *extent, unsigned nextent)
{
	begin(w, class_of(w, "ChunkStorage"));
	known(w, "offsets");
	size(w, origin, norigin);
	known(w, "sizes");
	size(w, extent, nextent);
	end(w);
}

static void items_begin(struct writer *w)
{
	op(w, 'u');
	known(w, "storage_data");
	op(w, '}');
	memoize(w);
	op(w, '(');
}

/* Offsets @origin, or without it those that were written as memo entry @from. Returns that of its
 * own. */
static uint32_t item_from(struct writer *w, const char *name, const uint64_t *origin, unsigned ndim,
                          uint32_t from, uint64_t hint, uint64_t off, uint64_t len)
{
	begin(w, class_of(w, "MetadataIndex"));
	known(w, "fqn");
	text(w, name);
	known(w, "index");
	if (hint == UINT64_MAX)
		op(w, 'N');
	else
		number(w, hint);
	known(w, "offset");
	if (origin)
		from = size(w, origin, ndim);
	else
		fetch(w, from);
	end(w);
	begin(w, class_of(w, "_StorageInfo"));
	known(w, "relative_path");
	text(w, "__0_0.distcp");
	known(w, "offset");
	number(w, off);
	known(w, "length");
	number(w, len);
	end(w);
	return from;
}

static void item(struct writer *w, const char *name, const uint64_t *origin, unsigned ndim,
                 uint64_t hint, uint64_t off, uint64_t len)
{
	item_from(w, name, origin, ndim, 0, hint, off, len);
}

static void meta_end(struct writer *w)
{
	op(w, 'u');
	end(w);
	op(w, '.');
	ck_assert_int_eq(sf_buf_check(&w->out), 0);
}

/* The reader's code; its text, or why not, in @out. */
static int text_of(const struct sf_buf *pickle, enum dcp_reader reader, struct sf_buf *out,
                   uint64_t *ret_stray)
{
	const struct sf_mem_object file = { ".metadata", pickle->at, pickle->len };
	struct sf_error err = SF_ERROR_INIT;
	struct dcp_meta m = { 0 };
	struct sf_store *store;
	int r;

	ck_assert_int_eq(sf_store_mem(load_io(), &file, 1, &store, NULL), 0);
	r = dcp_meta_read(&m, store, ".metadata", NULL, reader, &err);
	if (r >= 0) {
		dcp_meta_text(&m, out);
		*ret_stray = m.stray;
	} else {
		sf_buf_str(out, err.msg);
	}
	dcp_meta_release(&m);
	sf_store_free(store);
	return r;
}

/* Both readers and what a load takes of them say the same: the code; the text at @ret, to be freed. */
static int agree(struct sf_buf *pickle, char **ret, uint64_t *ret_stray)
{
	struct sf_buf a = { 0 }, v = { 0 };
	uint64_t stray = 0;
	int ra = text_of(pickle, DCP_READER_AUTO, &a, ret_stray),
	    rv = text_of(pickle, DCP_READER_VALUES, &v, &stray);

	ck_assert_msg((ra < 0) == (rv < 0), "%d %s; values %d %s", ra, sf_buf_cstr(&a), rv,
	              sf_buf_cstr(&v));
	if (ra >= 0) {
		ck_assert_str_eq(sf_buf_cstr(&a), sf_buf_cstr(&v));
		ck_assert_uint_eq(*ret_stray, stray);
	}
	*ret = strdup(sf_buf_cstr(&a));
	sf_buf_release(&a);
	sf_buf_release(&v);
	sf_buf_release(pickle);
	return ra;
}

static const uint64_t ones[SF_DIMS_MAX + 1] = { [0 ... SF_DIMS_MAX] = 1 }, zeros[SF_DIMS_MAX + 1];

/* _i: of the shape, of a chunk's offsets and sizes, of an index. */
START_TEST(sixty_four_dimensions_are_the_most)
{
	for (unsigned n = SF_DIMS_MAX; n <= SF_DIMS_MAX + 1; n++) {
		struct writer w = meta_begin(&plain);
		unsigned shape = _i == 0 ? n : SF_DIMS_MAX, box = _i == 1 ? n : SF_DIMS_MAX,
			 index = _i == 2 ? n : SF_DIMS_MAX;
		SF_FREE char *got = NULL;
		uint64_t stray = 0;
		tensor_begin(&w, "w", ones, shape);
		chunk(&w, zeros, box, ones, box);
		tensor_end(&w);
		items_begin(&w);
		item(&w, "w", zeros, index, 0, 10, 20);
		meta_end(&w);
		int r = agree(&w.out, &got, &stray);
		if (n == SF_DIMS_MAX)
			ck_assert_msg(r == 0 && strstr(got, "__0_0.distcp@10+20"), "%d %s", r, got);
		else
			ck_assert_msg(r < 0 || stray == 1, "%s", got);
	}
}
END_TEST

/* _i: of which of very many chunks. Enough that the short way is taken up to there. */
START_TEST(a_chunk_of_other_dimensions_than_its_neighbours_is_refused)
{
	static const unsigned at[] = { 0, 1, 299, 599 };

	for (int how = 0; how < 4; how++) {
		struct writer w = meta_begin(how & 1 ? &memoized : &plain);
		SF_FREE char *got = NULL;
		uint64_t stray, shape[2] = { 600, 5 }, o[2] = { 0 }, e[2] = { 1, 5 };
		tensor_begin(&w, "w", shape, 2);
		for (unsigned i = 0; i < 600; i++) {
			o[0] = i;
			/* two offsets and one size, or one of each */
			chunk(&w, o, i == at[_i] && how & 2 ? 1 : 2, e, i == at[_i] ? 1 : 2);
		}
		tensor_end(&w);
		tensor_begin(&w, "more", shape, 2); /* the short way ends where little follows */
		for (unsigned i = 0; i < 600; i++) {
			o[0] = i;
			chunk(&w, o, 2, e, 2);
		}
		tensor_end(&w);
		items_begin(&w);
		meta_end(&w);
		int r = agree(&w.out, &got, &stray);
		ck_assert_msg(r == -EBADMSG, "%d %s", r, got);
	}
}
END_TEST

/* _i: chunks of the tensor. An item that is none of theirs is looked for among all. */
START_TEST(an_item_of_no_chunk_is_counted_and_left)
{
	struct writer w = meta_begin(&memoized);
	SF_FREE char *got = NULL;
	uint64_t stray, n = (uint64_t)_i, one = 1, other[2] = { 0 };
	char want[64];

	tensor_begin(&w, "w", &n, 1);
	for (uint64_t i = 0; i < n; i++)
		chunk(&w, &i, 1, &one, 1);
	tensor_end(&w);
	items_begin(&w);
	item(&w, "w", &n, 1, 3, 77, 1);             /* past the end */
	item(&w, "w", other, 2, UINT64_MAX, 78, 1); /* of two dimensions */
	item(&w, "nobody", &one, 1, 0, 79, 1);
	for (uint64_t i = 0; i < n; i++)
		item(&w, "w", &i, 1, n - 1 - i, 100 + i, 2); /* hints are wrong */
	meta_end(&w);
	int r = agree(&w.out, &got, &stray);
	ck_assert_msg(r == 0, "%s", got);
	ck_assert_uint_eq(stray, 3);
	ck_assert_ptr_null(strstr(got, "@77+"));
	ck_assert_ptr_null(strstr(got, "@78+"));
	for (uint64_t i = 0; i < n; i++) {
		snprintf(want, sizeof(want), " %d 1 __0_0.distcp@%d+2\n", (int)i, 100 + (int)i);
		ck_assert_msg(strstr(got, want) != NULL, "no%s in %s", want, got);
	}
}
END_TEST

/* _i: which comes first. Of chunks at one place the one that holds something has the item. */
START_TEST(an_empty_chunk_does_not_take_the_item_of_a_real_one)
{
	struct writer w = meta_begin(&memoized);
	SF_FREE char *got = NULL;
	uint64_t stray, shape = 8, zero = 0, four = 4;

	tensor_begin(&w, "w", &shape, 1);
	chunk(&w, &four, 1, &four, 1);
	chunk(&w, &zero, 1, _i ? &zero : &four, 1);
	chunk(&w, &zero, 1, _i ? &four : &zero, 1);
	tensor_end(&w);
	items_begin(&w);
	item(&w, "w", &zero, 1, UINT64_MAX, 50, 5);
	item(&w, "w", &four, 1, UINT64_MAX, 60, 6);
	item(&w, "w", &four, 1, UINT64_MAX, 70, 7); /* again: the first stays */
	meta_end(&w);
	int r = agree(&w.out, &got, &stray);
	ck_assert_msg(r == 0, "%s", got);
	ck_assert_msg(strstr(got, " 0 4 __0_0.distcp@50+5\n") != NULL, "%s", got);
	ck_assert_msg(strstr(got, " 4 4 __0_0.distcp@60+6\n") != NULL, "%s", got);
	ck_assert_ptr_null(strstr(got, "@70+"));
}
END_TEST

/* Two names, one object: the pickle fetches it for the second. */
START_TEST(one_tensor_under_two_names_is_two)
{
	struct writer w = meta_begin(&memoized);
	SF_FREE char *got = NULL;
	uint64_t stray, two = 2, zero = 0;
	uint32_t instance = 0;

	for (int i = 0; i < 2; i++) {
		/* of the second all words are known: behind its name comes the instance */
		instance = w.memo + 1;
		tensor_begin(&w, i ? "b" : "a", &two, 1);
		chunk(&w, &zero, 1, &two, 1);
		tensor_end(&w);
	}
	text(&w, "c");
	fetch(&w, instance);
	items_begin(&w);
	item(&w, "a", &zero, 1, 0, 10, 1);
	item(&w, "b", &zero, 1, 0, 20, 2);
	meta_end(&w);
	int r = agree(&w.out, &got, &stray);
	ck_assert_msg(r == 0, "%s", got);
	ck_assert_msg(strstr(got, "b ") && strstr(got, "c ") && strstr(got, "@20+2"), "%s", got);
}
END_TEST

/* Offsets of one tensor's items are those of another's, and past 2^32. _i: of how many dimensions. */
START_TEST(far_offsets_may_be_fetched)
{
	struct writer w = meta_begin(&memoized);
	enum { N = 300 };
	const uint64_t step = UINT64_C(3) << 30, shape[2] = { N * step, 1 },
		       extent[2] = { step, 1 };
	SF_FREE char *got = NULL;
	uint64_t stray, o[2] = { 0 };
	uint32_t from[N];
	char want[64];

	for (int t = 0; t < 2; t++) {
		tensor_begin(&w, t ? "b" : "a", shape, (unsigned)_i);
		for (unsigned i = 0; i < N; i++) {
			o[0] = i * step;
			chunk(&w, o, (unsigned)_i, extent, (unsigned)_i);
		}
		tensor_end(&w);
	}
	items_begin(&w);
	for (unsigned i = 0; i < N; i++) {
		o[0] = i * step;
		from[i] = item_from(&w, "a", o, (unsigned)_i, 0, i, i, 1);
	}
	for (unsigned i = 0; i < N; i++)
		item_from(&w, "b", NULL, (unsigned)_i, from[i], i, 1000 + i, 2);
	for (unsigned i = 0; i < 200; i++)
		item(&w, "nobody", zeros, 1, 0, 0, 0);
	meta_end(&w);
	int r = agree(&w.out, &got, &stray);
	ck_assert_msg(r == 0, "%s", got);
	ck_assert_uint_eq(stray, 200);
	for (unsigned i = 0; i < N; i++) {
		snprintf(want, sizeof(want), "__0_0.distcp@%u+2\n", 1000 + i);
		ck_assert_msg(strstr(got, want) != NULL, "no %s", want);
	}
}
END_TEST

/* A tensor's only chunk is one that was written before, as chunk @which of another tensor. */
START_TEST(a_chunk_may_be_another_tensors)
{
	for (uint32_t which = 0; which < 4; which++) {
		struct writer w = meta_begin(&memoized);
		enum { N = 300 };
		uint64_t stray, shape = N, one = 1;
		SF_FREE char *got = NULL;
		uint32_t instance = 0;
		char want[32];
		tensor_begin(&w, "a", &shape, 1);
		for (uint64_t i = 0; i < N; i++) {
			if (i == which)
				instance = w.memo + (i == 0 ? 3 : 0); /* behind its class's words */
			if (i == 150) { /* with an attribute more: not like the others */
				begin(&w, class_of(&w, "ChunkStorage"));
				text(&w, "colour");
				number(&w, 7);
				known(&w, "offsets");
				size(&w, &i, 1);
				known(&w, "sizes");
				size(&w, &one, 1);
				end(&w);
				continue;
			}
			chunk(&w, &i, 1, &one, 1);
		}
		tensor_end(&w);
		tensor_begin(&w, "b", &shape, 1);
		fetch(&w, instance);
		tensor_end(&w);
		items_begin(&w);
		for (unsigned i = 0; i < 200; i++)
			item(&w, "nobody", zeros, 1, 0, 0, 0);
		meta_end(&w);
		int r = agree(&w.out, &got, &stray);
		ck_assert_msg(r == 0, "%s", got);
		snprintf(want, sizeof(want), "b bfloat16 [ 300 ]\n %u 1 none", which);
		ck_assert_msg(strstr(got, want) != NULL, "no '%s' in %.200s", want,
		              strstr(got, "b bfloat") ? strstr(got, "b bfloat") : got);
	}
}
END_TEST

/* Few bytes that stand for many elements. _i: paths that share a tuple; chunks that share their
 * sizes. */
START_TEST(a_file_is_not_read_into_more_elements_than_it_has_bytes)
{
	struct writer w = meta_begin(&memoized);
	SF_FREE char *got = NULL;
	uint64_t stray;
	char name[16];

	if (_i == 0) {
		op(&w, 'u');
		known(&w, "planner_data");
		op(&w, '}');
		memoize(&w);
		op(&w, '(');
		uint32_t tuple = 0;
		for (int i = 0; i < 900; i++) {
			snprintf(name, sizeof(name), "key%d", i);
			text(&w, name);
			if (i) {
				fetch(&w, tuple);
				continue;
			}
			op(&w, '(');
			for (int k = 0; k < 900; k++)
				number(&w, 1);
			op(&w, 't');
			tuple = memoize(&w);
		}
	} else {
		tensor_begin(&w, "w", ones, 15);
		uint32_t shared = 0;
		for (int i = 0; i < 30000; i++) {
			begin(&w, class_of(&w, "ChunkStorage"));
			known(&w, "offsets");
			if (i)
				fetch(&w, shared);
			else
				shared = size(&w, zeros, 15);
			known(&w, "sizes");
			fetch(&w, shared);
			end(&w);
		}
		tensor_end(&w);
	}
	items_begin(&w);
	for (unsigned i = 0; i < 200; i++) /* what comes last is not passed over */
		item(&w, "nobody", zeros, 1, 0, 0, 0);
	meta_end(&w);
	int r = agree(&w.out, &got, &stray);
	ck_assert_msg(r == -E2BIG, "%d %s", r, got);
}
END_TEST

/* Pickles of a few bytes that end badly. */
START_TEST(lengths_and_numbers_that_lead_nowhere_are_refused)
{
	static const struct {
		const char *at;
		size_t len;
		const char *word;
		int code;
	} bad[] = {
#define B(s, word, code) { s, sizeof(s) - 1, word, code }
		B("\x80\x04}\x94h\x01.", "never stored", -EBADMSG), /* the next number */
		B("\x80\x04h\x00.", "never stored", -EBADMSG),
		B("\x80\x04}\x94j\x01\0\0\0.", "never stored", -EBADMSG),
		/* BINBYTES8, BINUNICODE8 whose lengths come round to before them */
		B("\x80\x04}\x94\x8e\xf8\xff\xff\xff\xff\xff\xff\xff.", "end", -EBADMSG),
		B("\x80\x04}\x94\x8e\xf4\xff\xff\xff\xff\xff\xff\xff.", "end", -EBADMSG),
		B("\x80\x04}\x94\x8e\xff\xff\xff\xff\xff\xff\xff\x7f.", "end", -EBADMSG),
		B("\x80\x04}\x94\x8d\xf4\xff\xff\xff\xff\xff\xff\xff.", "limit", -E2BIG),
		B("\x80\x04}\224B\xff\xff\xff\xff.", "end", -EBADMSG),
		/* values that are not on the stack, or below the mark */
		B("\x80\x04\x85.", "stack", -EBADMSG),
		B("\x80\x04K\x01\x86.", "stack", -EBADMSG),
		B("\x80\x04K\x01K\x02\x87.", "stack", -EBADMSG),
		B("\x80\x04K\x01K\x02(\x85.", "stack", -EBADMSG),
		B("\x80\x04K\x01(K\x02\x87.", "stack", -EBADMSG),
		B("\x80\x04K\x01R.", "stack", -EBADMSG),
		B("\x80\x04}K\x01s.", "stack", -EBADMSG),
		B("\x80\x04]a.", "stack", -EBADMSG),
		B("\x80\x04}b.", "stack", -EBADMSG),
		B("\x80\x04)\x81.", "stack", -EBADMSG),
		B("\x80\x04.", "STOP", -EBADMSG),
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct sf_buf pickle = { 0 }, out = { 0 };
		uint64_t stray;
		sf_buf_add(&pickle, bad[i].at, bad[i].len);
		int r = text_of(&pickle, DCP_READER_SCAN, &out, &stray);
		ck_assert_msg(r == bad[i].code && strstr(sf_buf_cstr(&out), bad[i].word),
		              "case %zu: %d %s", i, r, sf_buf_cstr(&out));
		sf_buf_release(&out);
		r = text_of(&pickle, DCP_READER_AUTO, &out, &stray);
		ck_assert_msg(r == bad[i].code, "case %zu: %d %s", i, r, sf_buf_cstr(&out));
		sf_buf_release(&pickle);
		sf_buf_release(&out);
	}
}
END_TEST

/* Items of exactly their payload's length are safetensors blobs where the bytes there are such. */
START_TEST(an_item_as_long_as_its_payload_is_what_its_bytes_are)
{
	static const struct {
		const char *head;
		enum sf_item_form form;
	} cases[] = {
		{ "\x10\0\0\0\0\0\0\0{", SF_ITEM_ST_BLOB },
		{ "\x10\0\0\0\0\0\0\0[", SF_ITEM_TORCH },
		{ "PK\3\4\0\0\0\0\0", SF_ITEM_TORCH },
		{ "PK\3\4\0\0\0\0{", SF_ITEM_TORCH },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct writer w = meta_begin(&memoized);
		uint8_t stored[100] = { 0 };
		uint64_t shape = 16, zero = 0;
		struct sf_ckpt *ckpt;
		char msg[SF_ERROR_MAX];
		tensor_begin(&w, "w", &shape, 1);
		chunk(&w, &zero, 1, &shape, 1);
		tensor_end(&w);
		items_begin(&w);
		item(&w, "w", &zero, 1, 0, 30, 32);
		meta_end(&w);
		memcpy(stored + 30, cases[i].head, 9);
		const struct sf_mem_object files[] = { { ".metadata", w.out.at, w.out.len },
			                               { "__0_0.distcp", stored, sizeof(stored) } };
		int r = load_mem(files, 2, NULL, &ckpt, msg);
		ck_assert_msg(r == 0, "case %zu: %s", i, msg);
		ck_assert_int_eq(ckpt->place[ckpt->tensor[0].place[0]].form, cases[i].form);
		sf_ckpt_free(ckpt);
		sf_buf_release(&w.out);
	}
}
END_TEST

/* As some writers made of uneven shards: it costs the tensor, no other key. */
START_TEST(a_chunk_that_reaches_out_of_its_tensor_costs_that_tensor)
{
	struct writer w = meta_begin(&memoized);
	const uint64_t four = 4, zero = 0, two = 2, three = 3;
	struct sf_ckpt *ckpt;
	char msg[SF_ERROR_MAX];

	tensor_begin(&w, "bad", &four, 1);
	chunk(&w, &zero, 1, &two, 1);
	chunk(&w, &three, 1, &two, 1);
	chunk(&w, &two, 1, &two, 1);
	tensor_end(&w);
	tensor_begin(&w, "good", &four, 1);
	chunk(&w, &zero, 1, &four, 1);
	tensor_end(&w);
	items_begin(&w);
	item(&w, "bad", &zero, 1, 0, 0, 100);
	item(&w, "bad", &three, 1, 1, 100, 100);
	item(&w, "bad", &two, 1, 2, 200, 100);
	item(&w, "good", &zero, 1, 0, 300, 100);
	meta_end(&w);
	const struct sf_mem_object files[] = { { ".metadata", w.out.at, w.out.len } };
	int r = load_mem(files, 1, NULL, &ckpt, msg);
	ck_assert_msg(r == 0, "%s", msg);
	ck_assert_uint_eq(ckpt->ntensors, 2);
	ck_assert_uint_eq(ckpt->tensor[0].nchunks, 2);
	ck_assert_uint_eq(ckpt->tensor[0].off[1], 200); /* the third one's item stays its own */
	ck_assert_uint_eq(ckpt->tensor[1].nchunks, 1);
	ck_assert_ptr_nonnull(load_warning(ckpt, "chunk-outside", "chunk 1 "));
	sf_ckpt_free(ckpt);
	sf_buf_release(&w.out);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("dcp_edges");
	TCase *t = tcase_create("dcp_edges");

	tcase_set_timeout(t, 60);
	tcase_add_loop_test(t, sixty_four_dimensions_are_the_most, 0, 3);
	tcase_add_loop_test(t, a_chunk_of_other_dimensions_than_its_neighbours_is_refused, 0, 4);
	tcase_add_loop_test(t, an_item_of_no_chunk_is_counted_and_left, 1, 40);
	tcase_add_loop_test(t, an_empty_chunk_does_not_take_the_item_of_a_real_one, 0, 2);
	tcase_add_loop_test(t, far_offsets_may_be_fetched, 1, 3);
	tcase_add_test(t, a_chunk_may_be_another_tensors);
	tcase_add_test(t, one_tensor_under_two_names_is_two);
	tcase_add_loop_test(t, a_file_is_not_read_into_more_elements_than_it_has_bytes, 0, 2);
	tcase_add_test(t, lengths_and_numbers_that_lead_nowhere_are_refused);
	tcase_add_test(t, a_chunk_that_reaches_out_of_its_tensor_costs_that_tensor);
	tcase_add_test(t, an_item_as_long_as_its_payload_is_what_its_bytes_are);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
