#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "format/format_dir.h"
#include "format/run_dir.h"
#include "sf_test.h"

START_TEST(steps_are_told_by_their_names)
{
	static const char *const yes[] = { "step0",          "step100",       "step-100",
		                           "checkpoint-500", "iter_0000100",  "iter_12345678",
		                           "global_step5",   "global_step_5", "ep0-ba2",
		                           "ep12-ba34000" };
	static const char *const no[] = {
		"",          "step",        "step-",         "steps1",     "step1x",
		"step1-tmp", "Step1",       "checkpoint500", "checkpoint", "iter_100",
		"iter_",     "global_step", "global_stepx",  "ep0",        "ep0-ba",
		"ep-ba1",    "ep0-ba2x",    "ep$(id)-ba1",   "epoch1",     "latest",
		"step1\n",   "model"
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(yes); i++)
		ck_assert_msg(sf_run_dir_is_step(yes[i]), "%s", yes[i]);
	for (size_t i = 0; i < SF_ARRAY_LEN(no); i++)
		ck_assert_msg(!sf_run_dir_is_step(no[i]), "%s", no[i]);
}
END_TEST

START_TEST(a_step_is_read_from_the_last_two_names_of_a_path)
{
	static const struct {
		const char *source;
		int64_t step;
	} cases[] = {
		{ "step-100", 100 },
		{ "/runs/a/checkpoint-500/", 500 },
		{ "/runs/iter_0000100", 100 },
		{ "iter_500", 500 }, /* no directory of a run, but named so by somebody */
		{ "/runs/global_step_7/model", 7 },
		{ "/runs/step5/ep1-ba34000", 34000 },
		{ "/runs/step5/model/fp32", -1 },
		{ "s3://bucket/step12//", 12 },
		{ "step999999999999999999", 999999999999999999 },
		{ "step1000000000000000000", -1 },
		{ "step", -1 },
		{ "step1x", -1 },
		{ "ep-ba1", -1 },
		{ "ep0-ba", -1 },
		{ "", -1 },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++)
		ck_assert_msg(sf_format_step(cases[i].source) == cases[i].step, "%s: %lld",
		              cases[i].source, (long long)sf_format_step(cases[i].source));
}
END_TEST

START_TEST(numbers_are_compared_as_numbers)
{
	static const char *const order[] = { "ep0-ba2",
		                             "ep0-ba10",
		                             "ep2-ba1",
		                             "ep10-ba0",
		                             "step-5",
		                             "step9",
		                             "step0010",
		                             "step11",
		                             "step100",
		                             "step99999999999999999999999",
		                             "step100000000000000000000000",
		                             "step100000000000000000000000x" };

	for (size_t i = 0; i < SF_ARRAY_LEN(order); i++)
		for (size_t k = 0; k < SF_ARRAY_LEN(order); k++) {
			int c = sf_run_dir_compare(&order[i], &order[k]);
			ck_assert_msg((c > 0) - (c < 0) == (i > k) - (i < k), "%s %s: %d", order[i],
			              order[k], c);
		}
}
END_TEST

/* Paths that end in "g" hold a checkpoint, in "o" another format's, else a save that did not end. */
static int probe(void *arg, const char *path, struct sf_error *err)
{
	unsigned *asked = arg;
	char last = path[strlen(path) - 1];

	++*asked;
	if (strncmp(path, "/r/", 3) != 0)
		return sf_fail(err, -EIO, "%s", path);
	if (last == 'g' || (last >= '0' && last <= '8'))
		return 0;
	return last == 'o' ? sf_fail(err, -ENOTSUP, "'%s': Other: not supported", path)
	                   : sf_fail(err, -ENOENT, "'%s': not committed", path);
}

static const char *said_with(int code, const char *names)
{
	static struct sf_error err;
	SF_FREE char *copy = strdup(names);
	const char *name[128];
	unsigned asked = 0;
	size_t n = 0;

	for (char *save, *w = strtok_r(copy, " ", &save); w; w = strtok_r(NULL, " ", &save))
		name[n++] = w;
	err = (struct sf_error)SF_ERROR_INIT;
	ck_assert_int_eq(sf_run_dir_refuse("/r", name, n, probe, &asked, &err), code);
	ck_assert_uint_le(asked, 64);
	return err.msg;
}

static const char *said(const char *names)
{
	return said_with(-ENOENT, names);
}

START_TEST(it_says_what_to_type)
{
	ck_assert_str_eq(said("step10 step2 step1"),
	                 "'/r' is a run directory with 3 checkpoints (step1, step2, step10): name "
	                 "one of them, as '/r/step10', the newest");
	ck_assert_str_eq(said("step2 step9 step1"),
	                 "'/r' is a run directory with 2 checkpoints (step1, step2): name one of "
	                 "them, as '/r/step2', the newest; not step9: not committed");
	/* an older one that is none is no news */
	ck_assert_str_eq(said("step9 step10"),
	                 "'/r' is a run directory with one checkpoint: name '/r/step10'");
	ck_assert_str_eq(said("step9"), "'/r' is a run directory without a checkpoint that can be "
	                                "read: step9: not committed");
	ck_assert_str_eq(said("step1 step2 step3 step4 step5 step6 step7"),
	                 "'/r' is a run directory with 7 checkpoints (step1, step2, …, step6, "
	                 "step7): name one of them, as '/r/step7', the newest");
	ck_assert_str_eq(said("log"), "'/r' is not a checkpoint but contains one: name '/r/log'");
	ck_assert_str_eq(said("log bag"),
	                 "'/r' is not a checkpoint but contains 2 (bag, log): name "
	                 "one of them, as '/r/log'");
	ck_assert_str_eq(said("x"),
	                 "'/r' is not a checkpoint and contains none that can be read: x: not "
	                 "committed");
	/* another format's says more than a save that did not end */
	ck_assert_str_eq(said_with(-ENOTSUP, "a-o x"),
	                 "'/r' is not a checkpoint and contains none that can be "
	                 "read: a-o: Other: not supported");
}
END_TEST

START_TEST(of_very_many_the_newest_are_asked)
{
	char names[2048] = "";

	for (int i = 1000; i < 1100; i++)
		snprintf(names + strlen(names), sizeof(names) - strlen(names), "step%d ", i);
	const char *msg = said(names);
	/* of the last 64 those that do not end in 9 */
	ck_assert_msg(strstr(msg, "with more than 57 checkpoints (step1036, step1037, …, "
	                          "step1097, step1098)"),
	              "%s", msg);
	ck_assert_ptr_nonnull(strstr(msg, "not step1099"));
}
END_TEST

int main(void)
{
	Suite *s = suite_create("run_dir");
	TCase *tc = tcase_create("run_dir");

	tcase_add_test(tc, steps_are_told_by_their_names);
	tcase_add_test(tc, a_step_is_read_from_the_last_two_names_of_a_path);
	tcase_add_test(tc, numbers_are_compared_as_numbers);
	tcase_add_test(tc, it_says_what_to_type);
	tcase_add_test(tc, of_very_many_the_newest_are_asked);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
