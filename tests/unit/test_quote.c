#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/quote.h"
#include "base/utf8.h"
#include "sf_test.h"

#define S(s) s, sizeof(s) - 1

static const struct {
	const char *s;
	size_t len;
	const char *python, *shell;
} cases[] = {
	{ S(""), "\"\"", "''" },
	{ S("model.pt"), "\"model.pt\"", "model.pt" },
	{ S("it's"), "\"it's\"", "'it'\\''s'" },
	{ S("say \"hi\""), "'say \"hi\"'", "'say \"hi\"'" },
	{ S("it's \"both\""), "\"it's \\\"both\\\"\"", "'it'\\''s \"both\"'" },
	{ S("m\"); __import__(\"os\").system(\"id\") #"),
	  "'m\"); __import__(\"os\").system(\"id\") #'",
	  "'m\"); __import__(\"os\").system(\"id\") #'" },
	{ S("\\"), "\"\\\\\"", "'\\'" },
	{ S("\\\""), "'\\\\\"'", "'\\\"'" },
	{ S("$(id)`id`"), "\"$(id)`id`\"", "'$(id)`id`'" },
	{ S("=ls"), "\"=ls\"", "'=ls'" },
	{ S("a=b:c,d@e%f+g-h_i.j/k"), "\"a=b:c,d@e%f+g-h_i.j/k\"", "a=b:c,d@e%f+g-h_i.j/k" },
	{ S("~"), "\"~\"", "'~'" },
	{ S("a b"), "\"a b\"", "'a b'" },
	{ S("new\nline\r\t"), "\"new\\nline\\r\\t\"", "$'new\\012line\\015\\011'" },
	{ S("\x1b[31m1"), "\"\\x1b[31m1\"", "$'\\033[31m1'" },
	{ S("\x1b'\\\n"), "\"\\x1b'\\\\\\n\"", "$'\\033\\'\\\\\\012'" },
	{ S("\x7f\xc2\x9b"), "\"\\x7f\\x9b\"", "$'\\177\\302\\233'" },
	{ S("\xe2\x80\xaetxet"), "\"\\u202etxet\"", "$'\\342\\200\\256txet'" },
	{ S("\xf3\xa0\x80\xa0"), "\"\\U000e0020\"", "$'\\363\\240\\200\\240'" },
	{ S("\xff\xc3"), "\"\\udcff\\udcc3\"", "$'\\377\\303'" },
	{ S("a\0b"), "\"a\\x00b\"", "$'a\\000b'" },
	{ S("\xc3\xa9\xe4\xb8\xad"), "\"\xc3\xa9\xe4\xb8\xad\"", "'\xc3\xa9\xe4\xb8\xad'" },
};

START_TEST(literals_and_words)
{
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		struct sf_buf b = { 0 };
		sf_quote_python(&b, cases[i].s, cases[i].len);
		ck_assert_str_eq(sf_buf_cstr(&b), cases[i].python);
		sf_buf_reset(&b);
		sf_quote_shell(&b, cases[i].s, cases[i].len);
		ck_assert_str_eq(sf_buf_cstr(&b), cases[i].shell);
		sf_buf_release(&b);
	}
}
END_TEST

/* What prints a message doubles backslashes: no word has one then. */
START_TEST(words_in_messages_stay_words)
{
	static const struct {
		const char *s, *word;
	} words[] = {
		{ "/mnt/c", "/mnt/c" },  { "/mnt/a; id", "'/mnt/a; id'" },
		{ "$(id)", "'$(id)'" },  { "-rf", "-- -rf" },
		{ "-r f", "-- '-r f'" }, { "it's", "PATH" },
		{ "a'; id; '", "PATH" }, { "a\\b", "PATH" },
		{ "\033[2J", "PATH" },
	};
	char text[302];

	for (size_t i = 0; i < SF_ARRAY_LEN(words); i++) {
		struct sf_buf b = { 0 };
		sf_quote_shell_message(&b, words[i].s, "PATH");
		ck_assert_str_eq(sf_buf_cstr(&b), words[i].word);
		sf_buf_release(&b);
	}
	memset(text, 'x', 301);
	for (size_t len = 300; len <= 301; len++) {
		struct sf_buf b = { 0 };
		text[len] = 0;
		sf_quote_shell_message(&b, text, "PATH");
		ck_assert_uint_eq(b.len, len == 300 ? 300 : 4);
		sf_buf_release(&b);
		text[300] = 'x';
	}
}
END_TEST

static bool all_shown(struct sf_buf *b)
{
	const char *s = sf_buf_cstr(b);
	uint32_t c;

	for (size_t i = 0, k; i < b->len; i += k) {
		k = sf_utf8_next(s + i, b->len - i, &c);
		if (!k || !sf_char_is_shown(c))
			return false;
	}
	return true;
}

/* Whatever goes in, what comes out is one line of shown characters that neither quote ends early. */
START_TEST(random_bytes_stay_inside)
{
	uint64_t rnd = sf_test_seed("random_bytes_stay_inside");
	static const char likely[] = "'\"\\\\\n\x1b$`\xc2\x9b\xe2\x80\xae aA1";

	for (int n = 0; n < 20000; n++) {
		char in[24];
		size_t len = sf_test_below(&rnd, sizeof(in)), at = 0;
		struct sf_buf b = { 0 };
		for (size_t i = 0; i < len; i++)
			in[i] = sf_test_below(&rnd, 4) ? likely[sf_test_below(&rnd, sizeof(likely))]
			                               : (char)sf_test_rand(&rnd);
		sf_quote_python(&b, in, len);
		const char *s = sf_buf_cstr(&b);
		ck_assert(b.len >= 2 && s[0] == s[b.len - 1] && (s[0] == '"' || s[0] == '\''));
		for (at = 1; at < b.len - 1 && s[at] != s[0]; at += s[at] == '\\' ? 2 : 1)
			;
		ck_assert_msg(at == b.len - 1 && all_shown(&b), "%s", s);
		sf_buf_reset(&b);
		sf_quote_shell(&b, in, len);
		ck_assert_msg(all_shown(&b), "%s", sf_buf_cstr(&b));
		sf_buf_release(&b);
	}
}
END_TEST

START_TEST(what_is_shown_as_itself)
{
	static const uint32_t yes[] = { ' ', '~', 0xa1, 0xe9, 0x300, 0x4e2d, 0x1f600 };
	static const uint32_t no[] = { 0,       0x1f,    0x7f,     0x9b,    0xa0,    0xad,
		                       0x200b,  0x202e,  0x2028,   0x2066,  0x3000,  0xd800,
		                       0xdcff,  0xe000,  0xfeff,   0xfffe,  0x1ffff, 0xe0001,
		                       0xe0041, 0xf0000, 0x10fffd, 0x110000 };

	for (size_t i = 0; i < SF_ARRAY_LEN(yes); i++)
		ck_assert_msg(sf_char_is_shown(yes[i]), "%x", yes[i]);
	for (size_t i = 0; i < SF_ARRAY_LEN(no); i++)
		ck_assert_msg(!sf_char_is_shown(no[i]), "%x", no[i]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("quote");
	TCase *tc = tcase_create("quote");

	tcase_add_test(tc, literals_and_words);
	tcase_add_test(tc, words_in_messages_stay_words);
	tcase_add_test(tc, random_bytes_stay_inside);
	tcase_add_test(tc, what_is_shown_as_itself);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
