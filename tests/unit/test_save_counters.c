#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "shardfuse_save.h"
#include "tests/lib/sf_test.h"

/* The number behind the line that begins with @what. */
static double counted(const struct shardfuse_save_keep *keep, const char *what)
{
	struct shardfuse_error err;
	char *text, *at;
	double n;

	ck_assert_int_eq(shardfuse_save_keep_counters(keep, &text, &err), 0);
	at = strstr(text, what);
	ck_assert_msg(at && (at == text || at[-1] == '\n'), "no %s in\n%s", what, text);
	n = strtod(at + strlen(what), NULL);
	shardfuse_free(text);
	return n;
}

static double of_phase(const struct shardfuse_save_keep *keep, const char *name, const char *phase,
                       const char *rest)
{
	char line[128];

	snprintf(line, sizeof(line), "shardfuse_save_%s{phase=\"%s\"%s}", name, phase, rest);
	return counted(keep, line);
}

START_TEST(saves_of_a_keep_are_counted)
{
	struct shardfuse_save_options opt = SHARDFUSE_INIT(opt);
	const char *const phase[] = { "plan", "stage", "write", "commit" };
	char dir[] = "/tmp/sf-counters-XXXXXX", path[64], cmd[64];
	struct shardfuse_save *s;
	struct shardfuse_error err;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_int_eq(shardfuse_save_keep_new(&opt.keep, &err), 0);
	ck_assert_double_eq(of_phase(opt.keep, "phases_total", "commit", ",outcome=\"ok\""), 0);
	for (int i = 0; i < 3; i++) { /* the third is refused: there is one */
		snprintf(path, sizeof(path), "%s/%d", dir, i % 2);
		ck_assert_int_eq(shardfuse_save_begin(path, &opt, NULL, &s, &err), 0);
		ck_assert_int_eq(shardfuse_save_add_json(s, "a", "[1, 2, 3]", &err), 0);
		ck_assert_int_eq(shardfuse_save_commit(s, &err), i < 2 ? 0 : -EEXIST);
		shardfuse_save_free(s);
	}
	for (unsigned p = 0; p < 4; p++) {
		ck_assert_double_eq(of_phase(opt.keep, "phases_total", phase[p], ",outcome=\"ok\""),
		                    2);
		ck_assert_double_eq(
			of_phase(opt.keep, "phases_total", phase[p], ",outcome=\"failed\""),
			p == 0);
		ck_assert_double_gt(of_phase(opt.keep, "bytes_total", phase[p], ""), 0);
		ck_assert_double_ge(of_phase(opt.keep, "seconds_total", phase[p], ""), 0);
	}
	shardfuse_save_keep_free(opt.keep);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", dir);
	ck_assert_int_eq(system(cmd), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("save_counters");
	TCase *t = tcase_create("save_counters");

	tcase_add_test(t, saves_of_a_keep_are_counted);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
