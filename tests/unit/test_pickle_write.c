#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/pickle_write.h"
#include "tests/lib/sf_test.h"

static int number(void *arg, const char *key, size_t key_len, uint64_t *ret_number,
                  struct sf_error *err)
{
	uint64_t *next = arg;

	if (key_len != strlen(key) || !strcmp(key, "gone"))
		return sf_fail(err, -ENOENT, "no storage '%s'", key);
	*ret_number = (*next)++;
	return 0;
}

struct written {
	struct sf_arena arena;
	struct sf_buf out;
	struct sf_error err;
	uint64_t next;
	int r;
};

/* Parses @p and writes it @times one behind the other into one tuple. */
static struct written rewrite(const void *p, size_t len, int times)
{
	struct written x = { .next = 7 };
	struct sf_pickle_writer w;
	struct sf_pv *v = NULL;

	ck_assert_msg(sf_pickle_parse(p, len, NULL, &x.arena, &v, NULL, &x.err) == 0, "%s",
	              x.err.msg);
	ck_assert_int_eq(sf_pickle_writer_init(&w, &x.out, &x.arena), 0);
	w.next_memo = 0; /* no tensors */
	w.storage = number;
	w.storage_arg = &x.next;
	sf_pw_proto(&w);
	if (times > 1)
		sf_pw_op(&w, '(');
	for (int i = 0; i < times && x.r == 0; i++)
		x.r = sf_pw_value(&w, v, &x.err);
	if (times > 1)
		sf_pw_op(&w, 't');
	sf_pw_stop(&w);
	sf_pickle_writer_release(&w);
	ck_assert_int_eq(x.r < 0, x.err.msg[0] != '\0');
	return x;
}

static void drop(struct written *x)
{
	sf_buf_release(&x->out);
	sf_arena_release(&x->arena);
}

static const struct {
	const char *in;
	size_t in_len;
	const char *out;
	size_t out_len;
} forms[] = {
#define F(i, o)                                                   \
	{                                                         \
		i, sizeof(i) - 1, "\x80\x02" o ".", sizeof(o) + 2 \
	}
	F("N.", "N"),
	F("I01\n.", "\x88"),
	F("I255\n.", "K\xff"),
	F("I256\n.", "M\x00\x01"),
	F("I65536\n.", "J\x00\x00\x01\x00"),
	F("I-1\n.", "J\xff\xff\xff\xff"),
	F("L2147483647L\n.", "J\xff\xff\xff\x7f"),
	F("L2147483648L\n.", "\x8a\x05\x00\x00\x00\x80\x00"),
	F("L-2147483649L\n.", "\x8a\x05\xff\xff\xff\x7f\xff"),
	F("L9223372036854775807L\n.", "\x8a\x08\xff\xff\xff\xff\xff\xff\xff\x7f"),
	F("L9223372036854775808L\n.", "\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x80\x00"),
	F("F-1.5\n.", "G\xbf\xf8\x00\x00\x00\x00\x00\x00"),
	F("\x8c\x01z.", "X\x01\x00\x00\x00z"),
	F("C\x02z\xff.",
	  "c_codecs\nencode\nq\x00X\x03\x00\x00\x00z\xc3\xbfX\x06\x00\x00\x00latin1\x86R"),
	F("\x96\x00\x00\x00\x00\x00\x00\x00\x00.",
	  "c__builtin__\nbytearray\nq\x00"
	  "c_codecs\nencode\nq\x01X\x00\x00\x00\x00X\x06\x00\x00\x00latin1\x86R\x85R"),
	F("\x8f(K\x01K\x02\x90.", "c__builtin__\nset\nq\x00](K\x01K\x02"
	                          "e\x85R"),
	F("(K\x01\x91.", "c__builtin__\nfrozenset\nq\x00]K\x01"
	                 "a\x85R"),
	F("(K\x01K\x02K\x03K\x04tp0\n.", "(K\x01K\x02K\x03K\x04t"), /* a PUT nobody fetches goes */
	F("]p5\ng5\na.", "]q\x00h\x00"
	                 "a"),
	F("cbuiltins\nset\n.", "c__builtin__\nset\nq\x00"),
	F("\x8c\x01mp0\n\x8c\x03"
	  "a.b\x93\x85.", /* a class in a class */
	  "c__builtin__\ngetattr\nq\x00"
	  "cm\na\nq\x01X\x01\x00\x00\x00"
	  "b\x86R\x85"),
	F("(cm\nn\ncm\nn\nt.", "cm\nn\nq\x00h\x00\x86"), /* globals are written once */
	F("cm\nn\n)}K\x01K\x02s\x92.", "ccopy_reg\n__newobj_ex__\nq\x00"
	                               "cm\nn\nq\x01)}K\x01K\x02s\x87R"),
	F("cm\nn\n)R}b(K\x01K\x02K\x03K\x04u(K\x05K\x06"
	  "e.",
	  "cm\nn\nq\x00)R(K\x05K\x06"
	  "e(K\x01K\x02K\x03K\x04u}b"),
	F("\x82\x05.", "\x82\x05"),
	F("\x84\x00\x00\x01\x00.", "\x84\x00\x00\x01\x00"),
	F("(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x01\x00\x00\x00"
	  "3X\x06\x00\x00\x00"
	  "cuda:0K\x09tQ.",
	  "(X\x07\x00\x00\x00storageq\x00"
	  "ctorch\nFloatStorage\nq\x01X\x01\x00\x00\x00"
	  "7X\x03\x00\x00\x00"
	  "cpuq\x02K\x09tQ"),
#undef F
};

