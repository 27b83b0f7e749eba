#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "parse/pickle_read.h"
#include "tests/lib/sf_test.h"

struct parsed {
	struct sf_arena arena;
	struct sf_pv *v;
	size_t used;
	struct sf_error err;
	int r;
};

static struct parsed parse_with(const char *p, size_t len, const struct sf_pickle_limits *limits)
{
	struct parsed x = { .v = NULL };
	uint8_t *copy = malloc(len + 1); /* its own size, so that a sanitizer sees reads behind it;
	                                    gone before values are looked at */

	memcpy(copy, p, len);
	x.r = sf_pickle_parse(copy, len, limits, &x.arena, &x.v, &x.used, &x.err);
	free(copy);
	ck_assert_int_eq(x.r < 0, x.err.msg[0] != '\0');
	ck_assert_int_eq(x.r < 0, x.v == NULL);
	return x;
}
#define PARSE(text) parse_with("" text, sizeof(text) - 1, NULL)

/* The value as Python would print it, sharing as ~: enough to compare by. */
static void show(struct sf_buf *b, const struct sf_pv *v, int depth)
{
	static const char *const open[] = { [SF_PV_TUPLE] = "(",
		                            [SF_PV_LIST] = "[",
		                            [SF_PV_DICT] = "{",
		                            [SF_PV_SET] = "<",
		                            [SF_PV_FROZENSET] = "<<" };

	if (depth > 8) {
		sf_buf_str(b, "...");
		return;
	}
	if (v->shared)
		sf_buf_byte(b, '~');
	switch (v->kind) {
	case SF_PV_NONE:
		sf_buf_str(b, "None");
		break;
	case SF_PV_BOOL:
		sf_buf_str(b, v->b ? "True" : "False");
		break;
	case SF_PV_INT:
		sf_buf_printf(b, "%" PRId64, v->i);
		break;
	case SF_PV_FLOAT:
		sf_buf_printf(b, "%g", v->f);
		break;
	case SF_PV_STR:
		sf_buf_printf(b, "'%s'", v->str.at);
		ck_assert_uint_eq(v->str.at[v->str.len], '\0');
		break;
	case SF_PV_LONG:
	case SF_PV_BYTES:
	case SF_PV_BYTEARRAY:
		sf_buf_str(b, v->kind == SF_PV_LONG ? "L" : v->kind == SF_PV_BYTES ? "b" : "ba");
		for (size_t i = 0; i < v->str.len; i++)
			sf_buf_printf(b, "%02x", (uint8_t)v->str.at[i]);
		break;
	case SF_PV_GLOBAL:
		sf_buf_printf(b, "%s.%s", v->global.module->str.at, v->global.name->str.at);
		break;
	case SF_PV_CALL:
	case SF_PV_OBJECT:
		sf_buf_str(b, v->kind == SF_PV_CALL ? "call " : "new ");
		show(b, v->call.callable, depth + 1);
		show(b, v->call.args, depth + 1);
		for (int i = 0; i < 4; i++) {
			struct sf_pv *const part[] = { v->call.kwargs, v->call.state, v->call.items,
				                       v->call.appends };
			if (!part[i])
				continue;
			sf_buf_printf(b, " %c", "ksia"[i]);
			show(b, part[i], depth + 1);
		}
		break;
	case SF_PV_PERSID:
		sf_buf_str(b, "@");
		show(b, v->persid, depth + 1);
		break;
	default:
		sf_buf_str(b, open[v->kind]);
		for (size_t i = 0; i < v->seq.n; i++) {
			sf_buf_str(b, i ? "," : "");
			show(b, v->seq.at[i], depth + 1);
		}
	}
}

