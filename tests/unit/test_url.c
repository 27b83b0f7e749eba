#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "sf_test.h"
#include "store/url.h"

static void same(const char *got, const char *want)
{
	ck_assert_int_eq(got == NULL, want == NULL);
	if (want)
		ck_assert_str_eq(got, want);
}

START_TEST(a_url_is_taken_apart)
{
	static const struct {
		const char *source, *scheme, *user, *password, *host, *port, *path, *query, *shown;
	} good[] = {
		{ "http://h", "http", NULL, NULL, "h", NULL, "", NULL, "http://h" },
		{ "HTTPS://H.Example:8443/a/b/", "https", NULL, NULL, "h.example", "8443", "/a/b",
		  NULL, "HTTPS://H.Example:8443/a/b/" },
		{ "http://u:p%40ss@h/x?k=v&z", "http", "u", "p@ss", "h", NULL, "/x", "k=v&z",
		  "http://h/x" },
		{ "http://u@h:/", "http", "u", "", "h", NULL, "", NULL, "http://h:/" },
		{ "http://a@b:c@h/x", "http", "a@b", "c", "h", NULL, "/x", NULL, "http://h/x" },
		{ "http://[::1]:80/x", "http", NULL, NULL, "[::1]", "80", "/x", NULL,
		  "http://[::1]:80/x" },
		{ "http://h/a%20b/c d\xc3\xa9", "http", NULL, NULL, "h", NULL, "/a%20b/c%20d%C3%A9",
		  NULL, "http://h/a%20b/c d\xc3\xa9" },
		{ "http://h/a@b/../c", "http", NULL, NULL, "h", NULL, "/a@b/../c", NULL,
		  "http://h/a@b/../c" },
		{ "s3://bucket", "s3", NULL, NULL, "bucket", NULL, "", NULL, "s3://bucket" },
		{ "s3://Buck_et/a//b%20?#x/", "s3", NULL, NULL, "Buck_et", NULL, "a//b%20?#x", NULL,
		  "s3://Buck_et/a//b%20?#x/" },
		{ "gs://b//k/", "gs", NULL, NULL, "b", NULL, "k", NULL, "gs://b//k/" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(good); i++) {
		struct sf_url u;
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_msg(sf_url_parse(good[i].source, &u, &err) == 0, "%s: %s", good[i].source,
		              err.msg);
		same(u.scheme, good[i].scheme);
		same(u.user, good[i].user);
		same(u.password, good[i].password);
		same(u.host, good[i].host);
		same(u.port, good[i].port);
		same(u.path, good[i].path);
		same(u.query, good[i].query);
		same(u.shown, good[i].shown);
		sf_url_release(&u);
	}
}
END_TEST

/* No message, and no shown form, has a word of a secret, however the URL is malformed. */
START_TEST(a_bad_url_is_said_without_its_secrets)
{
	static const struct {
		const char *source;
		int r;
		const char *says;
	} bad[] = {
		{ "http://", -EINVAL, "no host" },
		{ "http:///x", -EINVAL, "no host" },
		{ "http://:80/x", -EINVAL, "no host" },
		{ "http://SECRET@/x", -EINVAL, "no host" },
		{ "http://u:SECRET@h/%zz", -EINVAL, "two hex digits" },
		{ "http://u:SECRET@h/%0", -EINVAL, "two hex digits" },
		{ "http://u:SECRET@h/a%00b", -EINVAL, "two hex digits" },
		{ "http://u:SECRET%@h/", -EINVAL, "two hex digits" },
		{ "http://h/x?SECRET#f", -EINVAL, "%23" },
		{ "http://h/x?a SECRET", -EINVAL, "blank" },
		{ "http://u:SECRET@h:99999/", -EINVAL, "port" },
		{ "http://u:SECRET@h:http/", -EINVAL, "port" },
		{ "http://u:SEC/RET@h/", -EINVAL, "port" },
		{ "http://u:12/SECRET@h/%zz", -EINVAL, "two hex digits" },
		{ "http://u:SECRET@[::1/", -EINVAL, "port" },
		{ "http://u:SECRET@h\n/", -EINVAL, "control character" },
		{ "http://u:SECRET@a b/", -EINVAL, "its host has a character" },
		{ "s3://", -EINVAL, "no bucket" },
		{ "s3:///key", -EINVAL, "no bucket" },
		{ "s3://id:SECRET@bucket/key", -EINVAL, "credentials do not go into" },
		{ "s3://id:SEC/RET@bucket/key", -EINVAL, "cannot contain ':'" },
		{ "s3://bucket:80/key", -EINVAL, "cannot contain ':'" },
		{ "s3://bucket?x=SECRET", -EINVAL, "cannot contain '?'" },
		{ "gs://bu%63ket/key", -EINVAL, "cannot contain '%'" },
		{ "ftp://u:SECRET@h/x", -ENOTSUP, "ftp:// is not supported" },
		{ "no/url", -EINVAL, "is not a URL" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct sf_url u;
		struct sf_error err = SF_ERROR_INIT;
		int r = sf_url_parse(bad[i].source, &u, &err);
		char *shown = sf_url_shown(bad[i].source);
		ck_assert_msg(r == bad[i].r, "%s: %d %s", bad[i].source, r, err.msg);
		ck_assert_msg(strstr(err.msg, bad[i].says) != NULL, "%s: %s", bad[i].source,
		              err.msg);
		ck_assert_msg(!strstr(err.msg, "SEC") && !strstr(err.msg, "RET"), "%s: %s",
		              bad[i].source, err.msg);
		ck_assert_msg(!strstr(shown, "SEC") && !strstr(shown, "RET"), "%s: %s",
		              bad[i].source, shown);
		free(shown);
	}
}
END_TEST

START_TEST(secrets_are_overwritten_in_place)
{
	static const char *const t[][2] = {
		{ "http://u:p@h/a?q=1", "http://***@h/a?***" },
		{ "HTTPS://token@h:80/a", "HTTPS://*****@h:80/a" },
		{ "http://u:a/b@c@h/", "http://*******@h/" },
		{ "http://h/a@b", "http://h/a@b" },
		{ "https://h", "https://h" },
		{ "/a?b", "/a?b" },
		{ "s3://b/k?x", "s3://b/k?x" },
		{ "", "" },
		{ "--profile", "--profile" },
	};
	char copy[64];

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		snprintf(copy, sizeof(copy), "%s", t[i][0]);
		sf_url_hide(copy);
		ck_assert_str_eq(copy, t[i][1]);
	}
}
END_TEST

START_TEST(a_long_url_is_refused)
{
	char url[SF_URL_MAX + 8];
	struct sf_url u;

	memset(url, 'a', sizeof(url));
	memcpy(url, "http://h/", 9);
	url[SF_URL_MAX] = '\0';
	ck_assert_int_eq(sf_url_parse(url, &u, NULL), 0);
	sf_url_release(&u);
	url[SF_URL_MAX] = 'a';
	url[SF_URL_MAX + 1] = '\0';
	ck_assert_int_eq(sf_url_parse(url, &u, NULL), -E2BIG);
}
END_TEST

START_TEST(names_become_parts_of_urls_and_back)
{
	char all[256], back[1024];
	struct sf_buf b = { 0 };

	for (int i = 1; i < 256; i++)
		all[i - 1] = (char)i;
	all[255] = '\0';
	for (int slash = 0; slash < 2; slash++) {
		sf_buf_reset(&b);
		sf_url_encode(&b, all, 255, slash);
		snprintf(back, sizeof(back), "%s", sf_buf_cstr(&b));
		ck_assert_int_eq(strspn(back, "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
		                              "0123456789-._~%/"),
		                 strlen(back));
		ck_assert_int_eq(strchr(back, '/') != NULL, slash);
		ck_assert(sf_url_decode(back));
		ck_assert_str_eq(back, all);
	}
	sf_buf_release(&b);
}
END_TEST

START_TEST(paths_are_no_urls)
{
	ck_assert_uint_eq(sf_url_scheme("/a/b"), 0);
	ck_assert_uint_eq(sf_url_scheme("a://b"), 1);
	ck_assert_uint_eq(sf_url_scheme("://b"), 0);
	ck_assert_uint_eq(sf_url_scheme("a:/b"), 0);
	ck_assert_uint_eq(sf_url_scheme("a/b://c"), 0);
	char *shown = sf_url_shown("/a/u:p@h?x");
	ck_assert_str_eq(shown, "/a/u:p@h?x");
	free(shown);
}
END_TEST

/* A URL that lacks a slash, a colon or its scheme is taken for a path, and hides as much. */
START_TEST(what_was_meant_as_a_url_is_shown_as_one)
{
	static const char *const t[][2] = {
		{ "http:/u:SECRET@h/x", "http:/…@h/x" },
		{ "http:u:SECRET@h/x", "http:…@h/x" },
		{ "https//u:SECRET@h", "https//…@h" },
		{ "s3:/id:SEC/RET@bucket/key", "s3:/…@bucket/key" },
		{ "http:/SECRET@h", "http:/…@h" },
		{ "http:\\\\u:SECRET@h", "http:\\\\…@h" },
		{ "u:SECRET@h/x", "u:…@h/x" },
		/* these have none */
		{ "user@host:path", "user@host:path" },
		{ "a/b:c@d", "a/b:c@d" },
		{ "run:3/x", "run:3/x" },
		{ "x@y", "x@y" },
		{ "", "" },
	};
	static const char *const texts[][2] = {
		{ "'http://u:SECRET@h/x': No such file", "'http://h/x': No such file" },
		{ "mountpoint 'http:/u:SECRET@h'", "mountpoint 'http:/…@h'" },
		{ "s3://id:SECRET@b and \"https://SECRET@h:1/a\"", "s3://b and \"https://h:1/a\"" },
		{ "key 'a.b@c': none", "key 'a.b@c': none" },
		{ " ' '' \n", " ' '' \n" },
		{ "", "" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		char *shown = sf_url_shown(t[i][0]);
		ck_assert_str_eq(shown, t[i][1]);
		free(shown);
	}
	for (size_t i = 0; i < SF_ARRAY_LEN(texts); i++) {
		char *shown = sf_url_scrub(texts[i][0]);
		ck_assert_str_eq(shown, texts[i][1]);
		free(shown);
	}
}
END_TEST

START_TEST(userinfo_inside_a_word_is_hidden_too)
{
	static const struct {
		const char *word, *left;
	} c[] = {
		{ "allow_other,endpoint_url=http://u:PASS@h:80,ro",
		  "allow_other,endpoint_url=http://******@h:80,ro" },
		{ "--endpoint-url=https://u@h/p", "--endpoint-url=https://*@h/p" },
		{ "a=http://h/p@q,b=s3://k:s@b/x", "a=http://h/p@q,b=s3://***@b/x" },
		{ "model.a@b", "model.a@b" },
		{ "x=http://h", "x=http://h" },
		{ "x=http://", "x=http://" },
	};

	for (size_t i = 0; i < sizeof(c) / sizeof(c[0]); i++) {
		char *word = strdup(c[i].word);
		sf_url_hide_inside(word);
		ck_assert_str_eq(word, c[i].left);
		free(word);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("url");
	TCase *c = tcase_create("url");

	tcase_add_test(c, userinfo_inside_a_word_is_hidden_too);
	tcase_add_test(c, a_url_is_taken_apart);
	tcase_add_test(c, a_bad_url_is_said_without_its_secrets);
	tcase_add_test(c, secrets_are_overwritten_in_place);
	tcase_add_test(c, a_long_url_is_refused);
	tcase_add_test(c, names_become_parts_of_urls_and_back);
	tcase_add_test(c, paths_are_no_urls);
	tcase_add_test(c, what_was_meant_as_a_url_is_shown_as_one);
	suite_add_tcase(s, c);
	return sf_test_main(s);
}
