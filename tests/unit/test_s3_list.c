#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "store/s3_list.h"
#include "tests/lib/list_world.h"

#define PAGE(body)                                           \
	"<?xml version=\"1.0\"?><ListBucketResult "          \
	"xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\">" \
	"<Name>b</Name>" body "</ListBucketResult>"
#define OBJECT(key, size) "<Contents><Key>" key "</Key><Size>" size "</Size></Contents>"

static int take(struct sf_bucket_pager *p, const char *doc, struct sf_error *err)
{
	return take_by(sf_s3_pager_take, p, doc, err);
}

START_TEST(a_page_tells_objects_and_prefixes)
{
	struct sf_bucket_pager p = { .prefix = "" };
	struct sf_error err;
	int r = take(
		&p,
		PAGE("<EncodingType>url</EncodingType><IsTruncated>false</IsTruncated>"
	             "<Contents><ETag>&quot;ab-2&quot;</ETag><Key>x%2Fy+z%2B%C3%A9%25</Key>"
	             "<LastModified>2009-10-12T17:50:30.000Z</"
	             "LastModified><Size>18446744073709551614</Size>"
	             "<Owner><ID>1</ID><Key>no</Key></Owner></Contents>"
	             "<Contents><Key>bare</Key><Size>0</Size><ETag>ab</ETag></Contents>"
	             "<CommonPrefixes><Prefix>d+/</Prefix></CommonPrefixes><KeyCount>3</KeyCount>"),
		&err);

	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_str_eq(sf_buf_cstr(&told),
	                 "x/y z+\xc3\xa9%=18446744073709551614@\"ab-2\";bare=0@\"ab\";[d /]");
	ck_assert_uint_eq(p.entries, 3);
	sf_bucket_pager_release(&p);
}
END_TEST

START_TEST(keys_are_decoded_only_where_the_page_says_so)
{
	struct sf_bucket_pager p = { .prefix = "a" };
	struct sf_error err;

	ck_assert_int_eq(take(&p, PAGE(OBJECT("a+b%2F&amp;", "1")), &err), 0);
	ck_assert_str_eq(sf_buf_cstr(&told), "a+b%2F&=1;");
	/* wherever it says it */
	ck_assert_int_eq(
		take(&p, PAGE(OBJECT("a+c%2F", "1") "<EncodingType>url</EncodingType>"), &err), 0);
	ck_assert_str_eq(sf_buf_cstr(&told), "a c/=1;");
	sf_bucket_pager_release(&p);
}
END_TEST

START_TEST(pages_go_on_with_the_token_of_the_last)
{
	struct sf_bucket_pager p = { .prefix = "pre fix/", .delimiter = "/", .max_keys = 2 };
	struct sf_buf q = { 0 };
	struct sf_error err;

	sf_s3_pager_query(&p, &q);
	ck_assert_str_eq(
		sf_buf_cstr(&q),
		"delimiter=%2F&encoding-type=url&list-type=2&max-keys=2&prefix=pre%20fix%2F");
	ck_assert_int_eq(take(&p,
	                      PAGE("<IsTruncated>true</IsTruncated><NextContinuationToken>t/+=1"
	                           "</NextContinuationToken>" OBJECT("pre fix/a", "1")),
	                      &err),
	                 1);
	sf_buf_reset(&q);
	sf_s3_pager_query(&p, &q);
	ck_assert_str_eq(
		sf_buf_cstr(&q),
		"continuation-token=t%2F%2B%3D1&delimiter=%2F&encoding-type=url&list-type=2&"
		"max-keys=2&prefix=pre%20fix%2F");
	/* an empty page need not be the last */
	ck_assert_int_eq(take(&p,
	                      PAGE("<IsTruncated>true</IsTruncated><NextContinuationToken>t2"
	                           "</NextContinuationToken>"),
	                      &err),
	                 1);
	ck_assert_int_eq(take(&p, PAGE(OBJECT("pre fix/b", "1")), &err), 0);
	ck_assert_ptr_null(p.token);
	ck_assert_uint_eq(p.entries, 2);
	sf_buf_release(&q);
	sf_bucket_pager_release(&p);
}
END_TEST

