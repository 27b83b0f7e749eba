#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "tool/common.h"
#include "tests/lib/sf_test.h"

static int read_config(struct sf_common *o, const char *path, struct sf_error *err)
{
	const struct sf_opt *const tables[] = { sf_common_options, NULL };
	void *const dests[] = { o };
	char word[128];
	int r;

	snprintf(word, sizeof(word), "config=%s", path);
	r = sf_options_word(tables, dests, word, err);
	return r < 0 ? r : 0;
}

/* A config file with that text. */
static int read_text(struct sf_common *o, const char *text, struct sf_error *err)
{
	char path[] = "/tmp/sf-config-XXXXXX";
	int fd = mkstemp(path), r;

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, text, strlen(text)), (ssize_t)strlen(text));
	close(fd);
	r = read_config(o, path, err);
	unlink(path);
	return r;
}

/* Under a leak checker they also have to go with the options. */
START_TEST(values_of_a_config_file_last_as_long_as_the_options)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_common o;

	sf_common_init(&o);
	ck_assert_msg(read_text(&o,
	                        "# comment\n\n  memory=5K  \nhf-name=first\n"
	                        "key=model\nkey=optim\nlog-file=/x/y",
	                        &err) == 0,
	              "%s", err.msg);
	ck_assert_int_eq(read_text(&o, "hf-name=second\nkey=last", NULL), 0);
	ck_assert_uint_eq(o.session.memory, 5 << 10);
	ck_assert_str_eq(o.log_file, "/x/y");
	ck_assert_str_eq(o.session.view.hf_name, "second");
	ck_assert_uint_eq(o.session.view.key.n, 3);
	ck_assert_str_eq(o.session.view.key.at[0], "model");
	ck_assert_str_eq(o.session.view.key.at[2], "last");
	sf_common_release(&o);
}
END_TEST

START_TEST(a_wrong_line_of_a_config_file_is_named)
{
	static const char *const wrong[] = { "memory=x", "nothing=1", "config=other",
		                             "config = other", "memory" };

	for (size_t i = 0; i < SF_ARRAY_LEN(wrong); i++) {
		struct sf_error err = SF_ERROR_INIT;
		struct sf_common o;
		char text[64];
		sf_common_init(&o);
		snprintf(text, sizeof(text), "timeout=7\n%s\ntimeout=8", wrong[i]);
		ck_assert_int_eq(read_text(&o, text, &err), -EINVAL);
		ck_assert_msg(strstr(err.msg, "line 2: ") != NULL, "%s", err.msg);
		ck_assert_uint_eq(o.session.timeout_s, 7);
		sf_common_release(&o);
	}
}
END_TEST

START_TEST(a_directory_is_no_config_file)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_common o;

	sf_common_init(&o);
	ck_assert_int_eq(read_config(&o, "/", &err), -EISDIR);
	ck_assert_msg(strstr(err.msg, "'/'") != NULL, "%s", err.msg);
	sf_common_release(&o);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("common");
	TCase *tc = tcase_create("config");

	tcase_add_test(tc, values_of_a_config_file_last_as_long_as_the_options);
	tcase_add_test(tc, a_wrong_line_of_a_config_file_is_named);
	tcase_add_test(tc, a_directory_is_no_config_file);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
