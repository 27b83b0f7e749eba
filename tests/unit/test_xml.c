#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "store/xml.h"
#include "tests/lib/sf_test.h"

/* A document as "(a 'text' (b ) )", or the error's message. */
static const char *read_all(const char *doc, size_t len)
{
	static struct sf_buf out;
	static struct sf_error err;
	struct sf_xml x;
	int r;

	sf_buf_release(&out);
	err.msg[0] = '\0';
	sf_xml_init(&x, doc, len);
	while ((r = sf_xml_next(&x, &err)) > 0) {
		if (r == SF_XML_OPEN)
			sf_buf_printf(&out, "(%.*s ", (int)x.name.len, x.name.at);
		else if (r == SF_XML_CLOSE)
			sf_buf_printf(&out, "%.*s)", (int)x.name.len, x.name.at);
		else
			sf_buf_printf(&out, "'%s'", sf_buf_cstr(&x.text));
	}
	sf_xml_release(&x);
	ck_assert_int_eq(r < 0, err.msg[0] != '\0');
	return r < 0 ? err.msg : sf_buf_cstr(&out);
}

static const char *read_str(const char *doc)
{
	return read_all(doc, strlen(doc));
}

START_TEST(a_document_is_read_in_order)
{
	ck_assert_str_eq(
		read_str("<?xml version=\"1.0\"?>\n<a x='1' y=\"&lt;>\"><b>t</b> <c/>\n</a>\n"),
		"(a (b 't'b)' '(c c)'\n'a)");
	ck_assert_str_eq(read_str("\xef\xbb\xbf<!-- <x> --><r><!-- - -- --><?p <?></r><!---->"),
	                 "(r r)");
	ck_assert_str_eq(read_str("<a><![CDATA[<&]]]></a >"), "(a '<&]'a)");
	ck_assert_str_eq(read_str("<n:a-1.x\t/>"), "(n:a-1.x n:a-1.x)");
	ck_assert_str_eq(read_str("<\xc3\xa9>\xe2\x82\xac\xf0\x9f\x98\x80</\xc3\xa9>"),
	                 "(\xc3\xa9 '\xe2\x82\xac\xf0\x9f\x98\x80'\xc3\xa9)");
}
END_TEST

START_TEST(references_are_undone)
{
	ck_assert_str_eq(read_str("<a>&amp;lt;&lt;&gt;&quot;&apos;&#65;&#x20aC;&#x1F600;&#1;</a>"),
	                 "(a '&lt;<>\"'A\xe2\x82\xac\xf0\x9f\x98\x80\x01'a)");
}
END_TEST

START_TEST(what_is_no_xml_is_refused_with_its_byte)
{
	static const char *const docs[] = {
		"",
		" ",
		"text",
		"<",
		"<a",
		"<a>",
		"<a></b>",
		"<a></ab>",
		"<a></a",
		"<a></a><b/>",
		"<a></a>x",
		"</a>",
		"<a/></a>",
		"< a/>",
		"<1/>",
		"<a b/>",
		"<a b=1/>",
		"<a b='1'c='2'/>",
		"<a b='<'/>",
		"<a b='1",
		"<a b='&x;'/>",
		"<a>&</a>",
		"<a>&;</a>",
		"<a>&nbsp;</a>",
		"<a>&AMP;</a>",
		"<a>&#0;</a>",
		"<a>&#;</a>",
		"<a>&#x;</a>",
		"<a>&#xD800;</a>",
		"<a>&#x110000;</a>",
		"<a>&#99999999;</a>",
		"<a>&#-1;</a>",
		"<a>&#6a;</a>",
		"<a>&#x6g;</a>",
		"<a>&amp</a>",
		"<a><!--",
		"<a><!-- </a>",
		"<a><![CDATA[</a>",
		"<![CDATA[x]]><a/>",
		"<a>\x01</a>",
		"<a>\x7f</a>",
		"<a>\xff</a>",
		"<a>\xc0\x80</a>",
		"<a>\xed\xa0\x80</a>",
		"<a>\xe2\x82</a>",
		"<!-- \xff --><a/>",
		"<!DOCTYPE a [<!ENTITY b \"&c;&c;\">]><a>&b;</a>",
		"<!DOCTYPE a SYSTEM \"file:///etc/passwd\"><a/>",
		"<!doctype html><html></html>",
		"<a><!ELEMENT b></a>",
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(docs); i++) {
		const char *says = read_str(docs[i]);
		ck_assert_msg(strncmp(says, "XML: ", 5) == 0 && strstr(says, " at byte "), "%s: %s",
		              docs[i], says);
	}
	ck_assert_ptr_nonnull(strstr(read_str("<!DOCTYPE a><a/>"), "DTD"));
	ck_assert_ptr_nonnull(strstr(read_all("<a>\0</a>", 8), "control character at byte 3 of 8"));
}
END_TEST

