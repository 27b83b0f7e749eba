#include "config.h"

#include <string.h>

#include "base/error.h"
#include "base/path.h"
#include "tests/lib/sf_test.h"

START_TEST(a_failure_gives_its_code_and_its_text)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(sf_fail(&err, -EBADMSG, "%s: byte %d", "a.distcp", 7), -EBADMSG);
	ck_assert_str_eq(err.msg, "a.distcp: byte 7");
}
END_TEST

START_TEST(no_message_is_wanted_of_a_probe)
{
	ck_assert_int_eq(sf_fail(NULL, -ENOENT, "x"), -ENOENT);
	ck_assert_int_eq(sf_fail_ctx(NULL, -ENOENT, "x"), -ENOENT);
	errno = EACCES;
	ck_assert_int_eq(sf_fail_errno(NULL, "x"), -EACCES);
}
END_TEST

START_TEST(context_is_put_in_front_at_each_step_up)
{
	struct sf_error err = SF_ERROR_INIT;

	sf_fail(&err, -EIO, "pread");
	ck_assert_int_eq(sf_fail_ctx(&err, -EIO, "file %s", "f"), -EIO);
	sf_fail_ctx(&err, -EIO, "tensor %s", "w");
	ck_assert_str_eq(err.msg, "tensor w: file f: pread");
}
END_TEST

START_TEST(the_arguments_may_be_the_message_itself)
{
	struct sf_error err = SF_ERROR_INIT;

	sf_fail(&err, -EIO, "inner");
	sf_fail(&err, -EIO, "outer <%s>", err.msg);
	ck_assert_str_eq(err.msg, "outer <inner>");
	sf_fail_ctx(&err, -EIO, "again %s", err.msg);
	ck_assert_str_eq(err.msg, "again outer <inner>: outer <inner>");
}
END_TEST

START_TEST(errno_is_named_behind_the_words)
{
	struct sf_error err = SF_ERROR_INIT;

	errno = ENOENT;
	ck_assert_int_eq(sf_fail_errno(&err, "open '%s'", "x"), -ENOENT);
	ck_assert_str_eq(err.msg, "open 'x': No such file or directory");
}
END_TEST

/* Property: whatever the length, what is left of a text of characters of 2 + _i bytes is a prefix
 * and whole characters. */
START_TEST(long_messages_are_cut_at_a_character)
{
	static const char *const one[] = { "\xc3\xa9", "\xe2\x82\xac", "\xf0\x9f\x98\x80" };
	const size_t bytes = strlen(one[_i]);
	char text[4 * SF_ERROR_MAX + 1];

	for (size_t i = 0; i < SF_ERROR_MAX; i++)
		memcpy(text + bytes * i, one[_i], bytes);
	text[bytes * SF_ERROR_MAX] = '\0';
	for (int lead = 0; lead < 8; lead++) {
		struct sf_error err = SF_ERROR_INIT;
		char want[16];
		snprintf(want, sizeof(want), "%.*s", lead, "abcdefgh");
		for (int how = 0; how < 2; how++) {
			if (how == 0) {
				sf_fail(&err, -EIO, "%s%s", want, text);
			} else {
				sf_fail(&err, -EIO, "%s", text);
				sf_fail_ctx(&err, -EIO, "%s", want);
			}
			size_t n = strlen(err.msg);
			ck_assert_uint_lt(n, SF_ERROR_MAX);
			ck_assert_uint_ge(n, SF_ERROR_MAX - 4);
			ck_assert_int_eq(strncmp(err.msg, want, (size_t)lead), 0);
			ck_assert(sf_utf8_valid(err.msg, n));
		}
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("error");
	TCase *t = tcase_create("error");

	tcase_add_test(t, a_failure_gives_its_code_and_its_text);
	tcase_add_test(t, no_message_is_wanted_of_a_probe);
	tcase_add_test(t, context_is_put_in_front_at_each_step_up);
	tcase_add_test(t, the_arguments_may_be_the_message_itself);
	tcase_add_test(t, errno_is_named_behind_the_words);
	tcase_add_loop_test(t, long_messages_are_cut_at_a_character, 0, 3);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
