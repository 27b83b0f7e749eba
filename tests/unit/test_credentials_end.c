#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "store/gs_chain.h"
#include "tests/lib/aws_world.h"

#define USER                                                                                   \
	"{\"type\":\"authorized_user\",\"client_id\":\"i\",\"client_secret\":\"s\",\"refresh_" \
	"token\":\"r\"}"

static unsigned most_ms; /* that any question might have taken */

static int ask(void *arg, const struct sf_http_ask *what, struct sf_http_answer *ret,
               struct sf_error *err)
{
	most_ms = SF_MAX(most_ms, what->timeout_ms);
	return aws_world_ask(arg, what, ret, err);
}

static void begin(struct aws_world *w, unsigned timeout_ms)
{
	aws_world_init(w);
	w->env.ask = ask;
	w->env.timeout_ms = timeout_ms;
	most_ms = 0;
}

static int get_gs(struct aws_world *w, struct sf_error *err)
{
	struct sf_gs_provider *p;
	struct sf_gs_token t = { 0 };
	int r;

	ck_assert_int_eq(sf_gs_provider_new(&w->env, &p, NULL), 0);
	r = sf_gs_provider_get(p, &t, err);
	sf_gs_token_release(&t);
	sf_gs_provider_free(p);
	return r;
}

static int get_aws(struct aws_world *w, struct sf_error *err)
{
	static const struct sf_store_options opt;
	struct sf_aws_provider *p;
	struct sf_aws_credentials c = { 0 };
	int r;

	ck_assert_int_eq(sf_aws_provider_new(&opt, &w->env, &p, NULL), 0);
	r = sf_aws_provider_get(p, &c, err);
	sf_aws_credentials_release(&c);
	sf_aws_provider_free(p);
	return r;
}

static void user(struct aws_world *w)
{
	char cmd[256];

	snprintf(cmd, sizeof(cmd), "mkdir -p %s/.config/gcloud", w->dir);
	ck_assert_int_eq(system(cmd), 0);
	aws_world_file(w, ".config/gcloud/application_default_credentials.json", USER);
}

/* Google's server is in trouble: it is asked three times, but not when the time is over; and no
 * question may take longer than all of it. */
START_TEST(a_token_is_not_asked_for_beyond_the_deadline)
{
	static const struct aws_answer trouble = { "POST", SF_GS_TOKEN_URL, 0, 503, "", NULL };
	struct sf_error err = SF_ERROR_INIT;
	struct aws_world w;

	begin(&w, _i ? 0 : 50);
	user(&w);
	w.answers = &trouble;
	w.nanswers = 1;
	w.slow_us = 60000;
	ck_assert_int_lt(get_gs(&w, &err), 0);
	ck_assert_uint_eq(w.asked, _i ? 3 : 1);
	if (_i)
		ck_assert_uint_gt(most_ms, 50);
	else
		ck_assert_uint_le(most_ms, 50);
	aws_world_release(&w);
}
END_TEST

START_TEST(nor_are_amazons)
{
	static const struct aws_answer trouble = { "GET", "http://localhost/c", 0, 503, "", NULL };
	struct sf_error err = SF_ERROR_INIT;
	struct aws_world w;

	begin(&w, _i ? 0 : 50);
	w.var[0] = "AWS_CONTAINER_CREDENTIALS_FULL_URI";
	w.var[1] = "http://localhost/c";
	w.answers = &trouble;
	w.nanswers = 1;
	w.slow_us = 60000;
	ck_assert_int_lt(get_aws(&w, &err), 0);
	ck_assert_uint_eq(w.asked, _i ? 3 : 1);
	if (!_i)
		ck_assert_uint_le(most_ms, 50);
	aws_world_release(&w);
}
END_TEST

START_TEST(a_program_has_the_deadline_too)
{
	struct sf_error err = SF_ERROR_INIT;
	struct aws_world w;

	begin(&w, 200);
	aws_world_file(&w, ".aws/config", "[default]\ncredential_process = sleep 1000\n");
	ck_assert_int_eq(get_aws(&w, &err), -ETIMEDOUT);
	ck_assert_msg(strstr(err.msg, "did not end within 0.") != NULL, "%s", err.msg);
	aws_world_release(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("credentials_end");
	TCase *c = tcase_create("credentials_end");

	tcase_set_timeout(c, 50);
	tcase_add_loop_test(c, a_token_is_not_asked_for_beyond_the_deadline, 0, 2);
	tcase_add_loop_test(c, nor_are_amazons, 0, 2);
	tcase_add_test(c, a_program_has_the_deadline_too);
	suite_add_tcase(s, c);
	return sf_test_main(s);
}
