#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "parse/pickle_write.h"
#include "parse/torch_item.h"
#include "tests/lib/sf_test.h"

enum { TENSORS = 24 };

static struct sf_pw_tensor tensor(uint64_t *seed, uint64_t shape[4], uint64_t number)
{
	struct sf_pw_tensor t = { .dtype = (enum sf_dtype)(1 + sf_test_below(seed, SF_NDTYPES - 1)),
		                  .ndim = (unsigned)sf_test_below(seed, 5),
		                  .shape = shape,
		                  .storage = number };

	if (t.dtype == SF_BCOMPLEX32) /* weights_only does not know it */
		t.dtype = SF_BFLOAT16;
	t.bytes = sf_dtype_info(t.dtype)->bytes;
	for (unsigned d = 0; d < t.ndim; d++)
		t.bytes *= shape[d] = sf_test_below(seed, 300);
	return t;
}

/* A writer that has tensors in memory: one dict, read back by the reader of torch's files. */
START_TEST(tensors_of_one_stream_read_back)
{
	uint64_t seed = sf_test_seed("tensors_of_one_stream_read_back");
	uint64_t shape[TENSORS][4];
	struct sf_pw_tensor t[TENSORS];
	struct sf_arena arena = { 0 };
	struct sf_buf out = { 0 };
	struct sf_pickle_writer w = { .out = &out };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pv *v = NULL;
	char name[24];

	sf_pw_proto(&w);
	sf_pw_op(&w, '}');
	sf_pw_op(&w, '(');
	for (int i = 0; i < TENSORS; i++) {
		t[i] = tensor(&seed, shape[i], (uint64_t)i);
		sf_pw_name(&w, name, (size_t)snprintf(name, sizeof(name), "layer.%d", i));
		sf_pw_tensor(&w, &t[i]);
	}
	sf_pw_op(&w, 'u');
	sf_pw_stop(&w);
	ck_assert_int_eq(sf_buf_check(&out), 0);
	ck_assert_msg(sf_pickle_parse(out.at, out.len, NULL, &arena, &v, NULL, &err) == 0, "%s",
	              err.msg);
	ck_assert_ptr_null(sf_pv_weights_only(v, &arena));
	ck_assert_int_eq(v->kind, SF_PV_DICT);
	ck_assert_uint_eq(v->seq.n, 2 * TENSORS);
	for (int i = 0; i < TENSORS; i++) {
		struct sf_torch_tensor got;
		snprintf(name, sizeof(name), "layer.%d", i);
		ck_assert_str_eq(v->seq.at[2 * i]->str.at, name);
		ck_assert_msg(sf_torch_tensor_from_pv(v->seq.at[2 * i + 1], &got, &err) == 1, "%s",
		              err.msg);
		ck_assert_int_eq(got.dtype, t[i].dtype);
		ck_assert_uint_eq(got.ndim, t[i].ndim);
		ck_assert_mem_eq(got.shape, shape[i], t[i].ndim * sizeof(uint64_t));
		ck_assert_uint_eq(got.storage_numel * sf_dtype_info(t[i].dtype)->bytes, t[i].bytes);
		ck_assert_int_eq(atoi(got.storage_key->str.at), i);
	}
	sf_buf_release(&out);
	sf_arena_release(&arena);
}
END_TEST

/* As a view makes it, which has no stream to look back at: each piece by a writer of its own. */
START_TEST(pieces_are_those_of_the_stream)
{
	uint64_t seed = sf_test_seed("pieces_are_those_of_the_stream");
	struct sf_buf whole = { 0 }, piece = { 0 };
	struct sf_pickle_writer w = { .out = &whole };
	struct sf_pw_words have = { { 0 } };
	uint64_t shape[4];

	for (int i = 0; i < TENSORS; i++) {
		struct sf_pw_tensor t = tensor(&seed, shape, (uint64_t)i);
		struct sf_pickle_writer one = { .out = &piece, .words = have };
		struct sf_pw_words used;
		size_t before = whole.len;
		sf_buf_reset(&piece);
		sf_pw_tensor(&w, &t);
		sf_pw_tensor(&one, &t);
		ck_assert_uint_eq(piece.len, whole.len - before);
		ck_assert_mem_eq(piece.at, whole.at + before, piece.len);
		/* what it says it uses is what it put */
		sf_pw_tensor_words(t.dtype, &used);
		for (size_t k = 0; k < SF_ARRAY_LEN(have.bits); k++)
			have.bits[k] |= used.bits[k];
		ck_assert_mem_eq(&have, &w.words, sizeof(have));
	}
	sf_buf_release(&whole);
	sf_buf_release(&piece);
}
END_TEST