#define MORE(token, body)                                                   \
	PAGE("<IsTruncated>true</IsTruncated><NextContinuationToken>" token \
	     "</NextContinuationToken>" body)

START_TEST(a_page_that_comes_again_is_an_error)
{
	static const char *const rounds[][3] = {
		/* the same token, a circle of two, another token for the same keys */
		{ MORE("1", OBJECT("a", "1")), MORE("1", OBJECT("b", "1")), NULL },
		{ MORE("1", OBJECT("a", "1")), MORE("2", OBJECT("b", "1")),
		  MORE("1", OBJECT("c", "1")) },
		{ MORE("1", OBJECT("a", "1")), MORE("2", OBJECT("b", "1")),
		  MORE("3", OBJECT("a", "1")) },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(rounds); i++)
		ck_repeats(sf_s3_pager_take, rounds[i], SF_ARRAY_LEN(rounds[i]));
	/* a prefix may: some servers tell it on each page that has a key below it */
	struct sf_bucket_pager p = { .prefix = "" };
	struct sf_error err;
	const char *prefix = "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes>";
	char doc[1024];
	for (int i = 0; i < 3; i++) {
		snprintf(doc, sizeof(doc), MORE("%d", "%s"), i, prefix);
		ck_assert_int_eq(take(&p, doc, &err), 1);
	}
	sf_bucket_pager_release(&p);
}
END_TEST

START_TEST(what_is_no_page_is_an_error_and_never_empty)
{
	static const struct {
		const char *doc, *says;
		int code;
	} bad[] = {
		{ "", "XML", -EBADMSG },
		{ "<html><body>It works!</body></html>", "not an S3 listing", -EBADMSG },
		{ "<ListAllMyBucketsResult/>", "not an S3 listing", -EBADMSG },
		{ "<Error><Code>AccessDenied</Code><Message>No.</Message><RequestId>r1</"
		  "RequestId></Error>",
		  "AccessDenied: No., request r1", -EIO },
		{ "<!DOCTYPE a><ListBucketResult/>", "DTD", -EBADMSG },
		{ PAGE("<IsTruncated>true</IsTruncated>"), "no token", -EBADMSG },
		{ PAGE("<IsTruncated>maybe</IsTruncated>"), "'maybe'", -EBADMSG },
		{ PAGE("<EncodingType>rot13</EncodingType>"), "'rot13'", -EBADMSG },
		{ PAGE(OBJECT("a", "")), "not a size", -EBADMSG },
		{ PAGE(OBJECT("a", "-1")), "'-1' is not a size", -EBADMSG },
		{ PAGE(OBJECT("a", "18446744073709551616")), "not a size", -EBADMSG },
		{ PAGE(OBJECT("a", "18446744073709551615")), "without its size", -EBADMSG },
		{ PAGE(OBJECT("a", "1e3")), "not a size", -EBADMSG },
		{ PAGE(OBJECT("", "1")), "0 bytes", -EBADMSG },
		{ PAGE("<Contents><Key>a</Key></Contents>"), "without its size", -EBADMSG },
		{ PAGE("<Contents><Size>1</Size></Contents>"), "without its key", -EBADMSG },
		{ PAGE("<EncodingType>url</EncodingType>" OBJECT("a%2", "1")), "coded", -EBADMSG },
		{ PAGE("<EncodingType>url</EncodingType>" OBJECT("a%xy", "1")), "coded", -EBADMSG },
		{ PAGE("<EncodingType>url</EncodingType>" OBJECT("a%00b", "1")), "NUL", -EBADMSG },
		{ PAGE("<Contents><Key>a</Key><Size>1</Size><ETag>\"a&#10;X: "
		       "1\"</ETag></Contents>"),
		  "ETag", -EBADMSG },
		{ "<ListBucketResult><Contents><Key>a</Key><Size>1</Size></Contents>", "XML",
		  -EBADMSG },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct sf_bucket_pager p = { .prefix = "" };
		struct sf_error err;

		ck_assert_msg(take(&p, bad[i].doc, &err) == bad[i].code, "%s: %s", bad[i].doc,
		              err.msg);
		ck_assert_msg(strstr(err.msg, bad[i].says) != NULL, "%s: %s", bad[i].doc, err.msg);
		ck_assert_ptr_null(p.token);
		sf_bucket_pager_release(&p);
	}
	struct sf_bucket_pager p = { .prefix = "dir/" };
	struct sf_error err;
	ck_assert_int_eq(take(&p, PAGE(OBJECT("../etc", "1")), &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "'../etc' does not begin with 'dir/'"));
	ck_assert_int_eq(
		take(&p, PAGE("<CommonPrefixes><Prefix>di/</Prefix></CommonPrefixes>"), &err),
		-EBADMSG);
	sf_bucket_pager_release(&p);
}
END_TEST

