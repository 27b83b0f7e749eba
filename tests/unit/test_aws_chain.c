#include "config.h"

#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/aws_chain.h"
#include "tests/lib/aws_world.h"

#define STS(id)                                                                                    \
	"<AssumeRoleResponse xmlns='https://sts.amazonaws.com/doc/2011-06-15/'><AssumeRoleResult>" \
	"<Credentials><AccessKeyId>" id "</AccessKeyId><SecretAccessKey>HUSH</SecretAccessKey>"    \
	"<SessionToken>T&amp;</SessionToken><Expiration>2020-09-13T13:26:40Z</Expiration>"         \
	"</Credentials><AssumedRoleUser><Arn>a</Arn></AssumedRoleUser></AssumeRoleResult></"       \
	"AssumeRoleResponse>"
#define JSON(id)                                                                         \
	"{\"Code\":\"Success\",\"AccessKeyId\":\"" id "\",\"SecretAccessKey\":\"HUSH\"," \
	"\"Token\":\"T\",\"Expiration\":\"2020-09-13T13:26:40Z\"}"

static struct sf_error err;
static char who[256];

/* "key id from where", or "" and err. */
static const char *load(struct aws_world *w, const char *profile)
{
	struct sf_store_options opt = { .profile = profile };
	struct sf_aws_credentials c;

	err.msg[0] = '\0';
	int r = sf_aws_chain_load(&opt, &w->env, &c, &err);
	ck_assert_int_eq(r < 0, err.msg[0] != '\0');
	ck_assert_msg(!strstr(err.msg, "HUSH"), "%s", err.msg);
	if (r < 0)
		return "";
	snprintf(who, sizeof(who), "%s %s %s from %s%s", c.key_id, c.secret,
	         c.token ? c.token : "-", c.from, c.expires ? ", expires" : "");
	sf_aws_credentials_release(&c);
	return who;
}

#define ck_says(text) ck_assert_msg(strstr(err.msg, text) != NULL, "%s", err.msg)

START_TEST(variables_come_first_unless_a_profile_is_given)
{
	struct aws_world w;

	aws_world_init(&w);
	aws_world_file(&w, ".aws/credentials",
	               "[default]\naws_access_key_id=D\naws_secret_access_key=d\n"
	               "[p]\naws_access_key_id=P\naws_secret_access_key=p\naws_session_token=t\n");
	ck_assert_str_eq(load(&w, NULL), "D d - from profile default in the credentials file");
	w.var[0] = "AWS_PROFILE", w.var[1] = "p";
	ck_assert_str_eq(load(&w, NULL), "P p t from profile p in the credentials file");
	w.var[2] = "AWS_ACCESS_KEY_ID", w.var[3] = "E";
	load(&w, NULL);
	ck_says("AWS_SECRET_ACCESS_KEY is not");
	w.var[4] = "AWS_SECRET_ACCESS_KEY", w.var[5] = "e";
	ck_assert_str_eq(load(&w, NULL), "E e - from environment variables");
	w.var[6] = "AWS_SESSION_TOKEN", w.var[7] = "x";
	ck_assert_str_eq(load(&w, NULL), "E e x from environment variables");
	ck_assert_str_eq(load(&w, "default"), "D d - from profile default in the credentials file");
	load(&w, "nobody");
	ck_says("'nobody' is neither");
	w.var[1] = "";
	ck_assert_str_eq(load(&w, NULL), "E e x from environment variables");
	aws_world_release(&w);
}
END_TEST

