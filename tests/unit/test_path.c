#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/utf8.h"
#include "tests/lib/sf_test.h"

START_TEST(stored_names_stay_below_their_directory)
{
	static const char *const good[] = {
		"a",   "__0_0.distcp", "a/b/c", "..a",      "a..",
		"...", ".metadata",    "a/.b",  "\xff\xfe", "a\\..\\b"
	};
	static const char *const bad[] = { "",     "/",    "/a",     "a/",    "a//b", "..", ".",
		                           "../a", "a/..", "a/../b", "a/./b", "./a",  "a/." };
	char longest[4097];
	struct sf_error err;

	for (size_t i = 0; i < SF_ARRAY_LEN(good); i++)
		ck_assert_msg(sf_path_check(good[i], strlen(good[i]), NULL) == 0, "'%s'", good[i]);
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		err.msg[0] = '\0';
		ck_assert_msg(sf_path_check(bad[i], strlen(bad[i]), &err) == -EBADMSG, "'%s'",
		              bad[i]);
		ck_assert_ptr_nonnull(strstr(err.msg, bad[i]));
	}
	ck_assert_int_eq(sf_path_check("a\0b", 3, &err), -EBADMSG);
	memset(longest, 'x', sizeof(longest));
	ck_assert_int_eq(sf_path_check(longest, 4096, NULL), 0);
	ck_assert_int_eq(sf_path_check(longest, 4097, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "4097"));
	ck_assert_int_eq(sf_path_check("\x1b[2Jx/../y", 10, &err), -EBADMSG);
	ck_assert_ptr_null(strchr(err.msg, '\x1b')); /* a message does not steer the terminal */
}
END_TEST

/* Names of random pieces: ASCII, what is escaped, 2 to 4 byte characters, stray bytes. */
static size_t random_name(uint64_t *rnd, char *name, size_t max)
{
	static const char *const piece[] = { "a",
		                             "w",
		                             "_",
		                             "%",
		                             "/",
		                             "~",
		                             "\xc3\xa9",
		                             "\xe2\x82\xac",
		                             "\xf0\x9f\x98\x80",
		                             "\xff",
		                             "\x80",
		                             "\xe2\x82",
		                             "%2F",
		                             "\xed\xa0\x80" };
	size_t n = 0, goal = sf_test_below(rnd, max - 4), len;

	while (n < goal) {
		size_t k = sf_test_below(rnd, SF_ARRAY_LEN(piece) + 1);
		if (k == SF_ARRAY_LEN(piece)) {
			name[n++] = '\0';
			continue;
		}
		if (sf_test_below(rnd, 4))
			k = sf_test_below(
				rnd,
				3); /* mostly letters, so that long names are not all escapes */
		len = strlen(piece[k]);
		memcpy(name + n, piece[k], len);
		n += len;
	}
	return n;
}

static void hex16(const char *key, size_t len, char ret[17])
{
	uint8_t digest[SF_SHA256_BYTES];

	ck_assert_int_eq(sf_sha256(key, len, digest), 0);
	for (int i = 0; i < 8; i++)
		snprintf(ret + 2 * i, 3, "%02x", digest[i]);
}

/*
 * Property: a name that fits decodes to the key; a cut one has at most 255 bytes with its suffix,
 * at least 252 (no character is longer than 4 bytes), is a prefix of the whole encoding at a
 * character, and ends in the key's hash.
 */
START_TEST(encoded_names_fit_and_decode)
{
	uint64_t rnd = sf_test_seed("encoded_names_fit_and_decode");
	size_t cuts = 0;

	for (int round = 0; round < 20000; round++) {
		char part[400], key[420], hash[17];
		size_t suffix = sf_test_below(&rnd, 20);
		size_t n = random_name(&rnd, part, round % 3 ? 400 : 40);
		size_t key_len = (size_t)snprintf(key, sizeof(key), "k%d.", round);
		struct sf_buf name = { .limit = 1000 }, back = { .limit = 1000 },
			      whole = { .limit = 4000 };

		memcpy(key + key_len, part, n);
		key_len += n;
		for (size_t i = 0; i < n; i++) {
			if (part[i] == '/' || part[i] == '\0' || part[i] == '%')
				sf_buf_printf(&whole, "%%%02X", (unsigned)part[i]);
			else
				sf_buf_byte(&whole, (uint8_t)part[i]);
		}
		sf_name_encode(&name, part, n, key, key_len, suffix);
		ck_assert_int_eq(sf_buf_check(&name), 0);
		ck_assert_uint_le(name.len + suffix, 255);
		ck_assert_ptr_null(memchr(name.at, '/', name.len));
		ck_assert_ptr_null(memchr(name.at, '\0', name.len));
		ck_assert(sf_name_decode(&back, (char *)name.at, name.len));
		if (whole.len + suffix <= 255) {
			ck_assert_uint_eq(back.len, n);
			ck_assert(n == 0 || memcmp(back.at, part, n) == 0);
		} else {
			size_t kept = name.len - 17;
			cuts++;
			hex16(key, key_len, hash);
			ck_assert_uint_ge(name.len + suffix, 252);
			ck_assert_mem_eq(name.at, whole.at, kept);
			ck_assert_uint_eq(name.at[kept], '~');
			ck_assert_mem_eq(name.at + kept + 1, hash, 16);
			ck_assert(kept < 1 || whole.at[kept - 1] != '%');
			ck_assert(kept < 2 || whole.at[kept - 2] != '%');
			ck_assert_uint_eq(back.len, name.len); /* itself */
			ck_assert_mem_eq(back.at, name.at, name.len);
		}
		sf_buf_release(&name);
		sf_buf_release(&back);
		sf_buf_release(&whole);
	}
	ck_assert_uint_gt(cuts, 1000);
}
END_TEST