#define PREFIX "<CommonPrefixes><Prefix>d/</Prefix></CommonPrefixes>"

/* Each of them would be an empty listing, or one that lacks keys, to who does not look. */
START_TEST(a_page_that_lacks_what_it_says_is_an_error)
{
	static const struct {
		const char *body, *says; /* NULL: it is fine */
	} t[] = {
		{ "<KeyCount>2</KeyCount>" OBJECT("a", "1") PREFIX, NULL },
		{ "<KeyCount>1</KeyCount>" OBJECT("a", "1") PREFIX, NULL }, /* Ceph */
		{ OBJECT("a", "1") PREFIX "<KeyCount>3</KeyCount>",
		  "says that it has 3 keys, and has 1 with 1" },
		{ "<KeyCount>1</KeyCount>" OBJECT("a", "1") OBJECT("b", "1"),
		  "says that it has 1 keys" },
		{ "<KeyCount>0</KeyCount>" PREFIX OBJECT("a", "1"), "says that it has 0 keys" },
		{ "<KeyCount>1000</KeyCount><IsTruncated>false</IsTruncated>", "has 1000 keys" },
		{ "<KeyCount>-1</KeyCount>", "KeyCount is '-1'" },
		{ "<KeyCount>18446744073709551616</KeyCount>", "KeyCount is" },
		{ "", "has no keys and does not say" },
		{ "<KeyCount>0</KeyCount>", "has no keys and does not say" },
		{ "<KeyCount>0</KeyCount><IsTruncated>false</IsTruncated>", NULL },
		{ "<Prefix>other/</Prefix><IsTruncated>false</IsTruncated>",
		  "'' was asked for, the answer is of 'other/'" },
		{ "<Prefix/><IsTruncated>false</IsTruncated>", NULL },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		struct sf_bucket_pager p = { .prefix = "" };
		struct sf_error err;
		const char *body = t[i].body;
		char doc[1200];

		snprintf(doc, sizeof(doc), "<ListBucketResult>%s</ListBucketResult>", body);
		int r = take(&p, doc, &err);
		ck_assert_msg(r == (t[i].says ? -EBADMSG : 0), "%s: %d %s", body, r, err.msg);
		ck_assert_msg(!t[i].says || strstr(err.msg, t[i].says), "%s: %s", body, err.msg);
		sf_bucket_pager_release(&p);
	}
	/* coded as keys are, and some leave out the last '/' */
	static const char *const same[] = { "a+b%2F%C3%A9/", "a%20b/\xc3\xa9", "a b/\xc3\xa9/" };
	for (size_t i = 0; i < SF_ARRAY_LEN(same); i++) {
		struct sf_bucket_pager p = { .prefix = "a b/\xc3\xa9/" };
		struct sf_error err;
		char doc[512];

		snprintf(doc, sizeof(doc),
		         PAGE("<EncodingType>url</EncodingType><Prefix>%s</Prefix>"
		              "<IsTruncated>false</IsTruncated>"),
		         same[i]);
		ck_assert_msg(take(&p, doc, &err) == 0, "%s: %s", same[i], err.msg);
		sf_bucket_pager_release(&p);
	}
}
END_TEST

