#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "sf_test.h"
#include "store/renew.h"

/* A value is a number: of its fetch. A fetch takes until @open, and is what @result says. */
struct world {
	struct sf_renew *renew;
	_Atomic int64_t now, lasts;
	_Atomic int result;
	_Atomic unsigned fetches, freed;
	_Atomic bool open;
};

static int load(void *arg, const struct sf_cloud_env *env, void *value, int64_t *ret_expires,
                struct sf_error *err)
{
	struct world *w = arg;
	unsigned n = ++w->fetches;

	while (!w->open)
		if (*env->stop)
			return sf_fail(err, -ECANCELED, "stopped");
		else
			usleep(1000);
	if (w->result < 0)
		return sf_fail(err, w->result, "fetch %u failed", n);
	memcpy(value, &n, sizeof(n));
	*ret_expires = w->lasts ? w->now + w->lasts : 0;
	return 0;
}

static int copy(const void *value, void *ret)
{
	memcpy(ret, value, sizeof(unsigned));
	return 0;
}

static struct world w;

static void release(void *value)
{
	(void)value;
	w.freed++;
}

static const char *from(const void *value)
{
	(void)value;
	return "the test";
}

static int64_t now(void *arg)
{
	return ((struct world *)arg)->now;
}

static const struct sf_renew_ops ops = { sizeof(unsigned), load, copy, release, from };

static void begin(int64_t lasts)
{
	w.fetches = w.freed = 0; /* tests may share a process */
	w.result = 0;
	w.now = 1000000;
	w.lasts = lasts;
	w.open = true;
	const struct sf_cloud_env env = { .arg = &w, .now = now };
	ck_assert_int_eq(sf_renew_new(&ops, &env, &w, &w.renew, NULL), 0);
}

static unsigned get(void)
{
	struct sf_error err = SF_ERROR_INIT;
	unsigned n = 0;

	ck_assert_msg(sf_renew_get(w.renew, &n, &err) == 0, "%s", err.msg);
	return n;
}

/* A fetch that nobody waits for has begun: until it is over. */
static void until_it_is(unsigned want)
{
	while (get() != want)
		usleep(1000);
}

START_TEST(a_value_is_fetched_once_and_kept)
{
	begin(0);
	for (int i = 0; i < 10; i++)
		ck_assert_uint_eq(get(), 1);
	w.now += 1000000;
	ck_assert_uint_eq(get(), 1);
	sf_renew_free(w.renew);
	ck_assert_uint_eq(w.fetches, 1);
	ck_assert_uint_eq(w.freed, 1);
}
END_TEST

/* A reader that waited here would wait for ever: the fetch is held. */
START_TEST(who_has_a_good_one_does_not_wait_for_the_next)
{
	unsigned n = 0;

	begin(3600);
	ck_assert_uint_eq(get(), 1);
	w.now += 2700;
	w.open = false;
	for (int i = 0; i < 10; i++) {
		ck_assert_uint_eq(get(), 1);
		ck_assert_int_eq(sf_renew_try(w.renew, &n, NULL), 0);
		ck_assert_uint_eq(n, 1);
	}
	while (w.fetches != 2)
		usleep(1000);
	w.open = true;
	until_it_is(2);
	ck_assert_uint_eq(w.fetches, 2);
	sf_renew_free(w.renew);
	ck_assert_uint_eq(w.freed, 2);
}
END_TEST

