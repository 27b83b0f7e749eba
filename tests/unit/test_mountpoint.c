#include "config.h"
#include <errno.h>
#include <limits.h>
#include <string.h>
#include <sys/stat.h>
#include "base/mem.h"
#include "tests/lib/sf_test.h"
#include "fuse/mountpoint.h"

struct seen {
	unsigned n;
	char source[3][64], target[3][64];
	unsigned major, minor;
	int stop_at;
};

static int note(void *arg, const struct sf_mountinfo *m)
{
	struct seen *s = arg;
	ck_assert_uint_lt(s->n, 3);
	snprintf(s->source[s->n], 64, "%s", m->source);
	snprintf(s->target[s->n], 64, "%s", m->target);
	s->major = m->major;
	s->minor = m->minor;
	return ++s->n == (unsigned)s->stop_at ? 5 : 0;
}

static const char text[] = "22 27 0:20 / /proc rw,relatime shared:5 - proc proc rw\n"
			   "90 27 0:41 / /mnt/a\\040b ro,nosuid shared:9 master:2 - fuse.shardfuse "
			   "/c/with\\134back\\011tab ro,user_id=0\n"
			   "91 27 0:42 / /mnt/o ro - fuse.other x ro\n"
			   "broken line\n"
			   "\n"
			   "92 27 junk / /mnt/j ro - fuse.shardfuse x ro\n"
			   "93 27 0:44 / /mnt/- ro - fuse.shardfuse\n"
			   "94 27 0:45 / /mnt/c ro - fuse.shardfuse \\400 ro";

START_TEST(mountinfo_is_read_line_by_line_and_unescaped)
{
	struct seen s = { 0 };
	FILE *f = fmemopen((void *)(uintptr_t)text, strlen(text), "r");

	ck_assert_int_eq(sf_mounts_each_of(f, note, &s), 0);
	ck_assert_uint_eq(s.n, 2);
	ck_assert_str_eq(s.target[0], "/mnt/a b");
	ck_assert_str_eq(s.source[0], "/c/with\\back\ttab");
	ck_assert_str_eq(s.target[1], "/mnt/c");
	ck_assert_str_eq(s.source[1], "\\400"); /* no byte has that number */
	ck_assert_uint_eq(s.minor, 45);
	rewind(f);
	s = (struct seen){ .stop_at = 1 };
	ck_assert_int_eq(sf_mounts_each_of(f, note, &s), 5);
	ck_assert_uint_eq(s.n, 1);
	fclose(f);
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
	TCase *tc = tcase_create("paths and tables");
	tcase_add_test(tc, mountinfo_is_read_line_by_line_and_unescaped);
	tcase_add_test(tc, an_absolute_path_leaves_the_last_component_alone);
	tcase_add_test(tc, what_is_no_directory_is_refused_with_a_remedy);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