START_TEST(a_program_is_run_before_keys_in_the_config_file)
{
	struct aws_world w;

	aws_world_init(&w);
	aws_world_file(&w, ".aws/config",
	               "[default]\naws_access_key_id=C\naws_secret_access_key=c\n"
	               "[profile p]\naws_access_key_id=C\naws_secret_access_key=c\n"
	               "credential_process = echo '{\"Version\":1,\"AccessKeyId\":\"'\"P Q\"'\",' "
	               "'\"SecretAccessKey\":\"s\",\"SessionToken\":null}'\n"
	               "[profile fails]\ncredential_process = echo HUSH; echo HUSH >&2; exit 3\n"
	               "[profile talks]\ncredential_process = echo HUSH\n"
	               "[profile old]\ncredential_process = echo '{\"Version\":2}'\n"
	               "[profile half]\ncredential_process = echo "
	               "'{\"Version\":1,\"AccessKeyId\":\"a\"}'\n"
	               "[profile dies]\ncredential_process = kill -9 $$\n"
	               "[profile floods]\ncredential_process = yes HUSH\n"
	               "[profile none]\ncredential_process = /no/such/program\n");
	ck_assert_str_eq(load(&w, NULL), "C c - from profile default in the config file");
	ck_assert_str_eq(load(&w, "p"), "P Q s - from credential_process of profile p");
	load(&w, "fails");
	ck_says("credentials by credential_process of profile fails: the program failed with exit "
	        "status 3");
	load(&w, "talks");
	ck_says("not JSON");
	load(&w, "old");
	ck_says("\"Version\": 1");
	load(&w, "half");
	ck_says("no secret access key");
	load(&w, "dies");
	ck_says("signal 9");
	load(&w, "floods");
	ck_says("65536");
	load(&w, "none");
	ck_says("127");
	aws_world_release(&w);
}
END_TEST

/* A program that has said everything, or nothing, and goes on: it is ended, and what it started. */
START_TEST(a_program_that_goes_on_is_ended)
{
	static const char *const goes_on[] = {
		"echo '" JSON("P") "'; exec >&-; sleep 1000 & wait",
		"sleep 1000 & wait",
	};
	const char *const argv[] = { "/bin/sh", "-c", goes_on[_i % 2], NULL };
	struct sf_aws_credentials c;
	_Atomic bool stop = _i >= 2;
	struct aws_world w;
	int alive[2]; /* its writing end is theirs while they live */
	char byte;

	aws_world_init(&w);
	ck_assert_int_eq(pipe(alive), 0);
	if (stop) /* whoever wanted it has gone: at once, not in the minute that it may take */
		w.env.stop = &stop;
	else
		w.env.program_ms = 300;
	err.msg[0] = '\0';
	ck_assert_int_eq(sf_aws_process(&w.env, argv, &c, &err), stop ? -ECANCELED : -ETIMEDOUT);
	if (!stop)
		ck_assert_str_eq(err.msg, "the program did not end within 0.3 s");
	close(alive[1]);
	ck_assert_int_eq(read(alive[0], &byte, 1), 0);
	close(alive[0]);
	aws_world_release(&w);
}
END_TEST

START_TEST(sso_is_asked_of_the_aws_program)
{
	struct aws_world w;
	char path[128];

	aws_world_init(&w);
	aws_world_file(&w, ".aws/config", "[profile s p]\nsso_account_id=1\nsso_role_name=r\n");
	aws_world_file(&w, "aws",
	               "#!/bin/sh\necho \"{\\\"Version\\\":1,\\\"AccessKeyId\\\":\\\"$*\\\","
	               "\\\"SecretAccessKey\\\":\\\"s\\\",\\\"Expiration\\\":\\\"2020-09-13T13:26:"
	               "40+00:00\\\"}\"\n");
	snprintf(path, sizeof(path), "%s/aws", w.dir);
	chmod(path, 0700);
	snprintf(path, sizeof(path), "%s:/bin:/usr/bin", w.dir);
	setenv("PATH", path, 1);
	const char *got = load(&w, "s p");
	ck_assert_msg(strncmp(got,
	                      "configure export-credentials --profile s p --format process s - "
	                      "from the aws program",
	                      80) == 0 &&
	                      strstr(got, ", expires"),
	              "%s %s", got, err.msg);
	setenv("PATH", "/nowhere", 1);
	load(&w, "s p");
	ck_says("'aws' cannot be started");
	ck_says("aws sso login --profile s p");
	setenv("PATH", "/bin:/usr/bin", 1);
	aws_world_release(&w);
}
END_TEST

