#include "config.h"

#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <string.h>

#include "base/json.h"
#include "base/mem.h"
#include "store/gs_chain.h"
#include "store/http_basic.h"
#include "tests/lib/aws_world.h"

#define FOUND "{\"access_token\":\"ya29.tok\",\"expires_in\":3599,\"token_type\":\"Bearer\"}"
#define GOOGLE SF_GS_TOKEN_URL
#define METADATA "http://metadata.google.internal/computeMetadata/v1/"
#define DEFAULTS ".config/gcloud/application_default_credentials.json"
#define SECRET "s3cr3t"
#define USER(more)                                                                       \
	"{\"type\":\"authorized_user\",\"client_id\":\"id\",\"client_secret\":\"" SECRET \
	"\",\"refresh_token\":\"1//" SECRET "\"" more "}"

static void gcloud_file(struct aws_world *w, const char *text)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "mkdir -p %s/.config/gcloud", w->dir);
	ck_assert_int_eq(system(cmd), 0);
	aws_world_file(w, DEFAULTS, text);
}

/* The token that the chain gives, by a provider. */
static int get(struct aws_world *w, struct sf_gs_token *ret, struct sf_error *err)
{
	struct sf_gs_provider *p;
	int r;

	err->msg[0] = '\0';
	*ret = (struct sf_gs_token){ .token = NULL };
	ck_assert_int_eq(sf_gs_provider_new(&w->env, &p, NULL), 0);
	r = sf_gs_provider_get(p, ret, err);
	ck_assert_int_eq(r < 0, err->msg[0] != '\0');
	ck_assert_msg(!strstr(err->msg, SECRET), "%s", err->msg);
	sf_gs_provider_free(p);
	return r;
}