START_TEST(values_take_their_protocol_2_form)
{
	struct written x = rewrite(forms[_i].in, forms[_i].in_len, 1);

	ck_assert_msg(x.r == 0, "%d: %s", _i, x.err.msg);
	ck_assert_msg(x.out.len == forms[_i].out_len &&
	                      memcmp(x.out.at, forms[_i].out, x.out.len) == 0,
	              "form %d", _i);
	drop(&x);
}
END_TEST

/* What was written once has its form: written again it is the same bytes. */
START_TEST(written_again_it_is_the_same)
{
	struct written x = rewrite(forms[_i].in, forms[_i].in_len, 1), y;

	y = rewrite(x.out.at, x.out.len, 1);
	ck_assert_int_eq(y.r, 0);
	ck_assert_uint_eq(y.out.len, x.out.len);
	ck_assert_mem_eq(y.out.at, x.out.at, x.out.len);
	drop(&y);
	/* in one stream twice: it parses, and the second has its own containers */
	y = rewrite(x.out.at, x.out.len, 2);
	struct sf_arena arena = { 0 };
	struct sf_pv *v = NULL;
	ck_assert_msg(sf_pickle_parse(y.out.at, y.out.len, NULL, &arena, &v, NULL, &y.err) == 0,
	              "%s", y.err.msg);
	ck_assert_uint_eq(v->seq.n, 2);
	ck_assert_int_eq(v->seq.at[0]->kind, v->seq.at[1]->kind);
	if (v->seq.at[0]->kind == SF_PV_LIST)
		ck_assert_ptr_ne(v->seq.at[0], v->seq.at[1]);
	sf_arena_release(&arena);
	drop(&y);
	drop(&x);
}
END_TEST

/* t = (t, t), 60 times: shared it has 60 tuples, else 2^60. */
START_TEST(shared_tuples_are_not_multiplied)
{
	struct sf_buf b = { 0 };

	sf_buf_str(&b, ")");
	for (int i = 0; i < 60; i++)
		sf_buf_str(&b, "2\x86");
	sf_buf_str(&b, ".");
	struct written x = rewrite(b.at, b.len, 1);
	ck_assert_int_eq(x.r, 0);
	ck_assert_uint_lt(x.out.len, 60 * 10);
	drop(&x);
	sf_buf_release(&b);
}
END_TEST

