#include "config.h"
#include <dirent.h>
#include <ftw.h>
#include <signal.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include "base/atomic_file.h"
#include "base/mem.h"
#include "tests/lib/no_tmpfile.h"
#include "tests/lib/sf_test.h"

static char dir[64];

static int fsync_fails; /* errno of the next ones, 0: they are real */
int __real_fsync(int fd);
int __wrap_fsync(int fd);
int __wrap_fsync(int fd)
{
	if (!fsync_fails)
		return __real_fsync(fd);
	errno = fsync_fails;
	return -1;
}

static void make_dir(void)
{
	snprintf(dir, sizeof(dir), "/tmp/sf-new-XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(dir));
}

static int drop(const char *path, const struct stat *st, int flag, struct FTW *ftw)
{
	(void)st, (void)flag, (void)ftw;
	return remove(path);
}

static void remove_dir(void)
{
	nftw(dir, drop, 16, FTW_PHYS | FTW_DEPTH);
}

static const char *in_dir(const char *name)
{
	static char path[4][512];
	static unsigned n;

	snprintf(path[++n % 4], sizeof(path[0]), "%s/%s", dir, name);
	return path[n % 4];
}

static unsigned count(const char *part)
{
	struct dirent *e;
	unsigned n = 0;
	DIR *d = opendir(dir);

	while ((e = readdir(d)))
		n += e->d_name[0] != '.' ? strstr(e->d_name, part) != NULL
		                         : strlen(e->d_name) > 2 && strstr(e->d_name, part);
	closedir(d);
	return n;
}

static void begin(struct sf_atomic_file *f, const char *name, const char *text)
{
	struct sf_error err = SF_ERROR_INIT;
	int r = sf_atomic_file_open(f, in_dir(name), &err);

	ck_assert_msg(r == 0, "%s", err.msg);
	ck_assert_int_eq(write(f->fd, text, strlen(text)), (ssize_t)strlen(text));
}

static void check_text(const char *name, const char *want)
{
	char got[64] = "";
	int fd = open(in_dir(name), O_RDONLY);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_ge(read(fd, got, sizeof(got) - 1), 0);
	close(fd);
	ck_assert_str_eq(got, want);
}

static void put_file(const char *name, const char *text)
{
	FILE *f = fopen(in_dir(name), "w");

	fputs(text, f);
	fclose(f);
}

/* _i: 1 without O_TMPFILE. */
START_TEST(it_appears_whole_with_its_directories)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_atomic_file f;
	struct stat st;

	no_tmpfile = _i;
	make_dir();
	begin(&f, "a/b/c", "text");
	/* its directories come with it: nothing is there before, but a name of ours if need be */
	ck_assert_uint_eq(count(""), (unsigned)_i);
	ck_assert_uint_eq(count(".shardfuse-"), (unsigned)_i);
	int r = sf_atomic_file_publish(&f, in_dir("a/b/c"), false, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	check_text("a/b/c", "text");
	ck_assert_uint_eq(count(".shardfuse-"), 0);
	ck_assert_int_eq(stat(in_dir("a/b/c"), &st), 0);
	ck_assert_uint_eq(st.st_nlink, 1);
	mode_t mask = umask(0);
	umask(mask);
	ck_assert_uint_eq(st.st_mode & 0777, 0666 & ~mask);
	ck_assert_int_eq(f.fd, -1);
	remove_dir();
}
END_TEST

START_TEST(what_is_there_stays_unless_forced)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_atomic_file f;

	no_tmpfile = _i;
	make_dir();
	put_file("x", "old");
	begin(&f, "x", "new");
	ck_assert_int_eq(sf_atomic_file_publish(&f, in_dir("x"), false, &err), -EEXIST);
	ck_assert_ptr_nonnull(strstr(err.msg, "/x"));
	check_text("x", "old");
	ck_assert_uint_eq(count(".shardfuse-"), 0);
	begin(&f, "x", "new");
	ck_assert_int_eq(sf_atomic_file_publish(&f, in_dir("x"), true, &err), 0);
	check_text("x", "new");
	ck_assert_uint_eq(count(""), 1);
	remove_dir();
}
END_TEST

START_TEST(one_that_is_dropped_was_never_there)
{
	struct sf_atomic_file f;

	no_tmpfile = _i;
	make_dir();
	begin(&f, "x", "new");
	sf_atomic_file_drop(&f);
	sf_atomic_file_drop(&f);
	ck_assert_uint_eq(count(""), 0);
	remove_dir();
}
END_TEST

START_TEST(a_failed_publish_leaves_nothing)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_atomic_file f;

	no_tmpfile = _i;
	make_dir();
	ck_assert_int_eq(mkdir(in_dir("x"), 0755), 0); /* a file cannot replace a directory */
	begin(&f, "x", "new");
	ck_assert_int_lt(sf_atomic_file_publish(&f, in_dir("x"), true, &err), 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "/x"));
	ck_assert_uint_eq(count(""), 1);
	remove_dir();
}
END_TEST

/* A child that dies of SIGKILL with a temporary file, one that lives, and names that are not ours
 * to remove. */