START_TEST(words_are_put_once_and_then_fetched)
{
	static const uint64_t shape[] = { 2, 3 };
	const struct sf_pw_tensor t = {
		.dtype = SF_FLOAT32, .ndim = 2, .shape = shape, .bytes = 24, .storage = 7
	};
	static const char again[] = "h\0((h\3h\x12X\1\0\0\0007h\4K\6tQK\0K\2K\3\x86K\3K\1\x86\x89"
				    "h\2)RtR";
	struct sf_buf out = { 0 };
	struct sf_pickle_writer w = { .out = &out };

	sf_pw_tensor(&w, &t);
	size_t first = out.len;
	ck_assert_uint_gt(first, 2 * sizeof(again));
	sf_pw_tensor(&w, &t);
	ck_assert_uint_eq(out.len - first, sizeof(again) - 1);
	ck_assert_mem_eq(out.at + first, again, sizeof(again) - 1);
	sf_buf_release(&out);
}
END_TEST

START_TEST(the_set_of_words_finds_each)
{
	struct sf_pw_words s = { { 0 } };

	ck_assert_uint_eq(sf_pw_words_next(&s, 0), SF_PW_MEMO_FREE);
	for (unsigned word = 0; word < SF_PW_MEMO_FREE; word += 21)
		sf_pw_words_add(&s, word);
	for (unsigned word = 0; word < SF_PW_MEMO_FREE; word++) {
		ck_assert_int_eq(sf_pw_words_have(&s, word), word % 21 == 0);
		ck_assert_uint_eq(sf_pw_words_next(&s, word),
		                  word > 126 ? SF_PW_MEMO_FREE : (word + 20) / 21 * 21);
	}
}
END_TEST

static const struct {
	const char *name, *text;
} names[] = {
	{ "a.b", "a.b" },
	{ "\xc3\xa4", "\xc3\xa4" },
	{ "\xff", "\xed\xb3\xbf" },                                 /* U+DCFF */
	{ "a\x80z", "a\xed\xb2\x80z" },                             /* U+DC80 */
	{ "\xed\xa0\x80", "\xed\xa0\x80" },                         /* a lone surrogate stays … */
	{ "\xed\xb2\x80", "\xed\xb3\xad\xed\xb2\xb2\xed\xb2\x80" }, /* … but for a byte's */
	{ "\xc3", "\xed\xb3\x83" },
};

START_TEST(a_name_that_is_no_text_is_pickled)
{
	struct sf_buf out = { 0 };
	struct sf_pickle_writer w = { .out = &out };
	size_t len = strlen(names[_i].text);

	sf_pw_name(&w, names[_i].name, strlen(names[_i].name));
	ck_assert_uint_eq(out.len, len + 5);
	ck_assert_int_eq(out.at[0], 'X');
	ck_assert_uint_eq(sf_le32(out.at + 1), len);
	ck_assert_mem_eq(out.at + 5, names[_i].text, len);
	sf_buf_release(&out);
}
END_TEST

START_TEST(large_numbers_stay_positive)
{
	struct sf_buf out = { 0 };
	struct sf_pickle_writer w = { .out = &out };

	sf_pw_uint(&w, UINT64_MAX);
	ck_assert_uint_eq(out.len, 11);
	ck_assert_mem_eq(out.at, "\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\0", 11);
	sf_buf_reset(&out);
	sf_pw_uint(&w, INT64_MAX);
	ck_assert_mem_eq(out.at, "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f", 10);
	sf_buf_release(&out);
}
END_TEST

START_TEST(more_dimensions_than_torch_has_are_refused)
{
	uint64_t shape[SF_DIMS_MAX + 1];
	struct sf_buf out = { 0 };
	struct sf_pickle_writer w = { .out = &out };

	for (size_t d = 0; d <= SF_DIMS_MAX; d++)
		shape[d] = 1;
	sf_pw_tensor(&w, &(struct sf_pw_tensor){ SF_INT8, SF_DIMS_MAX, shape, 1, 0 });
	ck_assert_int_eq(sf_buf_check(&out), 0);
	sf_pw_tensor(&w, &(struct sf_pw_tensor){ SF_INT8, SF_DIMS_MAX + 1, shape, 1, 0 });
	ck_assert_int_eq(sf_buf_check(&out), -E2BIG);
	sf_buf_release(&out);
}
END_TEST

START_TEST(quantized_ones_can_be_shown_as_integers)
{
	ck_assert_int_eq(sf_pw_tensor_dtype(SF_QINT8), SF_INT8);
	ck_assert_int_eq(sf_pw_tensor_dtype(SF_QUINT4X2), SF_UINT8);
	ck_assert_int_eq(sf_pw_tensor_dtype(SF_QINT32), SF_INT32);
	ck_assert_int_eq(sf_pw_tensor_dtype(SF_BFLOAT16), SF_BFLOAT16);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pickle_write_tensor");
	TCase *t = tcase_create("all");

	tcase_add_test(t, tensors_of_one_stream_read_back);
	tcase_add_test(t, pieces_are_those_of_the_stream);
	tcase_add_test(t, words_are_put_once_and_then_fetched);
	tcase_add_test(t, the_set_of_words_finds_each);
	tcase_add_loop_test(t, a_name_that_is_no_text_is_pickled, 0, SF_ARRAY_LEN(names));
	tcase_add_test(t, large_numbers_stay_positive);
	tcase_add_test(t, more_dimensions_than_torch_has_are_refused);
	tcase_add_test(t, quantized_ones_can_be_shown_as_integers);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