START_TEST(a_long_list_goes_in_batches_of_a_thousand)
{
	struct sf_buf b = { 0 };

	sf_buf_str(&b, "](");
	for (int i = 0; i < 2001; i++)
		sf_buf_str(&b, "N");
	sf_buf_str(&b, "e.");
	struct written x = rewrite(b.at, b.len, 1);
	ck_assert_uint_eq(x.out.len, 2 + 1 + 2 * 1002 + 2 + 1);
	ck_assert_uint_eq(x.out.at[2 + 1], '(');
	ck_assert_uint_eq(x.out.at[2 + 1 + 1001], 'e');
	ck_assert_uint_eq(x.out.at[x.out.len - 2], 'a');
	drop(&x);
	sf_buf_release(&b);
}
END_TEST

START_TEST(what_cannot_be_said_is_refused)
{
	static const char *const in[] = { "\x8c\x03m\nm\x8c\x01n\x93.", "\x8c\x01m\x8c\x00\x93.",
		                          "K\x01Q.", "(K\x01K\x02K\x03K\x04K\x05tQ." };
	static const size_t len[] = { 10, 7, 4, 14 };

	for (size_t i = 0; i < SF_ARRAY_LEN(in); i++) {
		struct written x = rewrite(in[i], len[i], 1);
		ck_assert_int_eq(x.r, -EBADMSG);
		drop(&x);
	}
	static const char gone[] = "(X\x07\x00\x00\x00storagectorch\nFloatStorage\nX\x04\x00\x00"
				   "\x00goneX\x03\x00\x00\x00"
				   "cpuK\x09tQ.";
	struct written x = rewrite(gone, sizeof(gone) - 1, 1);
	ck_assert_int_eq(x.r, -ENOENT); /* the callback's own */
	drop(&x);
}
END_TEST

