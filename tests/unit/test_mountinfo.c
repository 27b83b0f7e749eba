#include "config.h"
#include <string.h>
#include "base/mountinfo.h"
#include "sf_test.h"

struct seen {
	unsigned n;
	char source[3][64], target[3][64];
	unsigned major, minor, uid[3];
	int stop_at;
};

static int note(void *arg, const struct sf_mountinfo *m)
{
	struct seen *s = arg;
	ck_assert_uint_lt(s->n, 3);
	snprintf(s->source[s->n], 64, "%s", m->source);
	snprintf(s->target[s->n], 64, "%s", m->target);
	s->uid[s->n] = m->uid;
	s->major = m->major;
	s->minor = m->minor;
	return ++s->n == (unsigned)s->stop_at ? 5 : 0;
}

static const char text[] = "22 27 0:20 / /proc rw,relatime shared:5 - proc proc rw\n"
			   "90 27 0:41 / /mnt/a\\040b ro,nosuid shared:9 master:2 - fuse.shardfuse "
			   "/c/with\\134back\\011tab ro,user_id=1000,group_id=0\n"
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
	ck_assert_uint_eq(s.uid[0], 1000);
	ck_assert_uint_eq(s.uid[1], 0);
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

int main(void)
{
	Suite *s = suite_create("mountinfo");
	TCase *tc = tcase_create("mountinfo");
	tcase_add_test(tc, mountinfo_is_read_line_by_line_and_unescaped);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
