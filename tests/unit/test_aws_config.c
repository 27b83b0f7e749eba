#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "store/aws_config.h"
#include "tests/lib/sf_test.h"

static struct sf_aws_config both(const char *config, const char *credentials)
{
	struct sf_aws_config c = { 0 };
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(sf_aws_config_add(&c, config, strlen(config), false, "config", &err) == 0 &&
	                      sf_aws_config_add(&c, credentials, strlen(credentials), true, "cred",
	                                        &err) == 0,
	              "%s", err.msg);
	return c;
}

#define ck_value(c, in, name, key, want)                                 \
	do {                                                             \
		const char *v_ = sf_aws_config_get(&(c), in, name, key); \
		ck_assert_ptr_nonnull(v_);                               \
		ck_assert_str_eq(v_, want);                              \
	} while (0)

START_TEST(profiles_are_those_of_both_files)
{
	struct sf_aws_config c =
		both("# no\n[default]\nregion = eu-west-1\noutput=json\n"
	             "[profile a b]\n[profile \"c d\"]\nREGION: x=y\r\n"
	             "[other]\nregion = no\n[profile  e ]\nregion =  z # kept \n",
	             "\xef\xbb\xbf[default]\n; no\naws_access_key_id=K\nregion=us\n"
	             "[e]\naws_secret_access_key = s/=: \n\n");

	ck_value(c, SF_AWS_PROFILE, "default", "output", "json");
	ck_value(c, SF_AWS_PROFILE, "default", "region", "us");
	ck_assert_str_eq(sf_aws_config_get_of(&c, false, "default", "region"), "eu-west-1");
	ck_assert_str_eq(sf_aws_config_get_of(&c, true, "default", "aws_access_key_id"), "K");
	ck_assert_ptr_null(sf_aws_config_get_of(&c, false, "default", "aws_access_key_id"));
	ck_value(c, SF_AWS_PROFILE, "c d", "region", "x=y");
	ck_value(c, SF_AWS_PROFILE, "e", "region", "z # kept");
	ck_value(c, SF_AWS_PROFILE, "e", "aws_secret_access_key", "s/=:");
	ck_assert(sf_aws_config_has(&c, SF_AWS_PROFILE, "a b"));
	ck_assert(!sf_aws_config_has(&c, SF_AWS_PROFILE, "other"));
	ck_assert(!sf_aws_config_has(&c, SF_AWS_PROFILE, "profile e"));
	ck_assert_ptr_null(sf_aws_config_get(&c, SF_AWS_PROFILE, "a b", "region"));
	sf_aws_config_release(&c);
}
END_TEST

START_TEST(indented_lines_belong_to_the_key_above)
{
	struct sf_aws_config c = both("[profile p]\ns3 =\n  addressing_style = path\n\tx: 1=2\n"
	                              "region = r\n  goes on\n[services s]\ns3 =\n"
	                              "  endpoint_url = http://h:1/\nsts =\n  endpoint_url = t\n"
	                              "[sso-session o]\nsso_region = q\n",
	                              "");

	ck_value(c, SF_AWS_PROFILE, "p", "s3.addressing_style", "path");
	ck_value(c, SF_AWS_PROFILE, "p", "s3.x: 1", "2");
	ck_value(c, SF_AWS_PROFILE, "p", "region", "r");
	ck_value(c, SF_AWS_SERVICES, "s", "s3.endpoint_url", "http://h:1/");
	ck_value(c, SF_AWS_SERVICES, "s", "sts.endpoint_url", "t");
	ck_value(c, SF_AWS_SSO_SESSION, "o", "sso_region", "q");
	ck_assert_ptr_null(sf_aws_config_get(&c, SF_AWS_PROFILE, "s", "s3.endpoint_url"));
	sf_aws_config_release(&c);
}
END_TEST

START_TEST(of_two_values_the_later_holds)
{
	struct sf_aws_config c =
		both("[default]\nregion=1\nregion=2\n[profile default]\nregion=3\n", "");

	ck_value(c, SF_AWS_PROFILE, "default", "region", "3");
	sf_aws_config_release(&c);
}
END_TEST

START_TEST(a_line_that_is_none_is_told_by_its_number_alone)
{
	static const struct {
		const char *text;
		int line;
	} bad[] = {
		{ "SECRET = 1\n", 1 },
		{ "[default]\n\nSECRET\n", 3 },
		{ "[default\nSECRET=1\n", 1 },
		{ "[default]\n=SECRET\n", 2 },
		{ "[default]\ns3 =\n  SECRET\n", 3 },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(bad); i++) {
		struct sf_aws_config c = { 0 };
		struct sf_error err = SF_ERROR_INIT;
		char line[32];

		ck_assert_int_eq(sf_aws_config_add(&c, bad[i].text, strlen(bad[i].text), false,
		                                   "/x/config", &err),
		                 -EBADMSG);
		snprintf(line, sizeof(line), "'/x/config': line %d ", bad[i].line);
		ck_assert_msg(strstr(err.msg, line) != NULL, "%s", err.msg);
		ck_assert_msg(!strstr(err.msg, "SECRET"), "%s", err.msg);
		sf_aws_config_release(&c);
	}
}
END_TEST

START_TEST(a_file_has_an_end_and_no_nul)
{
	struct sf_aws_config c = { 0 };
	char *text = calloc(1, SF_AWS_CONFIG_BYTES + 1);

	memset(text, '#', SF_AWS_CONFIG_BYTES + 1);
	ck_assert_int_eq(sf_aws_config_add(&c, text, SF_AWS_CONFIG_BYTES, false, "f", NULL), 0);
	ck_assert_int_eq(sf_aws_config_add(&c, text, SF_AWS_CONFIG_BYTES + 1, false, "f", NULL),
	                 -E2BIG);
	free(text);
	ck_assert_int_eq(sf_aws_config_add(&c, "[a]\0\n", 5, true, "f", NULL), -EBADMSG);
	sf_aws_config_release(&c);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("aws_config");
	TCase *t = tcase_create("config");

	tcase_add_test(t, profiles_are_those_of_both_files);
	tcase_add_test(t, indented_lines_belong_to_the_key_above);
	tcase_add_test(t, of_two_values_the_later_holds);
	tcase_add_test(t, a_line_that_is_none_is_told_by_its_number_alone);
	tcase_add_test(t, a_file_has_an_end_and_no_nul);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
