#include "config.h"
#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <time.h>
#include "base/atomic_file.h"
#include "tool/common.h"
#include "base/mem.h"
#include "tests/lib/no_tmpfile.h"
#include "tests/lib/sf_test.h"
#include "tool/interrupt.h"
#include "tool/write_file.h"

static const char *const names[] = { "checkpoint.pt", "checkpoint.safetensors",
	                             "npy/model.norm.weight.npy", "info.json", "tensors.json" };
enum { NAMES = SF_ARRAY_LEN(names) };

static void no_line(void *arg, const struct sf_out_file *f)
{
	(void)arg, (void)f;
}

/* All of @names from the tree to DIR/TURN-i, again and again with other names, or the same by
 * force;
 * @turns 0: for ever. */
static void write_turns(const char *dir, unsigned turns, bool force)
{
	struct sf_common common;
	struct sf_progress progress;
	struct sf_write_options o = { .threads = 3, .force = force, .progress = &progress };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_session s;
	char path[4096];

	sf_common_init(&common);
	if (sf_session_open(&s, &common.session, sf_test_data(path, "dcp/fsdp4/ckpt"), &err) < 0)
		_exit(9);
	for (unsigned turn = 0; !turns || turn < turns; turn++) {
		struct sf_out_file f[NAMES] = { 0 };
		for (unsigned i = 0; i < NAMES; i++) {
			sf_node node;
			f[i].crc = i == 0;
			if (sf_tree_walk(s.tree, names[i], true, &node, &err) < 0 ||
			    sf_tree_open(s.tree, node, &f[i].file, &err) < 0 ||
			    asprintf(&f[i].path, "%s/%u-%u", dir, force ? 0 : turn, i) < 0)
				_exit(9);
		}
		sf_progress_init(&progress, true);
		if (sf_write_files(&s, f, NAMES, &o, no_line, NULL, &err) < 0)
			_exit(8);
		for (unsigned i = 0; i < NAMES; i++)
			free(f[i].path);
	}
	sf_session_close(&s);
	sf_common_release(&common);
}

static bool same_bytes(const char *a, const char *b)
{
	FILE *x = fopen(a, "r"), *y = fopen(b, "r");
	int c = 0, d = 0;

	if (!x || !y)
		return false;
	while (c == d && c != EOF) {
		c = getc(x);
		d = getc(y);
	}
	fclose(x);
	fclose(y);
	return c == d;
}

/* Files that have a name are whole; *ret_temps is how many have one of ours. */
static unsigned check_files(const char *dir, const char *whole, unsigned *ret_temps)
{
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir(dir);

	*ret_temps = 0;
	while ((e = readdir(d))) {
		char a[512], b[512];
		if (strncmp(e->d_name, ".shardfuse-", 11) == 0)
			++*ret_temps;
		if (e->d_name[0] == '.')
			continue;
		snprintf(a, sizeof(a), "%s/%s", dir, e->d_name);
		snprintf(b, sizeof(b), "%s/0%s", whole, strchr(e->d_name, '-'));
		ck_assert_msg(same_bytes(a, b), "%s is not whole", a);
		n++;
	}
	closedir(d);
	return n;
}

static int64_t now_us(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return t.tv_sec * INT64_C(1000000) + t.tv_nsec / 1000;
}