static const struct {
	const char *pickle;
	size_t len;
	const char *shown;
} good[] = {
#define G(p, s)                     \
	{                           \
		p, sizeof(p) - 1, s \
	}
	G("N.", "None"),
	G("\x80\x02\x88.", "True"),
	G("\x80\x05\x89.", "False"),
	G("I01\n.", "True"),
	G("I00\n.", "False"),
	G("I1\n.", "1"),
	G("I-2147483648\n.", "-2147483648"),
	G("I9223372036854775808\n.", "L000000000000008000"),
	G("L0L\n.", "0"),
	G("L-1L\n.", "-1"),
	G("L-9223372036854775808L\n.", "-9223372036854775808"),
	G("L-9223372036854775809L\n.", "Lffffffffffffff7fff"),
	G("L36893488147419103232\n.", "L000000000000000002"),
	G("K\xff.", "255"),
	G("M\xff\xff.", "65535"),
	G("J\xff\xff\xff\xff.", "-1"),
	G("\x8a\x00.", "0"),
	G("\x8a\x01\xff.", "-1"),
	G("\x8a\x09\x01\x00\x00\x00\x00\x00\x00\x00\x00.", "1"), /* not the shortest, yet an int */
	G("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.", "Lffffffffffffffff00"),
	G("\x8b\x02\x00\x00\x00\x00\x80.", "-32768"),
	G("F1.5\n.", "1.5"),
	G("F-1e300\n.", "-1e+300"),
	G("Finf\n.", "inf"),
	G("G\xbf\xf8\x00\x00\x00\x00\x00\x00.", "-1.5"),
	G("S'a\\'\\n\\x41\\101\\q'\n.", "'a'\nAA\\q'"),
	G("S\"\\xff\"\n.", "bff"), /* a Python 2 str that is no text */
	G("U\x02hi.", "'hi'"),
	G("T\x02\x00\x00\x00hi.", "'hi'"),
	G("Va\\u00e9\\U0001f600\\\\n\xe9\n.", "'a\xc3\xa9\xf0\x9f\x98\x80\\\\n\xc3\xa9'"),
	G("X\x02\x00\x00\x00\xc3\xa9.", "'\xc3\xa9'"),
	G("X\x03\x00\x00\x00\xed\xa0\x80.", "'\xed\xa0\x80'"), /* a surrogate passes */
	G("\x8c\x01z.", "'z'"),
	G("\x8d\x01\x00\x00\x00\x00\x00\x00\x00z.", "'z'"),
	G("C\x02\x00\xff.", "b00ff"),
	G("B\x01\x00\x00\x00z.", "b7a"),
	G("\x8e\x01\x00\x00\x00\x00\x00\x00\x00z.", "b7a"),
	G("\x96\x01\x00\x00\x00\x00\x00\x00\x00z.", "ba7a"),
	G(").", "("),
	G("K\x01\x85.", "(1"),
	G("K\x01K\x02\x86.", "(1,2"),
	G("K\x01K\x02K\x03\x87.", "(1,2,3"),
	G("(t.", "("),
	G("(K\x01(K\x02tl.", "[1,(2"),
	G("(K\x01K\x02\x64.", "{1,2"),
	G("]K\x01\x61(K\x02K\x03\x65.", "[1,2,3"),
	G("}K\x01K\x02s(K\x03K\x04u.", "{1,2,3,4"),
	G("\x8f(K\x01K\x02\x90.", "<1,2"),
	G("(K\x01\x91.", "<<1"),
	G("cm\nn\n.", "m.n"),
	G("\x8c\x01m\x8c\x01n\x93.", "m.n"),
	G("cm\nn\n)R.", "call m.n("),
	G("cm\nn\n)R}b.", "call m.n( s{"),
	G("cm\nn\n)\x81(K\x01K\x02u]b.", "new m.n( s[ i{1,2"),
	G("cm\nn\n)\x81K\x01\x61(K\x02\x65.", "new m.n( a[1,2"),
	G("cm\nn\n)\x81(K\x01\x90.", "new m.n( a[1"),
	G("cm\nn\n)}K\x01K\x02s\x92.", "new m.n( k{1,2"),
	G("(im\nn\n.", "new m.n("),
	G("(K\x01im\nn\n.", "call m.n(1"),
	G("(cm\nn\no.", "new m.n("),
	G("(cm\nn\nK\x01o.", "call m.n(1"),
	G("Pid\n.", "@'id'"),
	G("K\x07Q.", "@7"),
	G("\x82\x05.", "copyreg.extension 5"),
	G("\x83\x00\x01.", "copyreg.extension 256"),
	G("\x84\x00\x00\x01\x00.", "copyreg.extension 65536"),
	G("K\x01K\x02\x30.", "1"),
	G("K\x01(\x30.", "1"),
	G("K\x01(K\x02K\x03\x31.", "1"),
	G("]K\x01\x32\x86.",
	  NULL), /* wrong: a tuple of the two ones lies on top of the list; STOP takes the top */
	G("K\x01\x32\x86.", "(~1,~1"),
	G("]p0\ng0\n\x86.", "(~[,~["),
	G("]q\x00h\x00\x86.", "(~[,~["),
	G("]r\x00\x01\x00\x00j\x00\x01\x00\x00\x86.", "(~[,~["),
	G("]\x94h\x00\x86.", "(~[,~["),
	G("]r\xff\xff\xff\xffj\xff\xff\xff\xff\x86.", "(~[,~["), /* a far number costs no array */
	G("\x80\x04\x95\x01\x00\x00\x00\x00\x00\x00\x00N.", "None"),
	G("]q\x00h\x00\x61.", "~[~[~[~[~[~[~[~[~[..."),
	G("}(U\x01\x61K\x01U\x01\x62K\x02U\x01\x61K\x03u.", "{'a',3,'b',2"),
	G("ccollections\nOrderedDict\n)R(K\x01K\x01K\x01K\x02u.",
	  "call collections.OrderedDict( i{1,2"),
	G("cm\nn\n)R(K\x01K\x01K\x01K\x02u.",
	  "call m.n( i{1,1,1,2"), /* who knows what it does with two */
#undef G
};