START_TEST(characters_are_not_cut_in_two)
{
	char euros[3 * 200];
	struct sf_buf name = { 0 };

	for (size_t i = 0; i < 200; i++)
		memcpy(euros + 3 * i, "\xe2\x82\xac", 3);
	for (size_t suffix = 0; suffix < 30; suffix++) {
		sf_buf_reset(&name);
		sf_name_encode(&name, euros, sizeof(euros), euros, sizeof(euros), suffix);
		ck_assert_uint_eq(name.len, (255 - 17 - suffix) / 3 * 3 + 17);
		ck_assert(sf_utf8_valid((char *)name.at, name.len));
	}
	sf_buf_release(&name);
}
END_TEST

START_TEST(what_is_no_encoding_is_told)
{
	static const char *const bad[] = {
		"", "%2f", "%2", "a%", "%41", "%%", "a/b", "%2G", "%00%"
	};
	struct sf_buf out = { 0 };

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		ck_assert_msg(!sf_name_decode(&out, bad[i], strlen(bad[i])), "'%s'", bad[i]);
		ck_assert_uint_eq(out.len, 0);
	}
	ck_assert(!sf_name_decode(&out, "a\0b", 3));
	ck_assert(sf_name_decode(&out, "%", 1)); /* the empty name */
	ck_assert_uint_eq(out.len, 0);
	ck_assert(sf_name_decode(&out, "a~0123456789abcdef%2F", 21)); /* short: was not cut */
	ck_assert_str_eq(sf_buf_cstr(&out), "a~0123456789abcdef/");
	sf_buf_release(&out);
}
END_TEST

START_TEST(sha256_is_the_standards)
{
	char hash[17];

	hex16("abc", 3, hash);
	ck_assert_str_eq(hash, "ba7816bf8f01cfea");
	hex16("", 0, hash);
	ck_assert_str_eq(hash, "e3b0c44298fc1c14");
}
END_TEST

START_TEST(terminals_get_no_control_characters)
{
	static const char in[] = "a\x1b[2J\n\\\x7f\xc2\x9b\xc3\xa9\xff\xe2\x82"
				 "b\0c";
	struct sf_buf out = { 0 };

	sf_escape_text(&out, in, sizeof(in) - 1);
	ck_assert_str_eq(sf_buf_cstr(&out),
	                 "a\\x1b[2J\\x0a\\\\\\x7f\\xc2\\x9b\xc3\xa9\\xff\\xe2\\x82"
	                 "b\\x00c");
	sf_buf_release(&out);
}
END_TEST

START_TEST(json_shows_nothing_that_a_terminal_obeys)
{
	/* of ours: DEL, C1, directions, a tag past 16 bits; of others: those inside strings */
	static const char theirs[] =
		"{\"a\xc2\x9b\\\"\x1b\": [1,\x1b\t2, \"\xe2\x80\xae\\\\\"]\x7f}";
	struct sf_buf out = { 0 };

	sf_escape_json(&out, "\x7f\xc2\x9b\xe2\x80\xae\xf3\xa0\x81\x81", 10);
	ck_assert_str_eq(sf_buf_cstr(&out), "\"\\u007f\\u009b\\u202e\\udb40\\udc41\"");
	sf_buf_reset(&out);
	sf_escape_json_text(&out, theirs, sizeof(theirs) - 1);
	ck_assert_str_eq(sf_buf_cstr(&out),
	                 "{\"a\\u009b\\\"\\u001b\": [1, \t2, \"\\u202e\\\\\"] }");
	sf_buf_release(&out);
}
END_TEST

