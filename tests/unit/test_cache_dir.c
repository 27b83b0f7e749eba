#include "config.h"

#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "store/cache_dir.h"
#include "tests/lib/sf_test.h"

static char top[64];

static void begin(void)
{
	snprintf(top, sizeof(top), "/tmp/sf_cache_dir_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
}

static void end(void)
{
	char cmd[100];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", top);
	ck_assert_int_eq(system(cmd), 0);
}

static const char *at(const char *below)
{
	static char path[4][5100];
	static unsigned i;

	i = (i + 1) % 4;
	snprintf(path[i], sizeof(path[i]), "%s/%s", top, below);
	return path[i];
}

static int try_open(const char *path, struct sf_error *err)
{
	int fd = -1, r = sf_cache_dir_open(path, &fd, err);

	ck_assert_int_eq(r < 0, err->msg[0] != '\0');
	if (r >= 0)
		close(fd);
	return r;
}

static void refused(const char *path, int code, const char *why)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_int_eq(try_open(path, &err), code);
	ck_assert_msg(strstr(err.msg, why) != NULL, "%s", err.msg);
}

static void taken(const char *path)
{
	struct sf_error err = SF_ERROR_INIT;

	ck_assert_msg(try_open(path, &err) == 0, "%s", err.msg);
}

START_TEST(what_is_missing_is_made_for_us_alone)
{
	struct stat st;

	begin();
	umask(0);
	taken(at("a/b//./c/"));
	ck_assert_int_eq(stat(at("a/b/c"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0700);
	ck_assert_int_eq(stat(at("a"), &st), 0);
	ck_assert_uint_eq(st.st_mode & 07777, 0700);
	ck_assert_int_eq(stat(at("a/b/c/CACHEDIR.TAG"), &st), 0);
	taken(at("a/b/c"));
	taken(at("a/b/c/../c"));
	ck_assert_int_eq(chdir(at("a")), 0);
	taken("b/c");
	ck_assert_int_eq(chdir("/"), 0);
	end();
}
END_TEST

START_TEST(what_others_can_write_to_is_refused)
{
	begin();
	ck_assert_int_eq(mkdir(at("d"), 0700), 0);
	taken(at("d"));
	ck_assert_int_eq(chmod(at("d"), 0755), 0);
	taken(at("d"));
	ck_assert_int_eq(chmod(at("d"), 0770), 0);
	refused(at("d"), -EACCES, "others can write to it (mode 0770)");
	ck_assert_int_eq(chmod(at("d"), 01777), 0);
	refused(at("d"), -EACCES, "others can write to it (mode 1777)");
	/* a directory of ours below it is fine: whoever removes it gains nothing */
	taken(at("d/ours"));
	if (geteuid() == 0) {
		ck_assert_int_eq(mkdir(at("e"), 0700), 0);
		ck_assert_int_eq(chown(at("e"), 65534, 65534), 0);
		refused(at("e"), -EACCES, "belongs to user 65534, not to user 0");
	}
	end();
}
END_TEST

START_TEST(a_link_that_others_may_have_made_is_refused)
{
	begin();
	ck_assert_int_eq(mkdir(at("mine"), 0700), 0);
	ck_assert_int_eq(mkdir(at("open"), 0777), 0);
	ck_assert_int_eq(chmod(at("open"), 01777), 0);
	ck_assert_int_eq(symlink(at("mine"), at("open/link")), 0);
	refused(at("open/link"), -EACCES, "'link' is a symbolic link");
	refused(at("open/link/below"), -EACCES, "others can write to (mode 1777)");
	/* by way of a link of our own, too */
	ck_assert_int_eq(symlink("open/link", at("mine2")), 0);
	refused(at("mine2"), -EACCES, "'link' is a symbolic link");
	/* our own links are fine */
	ck_assert_int_eq(symlink(at("mine"), at("link")), 0);
	taken(at("link"));
	ck_assert_int_eq(symlink("mine/../link", at("link2")), 0);
	taken(at("link2/x"));
	ck_assert_int_eq(access(at("mine/x/CACHEDIR.TAG"), F_OK), 0);
	end();
}
END_TEST

START_TEST(what_is_no_directory_is_refused)
{
	static char name[5000];

	begin();
	close(open(at("file"), O_CREAT | O_WRONLY, 0600));
	refused(at("file"), -ENOTDIR, "Not a directory");
	refused(at("file/x"), -ENOTDIR, "Not a directory");
	ck_assert_int_eq(symlink("loop", at("loop")), 0);
	refused(at("loop"), -ELOOP, "more than 40 symbolic links");
	refused("", -EINVAL, "a path has");
	memset(name, 'a', 300);
	refused(at(name), -ENAMETOOLONG, "a name of 300 bytes");
	memset(name, 'a', 4500);
	refused(name, -ENAMETOOLONG, "a path has");
	end();
}
END_TEST

START_TEST(the_default_is_the_users)
{
	struct sf_error err = SF_ERROR_INIT;
	char *path;

	setenv("XDG_CACHE_HOME", "/x", 1);
	setenv("HOME", "/h", 1);
	ck_assert_int_eq(sf_cache_dir_default(&path, NULL), 0);
	ck_assert_str_eq(path, geteuid() == 0 ? "/var/cache/shardfuse" : "/x/shardfuse");
	free(path);
	if (geteuid() == 0 && seteuid(65534) != 0)
		return;
	ck_assert_int_eq(sf_cache_dir_default(&path, NULL), 0);
	ck_assert_str_eq(path, "/x/shardfuse");
	free(path);
	setenv("XDG_CACHE_HOME", "relative", 1);
	ck_assert_int_eq(sf_cache_dir_default(&path, NULL), 0);
	ck_assert_str_eq(path, "/h/.cache/shardfuse");
	free(path);
	unsetenv("HOME");
	ck_assert_int_eq(sf_cache_dir_default(&path, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "HOME"));
	if (getuid() == 0)
		ck_assert_int_eq(seteuid(0), 0);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache_dir");
	TCase *t = tcase_create("cache_dir");

	tcase_add_test(t, what_is_missing_is_made_for_us_alone);
	tcase_add_test(t, what_others_can_write_to_is_refused);
	tcase_add_test(t, a_link_that_others_may_have_made_is_refused);
	tcase_add_test(t, what_is_no_directory_is_refused);
	tcase_add_test(t, the_default_is_the_users);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