#define ASKED(token) "<ContinuationToken>" token "</ContinuationToken>"

START_TEST(an_answer_to_another_request_is_an_error)
{
	static const struct {
		const char *doc[4];
		bool fine;
	} t[] = {
		/* as Amazon does */
		{ { MORE("t1", OBJECT("a", "1")), MORE("t2", ASKED("t1") OBJECT("b", "1")),
		    MORE("t3", ASKED("t2") OBJECT("c", "1")), PAGE(ASKED("t3") OBJECT("d", "1")) },
		  true },
		/* a page is left out: the last answers what was not asked */
		{ { MORE("t1", OBJECT("a", "1")), MORE("t2", ASKED("t1") OBJECT("b", "1")),
		    PAGE(ASKED("t3") OBJECT("d", "1")) },
		  false },
		/* one comes again, with other keys in front of it */
		{ { MORE("t1", OBJECT("a", "1")), MORE("t2", OBJECT("b", "1")),
		    MORE("t4", ASKED("t1") OBJECT("b0", "1")) },
		  false },
		/* a server that tells something else at all times is let be */
		{ { MORE("t1", OBJECT("a", "1")), MORE("t2", ASKED("b64") OBJECT("b", "1")),
		    PAGE(ASKED("b65") OBJECT("c", "1")) },
		  true },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		struct sf_bucket_pager p = { .prefix = "" };
		struct sf_error err;
		int r = 1;

		for (size_t k = 0; k < 4 && t[i].doc[k]; k++) {
			ck_assert_int_eq(r, 1);
			r = take(&p, t[i].doc[k], &err);
		}
		ck_assert_msg(r == (t[i].fine ? 0 : -EBADMSG), "%zu: %d %s", i, r, err.msg);
		ck_assert(t[i].fine || strstr(err.msg, "was asked for by token"));
		sf_bucket_pager_release(&p);
	}
}
END_TEST

START_TEST(a_key_is_as_long_as_s3_has_them)
{
	for (size_t n = SF_BUCKET_KEY_MAX; n <= SF_BUCKET_KEY_MAX + 1; n++) {
		struct sf_bucket_pager p = { .prefix = "" };
		struct sf_buf doc = { 0 };
		struct sf_error err;

		sf_buf_str(&doc,
		           "<ListBucketResult><EncodingType>url</EncodingType><Contents><Key>");
		for (size_t i = 0; i < n; i++)
			sf_buf_str(&doc, "%41");
		sf_buf_str(&doc, "</Key><Size>1</Size></Contents></ListBucketResult>");
		int r = take(&p, sf_buf_cstr(&doc), &err);
		ck_assert_int_eq(r == 0, n <= SF_BUCKET_KEY_MAX);
		sf_buf_release(&doc);
		sf_bucket_pager_release(&p);
	}
}
END_TEST

static int refuse_second(void *arg, const struct sf_bucket_entry *e)
{
	(void)e;
	return ++*(int *)arg == 2 ? -ECANCELED : 0;
}

START_TEST(a_callback_ends_the_page)
{
	struct sf_bucket_pager p = { .prefix = "" };
	const char *doc = PAGE(OBJECT("a", "1") OBJECT("b", "1") OBJECT("c", "1"));
	int calls = 0;

	ck_assert_int_eq(sf_s3_pager_take(&p, doc, strlen(doc), refuse_second, &calls, NULL),
	                 -ECANCELED);
	ck_assert_int_eq(calls, 2);
	sf_bucket_pager_release(&p);
}
END_TEST

