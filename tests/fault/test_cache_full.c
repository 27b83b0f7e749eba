/* A cache on a file system that is full, or becomes read-only: reads go on, the log says it once. */
#include "config.h"

#include <sys/mount.h>

#include "tests/lib/cache_world.h"

#define B SF_CACHE_BLOCK

static struct cache_world w;

static unsigned lines(const char *words)
{
	unsigned n = 0;

	for (const char *s = w.logged; (s = strstr(s, words)); s++)
		n++;
	return n;
}

START_TEST(a_full_disk_is_done_without)
{
	struct sf_source *src;

	cw_dir(&w);
	ck_assert_int_eq(mount("tmpfs", w.dir, "tmpfs", 0, "size=1m,mode=0700"), 0);
	cw_begin(&w, NULL);
	src = cw_open(&w);
	for (uint64_t i = 0; i < 40; i++)
		cw_read(&w, src, i * B, B);
	ck_assert_uint_eq(lines("No space left on device: nothing more is kept until"), 1);
	ck_assert_uint_eq(lines("cache directory"), 1);
	w.far.bytes = 0;
	cw_read(&w, src, 0, B); /* what went in is there */
	ck_assert_uint_eq(w.far.bytes, 0);
	cw_read(&w, src, 39 * B + 5, 10); /* nobody keeps it: it is not rounded up */
	ck_assert_uint_eq(w.far.bytes, 10);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	ck_assert_int_eq(umount(w.dir), 0);
	cw_remove(&w);
}
END_TEST

START_TEST(what_a_read_only_disk_has_is_used)
{
	struct sf_source *src;

	cw_dir(&w);
	ck_assert_int_eq(mount("tmpfs", w.dir, "tmpfs", 0, "size=16m,mode=0700"), 0);
	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, 10 * B);
	sf_source_unref(src);
	cw_end(&w);
	ck_assert_int_eq(mount("tmpfs", w.dir, "tmpfs", MS_REMOUNT | MS_RDONLY, "size=16m"), 0);
	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, 10 * B);
	ck_assert_uint_eq(w.far.requests, 0);
	cw_read(&w, src, 0, CW_BYTES);
	cw_read(&w, src, 20 * B + 5, 10);
	ck_assert_uint_eq(w.far.bytes, CW_BYTES + 10);
	ck_assert_uint_eq(lines("read-only: nothing more is kept"), 1);
	ck_assert_uint_eq(lines("cache directory"), 1);
	sf_source_unref(src);
	cw_end(&w);
	/* and one that it has nothing of */
	cw_begin(&w, "two");
	src = cw_open(&w);
	cw_read(&w, src, 5, 10);
	cw_read(&w, src, 5, 10);
	ck_assert_uint_eq(w.far.bytes, 20);
	sf_source_unref(src);
	cw_end(&w);
	ck_assert_int_eq(umount(w.dir), 0);
	cw_remove(&w);
}
END_TEST

/* Can a file system be mounted here? */
static bool may_mount(void)
{
	char dir[] = "/tmp/sf_cache_XXXXXX";
	bool may = mkdtemp(dir) && mount("tmpfs", dir, "tmpfs", 0, "size=64k") == 0;

	if (may)
		umount(dir);
	rmdir(dir);
	return may;
}

int main(void)
{
	Suite *s = suite_create("cache_full");
	TCase *t = tcase_create("cache_full");

	if (!may_mount())
		return sf_test_skip("a small file system cannot be mounted here");
	tcase_add_test(t, a_full_disk_is_done_without);
	tcase_add_test(t, what_a_read_only_disk_has_is_used);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