START_TEST(what_fails_is_not_fetched_at_once_again)
{
	static const int64_t pause[] = { 1, 2, 4, 8, 16, 32, 60, 60 };
	struct sf_error err = SF_ERROR_INIT;
	unsigned n = 0, fetches = 0;
	char says[64];

	begin(0);
	w.result = -EIO;
	for (size_t i = 0; i < SF_ARRAY_LEN(pause); i++) {
		ck_assert_int_eq(sf_renew_get(w.renew, &n, &err), -EIO);
		ck_assert_uint_eq(w.fetches, ++fetches);
		snprintf(says, sizeof(says), "fetch %u failed", fetches);
		ck_assert_str_eq(err.msg, says);
		w.now += pause[i] - 1;
		for (int k = 0; k < 3; k++) {
			err.msg[0] = '\0';
			ck_assert_int_eq(sf_renew_get(w.renew, &n, &err), -EIO);
			ck_assert_str_eq(err.msg, says);
			ck_assert_int_eq(sf_renew_try(w.renew, &n, &err), -EIO);
		}
		ck_assert_uint_eq(w.fetches, fetches);
		w.now += 1;
	}
	w.result = 0;
	ck_assert_uint_eq(get(), ++fetches);
	sf_renew_free(w.renew);
}
END_TEST

/* A clock that is set back by a day does not make an error last a day. */
START_TEST(a_clock_that_is_set_back_keeps_nobody_waiting)
{
	unsigned n = 0;

	begin(0);
	w.result = -EIO;
	ck_assert_int_eq(sf_renew_get(w.renew, &n, NULL), -EIO);
	w.result = 0;
	w.now -= 86400;
	ck_assert_uint_eq(get(), 2);
	sf_renew_free(w.renew);
}
END_TEST

START_TEST(the_old_one_stays_until_its_end)
{
	unsigned n = 0;

	begin(3600);
	ck_assert_uint_eq(get(), 1);
	w.result = -EIO;
	w.now += 3500;
	ck_assert_uint_eq(get(), 1);
	while (w.fetches != 2)
		usleep(1000);
	w.now += 100;
	int r = -EAGAIN;
	while (r == -EAGAIN)
		r = sf_renew_try(w.renew, &n, NULL);
	ck_assert_int_eq(r, -EIO);
	w.result = 0;
	w.now += 60;
	ck_assert_uint_ge(get(), 3);
	sf_renew_free(w.renew);
}
END_TEST

START_TEST(what_ends_soon_is_not_fetched_at_every_request)
{
	begin(100);
	for (int i = 0; i < 10; i++)
		ck_assert_uint_eq(get(), 1);
	w.now += 59;
	ck_assert_uint_eq(get(), 1);
	ck_assert_uint_eq(w.fetches, 1);
	w.now += 1;
	until_it_is(2);
	sf_renew_free(w.renew);
}
END_TEST

static bool is_it(const void *value, const void *arg)
{
	return memcmp(value, arg, sizeof(unsigned)) == 0;
}

START_TEST(what_is_dropped_is_fetched_again)
{
	const unsigned one = 1, two = 2;

	begin(3600);
	ck_assert_uint_eq(get(), 1);
	sf_renew_drop(w.renew, is_it, &two);
	ck_assert_uint_eq(get(), 1);
	sf_renew_drop(w.renew, is_it, &one);
	ck_assert_uint_eq(get(), 2);
	sf_renew_free(w.renew);
}
END_TEST

static _Atomic unsigned told;

static void ready(struct sf_renew_wait *wait, int r, const char *why)
{
	(void)wait;
	ck_assert_int_eq(r, w.result);
	ck_assert_str_eq(why, r < 0 ? "fetch 2 failed" : "");
	told++;
}

