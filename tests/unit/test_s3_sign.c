#include "config.h"

#include <pthread.h>
#include <string.h>

#include "base/mem.h"
#include "store/s3_sign.h"
#include "tests/lib/sf_test.h"

/* The examples of "Signature Calculations for the Authorization Header" in Amazon's S3 manual. */
static const struct sf_aws_credentials of_manual = {
	.key_id = "AKIAIOSFODNN7EXAMPLE",
	.secret = "wJalrXUtnFEMI/K7MDENG/bPxRfiCYEXAMPLEKEY",
};
#define MAY_24 1369353600 /* 2013-05-24 00:00:00 UTC */
static const struct sf_s3_request get = {
	.method = "GET",
	.host = "examplebucket.s3.amazonaws.com",
	.path = "/test.txt",
	.query = "",
	.region = "us-east-1",
	.service = "s3",
	.payload = SF_S3_EMPTY,
	.now = MAY_24,
};

/* The value of header @name, "" when there is none. */
static const char *value_of(char **headers, const char *name)
{
	for (; *headers; headers++)
		if (strncasecmp(*headers, name, strlen(name)) == 0 &&
		    strncmp(*headers + strlen(name), ": ", 2) == 0)
			return *headers + strlen(name) + 2;
	return "";
}

static void signature(const struct sf_s3_request *req, const struct sf_aws_credentials *cred,
                      char ret[65])
{
	struct sf_error err = SF_ERROR_INIT;
	char **headers;

	ck_assert_msg(sf_s3_sign(req, cred, &headers, &err) == 0, "%s", err.msg);
	const char *at = strstr(value_of(headers, "Authorization"), "Signature=");
	ck_assert_ptr_nonnull(at);
	snprintf(ret, 65, "%s", at + 10);
	sf_s3_headers_free(headers);
}

#define ck_signature(req, cred, want)           \
	do {                                    \
		char sig_[65];                  \
		signature(req, cred, sig_);     \
		ck_assert_str_eq(sig_, (want)); \
	} while (0)