static const char roles[] =
	"[profile "
	"r]\nrole_arn=arn:aws:iam::1:role/x\nsource_profile=base\nregion=eu-west-1\n"
	"external_id = e d\nduration_seconds=900\n"
	"[profile r2]\nrole_arn=arn:2\nsource_profile=r\nregion=eu-west-1\n"
	"[profile self]\nrole_arn=arn:3\nsource_profile=self\nregion=eu-west-1\n"
	"aws_access_key_id=S\naws_secret_access_key=HUSH\n"
	"[profile c1]\nrole_arn=1\nsource_profile=c2\n"
	"[profile c2]\nrole_arn=1\nsource_profile=c3\n"
	"[profile c3]\nrole_arn=1\nsource_profile=c1\n"
	"[profile both]\nrole_arn=1\nsource_profile=base\ncredential_source=Environment\n"
	"[profile neither]\nrole_arn=1\n"
	"[profile gone]\nrole_arn=1\nsource_profile=nobody\n"
	"[profile empty]\nrole_arn=1\nsource_profile=nothing\n[profile nothing]\nx=y\n"
	"[profile cn]\nrole_arn=1\nsource_profile=base\nregion=cn-north-1\n"
	"[profile global]\nrole_arn=1\nsource_profile=base\n"
	"[profile mfa]\nrole_arn=1\nsource_profile=base\nmfa_serial=1\n"
	"[profile env]\nrole_arn=1\ncredential_source=Environment\nregion=eu-west-1\n"
	"[profile what]\nrole_arn=1\ncredential_source=Heaven\n";

/* Before anybody is asked. */
static void roles_are_refused(struct aws_world *w)
{
	w->asked = 0;
	load(w, "c1");
	ck_says("'c1' leads back to itself");
	load(w, "both");
	ck_says("both source_profile and credential_source");
	load(w, "neither");
	ck_says("neither source_profile nor");
	load(w, "gone");
	ck_says("no source_profile 'nobody'");
	load(w, "empty");
	ck_says("'nothing' has no credentials");
	load(w, "mfa");
	ck_says("mfa_serial wants a code");
	ck_says("export-credentials --profile 'mfa'");
	load(w, "what");
	ck_says("'Heaven'");
	load(w, "env");
	ck_says("credential_source Environment has none");
	ck_assert_uint_eq(w->asked, 0);
}

START_TEST(a_role_is_assumed_as_its_source)
{
	static const struct aws_answer sts[] = {
		{ "POST", "https://sts.eu-west-1.amazonaws.com/", 0, 200, STS("R") },
		{ "POST", "https://sts.cn-north-1.amazonaws.com.cn/", 0, 403,
		  "<ErrorResponse><Error><Code>AccessDenied</Code><Message>Not "
		  "you</Message></Error></ErrorResponse>" },
		{ "POST", "https://sts.amazonaws.com/", 0, 200, "<html/>" },
	};
	struct aws_world w;

	aws_world_init(&w);
	w.answers = sts, w.nanswers = SF_ARRAY_LEN(sts);
	aws_world_file(&w, ".aws/credentials",
	               "[base]\naws_access_key_id=B\naws_secret_access_key=HUSH\n");
	aws_world_file(&w, ".aws/config", roles);
	ck_assert_str_eq(load(&w, "r"),
	                 "R HUSH T& from role arn:aws:iam::1:role/x of profile r, expires");
	ck_assert_str_eq(w.last.body,
	                 "Action=AssumeRole&DurationSeconds=900&ExternalId=e%20d&RoleArn=arn%3Aaws%"
	                 "3Aiam%3A%3A1"
	                 "%3Arole%2Fx&RoleSessionName=shardfuse-1600000000&Version=2011-06-15");
	ck_assert_ptr_nonnull(
		strstr(w.last.headers,
	               "Authorization: AWS4-HMAC-SHA256 Credential=B/20200913/eu-west-1/sts/"
	               "aws4_request, SignedHeaders=content-type;host;x-amz-date, "));
	w.asked = 0;
	ck_assert_str_eq(load(&w, "r2"), "R HUSH T& from role arn:2 of profile r2, expires");
	ck_assert_uint_eq(w.asked, 2);
	ck_assert_ptr_nonnull(strstr(w.last.headers, "Credential=R/"));
	ck_assert_ptr_nonnull(strstr(w.last.headers, "x-amz-security-token: T&\n"));
	load(&w, "self");
	ck_assert_ptr_nonnull(strstr(w.last.headers, "Credential=S/"));

	roles_are_refused(&w);
	load(&w, "cn");
	ck_says("STS answers 403 AccessDenied: Not you");
	load(&w, "global");
	ck_says("no access key id");
	w.var[0] = "AWS_ACCESS_KEY_ID", w.var[1] = "E", w.var[2] = "AWS_SECRET_ACCESS_KEY",
	w.var[3] = "x";
	load(&w, "env");
	ck_assert_ptr_nonnull(strstr(w.last.headers, "Credential=E/"));
	w.var[4] = "AWS_ENDPOINT_URL_STS", w.var[5] = "http://127.0.0.1:80/sts";
	load(&w, "r");
	ck_assert_str_eq(w.last.url, "http://127.0.0.1:80/sts/");
	w.var[5] = "ftp://HUSH";
	load(&w, "r");
	ck_says("makes a URL of STS");
	aws_world_release(&w);
}
END_TEST

