#include "config.h"
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>
#include "base/mem.h"
#include "tests/lib/sf_test.h"
#include "fuse/mountpoint.h"

/* --wrap in tests/local.mk: where there is no memory. Mountpoints are looked at by a process of their own. */
static pid_t without_memory;

char *__real_strdup(const char *s);
char *__wrap_strdup(const char *s);
char *__wrap_strdup(const char *s)
{
	if (without_memory == getpid()) {
		errno = ENOMEM;
		return NULL;
	}
	return __real_strdup(s);
}

START_TEST(want_of_memory_is_told)
{
	struct sf_error err = SF_ERROR_INIT;
	char *abs = NULL;

	without_memory = getpid();
	int r = sf_mountpoint_prepare("/tmp", &abs, &err);
	without_memory = 0;
	ck_assert_int_eq(r, -ENOMEM);
	ck_assert_ptr_null(abs);
	ck_assert_ptr_nonnull(strstr(err.msg, "/tmp"));
}
END_TEST

START_TEST(an_absolute_path_leaves_the_last_component_alone)
{
	char dir[] = "/tmp/sf-mp-XXXXXX", real[PATH_MAX], want[PATH_MAX + 16];

	ck_assert_ptr_nonnull(mkdtemp(dir));
	ck_assert_ptr_nonnull(realpath(dir, real));
	ck_assert_int_eq(chdir(dir), 0);
	ck_assert_int_eq(mkdir("d", 0755), 0);
	ck_assert_int_eq(symlink("d", "l"), 0);
	static const struct {
		const char *path, *end;
	} cases[] = {
		{ "nothing", "/nothing" },
		{ "nothing///", "/nothing" },
		{ "d/../nothing", "/nothing" },
		{ "l", "/l" },
		{ "l/x", "/d/x" },
		{ ".", "" },
		{ "d/..", "" },
		{ "./d/", "/d" },
	};
	for (size_t i = 0; i < SF_ARRAY_LEN(cases); i++) {
		SF_FREE char *abs = sf_mountpoint_absolute(cases[i].path);
		snprintf(want, sizeof(want), "%s%s", real, cases[i].end);
		ck_assert_ptr_nonnull(abs);
		ck_assert_str_eq(abs, want);
	}
	SF_FREE char *root = sf_mountpoint_absolute("/"),
		     *below = sf_mountpoint_absolute("/nothing"),
		     *followed = sf_mountpoint_resolve("l");
	ck_assert_str_eq(root, "/");
	ck_assert_str_eq(below, "/nothing");
	snprintf(want, sizeof(want), "%s/d", real);
	ck_assert_str_eq(followed, want);
	ck_assert_ptr_null(sf_mountpoint_absolute("no/such/dir"));
	ck_assert_int_eq(errno, ENOENT);
	unlink("l");
	rmdir("d");
	ck_assert_int_eq(chdir("/"), 0);
	rmdir(dir);
}
END_TEST

START_TEST(what_is_no_directory_is_refused_with_a_remedy)
{
	struct sf_error err = SF_ERROR_INIT;
	char file[] = "/tmp/sf-mp-XXXXXX", *abs = NULL;
	int fd = mkstemp(file);

	ck_assert_int_eq(sf_mountpoint_prepare("/tmp/sf-mp-nothing", &abs, &err), -ENOENT);
	ck_assert_ptr_nonnull(strstr(err.msg, "mkdir"));
	ck_assert_int_eq(sf_mountpoint_prepare(file, &abs, &err), -ENOTDIR);
	ck_assert_ptr_null(abs);
	close(fd);
	unlink(file);
	ck_assert_int_eq(sf_mountpoint_prepare("/tmp", &abs, &err), 0);
	ck_assert_ptr_nonnull(abs);
	free(abs);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("mountpoint");
	TCase *tc = tcase_create("paths");
	tcase_add_test(tc, an_absolute_path_leaves_the_last_component_alone);
	tcase_add_test(tc, what_is_no_directory_is_refused_with_a_remedy);
	tcase_add_test(tc, want_of_memory_is_told);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
