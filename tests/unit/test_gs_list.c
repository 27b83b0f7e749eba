#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "store/gs_list.h"
#include "store/gs_place.h"
#include "tests/lib/list_world.h"

#define PAGE(body) "{\"kind\": \"storage#objects\"" body "}"
#define OBJECT(name, size) "{\"name\":\"" name "\",\"size\":\"" size "\",\"generation\":\"7\"}"

static int take(struct sf_bucket_pager *p, const char *doc, struct sf_error *err)
{
	return take_by(sf_gs_pager_take, p, doc, err);
}

START_TEST(a_page_tells_objects_and_prefixes)
{
	struct sf_bucket_pager p = { .prefix = "x", .delimiter = "/" };
	struct sf_error err;
	int r = take(&p,
	             PAGE(",\"prefixes\":[\"x/\",\"x y/\"],\"items\":["
	                  "{\"name\":\"x\\u00e9 +%\",\"size\":\"9223372036854775807\",\"owner\":{},"
	                  "\"generation\":\"1360887697105000\",\"updated\":\"2009-10-12T17:50:30."
	                  "000Z\"}," OBJECT("x0", "0") "]"),
	             &err);

	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_str_eq(sf_buf_cstr(&told),
	                 "x\xc3\xa9 +%=9223372036854775807@1360887697105000;x0=0@7;[x/][x y/]");
	ck_assert_uint_eq(p.entries, 4);
	ck_assert_ptr_null(p.token);
	sf_bucket_pager_release(&p);
}
END_TEST

START_TEST(pages_go_on_with_the_token_of_the_last)
{
	struct sf_bucket_pager p = { .prefix = "pre fix/", .delimiter = "/", .max_keys = 2 };
	struct sf_buf q = { 0 };
	struct sf_error err;

	sf_gs_pager_query(&p, &q);
	ck_assert_str_eq(sf_buf_cstr(&q),
	                 "fields=kind%2CnextPageToken%2Cprefixes%2Citems%28name%2Csize%2Cgeneration"
	                 "%2Cupdated%29&prefix=pre%20fix%2F&delimiter=%2F&maxResults=2");
	ck_assert_int_eq(
		take(&p,
	             PAGE(",\"nextPageToken\":\"t/+=1\",\"items\":[" OBJECT("pre fix/a", "1") "]"),
	             &err),
		1);
	sf_buf_reset(&q);
	sf_gs_pager_query(&p, &q);
	ck_assert_ptr_nonnull(strstr(sf_buf_cstr(&q), "&pageToken=t%2F%2B%3D1"));
	/* an empty page need not be the last */
	ck_assert_int_eq(take(&p, PAGE(",\"nextPageToken\":\"t2\""), &err), 1);
	ck_assert_int_eq(take(&p, PAGE(",\"items\":[" OBJECT("pre fix/b", "1") "]"), &err), 0);
	ck_assert_ptr_null(p.token);
	ck_assert_uint_eq(p.entries, 2);
	sf_buf_release(&q);
	sf_bucket_pager_release(&p);
}
END_TEST

#define MORE(token, body) PAGE(",\"nextPageToken\":\"" token "\",\"items\":[" body "]")

START_TEST(a_page_that_comes_again_is_an_error)
{
	static const char *const rounds[][3] = {
		{ MORE("1", OBJECT("a", "1")), MORE("1", OBJECT("b", "1")), NULL },
		{ MORE("1", OBJECT("a", "1")), MORE("2", OBJECT("b", "1")), MORE("1", "") },
		{ MORE("1", OBJECT("a", "1")), MORE("2", OBJECT("a", "1")), NULL },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(rounds); i++)
		ck_repeats(sf_gs_pager_take, rounds[i], SF_ARRAY_LEN(rounds[i]));
}
END_TEST