START_TEST(a_web_identity_is_read_at_each_call_and_not_signed)
{
	static const struct aws_answer sts[] = {
		{ "POST", "https://sts.us-west-2.amazonaws.com/", 0, 200, STS("W") },
	};
	struct aws_world w;
	char file[300];

	aws_world_init(&w);
	w.answers = sts, w.nanswers = 1;
	snprintf(file, sizeof(file), "%s", aws_world_file(&w, "token", "one\n"));
	w.var[0] = "AWS_WEB_IDENTITY_TOKEN_FILE", w.var[1] = file;
	load(&w, NULL);
	ck_says("no role is named");
	w.var[2] = "AWS_ROLE_ARN", w.var[3] = "arn:w";
	w.var[4] = "AWS_REGION", w.var[5] = "us-west-2";
	w.var[6] = "AWS_ROLE_SESSION_NAME", w.var[7] = "me";
	ck_assert_str_eq(load(&w, NULL), "W HUSH T& from web identity arn:w, expires");
	ck_assert_str_eq(w.last.body,
	                 "Action=AssumeRoleWithWebIdentity&RoleArn=arn%3Aw&RoleSessionName="
	                 "me&Version=2011-06-15&WebIdentityToken=one");
	ck_assert_ptr_null(strstr(w.last.headers, "Authorization"));
	aws_world_file(&w, "token", "two");
	load(&w, NULL);
	ck_assert_ptr_nonnull(strstr(w.last.body, "WebIdentityToken=two"));
	aws_world_file(&w, "token", "\n");
	load(&w, NULL);
	ck_says("empty");
	w.var[1] = "/no/such";
	load(&w, NULL);
	ck_says("No such file");
	/* a profile that has both a role and a token file is one of these, not a role to sign for */
	aws_world_file(&w, "token", "three");
	snprintf(file, sizeof(file),
	         "[profile w]\nrole_arn=arn:p\nweb_identity_token_file=%.60s/token\n", w.dir);
	aws_world_file(&w, ".aws/config", file);
	ck_assert_str_eq(load(&w, "w"), "W HUSH T& from web identity arn:p, expires");
	aws_world_release(&w);
}
END_TEST

START_TEST(a_containers_server_is_asked_where_it_may_be)
{
	static const struct aws_answer a[] = {
		{ "GET", "http://169.254.170.2/v2/x", 0, 200, JSON("C") },
		{ "GET", "http://localhost:81/", 0, 404, "no" },
		{ "GET", "https://anywhere/", 0, 200, "{\"Code\":\"Denied\"}" },
		{ "GET", "http://[fd00:ec2::23]/", 0, 200, JSON("6") },
	};
	static const char *const no[] = { "http://anywhere/",         "http://localhost.evil/",
		                          "http://localhost:1@evil/", "http://127.0.0.1:x/",
		                          "ftp://localhost/",         "localhost",
		                          "http://169.254.170.22/" };
	struct aws_world w;

	aws_world_init(&w);
	w.answers = a, w.nanswers = SF_ARRAY_LEN(a);
	w.var[0] = "AWS_CONTAINER_CREDENTIALS_RELATIVE_URI", w.var[1] = "/v2/x";
	ck_assert_str_eq(load(&w, NULL), "C HUSH T from the container's role, expires");
	ck_assert_str_eq(w.last.headers, "");
	w.var[2] = "AWS_CONTAINER_AUTHORIZATION_TOKEN", w.var[3] = "Bearer x";
	load(&w, NULL);
	ck_assert_str_eq(w.last.headers, "Authorization: Bearer x\n");
	w.var[4] = "AWS_CONTAINER_AUTHORIZATION_TOKEN_FILE";
	w.var[5] = aws_world_file(&w, "t", "from file");
	load(&w, NULL);
	ck_assert_str_eq(w.last.headers, "Authorization: from file\n");
	aws_world_file(&w, "t", "HUSH\r\nX: 1");
	load(&w, NULL);
	ck_says("line break");
	w.var[4] = NULL;
	w.var[1] = "@evil/";
	load(&w, NULL);
	ck_says("does not begin with '/'");
	w.var[0] = "AWS_CONTAINER_CREDENTIALS_FULL_URI", w.var[1] = "http://[fd00:ec2::23]/x?y";
	ck_assert_str_eq(load(&w, NULL), "6 HUSH T from the container's role, expires");
	w.var[1] = "http://localhost:81/y";
	load(&w, NULL);
	ck_says("answers 404");
	w.var[1] = "https://anywhere/";
	load(&w, NULL);
	ck_says("it answers Denied");
	w.asked = 0;
	w.var[1] = "http://127.0.0.1:9/";
	load(&w, NULL);
	ck_says("nobody answers");
	ck_assert_uint_eq(w.asked, 3);
	w.asked = 0;
	for (size_t i = 0; i < SF_ARRAY_LEN(no); i++) {
		w.var[1] = no[i];
		load(&w, NULL);
		ck_says("FULL_URI is neither");
	}
	ck_assert_uint_eq(w.asked, 0);
	aws_world_release(&w);
}
END_TEST

