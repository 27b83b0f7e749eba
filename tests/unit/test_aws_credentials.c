#include "config.h"

#include "base/mem.h"
#include "tests/lib/aws_world.h"

#define IMDS "http://169.254.169.254/latest/"
#define ROLE IMDS "meta-data/iam/security-credentials/r"

/* The machine's server, with what it says of the role as its third answer. */
struct machine {
	struct aws_world w;
	struct aws_answer answer[3];
	char said[2][512];
	struct sf_aws_provider *p;
};

/* It says now: credentials @id that end @after seconds from the beginning. */
static void machine_says(struct machine *m, const char *id, int64_t after)
{
	static int turn;
	char *to = m->said[turn ^= 1], when[32];
	time_t end = (time_t)(1600000000 + after);

	strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", gmtime(&end));
	snprintf(to, sizeof(m->said[0]),
	         "{\"Code\":\"Success\",\"AccessKeyId\":\"%s\",\"SecretAccessKey\":\"s\",\"Token\":"
	         "\"t\","
	         "\"Expiration\":\"%s\"}",
	         id, when);
	m->answer[1] = (struct aws_answer){ "GET", ROLE, 0, 200, to };
}

static void machine_init(struct machine *m)
{
	aws_world_init(&m->w);
	m->answer[0] = (struct aws_answer){ "PUT", IMDS "api/token", 0, 200, "tok" };
	m->answer[2] = (struct aws_answer){ "GET", IMDS "meta-data/iam/security-credentials/", 0,
		                            200, "r" };
	m->w.answers = m->answer;
	m->w.nanswers = 3;
	machine_says(m, "one", 3600);
	ck_assert_int_eq(sf_aws_provider_new(NULL, &m->w.env, &m->p, NULL), 0);
}

static void machine_release(struct machine *m)
{
	sf_aws_provider_free(m->p);
	aws_world_release(&m->w);
}

static void is(struct machine *m, const char *id)
{
	struct sf_aws_credentials c;
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(sf_aws_provider_get(m->p, &c, &err) == 0, "%s", err.msg);
	ck_assert_str_eq(c.key_id, id);
	sf_aws_credentials_release(&c);
}

/* Others are fetched meanwhile: until they are there. */
static void becomes(struct machine *m, const char *id)
{
	for (bool there = false; !there; usleep(1000)) {
		struct sf_aws_credentials c;

		ck_assert_int_eq(sf_aws_provider_get(m->p, &c, NULL), 0);
		there = strcmp(c.key_id, id) == 0;
		sf_aws_credentials_release(&c);
	}
}

static _Atomic bool settled;

static void note_settled(struct sf_renew_wait *w, int r, const char *why)
{
	(void)w;
	(void)r;
	(void)why;
	settled = true;
}

/* What is being fetched has come, or failed: the clock may be set now. */
static void is_asked(struct machine *m, unsigned times)
{
	struct sf_renew_wait w = { .ready = note_settled };

	settled = false;
	sf_renew_park(sf_aws_provider_renew(m->p), &w);
	while (!settled)
		usleep(1000);
	ck_assert_uint_eq(m->w.asked, times);
}

START_TEST(they_are_fetched_once_and_again_before_the_end)
{
	struct machine m;

	machine_init(&m);
	for (int i = 0; i < 10; i++)
		is(&m, "one");
	ck_assert_uint_eq(m.w.asked, 3);
	machine_says(&m, "two", 7200);
	m.w.now += 2699; /* 15 minutes and a second are left */
	is(&m, "one");
	ck_assert_uint_eq(m.w.asked, 3);
	m.w.now += 1;
	becomes(&m, "two");
	is(&m, "two");
	ck_assert_uint_eq(m.w.asked, 6);
	machine_release(&m);
}
END_TEST

START_TEST(the_old_ones_stay_while_fetching_fails)
{
	struct machine m;
	struct sf_aws_credentials c;
	struct sf_error err;
	int r;

	machine_init(&m);
	is(&m, "one");
	m.answer[1].status = 500;
	m.w.now += 3000;
	is(&m, "one");
	is_asked(&m, 6);
	m.w.now += 599; /* they have not ended */
	is(&m, "one");
	is_asked(&m, 9);
	m.w.now += 60;
	do
		r = sf_aws_provider_get(m.p, &c, &err);
	while (r == 0);
	ck_assert_int_eq(r, -EIO);
	ck_assert_ptr_nonnull(strstr(err.msg, "answers 500"));
	unsigned asked = m.w.asked;
	for (int i = 0; i < 10; i++) /* not asked at every request */
		ck_assert_int_eq(sf_aws_provider_get(m.p, &c, &err), -EIO);
	ck_assert_uint_eq(m.w.asked, asked);
	machine_says(&m, "two", 9000);
	m.w.now += 60;
	is(&m, "two");
	machine_release(&m);
}
END_TEST