START_TEST(a_full_buffer_is_told)
{
	struct sf_arena arena = { 0 };
	struct sf_buf out = { .limit = 10 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pickle_writer w;
	struct sf_pv *v = NULL;

	ck_assert_int_eq(sf_pickle_parse((const uint8_t *)"(NNNNNNNNNNNNNNNNNt.", 20, NULL, &arena,
	                                 &v, NULL, &err),
	                 0);
	ck_assert_int_eq(sf_pickle_writer_init(&w, &out, &arena), 0);
	ck_assert_int_eq(sf_pw_value(&w, v, &err), -E2BIG);
	ck_assert_str_ne(err.msg, "");
	sf_pickle_writer_release(&w);
	sf_buf_release(&out);
	sf_arena_release(&arena);
}
END_TEST

/* Memo numbers past 255 take the long form; numbers begin where the caller says. */
START_TEST(memo_numbers_are_the_callers)
{
	struct sf_arena arena = { 0 };
	struct sf_buf out = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_pickle_writer w;
	struct sf_pv *v = NULL;
	static const uint8_t want[] = "]q\xff]r\x00\x01\x00\x00j\x00\x01\x00\x00\x86"
				      "ah\xff\x86";

	/* l = [(m, m)]; (l, l) */
	ck_assert_int_eq(sf_pickle_parse((const uint8_t *)"]q\x00]2\x86"
	                                                  "ah\x00\x86.",
	                                 11, NULL, &arena, &v, NULL, &err),
	                 0);
	ck_assert_int_eq(sf_pickle_writer_init(&w, &out, &arena), 0);
	w.next_memo = 255;
	ck_assert_int_eq(sf_pw_value(&w, v, &err), 0);
	ck_assert_uint_eq(out.len, sizeof(want) - 1);
	ck_assert_mem_eq(out.at, want, out.len);
	ck_assert_uint_eq(w.next_memo, 257);
	ck_assert_uint_eq(v->seq.at[0]->mark, 0); /* the tree is as it was */
	sf_pickle_writer_release(&w);
	sf_buf_release(&out);
	sf_arena_release(&arena);
}
END_TEST

static const struct {
	const char *in;
	size_t len;
	const char *refused;
} policy[] = {
#define P(i, r)                     \
	{                           \
		i, sizeof(i) - 1, r \
	}
	P("(NI01\nK\x01"
	  "F1.5\nVa\nC\x01\xff\x96\x00\x00\x00\x00\x00\x00\x00\x00\x8f]}t.",
	  NULL),
	P("ctorch\nfloat32\n.", NULL),
	P("ctorch\nint4\n.", NULL),
	P("ctorch\nint9\n.", "torch.int9"),
	P("ctorch\nhalf\n.", "torch.half"),
	P("ctorch\nFloatStorage\n.", NULL),
	P("ctorch.cuda\nFloatStorage\n.", NULL),
	P("ctorch\nQInt8Storage\n.", NULL),
	P("ctorch\nQInt8Tensor\n.", "torch.QInt8Tensor"),
	P("ctorch.cuda.sparse\nFloatTensor\n.", NULL),
	P("ctorch.sparse\nFloatStorage\n.", "torch.sparse.FloatStorage"),
	P("ctorch\nSize\n)\x85R.", NULL),
	P("c__builtin__\nset\n]\x85R.", NULL),
	P("c__builtin__\nfrozenset\n]\x85R.", "builtins.frozenset"),
	P("(\x91.", "builtins.frozenset"),
	P("]ccollections\ndeque\n)Ra.", "collections.deque"),
	P("ccollections\nOrderedDict\n)RNNs}b.", NULL),
	P("c_codecs\nencode\n)RNNs.", "items of _codecs.encode"),
	P("c_codecs\nencode\n)R}b.", "a state for _codecs.encode"),
	P("ccollections\nOrderedDict\n)RNa.", "items of collections.OrderedDict"),
	P("]q\x00\x85q\x01h\x00h\x01"
	  "a.",
	  NULL), /* a list that holds itself through a tuple */
	P("]q\x00\x85q\x01h\x00h\x01"
	  "a0.",
	  "a value that is made of itself"),
	P("\x82\x07.", "copyreg.extension 7"),
	P("cos\nsystem\nVid\n\x85R.", "os.system"),
	P("ccollections\nOrderedDict\n)R)R.", "(a call of no global)"),
#undef P
};

START_TEST(weights_only_refuses_what_torch_refuses)
{
	struct sf_arena arena = { 0 };
	struct sf_pv *v = NULL;
	struct sf_error err = SF_ERROR_INIT;
	const char *got;

	ck_assert_msg(sf_pickle_parse((const uint8_t *)policy[_i].in, policy[_i].len, NULL, &arena,
	                              &v, NULL, &err) == 0,
	              "%d: %s", _i, err.msg);
	got = sf_pv_weights_only(v, &arena);
	if (policy[_i].refused)
		ck_assert_msg(got && strcmp(got, policy[_i].refused) == 0,
		              "%d: '%s', expected '%s'", _i, got ? got : "(taken)",
		              policy[_i].refused);
	else
		ck_assert_msg(!got, "%d: refused '%s'", _i, got);
	sf_arena_release(&arena);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pickle_write");
	TCase *t = tcase_create("pickle_write");

	tcase_add_loop_test(t, values_take_their_protocol_2_form, 0, SF_ARRAY_LEN(forms));
	tcase_add_loop_test(t, written_again_it_is_the_same, 0, SF_ARRAY_LEN(forms));
	tcase_add_test(t, shared_tuples_are_not_multiplied);
	tcase_add_test(t, a_long_list_goes_in_batches_of_a_thousand);
	tcase_add_test(t, what_cannot_be_said_is_refused);
	tcase_add_test(t, a_full_buffer_is_told);
	tcase_add_test(t, memo_numbers_are_the_callers);
	tcase_add_loop_test(t, weights_only_refuses_what_torch_refuses, 0, SF_ARRAY_LEN(policy));
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
