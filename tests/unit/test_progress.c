#include "config.h"
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include "base/error.h"
#include "base/log.h"
#include "cli/cli.h"
#include "tests/lib/sf_test.h"
#include "tool/progress.h"

enum { ROWS = 64, COLS = 512 };

/* As much of a terminal as a line that is drawn again needs. */
struct screen {
	char at[ROWS][COLS + 1];
	unsigned row, col, wide; /* the widest line that was ever there */
};

static void put(struct screen *s, const char *text, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		if (text[i] == '\r') {
			s->col = 0;
		} else if (text[i] == '\n') {
			s->row++;
			s->col = 0; /* what arrives has both: the pty sees to that */
		} else if (text[i] == '\033' && i + 2 < n && memcmp(text + i, "\033[K", 3) == 0) {
			memset(s->at[s->row] + s->col, 0, COLS - s->col);
			i += 2;
		} else {
			ck_assert_uint_lt(s->col, COLS);
			s->at[s->row][s->col++] = text[i];
		}
		ck_assert_uint_lt(s->row, ROWS);
		if (s->col > s->wide)
			s->wide = s->col;
	}
}

struct run {
	char text[65536]; /* all that came out */
	size_t n;
	struct screen s; /* what is on the screen in the end */
	bool drawn;      /* a bar was seen, and the child told */
};

/*
 * @child in a process whose stderr is a terminal of @columns. It may wait at @go until its line was
 * drawn.
 */
static void on_terminal(struct run *r, unsigned short columns, void (*child)(int go))
{
	struct winsize w = { .ws_row = 24, .ws_col = columns };
	int master = posix_openpt(O_RDWR | O_NOCTTY), go[2], status;

	*r = (struct run){ .n = 0 };
	ck_assert_int_ge(master, 0);
	ck_assert_int_eq(grantpt(master) | unlockpt(master), 0);
	ck_assert_int_eq(pipe(go), 0);
	int slave = open(ptsname(master), O_RDWR | O_NOCTTY);
	ck_assert_int_ge(slave, 0);
	ck_assert_int_eq(ioctl(slave, TIOCSWINSZ, &w), 0);
	pid_t pid = fork();
	if (pid == 0) {
		setenv("TERM", "xterm", 1);
		close(go[1]);
		close(master);
		dup2(slave, STDERR_FILENO);
		child(go[0]);
		_exit(0);
	}
	close(go[0]);
	close(slave);
	for (ssize_t k; (k = read(master, r->text + r->n, sizeof(r->text) - 1 - r->n)) > 0;) {
		r->n += (size_t)k;
		if (!r->drawn && memchr(r->text, '[', r->n)) {
			r->drawn = true;
			ck_assert_int_eq(write(go[1], "1", 1), 1);
		}
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	close(go[1]);
	close(master);
	put(&r->s, r->text, r->n);
}

static struct sf_progress progress;

static void start(const char *file)
{
	sf_progress_init(&progress, false);
	progress.total = 1440000000;
	sf_progress_start(&progress);
	sf_progress_file(&progress, file);
	sf_progress_add(&progress, 650000000);
}

static void wait_for(int go)
{
	char c;

	if (read(go, &c, 1) != 1)
		_exit(3);
}

static void child_log(int go)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_common common;

	sf_common_init(&common);
	start("out/model.safetensors");
	wait_for(go);
	sf_log(&common.log, SF_LOG_WARN, "a line of the log");
	sf_fail(&err, -EIO, "a line about an error");
	sf_cli_error(1, &err);
	sf_terminal_lock();
	fputs("a line of the work\n", stderr);
	sf_terminal_unlock();
	sf_progress_add(&progress, 790000000);
	sf_progress_end(&progress);
	sf_progress_end(&progress);
	sf_progress_summary(&progress, "wrote");
}

START_TEST(other_lines_find_the_terminal_clean)
{
	static struct run r;

	on_terminal(&r, 100, child_log);
	ck_assert(r.drawn);
	ck_assert_msg(strstr(r.text, "[=========>          ]  45 %  0.65 of 1.44 GB, "), "%s",
	              r.text);
	ck_assert_ptr_nonnull(strstr(r.text, ", ETA "));
	ck_assert_ptr_nonnull(strstr(r.text, "  out/model.safetensors"));
	ck_assert_str_eq(r.s.at[0], "shardfuse: warning: a line of the log");
	ck_assert_str_eq(r.s.at[1], "shardfuse: a line about an error");
	ck_assert_str_eq(r.s.at[2], "a line of the work");
	ck_assert_msg(strncmp(r.s.at[3], "wrote 1.44 GB in ", 17) == 0 &&
	                      strstr(r.s.at[3], " GB/s)"),
	              "%s", r.s.at[3]);
	ck_assert_str_eq(r.s.at[4], "");
	ck_assert_uint_eq(r.s.row, 4);
}
END_TEST