START_TEST(every_opcode_makes_its_value)
{
	struct parsed x = parse_with(good[_i].pickle, good[_i].len, NULL);
	struct sf_buf b = { 0 };

	ck_assert_msg(x.r == 0, "%d: %s", _i, x.err.msg);
	ck_assert_uint_eq(x.used, good[_i].len);
	show(&b, x.v, 0);
	if (good[_i].shown)
		ck_assert_str_eq(sf_buf_cstr(&b), good[_i].shown);
	sf_buf_release(&b);
	sf_arena_release(&x.arena);
}
END_TEST

START_TEST(cut_anywhere_it_is_refused_and_what_follows_is_not_looked_at)
{
	char longer[256];

	for (size_t len = 0; len < good[_i].len; len++) {
		struct parsed x = parse_with(good[_i].pickle, len, NULL);
		ck_assert_int_eq(x.r, -EBADMSG);
		sf_arena_release(&x.arena);
	}
	memcpy(longer, good[_i].pickle, good[_i].len);
	memset(longer + good[_i].len, 0xff, 10);
	struct parsed x = parse_with(longer, good[_i].len + 10, NULL);
	ck_assert_int_eq(x.r, 0);
	ck_assert_uint_eq(x.used, good[_i].len);
	sf_arena_release(&x.arena);
}
END_TEST

static const struct {
	const char *pickle;
	size_t len;
	int code;
} bad[] = {
#define B(p, c)                     \
	{                           \
		p, sizeof(p) - 1, c \
	}
	B(".", -EBADMSG),
	B("(.", -EBADMSG),
	B("K\x01(.", -EBADMSG), /* a mark hides what is below */
	B("0.", -EBADMSG),
	B("K\x01(0\x30\x30.", -EBADMSG),
	B("t.", -EBADMSG),
	B("1.", -EBADMSG),
	B("2.", -EBADMSG),
	B("h\x00.", -EBADMSG),
	B("Nj\xff\xff\xff\xff.", -EBADMSG),
	B("q\x00.", -EBADMSG),
	B("Np4294967296\n.", -E2BIG),
	B("Np\n.", -EBADMSG),
	B("Np-1\n.", -EBADMSG),
	B("Np99999999999\n.", -EBADMSG), /* eleven digits: not looked at as a number */
	B("N\x81.", -EBADMSG),
	B("NN\x81.", -EBADMSG),
	B("cm\nn\nNR.", -EBADMSG),
	B("cm\nn\n)N\x92.", -EBADMSG),
	B("NN\x93.", -EBADMSG),
	B("NNb.", -EBADMSG),
	B("cm\nn\n)RNbNb.", -ENOTSUP),
	B("NN\x61.", -EBADMSG),
	B("N(Nu.", -EBADMSG),
	B("}(Nu.", -EBADMSG),
	B("(Nd.", -EBADMSG),
	B("N(N\x90.", -EBADMSG),
	B("(o.", -EBADMSG),
	B("\x80\x06N.", -ENOTSUP),
	B("\x97.", -ENOTSUP),
	B("N\x98.", -ENOTSUP),
	B("\xff.", -EBADMSG),
	B("\x82\x00.", -EBADMSG),
	B("I\n.", -EBADMSG),
	B("I1x\n.", -EBADMSG),
	B("I-\n.", -EBADMSG),
	B("F\n.", -EBADMSG),
	B("F0x10\n.", -EBADMSG),
	B("F1.5.5\n.", -EBADMSG),
	B("Snone\n.", -EBADMSG),
	B("S'\\\n.", -EBADMSG),
	B("S'\\xg0'\n.", -EBADMSG),
	B("V\\u12\n.", -EBADMSG),
	B("V\\U00110000\n.", -EBADMSG),
	B("X\x01\x00\x00\x00\xff.", -EBADMSG),
	B("X\xff\xff\xff\xff\x00.", -EBADMSG),
	B("\x8d\xff\xff\xff\xff\xff\xff\xff\xff.", -EBADMSG),
	B("\x8b\x00\x00\x00\x80.", -EBADMSG),
	B("\x95\x02\x00\x00\x00\x00\x00\x00\x00N", -EBADMSG),
	B("\x95\x03\x00\x00\x00\x00\x00\x00\x00N.", -EBADMSG), /* whole but for its frame */
#undef B
};

