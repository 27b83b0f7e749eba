#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <string.h>

#include "base/log_limit.h"
#include "tests/lib/sf_test.h"

#define KEYS 40

/* What was written: lines and the calls they stand for, in all and by key. */
struct written {
	pthread_mutex_t m;
	unsigned lines, calls;
	unsigned key_lines[KEYS], key_calls[KEYS];
	char last[4096];
};
#define WRITTEN                                \
	{                                      \
		.m = PTHREAD_MUTEX_INITIALIZER \
	}

static void keep(void *arg, enum sf_log_level level, const char *line)
{
	struct written *w = arg;
	const char *more = strstr(line, " (and ");
	unsigned key = 0, n = 1;

	ck_assert_int_eq(level, SF_LOG_ERROR);
	ck_assert_int_eq(sscanf(line, "failure of file %u", &key), 1);
	ck_assert_uint_lt(key, KEYS);
	if (more)
		ck_assert_int_eq(sscanf(more, " (and %u more like this", &n), 1);
	pthread_mutex_lock(&w->m);
	w->lines++;
	w->calls += n;
	w->key_lines[key]++;
	w->key_calls[key] += n;
	snprintf(w->last, sizeof(w->last), "%s", line);
	pthread_mutex_unlock(&w->m);
}

static unsigned lines_of(struct written *w)
{
	unsigned n;

	pthread_mutex_lock(&w->m);
	n = w->lines;
	pthread_mutex_unlock(&w->m);
	return n;
}

static void say(struct sf_log_limit *l, const struct sf_log *log, unsigned key, unsigned i)
{
	sf_log_limited(l, log, SF_LOG_ERROR, key, "failure of file %u at %u", key, i);
}

START_TEST(the_first_of_each_kind_is_written_and_the_rest_is_counted)
{
	struct written w = WRITTEN;
	struct sf_log log = { keep, &w, SF_LOG_ERROR };
	struct sf_log_limit *l;

	ck_assert_int_eq(sf_log_limit_new(&log, 3600 * 1000, KEYS, &l, NULL), 0);
	for (unsigned i = 0; i < 1000; i++)
		for (unsigned k = 0; k < KEYS; k++) {
			say(l, &log, k, i);
			ck_assert_uint_eq(lines_of(&w), i ? KEYS : k + 1);
		}
	ck_assert_str_eq(w.last, "failure of file 39 at 0");
	sf_log_limit_free(l);
	ck_assert_uint_eq(w.lines, 2 * KEYS);
	for (unsigned k = 0; k < KEYS; k++)
		ck_assert_uint_eq(w.key_calls[k], 1000);
	ck_assert_str_eq(w.last, "failure of file 39 at 0 (and 999 more like this in 3600 s)");
}
END_TEST

/* Each window ends with nothing to count: by time, and by the end of all. */
START_TEST(a_failure_that_does_not_repeat_is_one_line)
{
	struct written w = WRITTEN;
	struct sf_log log = { keep, &w, SF_LOG_ERROR };
	struct sf_log_limit *l;

	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(sf_log_limit_new(&log, i ? 1 : 3600 * 1000, KEYS, &l, NULL), 0);
		say(l, &log, 7, 0);
		if (i)
			usleep(20000);
		sf_log_limit_free(l);
		ck_assert_uint_eq(w.lines, (unsigned)i + 1);
		ck_assert_str_eq(w.last, "failure of file 7 at 0");
	}
}
END_TEST

/* _i: a window of milliseconds, or of more than a second. */
START_TEST(counts_are_told_though_no_further_line_comes)
{
	const int rounds = _i ? 1 : 3;
	struct written w = WRITTEN;
	struct sf_log log = { keep, &w, SF_LOG_ERROR };
	struct sf_log_limit *l;

	ck_assert_int_eq(sf_log_limit_new(&log, _i ? 1001 : 20, KEYS, &l, NULL), 0);
	for (int again = 0; again < rounds; again++) {
		for (unsigned i = 0; i < 500; i++)
			say(l, &log, i % 2, i);
		for (bool all = false; !all; usleep(1000)) { /* until the test's time is up */
			pthread_mutex_lock(&w.m);
			all = w.calls == 500 * ((unsigned)again + 1);
			pthread_mutex_unlock(&w.m);
		}
	}
	sf_log_limit_free(l);
	ck_assert_uint_eq(w.calls, 500 * (unsigned)rounds);
	ck_assert_uint_ge(w.lines, 4);
}
END_TEST

static void on_signal(int sig)
{
	(void)sig;
}

/* The program's own thread takes them: this one's would end a wait in the wrong place. */
START_TEST(the_thread_that_tells_takes_no_signal)
{
	struct written w = WRITTEN;
	struct sf_log log = { keep, &w, SF_LOG_ERROR };
	const struct timespec wait = { 5, 0 };
	struct sf_log_limit *l;
	sigset_t set;

	ck_assert_int_eq(sf_log_limit_new(&log, 3600 * 1000, KEYS, &l, NULL), 0);
	signal(SIGUSR1, on_signal);
	say(l, &log, 0, 0);
	say(l, &log, 0, 1); /* from here the thread waits */
	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	pthread_sigmask(SIG_BLOCK, &set, NULL);
	ck_assert_int_eq(kill(getpid(), SIGUSR1), 0);
	usleep(50000); /* for a thread that would take it */
	ck_assert_int_eq(sigtimedwait(&set, NULL, &wait), SIGUSR1);
	sf_log_limit_free(l);
}
END_TEST