static void child_name(int go)
{
	start("a/\033[31mred\303\274\n and a name that is much longer than the line has room "
	      "for.pt");
	wait_for(go);
	sf_progress_end(&progress);
}

START_TEST(the_line_fits_the_terminal_and_names_are_escaped)
{
	static struct run r;

	on_terminal(&r, 90, child_name);
	ck_assert(r.drawn);
	ck_assert_uint_lt(r.s.wide, 90);
	ck_assert_ptr_nonnull(strstr(r.text, "room for.pt"));
	ck_assert_ptr_null(strstr(r.text, "\033[31m"));
	ck_assert_str_eq(r.s.at[0], "");
	on_terminal(&r, 20, child_name); /* no room for it at all */
	ck_assert_uint_lt(r.s.wide, 20);
	ck_assert_uint_eq(r.s.row, 0);
}
END_TEST

/* A day and more of work is done, two hours are to come; a minute more or less is the machine's. */
static void child_long(int go)
{
	sf_progress_init(&progress, false);
	progress.begun_ns -= INT64_C(100000) * 1000000000;
	progress.total = 107290000000;
	sf_progress_add(&progress, 100000000000);
	sf_progress_start(&progress);
	wait_for(go);
	sf_progress_end(&progress);
}

static void child_unknown(int go)
{
	sf_progress_init(&progress, false);
	sf_progress_add(&progress, 650000000);
	sf_progress_start(&progress);
	wait_for(go);
	sf_progress_end(&progress);
}

START_TEST(long_work_has_hours_and_work_of_unknown_size_no_end)
{
	static struct run r;

	on_terminal(&r, 100, child_long);
	ck_assert_msg(strstr(r.text, "100.00 of 107.29 GB, 0.00 GB/s, ETA 2:01:") != NULL, "%s",
	              r.text);
	on_terminal(&r, 100, child_unknown);
	ck_assert_msg(strstr(r.text, "\r650.00 MB, ") != NULL, "%s", r.text);
	ck_assert_ptr_null(strstr(r.text, "ETA"));
	ck_assert_ptr_null(strstr(r.text, "%"));
}
END_TEST

static void child_quiet(int go)
{
	(void)go;
	sf_progress_init(&progress, true);
	progress.total = 10;
	sf_progress_start(&progress);
	sf_progress_add(&progress, 10);
	sf_progress_end(&progress);
	sf_progress_summary(&progress, "wrote");
	setenv("TERM", "dumb", 1);
	sf_progress_init(&progress, false);
	sf_progress_start(&progress);
	sf_progress_end(&progress);
	sf_progress_summary(&progress, "wrote");
}

START_TEST(quiet_is_quiet)
{
	static struct run r;

	on_terminal(&r, 80, child_quiet);
	ck_assert_uint_eq(r.n, 0);
}
END_TEST

static _Atomic bool waited, by_another_clock;

/* In place of the C library's: until when is it waited? By a clock that somebody sets, it would be hours. */
int pthread_cond_timedwait(pthread_cond_t *c, pthread_mutex_t *m, const struct timespec *until)
{
	const struct timespec tick = { .tv_nsec = 10000000 };
	struct timespec now;

	(void)c;
	clock_gettime(CLOCK_MONOTONIC, &now);
	if (until->tv_sec < now.tv_sec - 60 || until->tv_sec > now.tv_sec + 60)
		by_another_clock = true;
	waited = true;
	pthread_mutex_unlock(m);
	nanosleep(&tick, NULL);
	pthread_mutex_lock(m);
	return ETIMEDOUT;
}

static void child_clock(int go)
{
	start("x");
	wait_for(go);
	sf_progress_end(&progress);
	sf_terminal_leave();
	_exit(!waited ? 4 : by_another_clock ? 5 : 0);
}

START_TEST(a_clock_that_is_set_stops_no_line)
{
	static struct run r;

	on_terminal(&r, 80, child_clock);
	ck_assert(r.drawn);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("progress");
	TCase *tc = tcase_create("line");
	tcase_set_timeout(tc, 20);
	tcase_add_test(tc, other_lines_find_the_terminal_clean);
	tcase_add_test(tc, the_line_fits_the_terminal_and_names_are_escaped);
	tcase_add_test(tc, long_work_has_hours_and_work_of_unknown_size_no_end);
	tcase_add_test(tc, quiet_is_quiet);
	tcase_add_test(tc, a_clock_that_is_set_stops_no_line);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
