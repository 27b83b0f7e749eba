#include "config.h"

#include <string.h>

#include "base/log.h"
#include "tests/lib/sf_test.h"

struct lines {
	unsigned n;
	enum sf_log_level level;
	char last[4096];
};

static void keep(void *arg, enum sf_log_level level, const char *line)
{
	struct lines *l = arg;

	l->n++;
	l->level = level;
	snprintf(l->last, sizeof(l->last), "%s", line);
}

START_TEST(lines_up_to_the_level_reach_the_handler)
{
	struct lines l = { 0 };
	struct sf_log log = { keep, &l, (enum sf_log_level)_i };

	for (int level = SF_LOG_ERROR; level <= SF_LOG_DEBUG; level++) {
		l.last[0] = '\0';
		sf_log(&log, (enum sf_log_level)level, "line %d of %s", level, "four");
		if (level <= _i) {
			ck_assert_int_eq(l.level, level);
			ck_assert_ptr_nonnull(strstr(l.last, "of four"));
		} else {
			ck_assert_str_eq(l.last, "");
		}
	}
	ck_assert_uint_eq(l.n, (unsigned)_i + 1);
}
END_TEST

START_TEST(nobody_need_listen)
{
	struct sf_log log = { .level = SF_LOG_DEBUG };

	sf_log(NULL, SF_LOG_ERROR, "x");
	sf_log(&log, SF_LOG_ERROR, "x");
}
END_TEST

START_TEST(a_long_line_is_cut)
{
	struct lines l = { 0 };
	struct sf_log log = { keep, &l, SF_LOG_DEBUG };
	char text[5000];

	memset(text, 'a', sizeof(text) - 1);
	text[sizeof(text) - 1] = '\0';
	sf_log(&log, SF_LOG_INFO, "%s", text);
	ck_assert_uint_eq(l.n, 1);
	ck_assert_uint_eq(strlen(l.last), 2047);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("log");
	TCase *t = tcase_create("log");

	tcase_add_loop_test(t, lines_up_to_the_level_reach_the_handler, 0, 4);
	tcase_add_test(t, nobody_need_listen);
	tcase_add_test(t, a_long_line_is_cut);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