START_TEST(malformed_ones_are_refused_with_their_place)
{
	struct parsed x = parse_with(bad[_i].pickle, bad[_i].len, NULL);

	ck_assert_msg(x.r == bad[_i].code, "%d: %d %s", _i, x.r, x.err.msg);
	ck_assert_ptr_nonnull(strstr(x.err.msg, "pickle: "));
	sf_arena_release(&x.arena);
}
END_TEST

/* n lists in each other, built from inside or, by the memo, from outside. */
START_TEST(depth_is_limited_however_it_was_built)
{
	const struct sf_pickle_limits limits = { .depth = 50 };

	for (int way = 0; way < 3; way++)
		for (uint32_t n = 45; n <= 55; n++) {
			struct sf_buf b = { 0 };
			if (way == 0) {
				sf_buf_str(&b, "]");
				for (uint32_t i = 1; i < n; i++)
					sf_buf_str(&b, "\x85");
			} else {
				/* list i holds list i + 1; with way 2, in all but the last, twice */
				for (uint32_t i = 0; i < n; i++) {
					sf_buf_str(&b, "]q");
					sf_buf_byte(&b, (uint8_t)i);
				}
				for (uint32_t i = 1; i < n; i++)
					for (int k = 0; k < way; k++) {
						uint8_t op[] = { 'h', (uint8_t)(i - 1),
							         'h', (uint8_t)i,
							         'a', '0' };
						sf_buf_add(&b, op, sizeof(op));
					}
				sf_buf_add(&b, "h\0", 2);
			}
			sf_buf_str(&b, ".");
			struct parsed x = parse_with((char *)b.at, b.len, &limits);
			ck_assert_msg(x.r == (n > 50 ? -E2BIG : 0), "way %d, %u: %d %s", way, n,
			              x.r, x.err.msg);
			if (x.r == 0)
				ck_assert_uint_eq(x.v->height, n);
			sf_arena_release(&x.arena);
			sf_buf_release(&b);
		}
}
END_TEST

START_TEST(a_million_levels_neither_crash_nor_take_long)
{
	enum { N = 1000000 };
	char *p = malloc(N + 2);

	for (int way = 0; way < 3; way++) {
		memset(p, "(]\x85"[way], N);
		p[0] = way == 2 ? ']' : p[0];
		p[N] = '.';
		struct parsed x = parse_with(p, N + 1, NULL);
		ck_assert_int_eq(x.r, way == 0 ? -EBADMSG : way == 1 ? 0 : -E2BIG);
		sf_arena_release(&x.arena);
	}
	free(p);
}
END_TEST

START_TEST(memory_and_memo_are_limited)
{
	struct sf_pickle_limits limits = { .memory = 1 << 20 };
	char *p = malloc(3 << 20);

	for (int i = 0; i < 1 << 20; i++)
		p[i] = ']';
	p[1 << 20] = '.';
	struct parsed x = parse_with(p, (1 << 20) + 1, &limits);
	ck_assert_int_eq(x.r, -E2BIG);
	ck_assert_uint_le(x.arena.used, 1 << 20);
	ck_assert_uint_eq(x.arena.limit, 0);
	sf_arena_release(&x.arena);

	memcpy(p, "B\x00\x00\x20\x00", 5); /* one value of 2 MiB */
	memset(p + 5, 'x', 2 << 20);
	p[5 + (2 << 20)] = '.';
	x = parse_with(p, 6 + (2 << 20), &limits);
	ck_assert_int_eq(x.r, -E2BIG);
	sf_arena_release(&x.arena);

	limits = (struct sf_pickle_limits){ .memo = 3 };
	x = parse_with("N\x94\x94\x94.", 5, &limits);
	ck_assert_int_eq(x.r, 0);
	sf_arena_release(&x.arena);
	x = parse_with("N\x94\x94\x94\x94.", 6, &limits);
	ck_assert_int_eq(x.r, -E2BIG);
	sf_arena_release(&x.arena);
	free(p);
}
END_TEST