START_TEST(elements_nest_as_deep_as_the_limit_and_no_deeper)
{
	struct sf_buf b = { 0 };

	for (int i = 0; i < SF_XML_DEPTH_MAX; i++)
		sf_buf_str(&b, "<a>");
	for (int i = 0; i < SF_XML_DEPTH_MAX; i++)
		sf_buf_str(&b, "</a>");
	ck_assert_ptr_null(strstr(read_all((char *)b.at, b.len), "XML"));
	sf_buf_reset(&b);
	for (int i = 0; i < 1000000; i++)
		sf_buf_str(&b, "<a>");
	ck_assert_str_eq(read_all((char *)b.at, b.len),
	                 "XML: elements nest deeper than 16 at byte 50");
	sf_buf_release(&b);
}
END_TEST

START_TEST(an_elements_text_is_taken_without_what_is_in_it)
{
	const char *doc = "<a><b>one<c>no<d/></c> two</b><e><f/>x</e><g/></a>";
	struct sf_buf text = { .limit = 7 };
	struct sf_error err;
	struct sf_xml x;

	sf_xml_init(&x, doc, strlen(doc));
	ck_assert_int_eq(sf_xml_next(&x, NULL), SF_XML_OPEN);
	ck_assert_int_eq(sf_xml_next(&x, NULL), SF_XML_OPEN);
	ck_assert(sf_xml_is(&x, "b"));
	ck_assert(!sf_xml_is(&x, "") && !sf_xml_is(&x, "bb"));
	ck_assert_int_eq(sf_xml_text(&x, &text, NULL), 0);
	ck_assert_str_eq(sf_buf_cstr(&text), "one two");
	ck_assert_int_eq(sf_xml_next(&x, NULL), SF_XML_OPEN);
	ck_assert(sf_xml_is(&x, "e"));
	ck_assert_int_eq(sf_xml_skip(&x, NULL), 0);
	ck_assert_int_eq(sf_xml_next(&x, NULL), SF_XML_OPEN);
	ck_assert(sf_xml_is(&x, "g"));
	ck_assert_int_eq(sf_xml_text(&x, &text, NULL), 0);
	ck_assert_uint_eq(text.len, 0);
	ck_assert_int_eq(sf_xml_next(&x, NULL), SF_XML_CLOSE);
	ck_assert_int_eq(sf_xml_next(&x, NULL), SF_XML_END);
	sf_xml_release(&x);

	doc = "<a>12345678</a>";
	sf_xml_init(&x, doc, strlen(doc));
	ck_assert_int_eq(sf_xml_next(&x, NULL), SF_XML_OPEN);
	ck_assert_int_eq(sf_xml_text(&x, &text, &err), -E2BIG);
	ck_assert_str_eq(err.msg, "XML: the text of <a> is longer than 7 bytes");
	sf_xml_release(&x);
	sf_buf_release(&text);
}
END_TEST

START_TEST(a_cut_document_is_an_error_wherever_it_is_cut)
{
	const char *doc = "<?xml?><a b='c'><d>&lt;\xc3\xa9</d><e/><!-- x --><![CDATA[y]]></a>";

	for (size_t n = 0; n < strlen(doc); n++)
		ck_assert_msg(strncmp(read_all(doc, n), "XML: ", 5) == 0, "cut at %zu", n);
	ck_assert_str_eq(read_str(doc), "(a (d '<\xc3\xa9'd)(e e)'y'a)");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("xml");
	TCase *t = tcase_create("xml");

	tcase_add_test(t, a_document_is_read_in_order);
	tcase_add_test(t, references_are_undone);
	tcase_add_test(t, what_is_no_xml_is_refused_with_its_byte);
	tcase_add_test(t, elements_nest_as_deep_as_the_limit_and_no_deeper);
	tcase_add_test(t, an_elements_text_is_taken_without_what_is_in_it);
	tcase_add_test(t, a_cut_document_is_an_error_wherever_it_is_cut);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
