#include "config.h"
#include <semaphore.h>
#include <time.h>
#include "base/thread_pool.h"
#include "fuse/fs_ops.h"
#include "fuse/steps.h"
#include "tests/lib/fault_campaign.h"
#include "tests/lib/sf_test.h"

struct told {
	struct sf_task task; /* first */
	sem_t done;
};

static void tell(struct sf_task *task)
{
	sem_post(&((struct told *)task)->done);
}

/* A thread that was joined may be listed a moment longer. */
static unsigned threads_but_for(unsigned want)
{
	for (int i = 0; i < 1000 && campaign_entries("/proc/self/task") != want; i++)
		nanosleep(&(struct timespec){ .tv_nsec = 5000000 }, NULL);
	return campaign_entries("/proc/self/task");
}

START_TEST(a_run_has_threads_and_gives_all_back)
{
	struct sf_fs *fs = calloc(1, sizeof(*fs));
	struct sf_session_options opt = { .memory = 1 };
	struct sf_io io = { .timeout_ms = 7 };
	/* that it is a run is all that counts here */
	struct sf_session root = { .opt = &opt, .io = &io, .run = (struct sf_run *)fs };
	const unsigned before = campaign_entries("/proc/self/task");
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(sf_steps_begin(fs, &root, &err), 0);
	ck_assert_ptr_eq(fs->step.io, &io);
	ck_assert_uint_eq(fs->step.memory, 1);
	struct sf_thread_pool *pools[] = { fs->loaders, fs->lookers, fs->closers };
	for (unsigned i = 0; i < 3; i++) {
		struct told t = { .task = { .run = tell } };
		sem_init(&t.done, 0, 0);
		sf_thread_pool_submit(pools[i], &t.task);
		sem_wait(&t.done);
		sem_destroy(&t.done);
	}
	ck_assert_uint_gt(campaign_entries("/proc/self/task"), before);
	sf_steps_end(fs);
	ck_assert_ptr_null(fs->loaders);
	ck_assert_ptr_null(fs->lookers);
	sf_thread_pool_free(
		fs->closers); /* later: sessions are given back when requests have ended */
	ck_assert_uint_eq(threads_but_for(before), before);
	free(fs);
}
END_TEST

START_TEST(what_is_no_run_has_none)
{
	struct sf_fs *fs = calloc(1, sizeof(*fs));
	struct sf_session root = { .run = NULL };
	const unsigned before = campaign_entries("/proc/self/task");
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(sf_steps_begin(fs, &root, &err), 0);
	ck_assert_uint_eq(campaign_entries("/proc/self/task"), before);
	sf_steps_end(fs);
	free(fs);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("steps");
	TCase *t = tcase_create("steps");

	tcase_add_test(t, a_run_has_threads_and_gives_all_back);
	tcase_add_test(t, what_is_no_run_has_none);
	tcase_set_timeout(t, 60);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