static int count(void *arg, const struct sf_bucket_entry *e)
{
	(void)e;
	++*(uint64_t *)arg;
	return 0;
}

START_TEST(a_million_keys_hold_a_hash_a_page)
{
	struct sf_bucket_pager p = { .prefix = "" };
	struct sf_buf doc = { 0 };
	uint64_t seen = 0;
	const unsigned pages = 1000;

	for (unsigned i = 0; i < pages; i++) {
		struct sf_error err;

		sf_buf_reset(&doc);
		sf_buf_printf(&doc, "<ListBucketResult><IsTruncated>%s</IsTruncated>",
		              i + 1 < pages ? "true" : "false");
		sf_buf_printf(&doc, "<NextContinuationToken>%u</NextContinuationToken>", i);
		for (unsigned k = 0; k < 1000; k++)
			sf_buf_printf(&doc, "<Contents><Key>%08u</Key><Size>1</Size></Contents>",
			              i * 1000 + k);
		sf_buf_str(&doc, "</ListBucketResult>");
		ck_assert_int_eq(sf_s3_pager_take(&p, (char *)doc.at, doc.len, count, &seen, &err),
		                 i + 1 < pages);
	}
	ck_assert_uint_eq(seen, 1000000);
	ck_assert_uint_eq(p.entries, 1000000);
	ck_assert_uint_le(p.seen_cap, 4 * pages);
	sf_buf_release(&doc);
	sf_bucket_pager_release(&p);
}
END_TEST

START_TEST(pages_without_end_and_without_keys_are_not_waited_for)
{
	struct sf_bucket_pager p = { .prefix = "" };
	struct sf_error err = SF_ERROR_INIT;
	uint64_t seen = 0;
	unsigned pages = 0;
	char doc[256];
	int r = 1;

	for (; r == 1 && pages < 5000; pages++) {
		snprintf(doc, sizeof(doc),
		         "<ListBucketResult><IsTruncated>true</IsTruncated>"
		         "<NextContinuationToken>%u</NextContinuationToken>%s</ListBucketResult>",
		         pages,
		         pages == 500 ? "<Contents><Key>k</Key><Size>1</Size></Contents>" : "");
		r = sf_s3_pager_take(&p, doc, strlen(doc), count, &seen, &err);
	}
	ck_assert_int_eq(r, -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "had nothing in them"));
	ck_assert_uint_gt(pages, 1400); /* a key in between, and they are counted anew */
	ck_assert_uint_lt(pages, 1600);
	ck_assert_uint_eq(seen, 1);
	sf_bucket_pager_release(&p);
}
END_TEST

START_TEST(an_error_document_is_told)
{
	const char *doc =
		"<?xml version=\"1.0\"?>\n<Error><Code>PermanentRedirect</Code>"
		"<Message>Go &lt;there&gt;&#10;now</Message><Region>eu-west-1</Region>"
		"<Endpoint>b.s3.eu-west-1.amazonaws.com</Endpoint><RequestId>R</RequestId>"
		"<ServerTime>2015-08-30T12:36:00Z</ServerTime><HostId>h</HostId></Error>";
	struct sf_s3_error e;

	ck_assert(sf_s3_error_parse(doc, strlen(doc), &e));
	ck_assert_str_eq(e.code, "PermanentRedirect");
	ck_assert_str_eq(e.message, "Go <there>?now");
	ck_assert_str_eq(e.region, "eu-west-1");
	ck_assert_str_eq(e.request_id, "R");
	ck_assert_int_eq(e.server_time, 1440938160);
	/* as STS has it */
	doc = "<ErrorResponse>\n "
	      "<Error><Type>Sender</Type><Code>ExpiredToken</Code></Error></ErrorResponse>";
	ck_assert(sf_s3_error_parse(doc, strlen(doc), &e));
	ck_assert_str_eq(e.code, "ExpiredToken");
	/* cut: what was told by then */
	doc = "<Error><Code>SlowDown</Code><Mess";
	ck_assert(sf_s3_error_parse(doc, strlen(doc), &e));
	ck_assert_str_eq(e.code, "SlowDown");

	static const char *const none[] = {
		"",   "<Error/>",         "<Error>x</Error>",      "<html/>",
		"{}", "<ErrorResponse/>", "<Error><Code/></Error>"
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(none); i++) {
		ck_assert_msg(!sf_s3_error_parse(none[i], strlen(none[i]), &e), "%s", none[i]);
		ck_assert_str_eq(e.code, "");
	}
}
END_TEST