/* Puts and gets of random numbers, near and far, against a plain table. */
START_TEST(the_memo_is_a_map)
{
	uint64_t seed = sf_test_seed("the_memo_is_a_map");
	enum { N = 3000 };
	static uint32_t index[N];
	static int32_t value[N];

	for (int round = 0; round < 20; round++) {
		struct sf_buf b = { 0 };
		size_t n = 0, gets = 0;
		int32_t want[N];
		sf_buf_str(&b, "(");
		for (int32_t i = 0; i < N; i++) {
			uint8_t op[11] = { 'J', 0, 0, 0, 0, 'r', 0, 0, 0, 0, '0' };
			if (n && sf_test_below(&seed, 3) ==
			                 0) { /* fetch one; the last put under a number counts */
				size_t k = sf_test_below(&seed, n);
				op[5] = 'j';
				sf_put_le32(op + 6, index[k]);
				sf_buf_add(&b, op + 5, 5);
				for (size_t m = 0; m < n; m++)
					if (index[m] == index[k])
						want[gets] = value[m];
				gets++;
				continue;
			}
			sf_put_le32(op + 1, (uint32_t)i);
			index[n] =
				(uint32_t)(sf_test_rand(&seed) >> 32 >> sf_test_below(&seed, 32));
			value[n] = i;
			sf_put_le32(op + 6, index[n++]);
			sf_buf_add(&b, op, sizeof(op));
		}
		sf_buf_str(&b, "t.");
		struct parsed x = parse_with((char *)b.at, b.len, NULL);
		ck_assert_msg(x.r == 0, "%s", x.err.msg);
		ck_assert_uint_eq(x.v->seq.n, gets);
		for (size_t i = 0; i < gets; i++)
			ck_assert_int_eq(x.v->seq.at[i]->i, want[i]);
		sf_arena_release(&x.arena);
		sf_buf_release(&b);
	}
}
END_TEST

/* Dicts of random int and str keys, many equal, against the slow way. */
START_TEST(of_equal_keys_the_last_value_stands_in_the_first_place)
{
	uint64_t seed = sf_test_seed("of_equal_keys_the_last_value_stands_in_the_first_place");

	for (int round = 0; round < 300; round++) {
		struct sf_buf b = { 0 };
		size_t n = sf_test_below(&seed, round % 3 ? 12 : 300), kept = 0,
		       range = 1 + sf_test_below(&seed, 2 * n + 1);
		struct {
			bool str;
			uint8_t key, value;
		} want[300];
		sf_buf_str(&b, "}(");
		for (size_t i = 0; i < n; i++) {
			bool str = sf_test_rand(&seed) & 1;
			uint8_t key = (uint8_t)sf_test_below(&seed, SF_MIN(range, (size_t)200)),
				value = (uint8_t)i;
			uint8_t op[] = { str ? 'U' : 'K', str ? 1 : key, key, 'K', value };
			if (str)
				op[2] = key & 0x7f, key &= 0x7f;
			sf_buf_add(&b, op, str ? 3 : 2);
			sf_buf_add(&b, op + 3, 2);
			size_t k = 0;
			while (k < kept && (want[k].str != str || want[k].key != key))
				k++;
			kept += k == kept;
			want[k].str = str, want[k].key = key, want[k].value = value;
		}
		sf_buf_str(&b, "u.");
		struct parsed x = parse_with((char *)b.at, b.len, NULL);
		ck_assert_msg(x.r == 0, "%s", x.err.msg);
		ck_assert_uint_eq(x.v->seq.n, 2 * kept);
		for (size_t i = 0; i < kept; i++) {
			ck_assert_int_eq(x.v->seq.at[2 * i]->kind,
			                 want[i].str ? SF_PV_STR : SF_PV_INT);
			ck_assert_int_eq(want[i].str ? (uint8_t)x.v->seq.at[2 * i]->str.at[0]
			                             : x.v->seq.at[2 * i]->i,
			                 want[i].key);
			ck_assert_int_eq(x.v->seq.at[2 * i + 1]->i, want[i].value);
		}
		sf_arena_release(&x.arena);
		sf_buf_release(&b);
	}
}
END_TEST