/* A table of 4 and many more kinds in turn: memory stays what it is, and each line is told. */
START_TEST(a_kind_that_is_forgotten_has_its_count_told)
{
	uint64_t seed = sf_test_seed("a_kind_that_is_forgotten");
	struct written w = WRITTEN;
	struct sf_log log = { keep, &w, SF_LOG_ERROR };
	struct sf_log_limit *l;
	unsigned calls[KEYS] = { 0 }, all = 0;

	ck_assert_int_eq(sf_log_limit_new(&log, 3600 * 1000, 4, &l, NULL), 0);
	for (int i = 0; i < 3000; i++) {
		unsigned key = (unsigned)sf_test_below(&seed, KEYS);
		for (size_t n = 1 + sf_test_below(&seed, 5); n > 0; n--, all++, calls[key]++)
			say(l, &log, key, 7);
	}
	sf_log_limit_free(l);
	ck_assert_uint_lt(w.lines, all);
	for (unsigned k = 0; k < KEYS; k++)
		ck_assert_uint_eq(w.key_calls[k], calls[k]);
}
END_TEST

START_TEST(lines_above_the_level_count_nothing_and_without_a_limit_all_are_written)
{
	struct written w = WRITTEN;
	struct sf_log log = { keep, &w, SF_LOG_ERROR };
	struct sf_log_limit *l;

	ck_assert_int_eq(sf_log_limit_new(&log, 1000, KEYS, &l, NULL), 0);
	for (int i = 0; i < 10; i++)
		sf_log_limited(l, &log, SF_LOG_WARN, 1, "failure of file 1");
	sf_log_limited(l, NULL, SF_LOG_ERROR, 1, "nobody listens");
	sf_log_limit_free(l);
	ck_assert_uint_eq(w.lines, 0);
	for (unsigned i = 0; i < 10; i++)
		say(NULL, &log, 3, i);
	ck_assert_uint_eq(w.lines, 10);
	sf_log_limit_free(NULL);
}
END_TEST

START_TEST(a_long_line_is_told_again_by_its_beginning)
{
	struct written w = WRITTEN;
	struct sf_log log = { keep, &w, SF_LOG_ERROR };
	struct sf_log_limit *l;
	char text[1000] = "";

	for (int i = 0; i < 300; i++) /* two bytes each: one is cut in half somewhere */
		strcat(text, "\xc3\xa4");
	ck_assert_int_eq(sf_log_limit_new(&log, 3600 * 1000, KEYS, &l, NULL), 0);
	for (int i = 0; i < 3; i++)
		sf_log_limited(l, &log, SF_LOG_ERROR, 1, "failure of file 1%s%s", _i ? "" : " ",
		               text);
	ck_assert_uint_eq(strlen(w.last), 17 + !_i + 600);
	sf_log_limit_free(l);
	ck_assert_uint_lt(strlen(w.last), 300);
	ck_assert_ptr_nonnull(strstr(w.last, "\xc3\xa4 (and 2 more like this in 3600 s)"));
}
END_TEST

struct talker {
	pthread_t id;
	struct sf_log_limit *l;
	const struct sf_log *log;
	unsigned first;
};
static void *talk(void *arg)
{
	struct talker *t = arg;

	for (unsigned i = 0; i < 20000; i++)
		say(t->l, t->log, (t->first + i / 16) % KEYS, i);
	return NULL;
}

START_TEST(threads_lose_no_line)
{
	struct written w = WRITTEN;
	struct sf_log log = { keep, &w, SF_LOG_ERROR };
	struct sf_log_limit *l;
	struct talker t[8];

	ck_assert_int_eq(sf_log_limit_new(&log, 2, 16, &l, NULL), 0);
	for (unsigned i = 0; i < 8; i++) {
		t[i] = (struct talker){ .l = l, .log = &log, .first = i * 5 };
		ck_assert_int_eq(pthread_create(&t[i].id, NULL, talk, &t[i]), 0);
	}
	for (unsigned i = 0; i < 8; i++)
		pthread_join(t[i].id, NULL);
	sf_log_limit_free(l);
	ck_assert_uint_eq(w.calls, 8 * 20000);
	ck_assert_uint_lt(w.lines, 8 * 20000);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("log_limit");
	TCase *t = tcase_create("log_limit");

	tcase_set_timeout(t, 30);
	tcase_add_test(t, the_first_of_each_kind_is_written_and_the_rest_is_counted);
	tcase_add_test(t, a_failure_that_does_not_repeat_is_one_line);
	tcase_add_loop_test(t, counts_are_told_though_no_further_line_comes, 0, 2);
	tcase_add_test(t, the_thread_that_tells_takes_no_signal);
	tcase_add_test(t, a_kind_that_is_forgotten_has_its_count_told);
	tcase_add_test(t, lines_above_the_level_count_nothing_and_without_a_limit_all_are_written);
	tcase_add_loop_test(t, a_long_line_is_told_again_by_its_beginning, 0, 2);
	tcase_add_test(t, threads_lose_no_line);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