static int drop(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

/* Stops a writer @us microseconds after it began. Returns how it ended. */
static int stop_writer(const char *dir, bool force, int sig, long us)
{
	int status, fd[2];
	char c;

	ck_assert_int_eq(pipe(fd), 0);
	pid_t pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		setrlimit(RLIMIT_CORE, &(struct rlimit){ 0, 0 });
		signal(sig, SIG_DFL); /* below nohup and the like it is ignored, and stays so */
		sf_interrupt_init();
		if (write(fd[1], "1", 1) == 1)
			write_turns(dir, 0, force);
		_exit(7);
	}
	ck_assert_int_eq(read(fd[0], &c, 1), 1);
	close(fd[0]);
	close(fd[1]);
	nanosleep(&(struct timespec){ us / 1000000, us % 1000000 * 1000 }, NULL);
	ck_assert_int_eq(kill(pid, sig), 0);
	if (sig == SIGPIPE || sig == SIGXFSZ) { /* no end: the write that meets them fails */
		nanosleep(&(struct timespec){ 0, 1000000 }, NULL);
		ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
		sig = SIGTERM;
		kill(pid, sig);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	return status;
}

/* _i: bit 0 without O_TMPFILE, bit 1 by force. */
START_TEST(stopped_anywhere_it_leaves_whole_files_and_nothing_else)
{
	static const int sigs[] = { SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGPIPE, SIGXFSZ, SIGKILL };
	char dir[64] = "/tmp/sf-stop-XXXXXX", whole[64] = "/tmp/sf-whole-XXXXXX", path[128];
	bool force = _i & 2;
	unsigned temps, files = 0;

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_ptr_nonnull(mkdtemp(whole));
	int64_t began = now_us();
	pid_t pid = fork();
	if (pid == 0) {
		write_turns(whole, 1, false);
		_exit(0);
	}
	int status;
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	int64_t turn = now_us() - began;
	ck_assert_int_eq(status, 0);
	no_tmpfile = _i & 1;
	srandom((unsigned)sf_test_seed("stopped_anywhere"));
	for (unsigned i = 0; i < 6 * SF_ARRAY_LEN(sigs); i++) {
		int sig = sigs[i % SF_ARRAY_LEN(sigs)];
		bool kills = sig == SIGKILL;
		/* from its first step to well into the writing, on a machine of any speed */
		status = stop_writer(dir, force, sig, random() % (2 * turn));
		ck_assert_msg(WIFSIGNALED(status), "signal %d: status %x", sig, status);
		if (sig != SIGPIPE && sig != SIGXFSZ)
			ck_assert_int_eq(WTERMSIG(status), sig);
		files += check_files(dir, whole, &temps);
		/* nobody can act on SIGKILL: what has a name is swept by the next one */
		if (!kills || (!no_tmpfile && !force))
			ck_assert_uint_eq(temps, 0);
		snprintf(path, sizeof(path), "%s/x", dir);
		sf_atomic_file_sweep(path);
		check_files(dir, whole, &temps);
		ck_assert_uint_eq(temps, 0);
		if (!force) {
			nftw(dir, drop, 16, FTW_PHYS | FTW_DEPTH);
			ck_assert_int_eq(mkdir(dir, 0700), 0);
		}
	}
	ck_assert_uint_gt(files, 0); /* or nothing was tried */
	nftw(dir, drop, 16, FTW_PHYS | FTW_DEPTH);
	nftw(whole, drop, 16, FTW_PHYS | FTW_DEPTH);
}
END_TEST

START_TEST(an_ignored_signal_stays_ignored)
{
	int status, fd[2];
	char c;

	ck_assert_int_eq(pipe(fd), 0);
	pid_t pid = fork();
	if (pid == 0) {
		signal(SIGHUP, SIG_IGN); /* nohup */
		sf_interrupt_init();
		if (write(fd[1], "1", 1) == 1)
			pause();
		_exit(7);
	}
	ck_assert_int_eq(read(fd[0], &c, 1), 1);
	kill(pid, SIGHUP);
	nanosleep(&(struct timespec){ 0, 20000000 }, NULL);
	ck_assert_int_eq(waitpid(pid, &status, WNOHANG), 0);
	kill(pid, SIGTERM);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status) && WTERMSIG(status) == SIGTERM);
	close(fd[0]);
	close(fd[1]);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("write_interrupt");
	TCase *tc = tcase_create("signals");
	tcase_set_timeout(tc, 900); /* a busy disk syncs slowly; only what hangs meets this */
	tcase_add_loop_test(tc, stopped_anywhere_it_leaves_whole_files_and_nothing_else, 0, 4);
	tcase_add_test(tc, an_ignored_signal_stays_ignored);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
