#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#include "lib/session_watch.h"
#include "lib/session.h"
#include "tests/lib/sf_test.h"

/* How a session begins, and what it says when it does not. */

static struct heard {
	pthread_mutex_t m;
	pthread_cond_t c;
	unsigned n;
	char line[512];
} heard = { .m = PTHREAD_MUTEX_INITIALIZER, .c = PTHREAD_COND_INITIALIZER };

static void hear(void *arg, enum sf_log_level level, const char *line)
{
	struct heard *h = arg;

	ck_assert_int_eq(level, SF_LOG_WARN);
	pthread_mutex_lock(&h->m);
	snprintf(h->line, sizeof(h->line), "%s", line);
	h->n++;
	pthread_cond_signal(&h->c);
	pthread_mutex_unlock(&h->m);
}

START_TEST(what_takes_long_is_told_once)
{
	const struct sf_log log = { hear, &heard, SF_LOG_DEBUG };
	struct sf_session_watch *late, *quick;
	struct sf_io io;

	ck_assert_int_eq(sf_io_init(&io, 1, NULL), 0);
	io.log = &log;
	io.timeout_ms = 60000;
	quick = sf_session_watch_begin(&io, "loading", "/quick");
	io.timeout_ms = 20;
	late = sf_session_watch_begin(&io, "opening", "/late");
	ck_assert_ptr_nonnull(quick);
	ck_assert_ptr_nonnull(late);
	pthread_mutex_lock(&heard.m);
	while (!heard.n)
		pthread_cond_wait(&heard.c, &heard.m);
	pthread_mutex_unlock(&heard.m);
	sf_session_watch_end(quick);
	sf_session_watch_end(late);
	io.timeout_ms = 0;
	ck_assert_ptr_null(sf_session_watch_begin(&io, "opening", "/for ever"));
	sf_session_watch_end(NULL);
	sf_io_release(&io);
	ck_assert_uint_eq(heard.n, 1);
	ck_assert_msg(strncmp(heard.line, "'/late': still opening after ", 29) == 0, "%s",
	              heard.line);
}
END_TEST

/* One file is a checkpoint, but a part of one is not. */
START_TEST(a_file_is_opened_or_called_what_it_is)
{
	struct sf_session_options opt;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;
	char path[4096], whole[4096];

	sf_session_options_init(&opt);
	ck_assert_msg(sf_session_open(&s, &opt, sf_test_data(path, "torch-save/zip.pt"), &err) == 0,
	              "%s", err.msg);
	/* a build that was configured as ../configure names the data with .. in it */
	ck_assert_ptr_nonnull(realpath(path, whole));
	ck_assert_str_eq(s.ckpt->format, "torch");
	ck_assert_str_eq(s.store->source, whole);
	ck_assert_uint_eq(s.ckpt->nlisting, 1);
	sf_session_close(&s);
	ck_assert_int_lt(
		sf_session_open(&s, &opt, sf_test_data(path, "dcp/fsdp4/ckpt/.metadata"), &err), 0);
	ck_assert_msg(strstr(err.msg, "give its directory"), "%s", err.msg);
}
END_TEST

/* Companions that are asked for and cannot be had: the session is there, and says why. */
START_TEST(companions_that_are_not_there_are_told)
{
	struct sf_session_options opt;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;
	char path[4096];

	sf_session_options_init(&opt);
	opt.view.hf_files = "/nowhere/at all";
	sf_test_data(path, "dcp/fsdp4/ckpt");
	ck_assert_int_eq(sf_session_open(&s, &opt, path, &err), 0);
	ck_assert_ptr_null(s.hf_store);
	ck_assert_ptr_nonnull(s.view.hf_why);
	ck_assert_msg(strstr(s.view.hf_why, "/nowhere/at all") != NULL, "%s", s.view.hf_why);
	sf_session_close(&s);
	opt.view.hf_files = path;
	ck_assert_int_eq(sf_session_open(&s, &opt, path, &err), 0);
	ck_assert_ptr_nonnull(s.hf_store);
	ck_assert_ptr_null(s.view.hf_why);
	sf_session_close(&s);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("session");
	TCase *tc = tcase_create("session");

	tcase_add_test(tc, what_takes_long_is_told_once);
	tcase_add_test(tc, a_file_is_opened_or_called_what_it_is);
	tcase_add_test(tc, companions_that_are_not_there_are_told);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