START_TEST(the_examples_of_the_manual_come_out)
{
	struct sf_s3_request req = get;

	req.headers = (const char *const[]){ "Range: bytes=0-9", NULL };
	ck_signature(&req, &of_manual,
	             "f0e8bdb87c964420e857bd35b5d6ed310bd44f0170aba48dd91039c6036bdb41");
	req.method = "PUT";
	req.path = "/test%24file.text";
	req.payload = "44ce7dd67c959e0d3524ffac1771dfbba87d2b6b4b4e99e42034a8b803f8b072";
	req.headers = (const char *const[]){ "x-amz-storage-class: REDUCED_REDUNDANCY",
		                             "Date: Fri, 24 May 2013 00:00:00 GMT", NULL };
	ck_signature(&req, &of_manual,
	             "98ad721746da40c64f1a55b78f14c238d841ea1380cd77a1b5971af0ece108bd");
	req = get;
	req.path = "/";
	req.query = "lifecycle=";
	ck_signature(&req, &of_manual,
	             "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
	req.query = "max-keys=2&prefix=J";
	ck_signature(&req, &of_manual,
	             "34b48302e7b5fa45bde8084f4b7868a86f0a534bc59db6670ed5711ef69dc6f7");
}
END_TEST

/* Of Amazon's aws-sig-v4-test-suite, where the service is called "service". */
START_TEST(the_vectors_of_the_test_suite_come_out)
{
	struct sf_aws_credentials cred = {
		.key_id = "AKIDEXAMPLE",
		.secret = "wJalrXUtnFEMI/K7MDENG+bPxRfiCYEXAMPLEKEY",
	};
	struct sf_s3_request req = get;

	req.host = "example.amazonaws.com";
	req.path = "/";
	req.service = "service";
	req.now = 1440938160; /* 2015-08-30 12:36:00 UTC */
	/* get-vanilla, get-vanilla-query-order-key-case, get-header-value-trim */
	ck_signature(&req, &cred,
	             "5fa00fa31553b73ebf1942676e86291e8372ff2a2260956d9b8aae1d763fbf31");
	req.query = "Param1=value1&Param2=value2";
	ck_signature(&req, &cred,
	             "b97d918cfa904a5beff61c982a1b6f458b799221646efd99d3219ec94cdf2500");
	req.query = "";
	req.headers =
		(const char *const[]){ "My-Header1: value1  ", "My-Header2: \"a   b   c\"", NULL };
	ck_signature(&req, &cred,
	             "acc3ed3afb60bb290fc8d2dd0098b9911fcaa05412b367055dee359757a9c736");
	/* post-vanilla, post-sts-header-before */
	req.method = "POST";
	req.headers = NULL;
	ck_signature(&req, &cred,
	             "5da7c1a2acd57cee7505fc6676e4e544621c30862966e37dddb68e92efbe5d6b");
	cred.token = "AQoDYXdzEPT//////////wEXAMPLEtc764bNrC9SAPBSM22wDOk4x4HIZ8j4FZTwdQWLWsKWHGBuF"
		     "qwAeMicRXmxfpSPfIeoIYRqTflfKD8YUuwthAx7mSEI/qkPpKPi/kMcGdQrmGdeehM4IC1NtBmUpp"
		     "2wUE8phUZampKsburEDy0KPkyQDYwT7WZ0wq5VSXDvp75YU9HFvlRd8Tx6q6fE8YQcHNVXAkiY9q6"
		     "d+xo0rKwT38xVqr7ZD0u0iPPkUL64lIZbqBAz+scqKmlzm8FDrypNC9Yjc8fPOLn9FX9KSYvKTr4r"
		     "vx3iSIlTJabIQwj2ICCR/oLxBA==";
	ck_signature(&req, &cred,
	             "85d96828115b5dc0cfc3bd16ad9e210dd772bbebba041836c64533a82be05ead");
}
END_TEST

START_TEST(kept_keys_sign_as_derived_ones_do)
{
	static const char *const regions[] = { "us-east-1", "eu-west-3", "cn-north-1", "auto",
		                               "x",         "us-east-1", "auto",       "x" };
	struct sf_s3_keys *keys = sf_s3_keys_new();
	struct sf_aws_credentials other = of_manual;

	other.secret = "another";
	for (int round = 0; round < 3; round++) {
		for (size_t i = 0; i < SF_ARRAY_LEN(regions); i++) {
			struct sf_s3_request req = get;
			char kept[65], derived[65];

			req.region = regions[i];
			req.now += (int64_t)86400 * (round % 2);
			req.keys = keys;
			signature(&req, i % 3 ? &of_manual : &other, kept);
			req.keys = NULL;
			signature(&req, i % 3 ? &of_manual : &other, derived);
			ck_assert_str_eq(kept, derived);
		}
	}
	sf_s3_keys_free(keys);
}
END_TEST

static void *sign_often(void *arg)
{
	struct sf_s3_request req = get;
	char got[65];

	req.keys = arg;
	for (int i = 0; i < 200; i++) {
		req.now = MAY_24 + (int64_t)86400 * (i % 6);
		signature(&req, &of_manual, got);
	}
	req.now = MAY_24;
	req.query = "lifecycle=";
	req.path = "/";
	ck_signature(&req, &of_manual,
	             "fea454ca298b7da1c68078a5d1bdbfbbe0d65c699e0f91ac7a200a0136783543");
	return NULL;
}

START_TEST(threads_share_the_kept_keys)
{
	struct sf_s3_keys *keys = sf_s3_keys_new();
	pthread_t thread[4];

	for (size_t i = 0; i < SF_ARRAY_LEN(thread); i++)
		ck_assert_int_eq(pthread_create(&thread[i], NULL, sign_often, keys), 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(thread); i++)
		pthread_join(thread[i], NULL);
	sf_s3_keys_free(keys);
}
END_TEST

START_TEST(what_is_sent_is_what_was_signed)
{
	struct sf_aws_credentials cred = of_manual;
	struct sf_s3_request req = get;
	char **h;

	cred.token = "to+/ken=";
	req.headers = (const char *const[]){ "x-amz-request-payer: requester", NULL };
	ck_assert_int_eq(sf_s3_sign(&req, &cred, &h, NULL), 0);
	ck_assert_str_eq(h[0], "x-amz-request-payer: requester");
	ck_assert_str_eq(value_of(h, "x-amz-date"), "20130524T000000Z");
	ck_assert_str_eq(value_of(h, "x-amz-content-sha256"), SF_S3_EMPTY);
	ck_assert_str_eq(value_of(h, "x-amz-security-token"), "to+/ken=");
	ck_assert_ptr_nonnull(
		strstr(value_of(h, "Authorization"),
	               "Credential=AKIAIOSFODNN7EXAMPLE/20130524/us-east-1/s3/"
	               "aws4_request, SignedHeaders=host;x-amz-content-sha256;x-amz-date;"
	               "x-amz-request-payer;x-amz-security-token, Signature="));
	ck_assert_ptr_null(h[5]);
	sf_s3_headers_free(h);
}
END_TEST

START_TEST(names_sort_before_what_stands_behind_them)
{
	static const char *const one[] = { "x-amz-meta-a-b: 1", "x-amz-meta-a: 2", NULL };
	static const char *const two[] = { "x-amz-meta-a: 2", "x-amz-meta-a-b: 1", NULL };
	struct sf_s3_request req = get;
	char **h, a[65], b[65];

	req.headers = one;
	ck_assert_int_eq(sf_s3_sign(&req, &of_manual, &h, NULL), 0);
	ck_assert_ptr_nonnull(
		strstr(value_of(h, "Authorization"), ";x-amz-meta-a;x-amz-meta-a-b,"));
	sf_s3_headers_free(h);
	signature(&req, &of_manual, a);
	req.headers = two;
	signature(&req, &of_manual, b);
	ck_assert_str_eq(a, b);
}
END_TEST

static void refused(struct sf_s3_request req, struct sf_aws_credentials cred, const char *says)
{
	struct sf_error err = SF_ERROR_INIT;
	char **h = NULL;

	ck_assert_int_eq(sf_s3_sign(&req, &cred, &h, &err), -EINVAL);
	ck_assert_ptr_null(h);
	ck_assert_msg(strstr(err.msg, says) != NULL, "%s", err.msg);
	ck_assert_msg(!strstr(err.msg, "SECRET"), "%s", err.msg);
}

START_TEST(what_no_header_can_carry_is_refused_without_being_told)
{
	struct sf_aws_credentials cred = of_manual;
	struct sf_s3_request req = get;

	cred.token = "SECRET\r\nX-Other: 1";
	refused(req, cred, "x-amz-security-token");
	cred = of_manual;
	cred.key_id = "SECRET\n";
	refused(req, cred, "key id");
	cred.key_id = "";
	refused(req, cred, "key id");
	cred = of_manual;
	req.region = "a/b";
	refused(req, cred, "'a/b'");
	req.region = "";
	refused(req, cred, "region");
	req.region = "SECRET\n";
	refused(req, cred, "region");
	req = get;
	req.now = INT64_MAX;
	refused(req, cred, "not a time");
	req.now = -1 - (int64_t)86400 * 365 * 100;
	refused(req, cred, "not a time");
	req = get;
	req.path = "no-slash";
	refused(req, cred, "path");
	req.path = "/a\nb";
	refused(req, cred, "path");
	req = get;
	req.headers = (const char *const[]){ "no name", NULL };
	refused(req, cred, "no name");
	req.headers = (const char *const[]){ ": 1", NULL };
	refused(req, cred, "no name");
	req.headers = (const char *const[]){ "HOST: other", NULL };
	refused(req, cred, "twice");
	req.headers = (const char *const[]){ "X-Amz-Date: 1", NULL };
	refused(req, cred, "twice");
}
END_TEST

START_TEST(a_request_without_end_is_refused)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_s3_request req = get;
	const char *many[64] = { NULL };
	char name[64][16], *path = malloc(100001), **h;

	memset(path, '/', 100000);
	path[100000] = '\0';
	req.path = path;
	ck_assert_int_eq(sf_s3_sign(&req, &of_manual, &h, &err), -E2BIG);
	ck_assert_ptr_nonnull(strstr(err.msg, "65536"));
	free(path);
	for (int i = 0; i < 63; i++) {
		snprintf(name[i], sizeof(name[i]), "x-amz-%d: 1", i);
		many[i] = name[i];
	}
	req.path = "/";
	req.headers = many;
	refused(req, of_manual, "32");
}
END_TEST