START_TEST(who_parks_is_told_once_and_who_left_is_not)
{
	struct sf_renew_wait wait[8], late = { .ready = ready };
	unsigned n = 0;

	begin(0);
	told = 0;
	w.open = false;
	for (size_t i = 0; i < SF_ARRAY_LEN(wait); i++) {
		wait[i] = (struct sf_renew_wait){ .ready = ready };
		ck_assert_int_eq(sf_renew_try(w.renew, &n, NULL), -EAGAIN);
		sf_renew_park(w.renew, &wait[i]);
	}
	ck_assert_uint_eq(told, 0);
	ck_assert(sf_renew_leave(w.renew, &wait[7])); /* the first of the list */
	ck_assert(sf_renew_leave(w.renew, &wait[0])); /* the last, and one between */
	ck_assert(sf_renew_leave(w.renew, &wait[3]));
	ck_assert(!sf_renew_leave(w.renew, &wait[3]));
	w.open = true;
	while (told != 5)
		usleep(1000);
	ck_assert(!sf_renew_leave(w.renew, &wait[1]));
	ck_assert_int_eq(sf_renew_try(w.renew, &n, NULL), 0);
	sf_renew_park(w.renew, &late); /* it came while he was on his way */
	ck_assert_uint_eq(told, 6);
	ck_assert_uint_eq(w.fetches, 1);
	/* a failure too is for those who waited for it */
	const unsigned one = 1;
	w.open = false;
	w.result = -EIO;
	sf_renew_drop(w.renew, is_it, &one);
	ck_assert_int_eq(sf_renew_try(w.renew, &n, NULL), -EAGAIN);
	sf_renew_park(w.renew, &late);
	w.open = true;
	while (told != 7)
		usleep(1000);
	sf_renew_free(w.renew);
	ck_assert_uint_eq(told, 7);
}
END_TEST

START_TEST(a_fetch_is_stopped_at_the_end)
{
	unsigned n = 0;

	begin(0);
	w.open = false;
	ck_assert_int_eq(sf_renew_try(w.renew, &n, NULL), -EAGAIN);
	sf_renew_free(w.renew); /* does not wait for ever */
	ck_assert_uint_eq(w.freed, 0);
}
END_TEST

static void *get_one(void *arg)
{
	(void)arg;
	for (int i = 0; i < 100; i++)
		ck_assert_uint_ge(get(), 1);
	return NULL;
}

START_TEST(threads_fetch_once_for_all)
{
	pthread_t t[8];

	begin(0);
	w.open = false;
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, get_one, NULL), 0);
	usleep(20000);
	w.open = true;
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_eq(w.fetches, 1);
	sf_renew_free(w.renew);
}
END_TEST

/* ---- who gives them is away ---- */

static struct sf_renew *riding(int64_t lasts)
{
	const struct sf_cloud_env env = {
		.arg = &w, .now = now, .timeout_ms = 600000, .retry_ms = 4
	};

	begin(lasts);
	sf_renew_free(w.renew);
	ck_assert_int_eq(sf_renew_new(&ops, &env, &w, &w.renew, NULL), 0);
	return w.renew;
}

static struct ends {
	_Atomic unsigned good, bad;
	char why[SF_ERROR_MAX];
} ends;

static void count_end(struct sf_renew_wait *wait, int r, const char *why)
{
	(void)wait;
	if (r < 0)
		snprintf(ends.why, sizeof(ends.why), "%s", why);
	*(r < 0 ? &ends.bad : &ends.good) += 1;
}

static void park(struct sf_renew_wait *wait, int64_t end_ns)
{
	unsigned n;

	*wait = (struct sf_renew_wait){ .ready = count_end, .end_ns = end_ns };
	ck_assert_int_eq(sf_renew_try(w.renew, &n, NULL), -EAGAIN);
	sf_renew_park(w.renew, wait);
}

START_TEST(who_waits_does_so_until_they_are_given_again)
{
	const int64_t end_ns = sf_now_ns() + INT64_C(600000000000);
	struct sf_renew_wait wait[3];

	memset(&ends, 0, sizeof(ends));
	riding(3600);
	ck_assert_uint_eq(get(), 1);
	w.result = -EIO;
	w.now += 3600;
	w.open = false;
	for (int i = 0; i < 3; i++)
		park(&wait[i], end_ns);
	w.open = true;
	while (w.fetches < 6) /* one for all, again and again */
		usleep(1000);
	ck_assert_uint_eq(ends.good + ends.bad, 0);
	w.result = 0;
	while (ends.good < 3)
		usleep(1000);
	ck_assert_uint_eq(ends.bad, 0);
	ck_assert_uint_ge(get(), 7);
	sf_renew_free(w.renew);
}
END_TEST