START_TEST(values_are_looked_up_by_name)
{
	/* class with __slots__: state is (None, {slots}) */
	struct parsed x = PARSE("cm\nn\n)\x81N}U\x01\x61K\x07s\x86\x62.");
	uint64_t u = 0;

	ck_assert_int_eq(x.r, 0);
	ck_assert(sf_pv_u64(sf_pv_get(x.v, "a"), &u));
	ck_assert_uint_eq(u, 7);
	ck_assert_ptr_null(sf_pv_get(x.v, "b"));
	ck_assert_ptr_null(sf_pv_get(NULL, "b"));
	ck_assert(sf_pv_is_global(x.v->call.callable, "m", "n"));
	ck_assert(!sf_pv_is_global(x.v->call.callable, "m", "m"));
	ck_assert(!sf_pv_is_global(x.v, "m", "n"));
	sf_arena_release(&x.arena);
	x = PARSE("\x8a\x09\xff\xff\xff\xff\xff\xff\xff\xff\x00.");
	ck_assert(sf_pv_u64(x.v, &u));
	ck_assert_uint_eq(u, UINT64_MAX);
	sf_arena_release(&x.arena);
	x = PARSE("(\x88\x4a\xff\xff\xff\xff\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00\x01G\x00\x00"
	          "\x00\x00\x00\x00\x00\x00t.");
	ck_assert_int_eq(x.r, 0);
	for (size_t i = 0; i < x.v->seq.n; i++)
		ck_assert(!sf_pv_u64(x.v->seq.at[i], &u));
	sf_arena_release(&x.arena);
}
END_TEST

/* Any bytes: a code and a message or a value; also with little memory. */
START_TEST(noise_is_refused_or_a_value)
{
	static const char ops[] = "(.0123FIJKLMNPQRSTUVXabcdeghijlopqrstu}])"
				  "B\x80\x81\x85\x86\x87\x88\x89\x8a\x8c\x8f\x90\x91\x92\x93\x94";
	uint64_t seed = sf_test_seed("noise_is_refused_or_a_value");
	int good_ones = 0;

	for (int i = 0; i < 200000; i++) {
		char p[64];
		size_t n = 1 + sf_test_below(&seed, sizeof(p) - 1);
		for (size_t k = 0; k < n; k++) {
			size_t pick = sf_test_below(&seed, 4);
			p[k] = ops[sf_test_below(&seed, sizeof(ops) - 1)];
			if (pick < 2)
				p[k] = pick ? "N\n]}"[sf_test_below(&seed, 4)]
				            : (char)sf_test_below(&seed, 4);
		}
		struct sf_pickle_limits limits = { .memory = 1 + sf_test_below(&seed, 20000),
			                           .depth = 5 };
		struct parsed x = parse_with(p, n, &limits);
		good_ones += x.r == 0;
		sf_arena_release(&x.arena);
	}
	ck_assert_int_gt(good_ones, 100);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("pickle_read");
	TCase *t = tcase_create("pickle_read");

	tcase_add_loop_test(t, every_opcode_makes_its_value, 0, SF_ARRAY_LEN(good));
	tcase_add_loop_test(t, cut_anywhere_it_is_refused_and_what_follows_is_not_looked_at, 0,
	                    SF_ARRAY_LEN(good));
	tcase_add_loop_test(t, malformed_ones_are_refused_with_their_place, 0, SF_ARRAY_LEN(bad));
	tcase_add_test(t, depth_is_limited_however_it_was_built);
	tcase_add_test(t, a_million_levels_neither_crash_nor_take_long);
	tcase_add_test(t, memory_and_memo_are_limited);
	tcase_add_test(t, the_memo_is_a_map);
	tcase_add_test(t, of_equal_keys_the_last_value_stands_in_the_first_place);
	tcase_add_test(t, values_are_looked_up_by_name);
	tcase_add_test(t, noise_is_refused_or_a_value);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