START_TEST(a_query_is_in_the_order_that_is_signed)
{
	static const struct sf_s3_param param[] = {
		{ "prefix", "a/b c+d=%&#'~*()\xc3\xa9" },
		{ "list-type", "2" },
		{ "a", "z" },
		{ "start-after", NULL },
		{ "delimiter", "" },
		{ "a-b", "1" },
		{ "a", "b" },
	};
	struct sf_buf b = { 0 };

	sf_s3_query(&b, param, SF_ARRAY_LEN(param));
	ck_assert_str_eq(sf_buf_cstr(&b),
	                 "a=b&a=z&a-b=1&delimiter=&list-type=2&prefix=a%2Fb%20c%2Bd%"
	                 "3D%25%26%23%27~%2A%28%29%C3%A9");
	sf_buf_release(&b);

	struct sf_s3_param many[17] = { { "a", "b" } };
	sf_s3_query(&b, many, 17);
	ck_assert_int_eq(sf_buf_check(&b), -E2BIG);
	sf_buf_release(&b);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("s3_sign");
	TCase *t = tcase_create("sign");

	tcase_add_test(t, the_examples_of_the_manual_come_out);
	tcase_add_test(t, the_vectors_of_the_test_suite_come_out);
	tcase_add_test(t, kept_keys_sign_as_derived_ones_do);
	tcase_add_test(t, threads_share_the_kept_keys);
	tcase_add_test(t, what_is_sent_is_what_was_signed);
	tcase_add_test(t, names_sort_before_what_stands_behind_them);
	tcase_add_test(t, what_no_header_can_carry_is_refused_without_being_told);
	tcase_add_test(t, a_request_without_end_is_refused);
	tcase_add_test(t, a_query_is_in_the_order_that_is_signed);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