START_TEST(what_is_no_listing_is_never_an_empty_one)
{
	static const struct {
		const char *doc;
		int r;
		const char *word;
	} bad[] = {
		{ "", -EBADMSG, "no listing" },
		{ "<html>", -EBADMSG, "no listing" },
		{ "{}", -EBADMSG, "no listing" },
		{ "[]", -EBADMSG, "no listing" },
		{ "{\"kind\":\"storage#object\"}", -EBADMSG, "no listing" },
		{ "{\"error\":{\"code\":403}}", -EBADMSG, "no listing" },
		{ "{\"kind\":\"storage#objects\"", -EBADMSG, "no listing" },
		{ PAGE("") "x", -EBADMSG, "no listing" },
		{ PAGE(",\"items\":{}"), -EBADMSG, "'items' is no array" },
		{ PAGE(",\"items\":\"\""), -EBADMSG, "'items' is no array" },
		{ PAGE(",\"prefixes\":1"), -EBADMSG, "'prefixes' is no array" },
		{ PAGE(",\"items\":[1]"), -EBADMSG, "without its name" },
		{ PAGE(",\"items\":[{\"name\":1}]"), -EBADMSG, "without its name" },
		{ PAGE(",\"items\":[{\"name\":\"a\"}]"), -EBADMSG, "without its size" },
		{ PAGE(",\"items\":[{\"name\":\"a\",\"size\":\"1\"}]"), -EBADMSG,
		  "without its generation" },
		{ PAGE(",\"items\":[{\"name\":\"a\",\"size\":1,\"generation\":\"1\"}]"), -EBADMSG,
		  "size is no string" },
		{ PAGE(",\"items\":[" OBJECT("a", "-1") "]"), -EBADMSG, "'-1' is no size" },
		{ PAGE(",\"items\":[" OBJECT("a", "1e3") "]"), -EBADMSG, "'1e3' is no size" },
		{ PAGE(",\"items\":[" OBJECT("a", "") "]"), -EBADMSG, "'' is no size" },
		{ PAGE(",\"items\":[" OBJECT("a", "18446744073709551616") "]"), -EBADMSG,
		  "is no size" },
		{ PAGE(",\"items\":[" OBJECT("a", "18446744073709551615") "]"), -EBADMSG,
		  "18446744073709551615 bytes" },
		{ PAGE(",\"items\":[" OBJECT("", "1") "]"), -EBADMSG, "0 bytes" },
		{ PAGE(",\"items\":[" OBJECT("a\\u0000", "1") "]"), -EBADMSG, "u0000" },
		{ PAGE(",\"prefixes\":[1]"), -EBADMSG, "no string" },
		{ PAGE(",\"prefixes\":[\"a\"]"), -EBADMSG, "delimiter" },
		{ PAGE(",\"nextPageToken\":1"), -EBADMSG, "token" },
		{ PAGE(",\"nextPageToken\":null"), -EBADMSG, "token" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct sf_bucket_pager p = { .prefix = "", .delimiter = "/" };
		struct sf_error err;

		ck_assert_msg(take(&p, bad[i].doc, &err) == bad[i].r, "%s", bad[i].doc);
		ck_assert_msg(strstr(err.msg, bad[i].word) != NULL, "%s: %s", bad[i].doc, err.msg);
		ck_assert_ptr_null(p.token);
		sf_bucket_pager_release(&p);
	}
	struct sf_bucket_pager p = { .prefix = "a/" };
	struct sf_error err;
	ck_assert_int_eq(take(&p, PAGE(",\"items\":[" OBJECT("b/x", "1") "]"), &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "'b/x' does not begin with 'a/'"));
	sf_bucket_pager_release(&p);
}
END_TEST

/* 16 MiB of values would be a gigabyte of them: refused before anything is made of them. */
START_TEST(more_values_than_a_page_has_are_refused)
{
	struct sf_bucket_pager p = { .prefix = "" };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_buf b = { 0 };

	sf_buf_str(&b, "{\"kind\":\"storage#objects\",\"items\":[0");
	for (unsigned i = 0; i < 8u << 20; i++)
		sf_buf_add(&b, ",0", 2);
	sf_buf_str(&b, "]}");
	ck_assert_int_eq(sf_gs_pager_take(&p, sf_buf_cstr(&b), b.len, tell, NULL, &err), -E2BIG);
	ck_assert_ptr_nonnull(strstr(err.msg, "more than 200000 values"));
	sf_buf_reset(&b);
	for (unsigned i = 0; i < 8u << 20; i++)
		sf_buf_byte(&b, '[');
	ck_assert_int_eq(sf_gs_pager_take(&p, sf_buf_cstr(&b), b.len, tell, NULL, &err), -E2BIG);
	ck_assert_ptr_nonnull(strstr(err.msg, "deeper"));
	sf_buf_release(&b);
	sf_bucket_pager_release(&p);
}
END_TEST

START_TEST(an_object_is_described)
{
	static const char doc[] = "{\"kind\":\"storage#object\",\"size\":\"12\",\"generation\":"
				  "\"0042\",\"updated\":\"2009-10-12T17:50:30.5Z\"}";
	struct sf_gs_object o;
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(sf_gs_object_parse(doc, strlen(doc), &o, &err), 0);
	ck_assert_uint_eq(o.size, 12);
	ck_assert_str_eq(o.generation, "42");
	ck_assert_int_eq(o.mtime_ns, INT64_C(1255369830500000000));
	ck_assert_int_eq(sf_gs_object_parse("{}", 2, &o, &err), -EBADMSG);
	ck_assert_int_eq(sf_gs_object_parse("hello", 5, &o, &err), -EBADMSG);
}
END_TEST

START_TEST(refusals_are_understood)
{
	static const struct {
		const char *doc;
		bool known;
		const char *reason, *message;
	} t[] = {
		{ "{\"error\":{\"code\":404,\"message\":\"No such object: b/a\",\"errors\":[{"
		  "\"reason\":\"notFound\"}]}}",
		  true, "notFound", "No such object: b/a" },
		{ "{\"error\":{\"code\":403,\"message\":\"x\\u001b[31m\",\"status\":\"PERMISSION_"
		  "DENIED\"}}",
		  true, "PERMISSION_DENIED", "x?[31m" },
		{ "{\"error\":\"invalid_grant\",\"error_description\":\"Bad Request\"}", true,
		  "invalid_grant", "Bad Request" },
		{ "<?xml version='1.0'?><Error><Code>AccessDenied</Code><Message>Access "
		  "denied.</Message></Error>",
		  true, "AccessDenied", "Access denied." },
		{ "<html>502</html>", false, "", "a web page" },
		{ "No such object: b/a\nmore", false, "", "No such object: b/a" },
		{ "{", false, "", "" },
		{ "", false, "", "" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		struct sf_gs_error e;

		ck_assert_msg(sf_gs_error_parse(t[i].doc, strlen(t[i].doc), &e) == t[i].known, "%s",
		              t[i].doc);
		ck_assert_str_eq(e.reason, t[i].reason);
		ck_assert_str_eq(e.message, t[i].message);
	}
}
END_TEST

START_TEST(places_and_urls)
{
	static const struct {
		const char *bucket, *endpoint, *url;
		bool safe;
	} t[] = {
		{ "b.c", "",
		  "https://storage.googleapis.com/storage/v1/b/b.c/o/a%2F%20%25%3F%C3%A9?q", true },
		{ "bkt", "localhost:99",
		  "http://localhost:99/storage/v1/b/bkt/o/a%2F%20%25%3F%C3%A9?q", true },
		{ "bkt", "http://h/x//", "http://h/x/storage/v1/b/bkt/o/a%2F%20%25%3F%C3%A9?q",
		  false },
		{ "bkt", "https://h:1/", "https://h:1/storage/v1/b/bkt/o/a%2F%20%25%3F%C3%A9?q",
		  true },
		{ "bkt", "ftp://h", NULL, false },
		{ "bkt", "http://u@h", NULL, false },
		{ "bkt", "http://h?q", NULL, false },
		{ "bkt", "http://", NULL, false },
		{ "b", "", NULL, false },
		{ "...", "", NULL, false },
		{ "b ckt", "", NULL, false },
	};
	static const char *const unsafe[] = { "http://localhost:1@h/", "http://localhost.h/",
		                              "http://h/", "ftp://localhost", "http://127.0.0.1x" };

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		struct sf_gs_place p = { .base = NULL };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_buf b = { 0 };
		int r = sf_gs_place_init(&p, t[i].bucket, t[i].endpoint, &err);

		ck_assert_msg(r == (t[i].url ? 0 : -EINVAL), "%s %s: %d", t[i].bucket,
		              t[i].endpoint, r);
		ck_assert_int_eq(r < 0, err.msg[0] != '\0');
		if (r < 0)
			continue;
		sf_gs_place_url(&p, "a/ %?\xc3\xa9", "q", &b);
		ck_assert_str_eq(sf_buf_cstr(&b), t[i].url);
		ck_assert(p.safe == t[i].safe);
		sf_buf_release(&b);
		sf_gs_place_release(&p);
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(unsafe); i++)
		ck_assert_msg(!sf_gs_url_is_safe(unsafe[i]), "%s", unsafe[i]);
	ck_assert(sf_gs_url_is_safe("http://[::1]:80/x"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gs_list");
	TCase *t = tcase_create("pages");

	tcase_add_test(t, a_page_tells_objects_and_prefixes);
	tcase_add_test(t, pages_go_on_with_the_token_of_the_last);
	tcase_add_test(t, a_page_that_comes_again_is_an_error);
	tcase_add_test(t, what_is_no_listing_is_never_an_empty_one);
	tcase_add_test(t, more_values_than_a_page_has_are_refused);
	tcase_add_test(t, an_object_is_described);
	tcase_add_test(t, refusals_are_understood);
	tcase_add_test(t, places_and_urls);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