START_TEST(a_user_is_who_logged_in_by_gcloud)
{
	static const struct aws_answer answers[] = { { "POST", GOOGLE, 0, 200, FOUND, NULL } };
	struct aws_world w;
	struct sf_gs_token t;
	struct sf_error err;

	aws_world_init(&w);
	w.answers = answers;
	w.nanswers = 1;
	gcloud_file(&w, USER(",\"quota_project_id\":\"pays\""));
	ck_assert_msg(get(&w, &t, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(t.token, "ya29.tok");
	ck_assert_str_eq(t.project, "pays");
	ck_assert_ptr_nonnull(strstr(t.from, DEFAULTS));
	ck_assert_int_eq(t.expires, 1600000000 + 3599);
	ck_assert_str_eq(w.last.body, "client_id=id&client_secret=" SECRET
	                              "&grant_type=refresh_token&refresh_token=1%2F%2F" SECRET);
	ck_assert_ptr_nonnull(strstr(w.last.headers, "application/x-www-form-urlencoded"));
	sf_gs_token_release(&t);
	w.var[0] = "GOOGLE_CLOUD_QUOTA_PROJECT";
	w.var[1] = "other";
	ck_assert_int_eq(get(&w, &t, &err), 0);
	ck_assert_str_eq(t.project, "other");
	sf_gs_token_release(&t);
	aws_world_release(&w);
}
END_TEST

/* What stands in a form, decoded; the test's to free. */
static char *form_value(const char *body, const char *name)
{
	const char *at = strstr(body, name);
	char *v;

	ck_assert_ptr_nonnull(at);
	at += strlen(name) + 1;
	v = strndup(at, strcspn(at, "&"));
	for (char *from = v, *to = v;; from++, to++) {
		unsigned c;
		if (*from == '%' && sscanf(from + 1, "%2x", &c) == 1) {
			*to = (char)c;
			from += 2;
		} else {
			*to = *from;
		}
		if (!*from)
			return v;
	}
}

static size_t from_base64url(const char *s, size_t len, uint8_t *to)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
	uint32_t v = 0;
	size_t n = 0;

	for (size_t i = 0, bits = 0; i < len; i++) {
		const char *d = strchr(digits, s[i]);
		ck_assert(d && *d);
		v = v << 6 | (uint32_t)(d - digits);
		bits += 6;
		if (bits >= 8) {
			bits -= 8;
			to[n++] = (uint8_t)(v >> bits);
		}
	}
	return n;
}

static void check_jwt(const char *jwt, EVP_PKEY *key, const char *const *claims)
{
	const char *dot = strchr(jwt, '.'), *last = strrchr(jwt, '.');
	uint8_t sig[1024], text[4096];
	EVP_MD_CTX *ctx = EVP_MD_CTX_new();
	size_t n = from_base64url(last + 1, strlen(last + 1), sig);

	ck_assert_int_eq(EVP_DigestVerifyInit(ctx, NULL, EVP_sha256(), NULL, key), 1);
	ck_assert_int_eq(EVP_DigestVerify(ctx, sig, n, (const uint8_t *)jwt, (size_t)(last - jwt)),
	                 1);
	EVP_MD_CTX_free(ctx);
	text[from_base64url(jwt, (size_t)(dot - jwt), text)] = '\0';
	ck_assert_str_eq((char *)text, "{\"alg\":\"RS256\",\"typ\":\"JWT\",\"kid\":\"k\\\"1\"}");
	text[from_base64url(dot + 1, (size_t)(last - dot) - 1, text)] = '\0';
	for (; *claims; claims++)
		ck_assert_msg(strstr((char *)text, *claims) != NULL, "%s: %s", (char *)text,
		              *claims);
}

/* A credentials file with a key of its own. */
static EVP_PKEY *service_account(char *text, size_t size)
{
	EVP_PKEY *key = EVP_RSA_gen(2048);
	BIO *bio = BIO_new(BIO_s_mem());
	char pem[4096], *to = pem, *at;
	long len;

	ck_assert_ptr_nonnull(key);
	ck_assert_int_eq(PEM_write_bio_PrivateKey(bio, key, NULL, NULL, 0, NULL, NULL), 1);
	len = BIO_get_mem_data(bio, &at);
	for (long i = 0; i < len; i++) {
		if (at[i] == '\n') {
			*to++ = '\\';
			*to++ = 'n';
		} else {
			*to++ = at[i];
		}
	}
	*to = '\0';
	BIO_free(bio);
	snprintf(text, size,
	         "{\"type\":\"service_account\",\"client_email\":\"a@p.iam\",\"private_key_id\":"
	         "\"k\\\"1\",\"private_key\":\"%s\",\"token_uri\":\"" GOOGLE "\"}",
	         pem);
	return key;
}

START_TEST(a_service_account_signs_for_itself)
{
	static const struct aws_answer answers[] = { { "POST", GOOGLE, 0, 200, FOUND, NULL } };
	static const char *const claims[] = { "\"iss\":\"a@p.iam\"", "\"aud\":\"" GOOGLE "\"",
		                              "\"scope\":\"" SF_GS_SCOPE_READ "\"",
		                              "\"iat\":1600000000,\"exp\":1600003600", NULL };
	char text[8192], path[256], *jwt;
	struct aws_world w;
	struct sf_gs_token t;
	struct sf_error err;
	EVP_PKEY *key = service_account(text, sizeof(text));

	aws_world_init(&w);
	w.answers = answers;
	w.nanswers = 1;
	snprintf(path, sizeof(path), "%s", aws_world_file(&w, "key.json", text));
	w.var[0] = "GOOGLE_APPLICATION_CREDENTIALS";
	w.var[1] = path;
	ck_assert_msg(get(&w, &t, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(t.token, "ya29.tok");
	ck_assert_ptr_eq(strstr(t.from, "a@p.iam of "), t.from);
	ck_assert_ptr_null(t.project);
	jwt = form_value(w.last.body, "grant_type");
	ck_assert_str_eq(jwt, "urn:ietf:params:oauth:grant-type:jwt-bearer");
	free(jwt);
	jwt = form_value(w.last.body, "assertion");
	check_jwt(jwt, key, claims);
	free(jwt);
	sf_gs_token_release(&t);
	EVP_PKEY_free(key);
	aws_world_release(&w);
}
END_TEST

START_TEST(an_external_account_exchanges_somebody_elses_token)
{
	static const struct aws_answer answers[] = {
		{ "POST", "https://sts.googleapis.com/v1/token", 0, 200,
		  "{\"access_token\":\"first\",\"expires_in\":10}", NULL },
		{ "GET", "http://idp/token", 0, 200, "{\"id\":\"from the url\"}", NULL },
		{ "POST", "https://iamcredentials.googleapis.com/", 0, 200,
		  "{\"accessToken\":\"second\",\"expireTime\":\"2020-09-13T12:27:40Z\"}", NULL },
	};
	static const char account[] = "{\"type\":\"external_account\",\"audience\":\"//iam/a\","
				      "\"subject_token_type\":\"urn:jwt\",\"token_url\":"
				      "\"https://sts.googleapis.com/v1/token\",%s\"credential_"
				      "source\":%s}";
	struct aws_world w;
	struct sf_gs_token t;
	struct sf_error err;
	char text[2048], source[512];

	aws_world_init(&w);
	w.answers = answers;
	w.nanswers = 3;
	snprintf(source, sizeof(source), "{\"file\":\"%s\"}",
	         aws_world_file(&w, "subject", "of a file\n"));
	snprintf(text, sizeof(text), account, "", source);
	gcloud_file(&w, text);
	ck_assert_msg(get(&w, &t, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(t.token, "first");
	ck_assert_str_eq(
		w.last.body,
		"audience=%2F%2Fiam%2Fa&grant_type=urn%3Aietf%3Aparams%3Aoauth%3Agrant-type%3A"
		"token-exchange&requested_token_type=urn%3Aietf%3Aparams%3Aoauth%3Atoken-type%3A"
		"access_token&scope=https%3A%2F%2Fwww.googleapis.com%2Fauth%2Fdevstorage.read_only&"
		"subject_token=of%20a%20file&subject_token_type=urn%3Ajwt");
	sf_gs_token_release(&t);

	/* by a URL that answers in JSON, in the name of a service account, as a client */
	snprintf(text, sizeof(text), account,
	         "\"client_id\":\"c\",\"client_secret\":\"" SECRET
	         "\",\"service_account_impersonation_url\":\"https://"
	         "iamcredentials.googleapis.com/v1/x:generateAccessToken\",",
	         "{\"url\":\"http://idp/token\",\"headers\":{\"Metadata\":\"True\"},\"format\":{"
	         "\"type\":\"json\",\"subject_token_field_name\":\"id\"}}");
	gcloud_file(&w, text);
	w.asked = 0;
	ck_assert_msg(get(&w, &t, &err) == 0, "%s", err.msg);
	ck_assert_uint_eq(w.asked, 3);
	ck_assert_str_eq(t.token, "second");
	ck_assert_int_eq(t.expires, 1600000060);
	ck_assert_ptr_nonnull(strstr(w.last.headers, "Authorization: Bearer first\n"));
	ck_assert_str_eq(w.last.body, "{\"scope\":[\"" SF_GS_SCOPE_READ
	                              "\"],\"lifetime\":\"3600s\",\"delegates\":[]}");
	sf_gs_token_release(&t);
	aws_world_release(&w);
}
END_TEST

START_TEST(an_account_may_act_for_another)
{
	static const struct aws_answer answers[] = {
		{ "POST", GOOGLE, 0, 200, FOUND, NULL },
		{ "POST", "https://iam/", 0, 200,
		  "{\"accessToken\":\"other\",\"expireTime\":\"2020-09-13T12:27:40Z\"}", NULL },
	};
	struct aws_world w;
	struct sf_gs_token t;
	struct sf_error err;

	aws_world_init(&w);
	w.answers = answers;
	w.nanswers = 2;
	gcloud_file(&w, "{\"type\":\"impersonated_service_account\",\"delegates\":[\"d\"],"
	                "\"service_account_impersonation_url\":\"https://iam/x\","
	                "\"source_credentials\":" USER("") "}");
	ck_assert_msg(get(&w, &t, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(t.token, "other");
	ck_assert_ptr_nonnull(strstr(w.last.headers, "Authorization: Bearer ya29.tok\n"));
	ck_assert_ptr_nonnull(strstr(w.last.body, "\"delegates\":[\"d\"]"));
	sf_gs_token_release(&t);
	aws_world_release(&w);
}
END_TEST

START_TEST(the_machine_is_asked_last)
{
	static struct aws_answer answer[1];
	struct aws_world w;
	struct sf_gs_token t;
	struct sf_error err;

	aws_world_init(&w);
	answer[0] = (struct aws_answer){ "GET", METADATA, 0, 200, FOUND, "Google" };
	w.answers = answer;
	w.nanswers = 1;
	ck_assert_msg(get(&w, &t, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(t.from, "the machine's service account");
	ck_assert_str_eq(w.last.url, METADATA "instance/service-accounts/default/token");
	ck_assert_str_eq(w.last.headers, "Metadata-Flavor: Google\n");
	sf_gs_token_release(&t);
	answer[0].status = 404;
	ck_assert_int_eq(get(&w, &t, &err), -EIO);
	ck_assert_ptr_nonnull(strstr(err.msg, "no service account"));
	answer[0].kept = NULL; /* it is another's */
	ck_assert_int_eq(get(&w, &t, &err), -ENOKEY);
	ck_assert_ptr_nonnull(strstr(err.msg, "--no-sign-request"));
	answer[0] = (struct aws_answer){ "GET", "http://h:1/", 0, 200, FOUND, "Google" };
	w.var[0] = "GCE_METADATA_HOST";
	w.var[1] = "h:1";
	ck_assert_int_eq(get(&w, &t, &err), 0);
	sf_gs_token_release(&t);
	w.var[1] = "h/../";
	ck_assert_int_eq(get(&w, &t, &err), -EINVAL);
	w.var[0] = "NO_GCE_CHECK";
	w.var[1] = "True";
	w.asked = 0;
	ck_assert_int_eq(get(&w, &t, &err), -ENOKEY);
	ck_assert_uint_eq(w.asked, 0);
	aws_world_release(&w);
}
END_TEST

START_TEST(what_is_there_and_no_good_is_an_error)
{
	static const struct {
		const char *text;
		int r;
		const char *word;
	} bad[] = {
		{ "", -EBADMSG, "no JSON" },
		{ SECRET, -EBADMSG, "no JSON" },
		{ "{}", -EBADMSG, "no type" },
		{ "{\"type\":\"gdch_service_account\"}", -ENOTSUP,
		  "'gdch_service_account' is none" },
		{ "{\"type\":\"authorized_user\"}", -EBADMSG, "no client_id" },
		{ "{\"type\":\"authorized_user\",\"client_id\":\"x\",\"client_secret\":5}",
		  -EBADMSG, "no client_secret" },
		{ "{\"type\":\"service_account\",\"client_email\":\"a\"}", -EBADMSG,
		  "no private_key" },
		{ "{\"type\":\"service_account\",\"client_email\":\"a\",\"private_key\":\"" SECRET
		  "\"}",
		  -EBADMSG, "no RSA key" },
		{ USER(",\"token_uri\":\"http://elsewhere/\""), -EINVAL, "no https:// URL" },
		{ "{\"type\":\"external_account\"}", -EBADMSG, "no credential_source" },
		{ "{\"type\":\"external_account\",\"credential_source\":{\"executable\":{}}}",
		  -ENOTSUP, "file and url" },
		{ "{\"type\":\"external_account\",\"credential_source\":{\"environment_id\":"
		  "\"aws1\","
		  "\"url\":\"http://169.254.169.254/\"}}",
		  -ENOTSUP, "file and url" },
		{ "{\"type\":\"external_account\",\"credential_source\":{\"file\":\"/nowhere\"}}",
		  -ENOENT, "'/nowhere'" },
		{ "{\"type\":\"external_account\",\"credential_source\":{\"url\":\"file:///x\"}}",
		  -EBADMSG, "url" },
		{ "{\"type\":\"external_account\",\"credential_source\":{\"url\":\"http://x\","
		  "\"headers\":{\"A\":\"b\\r\\nc\"}}}",
		  -EBADMSG, "headers" },
		{ "{\"type\":\"impersonated_service_account\",\"service_account_impersonation_"
		  "url\":"
		  "\"https://x\"}",
		  -EBADMSG, "source_credentials" },
	};
	struct aws_world w;
	struct sf_gs_token t;
	struct sf_error err;

	aws_world_init(&w);
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		gcloud_file(&w, bad[i].text);
		ck_assert_msg(get(&w, &t, &err) == bad[i].r, "%s: %s", bad[i].text, err.msg);
		ck_assert_msg(strstr(err.msg, bad[i].word) != NULL, "%s: %s", bad[i].text, err.msg);
		ck_assert_msg(strstr(err.msg, DEFAULTS) != NULL, "%s", err.msg);
		ck_assert_ptr_null(t.token);
	}
	ck_assert_uint_eq(w.asked, 0);
	w.var[0] = "GOOGLE_APPLICATION_CREDENTIALS";
	w.var[1] = "/nowhere.json";
	ck_assert_int_eq(get(&w, &t, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "GOOGLE_APPLICATION_CREDENTIALS '/nowhere.json'"));
	aws_world_release(&w);
}
END_TEST

START_TEST(answers_that_are_no_good)
{
	static const struct {
		struct aws_answer a;
		int r;
		unsigned asked;
		const char *word;
	} bad[] = {
		{ { "POST", GOOGLE, 0, 400,
		    "{\"error\":\"invalid_grant\",\"error_description\":\"Token has been expired "
		    "or "
		    "revoked.\"}",
		    NULL },
		  -EACCES,
		  1,
		  "oauth2.googleapis.com answers 400 invalid_grant: Token has been expired or "
		  "revoked." },
		{ { "POST", GOOGLE, 0, 503, "", NULL }, -EIO, 3, "answers 503" },
		{ { "POST", GOOGLE, -ECONNREFUSED, 0, "", NULL }, -ECONNREFUSED, 3, "the test" },
		{ { "POST", GOOGLE, 0, 200, "<html>", NULL }, -EBADMSG, 1, "no JSON" },
		{ { "POST", GOOGLE, 0, 200, "{}", NULL }, -EBADMSG, 1, "no access token" },
		{ { "POST", GOOGLE, 0, 200, "{\"access_token\":\"\"}", NULL },
		  -EBADMSG,
		  1,
		  "empty" },
		{ { "POST", GOOGLE, 0, 200, "{\"access_token\":\"a\\r\\nb\"}", NULL },
		  -EBADMSG,
		  1,
		  "blanks" },
		{ { "POST", GOOGLE, 0, 200, "{\"access_token\":\"a\",\"expires_in\":-1}", NULL },
		  -EBADMSG,
		  1,
		  "expires_in" },
		{ { "POST", GOOGLE, 0, 200, "{\"accessToken\":\"a\",\"expireTime\":\"soon\"}",
		    NULL },
		  -EBADMSG,
		  1,
		  "expireTime" },
		{ { "POST", GOOGLE, 0, 200, "{\"access_token\":\"a\",\"expires_in\":0}", NULL },
		  -EKEYEXPIRED,
		  1,
		  "expired" },
	};
	struct aws_world w;
	struct sf_gs_token t;
	struct sf_error err;

	aws_world_init(&w);
	gcloud_file(&w, USER(""));
	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		w.answers = &bad[i].a;
		w.nanswers = 1;
		w.asked = 0;
		ck_assert_msg(get(&w, &t, &err) == bad[i].r, "%zu: %s", i, err.msg);
		ck_assert_msg(strstr(err.msg, bad[i].word) != NULL, "%zu: %s", i, err.msg);
		ck_assert_uint_eq(w.asked, bad[i].asked);
	}
	aws_world_release(&w);
}
END_TEST

START_TEST(a_token_that_a_server_does_not_know_is_fetched_anew)
{
	static const struct aws_answer answers[] = {
		{ "POST", GOOGLE, 0, 200, FOUND, NULL },
		{ "POST", GOOGLE, 0, 200, "{\"access_token\":\"two\",\"expires_in\":3600}", NULL },
	};
	struct sf_gs_provider *p;
	struct aws_world w;
	struct sf_gs_token t;

	aws_world_init(&w);
	w.answers = answers;
	w.nanswers = 1;
	gcloud_file(&w, USER(""));
	ck_assert_int_eq(sf_gs_provider_new(&w.env, &p, NULL), 0);
	ck_assert_int_eq(sf_gs_provider_try(p, &t, NULL), -EAGAIN);
	for (int i = 0; i < 3; i++) {
		ck_assert_int_eq(sf_gs_provider_get(p, &t, NULL), 0);
		ck_assert_str_eq(t.token, "ya29.tok");
		sf_gs_token_release(&t);
	}
	ck_assert_uint_eq(w.asked, 1);
	w.answers = answers + 1;
	sf_gs_provider_expired(p, "another");
	ck_assert_int_eq(sf_gs_provider_try(p, &t, NULL), 0);
	sf_gs_token_release(&t);
	sf_gs_provider_expired(p, "ya29.tok");
	ck_assert_int_eq(sf_gs_provider_get(p, &t, NULL), 0);
	ck_assert_str_eq(t.token, "two");
	ck_assert_uint_eq(w.asked, 2);
	sf_gs_token_release(&t);
	sf_gs_provider_free(p);
	aws_world_release(&w);
}
END_TEST

START_TEST(base64_in_both_alphabets)
{
	static const struct {
		const char *text, *url, *mime;
	} t[] = { { "", "", "" },
		  { "f", "Zg", "Zg==" },
		  { "fo", "Zm8", "Zm8=" },
		  { "foobar", "Zm9vYmFy", "Zm9vYmFy" },
		  { "\xff\xfe\xfb", "__77", "//77" } };

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		struct sf_buf b = { 0 };

		sf_base64(&b, t[i].text, strlen(t[i].text), true);
		ck_assert_str_eq(sf_buf_cstr(&b), t[i].url);
		sf_buf_reset(&b);
		sf_base64(&b, t[i].text, strlen(t[i].text), false);
		ck_assert_str_eq(sf_buf_cstr(&b), t[i].mime);
		sf_buf_release(&b);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("gs_credentials");
	TCase *t = tcase_create("chain");

	tcase_set_timeout(t, 20);
	tcase_add_test(t, a_user_is_who_logged_in_by_gcloud);
	tcase_add_test(t, a_service_account_signs_for_itself);
	tcase_add_test(t, an_external_account_exchanges_somebody_elses_token);
	tcase_add_test(t, an_account_may_act_for_another);
	tcase_add_test(t, the_machine_is_asked_last);
	tcase_add_test(t, what_is_there_and_no_good_is_an_error);
	tcase_add_test(t, answers_that_are_no_good);
	tcase_add_test(t, a_token_that_a_server_does_not_know_is_fetched_anew);
	tcase_add_test(t, base64_in_both_alphabets);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
