#include "config.h"
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>
#include "tests/lib/sf_test.h"
#include "tool/ask.h"

static void say(const void *arg, int to)
{
	ck_assert_int_eq(write(to, arg, strlen(arg)), (ssize_t)strlen(arg));
}

static void say_and_hang(const void *arg, int to)
{
	say(arg, to);
	for (;;)
		pause();
}

static void say_without_end(const void *arg, int to)
{
	signal(SIGPIPE, SIG_DFL);
	for (;;)
		say(arg, to);
}

START_TEST(an_answer_is_what_the_child_wrote)
{
	char buf[16] = "";
	bool all = false;

	ck_assert_int_eq(sf_ask(say, "words", 60000, buf, sizeof(buf), &all), 5);
	ck_assert(all);
	ck_assert_mem_eq(buf, "words", 5);
	ck_assert_int_eq(sf_ask(say, "", 60000, buf, sizeof(buf), &all), 0);
	ck_assert(all);
	ck_assert_int_eq(waitpid(-1, NULL, WNOHANG), -1); /* nobody is left */
}
END_TEST

START_TEST(a_child_that_hangs_gives_what_it_had)
{
	char buf[16] = "";
	bool all = true;

	ck_assert_int_eq(sf_ask(say_and_hang, "part", 200, buf, sizeof(buf), &all), 4);
	ck_assert(!all);
	ck_assert_mem_eq(buf, "part", 4);
	int status = 0;
	pid_t pid = waitpid(-1, &status, 0); /* it was killed, if not waited for */
	ck_assert(pid < 0 || (WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL));
}
END_TEST

START_TEST(an_answer_ends_where_the_room_ends)
{
	char buf[8] = "";
	bool all = true;

	ck_assert_int_eq(sf_ask(say_without_end, "abc", 60000, buf, 7, &all), 7);
	ck_assert(!all);
	ck_assert_str_eq(buf, "abcabca");
}
END_TEST

int main(void)
{
	Suite *s = suite_create("ask");
	TCase *tc = tcase_create("ask");
	tcase_add_test(tc, an_answer_is_what_the_child_wrote);
	tcase_add_test(tc, a_child_that_hangs_gives_what_it_had);
	tcase_add_test(tc, an_answer_ends_where_the_room_ends);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
