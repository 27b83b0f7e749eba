#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "tests/lib/sf_test.h"

struct count {
	struct sf_task task; /* first: the task is the struct */
	atomic_uint *runs;
	unsigned again;
	struct sf_thread_pool *pool;
};

static void count_run(struct sf_task *task)
{
	struct count *c = (struct count *)task;

	atomic_fetch_add(c->runs, 1);
	if (c->again) {
		c->again--;
		sf_thread_pool_submit(c->pool, task);
	} else {
		free(c);
	}
}

/* Tasks free themselves and submit themselves again; the end runs all that is queued, resubmitted
 * ones too. */
START_TEST(every_task_runs_as_often_as_it_was_submitted)
{
	struct sf_thread_pool *pool;
	atomic_uint runs = 0;
	unsigned want = 0;

	ck_assert_int_eq(sf_thread_pool_new((unsigned)_i / 2, &pool, NULL), 0);
	for (unsigned i = 0; i < 5000; i++) {
		struct count *c = malloc(sizeof(*c));
		ck_assert_ptr_nonnull(c);
		*c = (struct count){ { .run = count_run }, &runs, i % 4, pool };
		want += 1 + i % 4;
		sf_thread_pool_submit(pool, &c->task);
	}
	if (_i % 2)
		sf_thread_pool_leave(pool, 60000);
	else
		sf_thread_pool_free(pool);
	ck_assert_uint_eq(atomic_load(&runs), want);
}
END_TEST

struct order {
	struct sf_task task;
	unsigned number, *next;
};

static void order_run(struct sf_task *task)
{
	struct order *o = (struct order *)task;

	if (*o->next == o->number) /* one thread: no lock */
		++*o->next;
}

START_TEST(one_thread_runs_tasks_in_order)
{
	struct sf_thread_pool *pool;
	struct order o[500];
	unsigned next = 0;

	ck_assert_int_eq(sf_thread_pool_new(1, &pool, NULL), 0);
	for (unsigned i = 0; i < SF_ARRAY_LEN(o); i++) {
		o[i] = (struct order){ { .run = order_run }, i, &next };
		sf_thread_pool_submit(pool, &o[i].task);
	}
	sf_thread_pool_free(pool);
	ck_assert_uint_eq(next, SF_ARRAY_LEN(o));
}
END_TEST

struct meet {
	struct sf_task task;
	pthread_barrier_t *all;
};

static void meet_run(struct sf_task *task)
{
	pthread_barrier_wait(((struct meet *)task)->all);
}

/* Would hang (and time out) with one thread less. */
START_TEST(as_many_tasks_as_threads_run_at_once)
{
	struct sf_thread_pool *pool;
	pthread_barrier_t all;
	struct meet m[6];

	pthread_barrier_init(&all, NULL, SF_ARRAY_LEN(m));
	ck_assert_int_eq(sf_thread_pool_new(SF_ARRAY_LEN(m), &pool, NULL), 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(m); i++) {
		m[i] = (struct meet){ { .run = meet_run }, &all };
		sf_thread_pool_submit(pool, &m[i].task);
	}
	sf_thread_pool_free(pool);
	pthread_barrier_destroy(&all);
}
END_TEST

struct mask {
	struct sf_task task;
	sigset_t set;
};

static void mask_run(struct sf_task *task)
{
	pthread_sigmask(SIG_BLOCK, NULL, &((struct mask *)task)->set);
}

START_TEST(signals_meant_for_the_program_do_not_reach_the_threads)
{
	struct mask m = { { .run = mask_run }, { { 0 } } };
	struct sf_thread_pool *pool;
	sigset_t mine;

	ck_assert_int_eq(sf_thread_pool_new(1, &pool, NULL), 0);
	sf_thread_pool_submit(pool, &m.task);
	sf_thread_pool_free(pool);
	ck_assert_int_eq(sigismember(&m.set, SIGTERM), 1);
	ck_assert_int_eq(sigismember(&m.set, SIGINT), 1);
	ck_assert_int_eq(sigismember(&m.set, SIGBUS), 0);
	ck_assert_int_eq(sigismember(&m.set, SIGSEGV), 0);
	pthread_sigmask(SIG_BLOCK, NULL, &mine); /* and ours are as before */
	ck_assert_int_eq(sigismember(&mine, SIGTERM), 0);
	sf_thread_pool_free(NULL);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("thread_pool");
	TCase *t = tcase_create("thread_pool");

	tcase_add_loop_test(t, every_task_runs_as_often_as_it_was_submitted, 0, 10);
	tcase_add_test(t, one_thread_runs_tasks_in_order);
	tcase_add_test(t, as_many_tasks_as_threads_run_at_once);
	tcase_add_test(t, signals_meant_for_the_program_do_not_reach_the_threads);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