#define IMDS "http://169.254.169.254/latest/"
START_TEST(the_machines_server_is_asked_last_and_once)
{
	static const struct aws_answer good[] = {
		{ "PUT", IMDS "api/token", 0, 200, "tok" },
		{ "GET", IMDS "meta-data/iam/security-credentials/role-1", 0, 200, JSON("M") },
		{ "GET", IMDS "meta-data/iam/security-credentials/", 0, 200, "role-1\n" },
	};
	static const struct aws_answer hostile[][3] = {
		{ { "PUT", IMDS "api/token", 0, 200, "t\r\nX: 1" },
		  { "GET", "", 0, 200, "x" },
		  { 0 } },
		{ { "PUT", IMDS "api/token", 0, 403, "" }, { "GET", "", 0, 200, "x" }, { 0 } },
		{ { "PUT", IMDS "api/token", 0, 200, "t" },
		  { "GET", "", 0, 200, "../../x" },
		  { 0 } },
		{ { "PUT", IMDS "api/token", 0, 200, "t" }, { "GET", "", 0, 404, "" }, { 0 } },
		{ { "PUT", IMDS "api/token", -ETIMEDOUT, 0, "" },
		  { "GET", "", 0, 200, "x" },
		  { 0 } },
	};
	struct aws_world w;

	aws_world_init(&w);
	load(&w, NULL);
	ck_says("no AWS credentials");
	ck_says("--no-sign-request");
	ck_assert_uint_eq(w.asked, 1);
	w.answers = good, w.nanswers = SF_ARRAY_LEN(good);
	ck_assert_str_eq(load(&w, NULL), "M HUSH T from the machine's role, expires");
	ck_assert_str_eq(w.last.headers, "x-aws-ec2-metadata-token: tok\n");
	for (size_t i = 0; i < SF_ARRAY_LEN(hostile); i++) {
		w.answers = hostile[i], w.nanswers = 2;
		load(&w, NULL);
		ck_says("no AWS credentials");
	}
	/* where it is, for who names no region: its own answer or none */
	static const char *const region[] = { "eu-west-3", "a b", "" };
	for (size_t i = 0; i < SF_ARRAY_LEN(region); i++) {
		struct sf_aws_credentials c;
		const struct aws_answer at[] = {
			{ "GET", IMDS "meta-data/placement/region", 0, 200, region[i] },
			good[0],
			good[1],
			good[2],
		};
		w.answers = at, w.nanswers = SF_ARRAY_LEN(at);
		w.env.wants_region = true;
		ck_assert_int_eq(sf_aws_chain_load(NULL, &w.env, &c, NULL), 0);
		if (i == 0)
			ck_assert_str_eq(c.region, "eu-west-3");
		else
			ck_assert_ptr_null(c.region);
		sf_aws_credentials_release(&c);
	}
	w.asked = 0;
	w.var[0] = "AWS_EC2_METADATA_DISABLED", w.var[1] = "true";
	load(&w, NULL);
	ck_says("no AWS credentials");
	ck_assert_uint_eq(w.asked, 0);
	aws_world_release(&w);
}
END_TEST

