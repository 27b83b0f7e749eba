#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "tests/lib/sf_test.h"
#include "tool/parallel.h"

#define JOBS 1000

struct jobs {
	_Atomic unsigned done[JOBS];
	size_t fails; /* this one, and all behind it */
};

static int one(void *arg, size_t i, struct sf_error *err)
{
	struct jobs *j = arg;

	atomic_fetch_add(&j->done[i], 1);
	return i >= j->fails ? sf_fail(err, -EIO, "job %zu", i) : 0;
}

START_TEST(each_job_is_done_once)
{
	struct jobs j = { .fails = JOBS };

	ck_assert_int_eq(sf_parallel(JOBS, (unsigned)_i, one, &j, NULL), 0);
	for (size_t i = 0; i < JOBS; i++)
		ck_assert_uint_eq(j.done[i], 1);
	ck_assert_int_eq(sf_parallel(0, (unsigned)_i, one, &j, NULL), 0);
}
END_TEST

START_TEST(after_a_job_that_fails_none_is_begun)
{
	struct jobs j = { .fails = 500 };
	struct sf_error err = SF_ERROR_INIT;
	unsigned after = 0;

	ck_assert_int_eq(sf_parallel(JOBS, 4, one, &j, &err), -EIO);
	ck_assert_msg(strncmp(err.msg, "job 50", 6) == 0, "%s", err.msg);
	for (size_t i = 0; i < JOBS; i++) {
		ck_assert(i >= 500 || j.done[i] == 1);
		after += i >= 500 && j.done[i];
	}
	ck_assert_uint_ge(after, 1);
	ck_assert_uint_le(after, 4); /* one a thread */
}
END_TEST

int main(void)
{
	Suite *s = suite_create("parallel");
	TCase *tc = tcase_create("parallel");

	tcase_add_loop_test(tc, each_job_is_done_once, 0, 3);
	tcase_add_test(tc, after_a_job_that_fails_none_is_begun);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