START_TEST(who_asks_and_waits_is_given_them_too)
{
	pthread_t t;

	riding(3600);
	ck_assert_uint_eq(get(), 1);
	w.result = -ETIMEDOUT;
	w.now += 3600;
	ck_assert_int_eq(pthread_create(&t, NULL, get_one, NULL), 0);
	while (w.fetches < 4)
		usleep(1000);
	w.result = 0;
	w.lasts = 0;
	pthread_join(t, NULL);
	sf_renew_free(w.renew);
}
END_TEST

START_TEST(whose_end_comes_is_told_how_often_it_was_tried)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_renew_wait wait;
	unsigned n, fetches;

	memset(&ends, 0, sizeof(ends));
	riding(3600);
	ck_assert_uint_eq(get(), 1);
	w.result = -EIO;
	w.now += 3600;
	w.open = false;
	park(&wait, sf_now_ns() + INT64_C(400000000));
	w.open = true;
	while (!ends.bad)
		usleep(1000);
	ck_assert_msg(strstr(ends.why, "failed") && (w.fetches < 3 || strstr(ends.why, "(asked ")),
	              "%s", ends.why);
	/* who comes now is told at once, for a while */
	while (sf_renew_try(w.renew, &n, &err) == -EAGAIN)
		;
	fetches = w.fetches;
	ck_assert_int_eq(sf_renew_get(w.renew, &n, &err), -EIO);
	ck_assert_uint_eq(w.fetches, fetches);
	w.now += 60;
	w.result = 0;
	ck_assert_uint_gt(get(), fetches);
	sf_renew_free(w.renew);
}
END_TEST

START_TEST(what_is_refused_for_good_is_said_at_once)
{
	struct sf_renew_wait wait;

	memset(&ends, 0, sizeof(ends));
	riding(3600);
	ck_assert_uint_eq(get(), 1);
	w.result = -EACCES;
	w.now += 3600;
	w.open = false;
	park(&wait, sf_now_ns() + INT64_C(600000000000));
	w.open = true;
	while (!ends.bad)
		usleep(1000);
	ck_assert_uint_eq(w.fetches, 2);
	sf_renew_free(w.renew);
}
END_TEST

START_TEST(the_end_does_not_wait_for_the_next_try)
{
	struct sf_renew_wait wait;

	memset(&ends, 0, sizeof(ends));
	riding(3600);
	ck_assert_uint_eq(get(), 1);
	w.result = -EIO;
	w.now += 3600;
	w.open = false;
	park(&wait, sf_now_ns() + INT64_C(600000000000));
	w.open = true;
	while (w.fetches < 3)
		usleep(1000);
	ck_assert(sf_renew_leave(w.renew, &wait));
	sf_renew_free(w.renew);
	ck_assert_uint_eq(ends.good + ends.bad, 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("renew");
	TCase *t = tcase_create("renew");

	tcase_set_timeout(t, 30);
	tcase_add_test(t, a_value_is_fetched_once_and_kept);
	tcase_add_test(t, who_waits_does_so_until_they_are_given_again);
	tcase_add_test(t, who_asks_and_waits_is_given_them_too);
	tcase_add_test(t, whose_end_comes_is_told_how_often_it_was_tried);
	tcase_add_test(t, what_is_refused_for_good_is_said_at_once);
	tcase_add_test(t, the_end_does_not_wait_for_the_next_try);
	tcase_add_test(t, who_has_a_good_one_does_not_wait_for_the_next);
	tcase_add_test(t, what_fails_is_not_fetched_at_once_again);
	tcase_add_test(t, a_clock_that_is_set_back_keeps_nobody_waiting);
	tcase_add_test(t, the_old_one_stays_until_its_end);
	tcase_add_test(t, what_ends_soon_is_not_fetched_at_every_request);
	tcase_add_test(t, what_is_dropped_is_fetched_again);
	tcase_add_test(t, who_parks_is_told_once_and_who_left_is_not);
	tcase_add_test(t, a_fetch_is_stopped_at_the_end);
	tcase_add_test(t, threads_fetch_once_for_all);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