START_TEST(json_strings_say_every_byte)
{
	static const char in[] =
		"a\"\\\b\f\n\r\t\x01\x7f\xc3\xa9\xff\xed\xa0\x80\xed\xb1\xbf\xed\xb2\x80"
		"\xf0\x9f\x98\x80\0z\xed\xa0";
	struct sf_buf out = { 0 };

	sf_escape_json(&out, in, sizeof(in) - 1);
	ck_assert_str_eq(sf_buf_cstr(&out),
	                 "\"a\\\"\\\\\\b\\f\\n\\r\\t\\u0001\\u007f\xc3\xa9\\udcff"
	                 "\\ud800\\udc7f\\udced\\udcb2\\udc80"
	                 "\xf0\x9f\x98\x80\\u0000z\\udced\\udca0\"");
	sf_buf_reset(&out);
	sf_escape_json(&out, "", 0);
	ck_assert_str_eq(sf_buf_cstr(&out), "\"\"");
	sf_buf_release(&out);
}
END_TEST

/* As Python pickles the str that os.fsdecode() makes of @s. */
static void put_pickled(struct sf_buf *out, const char *s, size_t len)
{
	uint32_t c;

	for (size_t n; len; s += n, len -= n) {
		n = sf_utf8_unit(s, len, &c);
		if (c >= 0xdc80 && c <= 0xdcff) {
			sf_buf_byte(out, 0xed);
			sf_buf_byte(out, (uint8_t)(0x80 | (c >> 6 & 0x3f)));
			sf_buf_byte(out, (uint8_t)(0x80 | (c & 0x3f)));
		} else {
			sf_buf_add(out, s, n);
		}
	}
}

START_TEST(a_surrogate_becomes_the_byte_it_stands_for)
{
	for (unsigned c = 0xd800; c < 0xe000; c++) {
		char s[6] = { 'a', (char)0xed, (char)(0x80 | (c >> 6 & 0x3f)),
			      (char)(0x80 | (c & 0x3f)), 'z' };
		const char byte[] = { 'a', (char)(c & 0xff), 'z', 0 };
		bool escape = c >= 0xdc80 && c <= 0xdcff;
		ck_assert_int_eq(sf_surrogates_any(s, 5), escape);
		ck_assert(!sf_surrogates_any(s, 3));        /* cut short it is none */
		size_t n = sf_surrogates_to_bytes(s, 5, s); /* in place */
		ck_assert_uint_eq(n, escape ? 3 : 5);
		ck_assert_int_eq(memcmp(s, byte, 3) == 0, escape);
	}
	ck_assert(!sf_surrogates_any(NULL, 0));
}
END_TEST

/* Property: names of any bytes come back from what Python pickles for them, and what holds no
 * surrogate stays as it is. */
START_TEST(any_name_comes_back_from_its_pickle)
{
	uint64_t rnd = sf_test_seed("any_name_comes_back_from_its_pickle");

	for (int round = 0; round < 3000; round++) {
		struct sf_buf b = { 0 };
		char name[200];
		size_t len = random_name(&rnd, name, sizeof(name)), n;
		put_pickled(&b, name, len);
		ck_assert_int_eq(sf_surrogates_any((char *)b.at, b.len), !sf_utf8_valid(name, len));
		n = sf_surrogates_to_bytes((char *)b.at, b.len, (char *)b.at);
		ck_assert_uint_eq(n, len);
		ck_assert(len == 0 || memcmp(b.at, name, len) == 0);
		sf_buf_release(&b);
	}
}
END_TEST

/* All code points, both ways: those that are characters are valid, and nothing one byte shorter is. */
START_TEST(utf8_is_strict)
{
	for (uint32_t c = 0x80; c < 0x120000; c++) {
		char s[4];
		size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
		for (size_t i = n; i-- > 1;)
			s[i] = (char)(0x80 | (c >> 6 * (n - 1 - i) & 0x3f));
		s[0] = (char)((0xf00u >> n & 0xff) | c >> 6 * (n - 1));
		bool character = c <= 0x10ffff && !(c >= 0xd800 && c <= 0xdfff);
		if (sf_utf8_valid(s, n) != character || sf_utf8_valid(s, n - 1))
			ck_abort_msg("U+%X", c);
	}
	ck_assert(sf_utf8_valid("", 0));
	ck_assert(sf_utf8_valid("a\0b", 3));
	ck_assert(!sf_utf8_valid("\xc0\xaf", 2)); /* overlong */
	ck_assert(!sf_utf8_valid("\xe0\x80\xaf", 3));
	ck_assert(!sf_utf8_valid("\xf0\x80\x80\xaf", 4));
	ck_assert(!sf_utf8_valid("\xf8\x88\x80\x80\x80", 5));
}
END_TEST