START_TEST(a_long_message_is_cut_at_a_character)
{
	struct sf_buf doc = { 0 };
	struct sf_s3_error e;

	sf_buf_str(&doc, "<Error><Code>C</Code><Message>");
	for (int i = 0; i < 300; i++)
		sf_buf_str(&doc, "\xe2\x82\xac");
	sf_buf_str(&doc, "</Message></Error>");
	ck_assert(sf_s3_error_parse((char *)doc.at, doc.len, &e));
	ck_assert_uint_eq(strlen(e.message), 255 / 3 * 3);
	sf_buf_release(&doc);
}
END_TEST

START_TEST(times_are_those_of_the_standard)
{
	static const char *const none[] = { "",
		                            "2009",
		                            "2009-13-12T17:50:30Z",
		                            "2009-10-12 17:50:30Z",
		                            "2009-10-12T17:50:30",
		                            "2009-10-12T17:50:30+1:00",
		                            "2009-10-12T17:50:30+",
		                            "2009-10-12T17:50:30+01",
		                            "2009-10-12T17:50:30+01:0x",
		                            "2009-10-12T25:50:30Z",
		                            "+009-10-12T17:50:30Z",
		                            "1969-10-12T17:50:30Z" };
	int64_t ns = 7;

	for (size_t i = 0; i < SF_ARRAY_LEN(none); i++)
		ck_assert_msg(!sf_s3_time(none[i], &ns) && ns == 7, "%s", none[i]);
	ck_assert(sf_s3_time("2015-08-30T12:36:00.25Z", &ns));
	ck_assert_int_eq(ns, 1440938160250000000);
	ck_assert(sf_s3_time("2015-08-30T12:36:00+00:00", &ns));
	ck_assert_int_eq(ns, 1440938160000000000);
	ck_assert(sf_s3_time("2015-08-30T12:36:00.1234567890123456789012Z", &ns));
	ck_assert_int_eq(ns, 1440938160123456789);
	ck_assert(sf_s3_time("2015-08-30T14:06:00+01:30", &ns));
	ck_assert_int_eq(ns, 1440938160000000000);
	ck_assert(sf_s3_time("2015-08-30T07:36:00-0500", &ns));
	ck_assert_int_eq(ns, 1440938160000000000);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("s3_list");
	TCase *t = tcase_create("list");

	tcase_add_test(t, a_page_tells_objects_and_prefixes);
	tcase_add_test(t, keys_are_decoded_only_where_the_page_says_so);
	tcase_add_test(t, pages_without_end_and_without_keys_are_not_waited_for);
	tcase_add_test(t, pages_go_on_with_the_token_of_the_last);
	tcase_add_test(t, a_page_that_comes_again_is_an_error);
	tcase_add_test(t, what_is_no_page_is_an_error_and_never_empty);
	tcase_add_test(t, a_page_that_lacks_what_it_says_is_an_error);
	tcase_add_test(t, an_answer_to_another_request_is_an_error);
	tcase_add_test(t, a_key_is_as_long_as_s3_has_them);
	tcase_add_test(t, a_callback_ends_the_page);
	tcase_add_test(t, a_million_keys_hold_a_hash_a_page);
	tcase_add_test(t, an_error_document_is_told);
	tcase_add_test(t, a_long_message_is_cut_at_a_character);
	tcase_add_test(t, times_are_those_of_the_standard);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
