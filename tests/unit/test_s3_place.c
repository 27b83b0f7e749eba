#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "store/s3_place.h"
#include "tests/lib/sf_test.h"

START_TEST(a_request_goes_where_bucket_endpoint_and_addressing_say)
{
	static const struct {
		const char *bucket, *endpoint, *addressing, *region, *key, *url, *host;
	} w[] = {
		{ "b-1", "", NULL, "eu-west-1", "k",
		  "https://b-1.s3.eu-west-1.amazonaws.com/k?q=", "b-1.s3.eu-west-1.amazonaws.com" },
		{ "b-1", "", "auto", "cn-north-1", NULL,
		  "https://b-1.s3.cn-north-1.amazonaws.com.cn/?q=",
		  "b-1.s3.cn-north-1.amazonaws.com.cn" },
		{ "a.dot", "", NULL, "r", "k",
		  "https://s3.r.amazonaws.com/a.dot/k?q=", "s3.r.amazonaws.com" },
		{ "Upper_1", "", NULL, "r", NULL,
		  "https://s3.r.amazonaws.com/Upper_1?q=", "s3.r.amazonaws.com" },
		{ "a.dot", "", "virtual", "r", "k",
		  "https://a.dot.s3.r.amazonaws.com/k?q=", "a.dot.s3.r.amazonaws.com" },
		{ "bkt", "", "path", "r", "k",
		  "https://s3.r.amazonaws.com/bkt/k?q=", "s3.r.amazonaws.com" },
		{ "bkt", "http://h:9000/", NULL, "r", "a b/../c//\xc3\xa9+",
		  "http://h:9000/bkt/a%20b/../c//%C3%A9%2B?q=", "h:9000" },
		{ "bkt", "http://h:80", "virtual", "r", "k", "http://bkt.h/k?q=", "bkt.h" },
		{ "bkt", "HTTPS://h:443/x/", NULL, "r", "k", "https://h/x/bkt/k?q=", "h" },
		{ "bkt", "http://h:443", NULL, "r", NULL, "http://h:443/bkt?q=", "h:443" },
		{ "bkt", "http://[::1]:9", NULL, "r", NULL, "http://[::1]:9/bkt?q=", "[::1]:9" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(w); i++) {
		struct sf_buf host = { 0 }, path = { 0 }, url = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		struct sf_s3_place p;

		ck_assert_msg(sf_s3_place_init(&p, w[i].bucket, w[i].endpoint, w[i].addressing,
		                               &err) == 0,
		              "%s", err.msg);
		sf_s3_place_request(&p, w[i].region, w[i].key, "q=", &host, &path, &url);
		ck_assert_int_eq(sf_buf_check(&url), 0);
		ck_assert_str_eq(sf_buf_cstr(&url), w[i].url);
		ck_assert_str_eq(sf_buf_cstr(&host), w[i].host);
		ck_assert_ptr_nonnull(strstr(w[i].url, sf_buf_cstr(&path)));
		sf_buf_release(&host);
		sf_buf_release(&path);
		sf_buf_release(&url);
		sf_s3_place_release(&p);
	}
}
END_TEST

START_TEST(what_is_no_place_is_refused)
{
	static const struct {
		const char *bucket, *endpoint, *addressing;
		int code;
		const char *says;
	} w[] = {
		{ "", "", NULL, -EINVAL, "not the name" },
		{ "..", "", NULL, -EINVAL, "not the name" },
		{ "a/b", "", NULL, -EINVAL, "not the name" },
		{ "a b", "", NULL, -EINVAL, "not the name" },
		{ "arn:aws:s3:x", "", NULL, -ENOTSUP, "ARN" },
		{ "b--use1-az4--x-s3", "", NULL, -ENOTSUP, "Express" },
		{ "b", "", "sideways", -EINVAL, "'sideways'" },
		{ "b", "h:9000", NULL, -EINVAL, "http://" },
		{ "b", "ftp://h", NULL, -EINVAL, "http://" },
		{ "b", "http://", NULL, -EINVAL, "no host" },
		{ "b", "http:///x", NULL, -EINVAL, "no host" },
		{ "b", "http://u:SECRET@h", NULL, -EINVAL, "userinfo" },
		{ "b", "http://h?x=SECRET", NULL, -EINVAL, "query" },
		{ "b", "http://h\r\nX: SECRET", NULL, -EINVAL, "blanks" },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(w); i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_s3_place p;

		ck_assert_int_eq(
			sf_s3_place_init(&p, w[i].bucket, w[i].endpoint, w[i].addressing, &err),
			w[i].code);
		ck_assert_msg(strstr(err.msg, w[i].says) && !strstr(err.msg, "SECRET"), "%s",
		              err.msg);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("s3_place");
	TCase *t = tcase_create("place");

	tcase_add_test(t, a_request_goes_where_bucket_endpoint_and_addressing_say);
	tcase_add_test(t, what_is_no_place_is_refused);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