START_TEST(what_has_ended_already_is_an_error)
{
	struct machine m;
	struct sf_aws_credentials c;
	struct sf_error err;

	machine_init(&m);
	machine_says(&m, "old", -5);
	ck_assert_int_eq(sf_aws_provider_get(m.p, &c, &err), -EKEYEXPIRED);
	ck_assert_ptr_nonnull(
		strstr(err.msg, "the machine's role gave credentials that expired 5 s ago"));
	machine_release(&m);
}
END_TEST

START_TEST(a_server_may_say_that_they_have_expired)
{
	struct machine m;

	machine_init(&m);
	is(&m, "one");
	sf_aws_provider_expired(m.p, "another");
	is(&m, "one");
	ck_assert_uint_eq(m.w.asked, 3);
	machine_says(&m, "two", 7200);
	sf_aws_provider_expired(m.p, "one");
	is(&m, "two");
	ck_assert_uint_eq(m.w.asked, 6);
	machine_release(&m);
}
END_TEST

START_TEST(who_may_not_wait_is_told_so)
{
	struct machine m;
	struct sf_aws_credentials c;

	machine_init(&m);
	m.w.slow_us = 50000;
	ck_assert_int_eq(sf_aws_provider_try(m.p, &c, NULL), -EAGAIN);
	is(&m, "one");
	ck_assert_int_eq(sf_aws_provider_try(m.p, &c, NULL), 0);
	sf_aws_credentials_release(&c);
	m.w.now += 3000; /* soon at their end: the next are fetched, nobody waits */
	ck_assert_int_eq(sf_aws_provider_try(m.p, &c, NULL), 0);
	sf_aws_credentials_release(&c);
	is_asked(&m, 6);
	machine_release(&m);
}
END_TEST

START_TEST(nobody_is_asked_for_who_does_not_sign)
{
	struct sf_store_options opt = { .no_sign_request = true };
	struct sf_aws_credentials c;
	struct machine m;

	machine_init(&m);
	sf_aws_provider_free(m.p);
	ck_assert_int_eq(sf_aws_provider_new(&opt, &m.w.env, &m.p, NULL), 0);
	ck_assert_int_eq(sf_aws_provider_get(m.p, &c, NULL), 1);
	ck_assert_int_eq(sf_aws_provider_try(m.p, &c, NULL), 1);
	ck_assert_uint_eq(m.w.asked, 0);
	machine_release(&m);
}
END_TEST

static void *get_often(void *arg)
{
	struct machine *m = arg;

	for (int i = 0; i < 50; i++) {
		struct sf_aws_credentials c;

		ck_assert_int_eq(sf_aws_provider_get(m->p, &c, NULL), 0);
		sf_aws_credentials_release(&c);
		if (sf_aws_provider_try(m->p, &c, NULL) == 0)
			sf_aws_credentials_release(&c);
	}
	return NULL;
}

START_TEST(threads_fetch_once_for_all)
{
	struct machine m;
	pthread_t t[8];

	machine_init(&m);
	m.w.slow_us = 20000;
	for (int round = 1; round <= 2; round++) {
		for (size_t i = 0; i < SF_ARRAY_LEN(t); i++)
			ck_assert_int_eq(pthread_create(&t[i], NULL, get_often, &m), 0);
		for (size_t i = 0; i < SF_ARRAY_LEN(t); i++)
			pthread_join(t[i], NULL);
		is_asked(&m, 3 * (unsigned)round);
		machine_says(&m, "two", 7200);
		m.w.now += 3600 * round;
		m.w.now -= round == 1 ? 600 : 0; /* due, and good still */
	}
	machine_release(&m);
}
END_TEST

static void *get_error(void *arg)
{
	struct machine *m = arg;
	struct sf_aws_credentials c;
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(sf_aws_provider_get(m->p, &c, &err), -EIO);
	ck_assert_ptr_nonnull(strstr(err.msg, "answers 500"));
	return NULL;
}

START_TEST(threads_that_wait_share_an_error)
{
	struct machine m;
	pthread_t t[8];

	machine_init(&m);
	m.answer[1].status = 500;
	m.w.slow_us = 50000;
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++)
		ck_assert_int_eq(pthread_create(&t[i], NULL, get_error, &m), 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++)
		pthread_join(t[i], NULL);
	ck_assert_uint_lt(m.w.asked, 3 * 8);
	machine_release(&m);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("aws_credentials");
	TCase *t = tcase_create("provider");

	tcase_add_test(t, they_are_fetched_once_and_again_before_the_end);
	tcase_add_test(t, the_old_ones_stay_while_fetching_fails);
	tcase_add_test(t, what_has_ended_already_is_an_error);
	tcase_add_test(t, a_server_may_say_that_they_have_expired);
	tcase_add_test(t, who_may_not_wait_is_told_so);
	tcase_add_test(t, nobody_is_asked_for_who_does_not_sign);
	tcase_add_test(t, threads_fetch_once_for_all);
	tcase_add_test(t, threads_that_wait_share_an_error);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