/* As Python's fnmatch.fnmatchcase answers. */
START_TEST(globs_are_pythons)
{
	static const struct {
		const char *pattern, *s;
		bool hit;
	} c[] = {
		{ "*.weight", "model.layers.0.weight", true },
		{ "model.*", "model", false },
		{ "*", "", true },
		{ "", "", true },
		{ "", "a", false },
		{ "?", "\xc3\xa9", true },
		{ "??", "\xc3\xa9", false },
		{ "layers.[0-3].*", "layers.2.w", true },
		{ "layers.[!0-3].*", "layers.2.w", false },
		{ "[]]", "]", true },
		{ "[!]]", "]", false },
		{ "[!]]", "a", true },
		{ "[", "[", true },
		{ "[a", "[a", true },
		{ "[]", "[]", true },
		{ "[!]", "[!]", true },
		{ "[a-]", "-", true },
		{ "[-a]", "-", true },
		{ "[z-a]", "m", false },
		{ "[!z-a]", "m", true },
		{ "[^a]", "^", true },
		{ "[^a]", "b", false },
		{ "[\\]", "\\", true },
		{ "\\*", "\\abc", true },
		{ "[\xc3\xa0-\xc3\xbf]", "\xc3\xa9", true },
		{ "[a-c-e]", "d", false },
		{ "[a-c-e]", "-", true },
		{ "*a*b", "xaxbxb", true },
		{ "*a*b", "xbxa", false },
		{ "a\nb", "a\nb", true },
		{ "a*b", "a\n/b", true },
		{ "A", "a", false },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(c); i++)
		ck_assert_msg(sf_glob_match(c[i].pattern, strlen(c[i].pattern), c[i].s,
		                            strlen(c[i].s)) == c[i].hit,
		              "'%s' on '%s'", c[i].pattern, c[i].s);
}
END_TEST

/* The obvious definition for patterns of letters, ? and *. */
static bool slow_match(const char *p, const char *s)
{
	if (!*p)
		return !*s;
	if (*p == '*')
		return slow_match(p + 1, s) || (*s && slow_match(p, s + 1));
	return *s && (*p == '?' || *p == *s) && slow_match(p + 1, s + 1);
}

START_TEST(globs_match_the_obvious_definition)
{
	uint64_t rnd = sf_test_seed("globs_match_the_obvious_definition");
	size_t hits = 0;

	for (int round = 0; round < 100000; round++) {
		char p[9] = "", s[13] = "";
		for (size_t i = sf_test_below(&rnd, sizeof(p)); i-- > 0;)
			p[i] = "ab?*"[sf_test_below(&rnd, 4)];
		for (size_t i = sf_test_below(&rnd, sizeof(s)); i-- > 0;)
			s[i] = "ab"[sf_test_below(&rnd, 2)];
		bool want = slow_match(p, s);
		hits += want;
		ck_assert_msg(sf_glob_match(p, strlen(p), s, strlen(s)) == want, "'%s' on '%s'", p,
		              s);
	}
	ck_assert_uint_gt(hits, 1000);
}
END_TEST

/* Would take longer than the universe with naive backtracking. */
START_TEST(many_stars_are_not_exponential)
{
	char p[201], s[10001];

	for (size_t i = 0; i < 200; i += 2)
		memcpy(p + i, "*a", 2);
	p[199] = 'b';
	memset(s, 'a', sizeof(s));
	ck_assert(!sf_glob_match(p, 200, s, sizeof(s)));
}
END_TEST

START_TEST(a_suffix_is_the_end_and_may_be_all)
{
	ck_assert(sf_has_suffix("__0_0.distcp", ".distcp"));
	ck_assert(sf_has_suffix(".distcp", ".distcp"));
	ck_assert(sf_has_suffix("x", ""));
	ck_assert(!sf_has_suffix("distcp", ".distcp"));
	ck_assert(!sf_has_suffix("a.distcp.tmp", ".distcp"));
	ck_assert(!sf_has_suffix("", "x"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("path");
	TCase *t = tcase_create("path");

	tcase_add_test(t, stored_names_stay_below_their_directory);
	tcase_add_test(t, encoded_names_fit_and_decode);
	tcase_add_test(t, characters_are_not_cut_in_two);
	tcase_add_test(t, what_is_no_encoding_is_told);
	tcase_add_test(t, sha256_is_the_standards);
	tcase_add_test(t, terminals_get_no_control_characters);
	tcase_add_test(t, json_shows_nothing_that_a_terminal_obeys);
	tcase_add_test(t, json_strings_say_every_byte);
	tcase_add_test(t, a_surrogate_becomes_the_byte_it_stands_for);
	tcase_add_test(t, any_name_comes_back_from_its_pickle);
	tcase_add_test(t, utf8_is_strict);
	tcase_add_test(t, globs_are_pythons);
	tcase_add_test(t, globs_match_the_obvious_definition);
	tcase_add_test(t, many_stars_are_not_exponential);
	tcase_add_test(t, a_suffix_is_the_end_and_may_be_all);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