START_TEST(a_sweep_takes_what_the_dead_left_and_nothing_else)
{
	struct sf_atomic_file f;
	char name[512], here[2], *last;

	no_tmpfile = true;
	make_dir();
	int fd[2], status;
	ck_assert_int_eq(pipe(fd), 0);
	pid_t pid = fork();
	if (pid == 0) {
		begin(&f, "dead", "half");
		if (write(fd[1], "1", 1) == 1)
			pause();
		_exit(1);
	}
	ck_assert_int_eq(read(fd[0], here, 1), 1);
	sf_atomic_file_sweep(in_dir("x"));
	ck_assert_uint_eq(count(".shardfuse-"), 1); /* it lives: its file stays */
	kill(pid, SIGKILL);
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_uint_eq(count(".shardfuse-"), 1);

	begin(&f, "x", "mine");
	snprintf(name, sizeof(name), "%s", f.name);
	/* another boot's, or another machine's; nearly such a name; a link; a directory; hard links
	 * (somebody keeps it) */
	last = strrchr(name, '/') + 1;
	memmove(last + 200, last, strlen(last) + 1);
	char *other = last + 200;
	other[11] = other[11] == '0' ? '1' : '0';
	put_file(other, "another boot");
	other[11] = f.name[last - name + 11];
	other[strlen(other) - 1] = 'x';
	put_file(other, "no random number");
	other[strlen(other) - 1] = f.name[strlen(f.name) - 1] == '0' ? '1' : '0';
	ck_assert_int_eq(symlink("/etc/passwd", in_dir(other)), 0);
	other[strlen(other) - 2] = f.name[strlen(f.name) - 2] == '0' ? '1' : '0';
	put_file(other, "linked");
	ck_assert_int_eq(link(in_dir(other), in_dir("kept")), 0);
	other[strlen(other) - 3] = f.name[strlen(f.name) - 3] == '0' ? '1' : '0';
	ck_assert_int_eq(mkdir(in_dir(other), 0755), 0);
	ck_assert_uint_eq(count(".shardfuse-"), 7);
	sf_atomic_file_sweep(in_dir("x"));
	ck_assert_uint_eq(count(".shardfuse-"), 6);
	ck_assert_int_eq(access(f.name, F_OK), 0);
	sf_atomic_file_drop(&f);
	ck_assert_uint_eq(count(".shardfuse-"), 5);
	close(fd[0]);
	close(fd[1]);
	remove_dir();
}
END_TEST

START_TEST(the_end_takes_every_name)
{
	struct sf_atomic_file f[3];
	int status;

	no_tmpfile = true;
	make_dir();
	pid_t pid = fork(); /* nothing can be made after it */
	if (pid == 0) {
		for (unsigned i = 0; i < 3; i++)
			begin(&f[i], "x", "half");
		if (count(".shardfuse-") != 3)
			_exit(2);
		sf_atomic_file_drop(&f[1]);
		sf_atomic_file_drop_names();
		_exit(count("") == 0 ? 0 : 3);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert_int_eq(status, 0);
	remove_dir();
}
END_TEST

START_TEST(directories_of_paths)
{
	static const struct {
		const char *path, *dir;
	} t[] = { { "x", "." },    { "/x", "/" },  { "a/x", "a" }, { "/a/b/x", "/a/b" },
		  { "a//x", "a" }, { "//x", "/" }, { "./x", "." }, { "../x", ".." } };

	for (size_t i = 0; i < SF_ARRAY_LEN(t); i++) {
		SF_FREE char *got = sf_dir_of(t[i].path);
		ck_assert_str_eq(got, t[i].dir);
	}
	SF_FREE char *there = sf_dir_there("/tmp/no such directory/below/x");
	ck_assert_str_eq(there, "/tmp");
	SF_FREE char *here = sf_dir_there("no such directory/x");
	ck_assert_str_eq(here, ".");
}
END_TEST

/* A file is not given its name by who heard of that; file systems that cannot sync at all are not
 * to blame. */
START_TEST(a_disk_that_fails_is_told)
{
	struct sf_atomic_file f;
	struct sf_error err = SF_ERROR_INIT;
	static const struct {
		int fails, told;
	} cases[] = { { 0, 0 }, { EINVAL, 0 }, { EROFS, 0 }, { EIO, -EIO }, { ENOSPC, -ENOSPC } };

	make_dir();
	begin(&f, "x", "text");
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		fsync_fails = cases[i].fails;
		ck_assert_int_eq(sf_atomic_file_sync(&f, in_dir("x"), &err), cases[i].told);
		ck_assert_int_eq(sf_sync_dir_of(in_dir("x"), &err), cases[i].told);
		ck_assert_int_eq(cases[i].told < 0, strstr(err.msg, dir) != NULL);
	}
	fsync_fails = 0;
	sf_atomic_file_drop(&f);
	remove_dir();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("atomic_file");
	TCase *tc = tcase_create("names");
	tcase_add_loop_test(tc, it_appears_whole_with_its_directories, 0, 2);
	tcase_add_loop_test(tc, what_is_there_stays_unless_forced, 0, 2);
	tcase_add_loop_test(tc, one_that_is_dropped_was_never_there, 0, 2);
	tcase_add_loop_test(tc, a_failed_publish_leaves_nothing, 0, 2);
	tcase_add_test(tc, a_sweep_takes_what_the_dead_left_and_nothing_else);
	tcase_add_test(tc, the_end_takes_every_name);
	tcase_add_test(tc, directories_of_paths);
	tcase_add_test(tc, a_disk_that_fails_is_told);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