START_TEST(replies_that_are_none_are_errors_without_their_text)
{
	static const char *const json[] = {
		"",
		"HUSH",
		"[]",
		"{\"AccessKeyId\":\"HUSH\"}",
		"{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"\"}",
		"{\"AccessKeyId\":1,\"SecretAccessKey\":\"HUSH\"}",
		"{\"AccessKeyId\":\"a\",\"SecretAccessKey\":\"HUSH\",\"Expiration\":\"soon\"}"
	};
	static const char *const xml[] = {
		"", "HUSH", "<Credentials/>", "<a><AccessKeyId>a</AccessKeyId></a>",
		"<Credentials><AccessKeyId>a</AccessKeyId><SecretAccessKey>HUSH"
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(json) + SF_ARRAY_LEN(xml); i++) {
		struct sf_aws_credentials c;
		const char *t = i < SF_ARRAY_LEN(json) ? json[i] : xml[i - SF_ARRAY_LEN(json)];

		err.msg[0] = '\0';
		int r = i < SF_ARRAY_LEN(json) ? sf_aws_reply_json(t, strlen(t), false, &c, &err)
		                               : sf_aws_reply_xml(t, strlen(t), &c, &err);
		ck_assert_msg(r == -EBADMSG && err.msg[0] && !strstr(err.msg, "HUSH"), "%s: %d %s",
		              t, r, err.msg);
	}
}
END_TEST

START_TEST(endpoints_and_regions_are_found_in_order)
{
	struct sf_store_options opt = { .region = NULL };
	struct sf_aws_setup s;
	struct aws_world w;
	char *v;

	aws_world_init(&w);
	aws_world_file(&w, ".aws/config",
	               "[default]\nregion=file\nservices=s\nendpoint_url=http://p\n"
	               "[services s]\ns3 =\n  endpoint_url = http://s\n");
	ck_assert_int_eq(sf_aws_setup_read(&opt, &w.env, &s, NULL), 0);
#define ck_found(call, want)               \
	do {                               \
		v = (call);                \
		ck_assert_str_eq(v, want); \
		free(v);                   \
	} while (0)
	ck_found(sf_aws_region(&opt, &w.env, &s), "file");
	ck_found(sf_aws_endpoint(&w.env, &s, "s3"), "http://s");
	ck_found(sf_aws_endpoint(&w.env, &s, "sts"), "http://p");
	w.var[0] = "AWS_DEFAULT_REGION", w.var[1] = "default";
	ck_found(sf_aws_region(&opt, &w.env, &s), "default");
	w.var[2] = "AWS_REGION", w.var[3] = "region";
	ck_found(sf_aws_region(&opt, &w.env, &s), "region");
	opt.region = "given";
	ck_found(sf_aws_region(&opt, &w.env, &s), "given");
	w.var[4] = "AWS_ENDPOINT_URL", w.var[5] = "http://u";
	ck_found(sf_aws_endpoint(&w.env, &s, "s3"), "http://u");
	w.var[6] = "AWS_ENDPOINT_URL_S3", w.var[7] = "http://3";
	ck_found(sf_aws_endpoint(&w.env, &s, "s3"), "http://3");
	ck_found(sf_aws_endpoint(&w.env, &s, "sts"), "http://u");
	w.var[8] = "AWS_IGNORE_CONFIGURED_ENDPOINT_URLS", w.var[9] = "true";
	ck_found(sf_aws_endpoint(&w.env, &s, "s3"), "");
	sf_aws_setup_release(&s);
	aws_world_release(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("aws_chain");
	TCase *t = tcase_create("chain");

	tcase_add_test(t, variables_come_first_unless_a_profile_is_given);
	tcase_add_test(t, a_program_is_run_before_keys_in_the_config_file);
	tcase_add_loop_test(t, a_program_that_goes_on_is_ended, 0, 4);
	tcase_add_test(t, sso_is_asked_of_the_aws_program);
	tcase_add_test(t, a_role_is_assumed_as_its_source);
	tcase_add_test(t, a_web_identity_is_read_at_each_call_and_not_signed);
	tcase_add_test(t, a_containers_server_is_asked_where_it_may_be);
	tcase_add_test(t, the_machines_server_is_asked_last_and_once);
	tcase_add_test(t, replies_that_are_none_are_errors_without_their_text);
	tcase_add_test(t, endpoints_and_regions_are_found_in_order);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
