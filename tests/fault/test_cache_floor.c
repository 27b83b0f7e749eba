/* A cache on a file system with less free than is to stay so: nothing is kept, which is said before anything else. */
#include "config.h"

#include <fcntl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "tests/lib/cache_world.h"

#define B SF_CACHE_BLOCK
#define DISK ((size_t)16 << 20)

static struct cache_world w;

static unsigned lines(const char *words)
{
	unsigned n = 0;

	for (const char *s = w.logged; (s = strstr(s, words)); s++)
		n++;
	return n;
}

/* Somebody else's bytes: all but 1/32 of the disk. */
static void fill(const char *path)
{
	SF_FREE uint8_t *bytes = calloc(1, DISK - DISK / 32);
	int fd = open(path, O_WRONLY | O_CREAT, 0600);

	ck_assert(bytes && fd >= 0);
	ck_assert_int_eq(write(fd, bytes, DISK - DISK / 32), DISK - DISK / 32);
	close(fd);
}

START_TEST(below_the_floor_nothing_is_kept_and_it_is_said_at_once)
{
	struct sf_cache_state state;
	struct sf_source *src;
	char other[100];

	cw_dir(&w);
	ck_assert_int_eq(mount("tmpfs", w.dir, "tmpfs", 0, "size=16m,mode=0700"), 0);
	snprintf(other, sizeof(other), "%s/other", w.dir);
	fill(other);
	cw_begin(&w, NULL);
	/* before anything was asked for */
	ck_assert_uint_eq(
		lines("are free, less than the 0.8 MB that stay so: nothing more is kept"), 1);
	sf_cache_state(w.cache, &state);
	ck_assert_str_eq(state.dir, w.dir);
	ck_assert_ptr_nonnull(strstr(state.why, "of 16.8 MB are free"));
	src = cw_open(&w);
	for (uint64_t i = 0; i < 20; i++)
		cw_read(&w, src, i * B + 5, 10);
	ck_assert_uint_eq(w.far.bytes, 200); /* nobody keeps it: it is not rounded up */
	ck_assert_uint_eq(lines("cache directory"), 1);
	/* there is room again */
	ck_assert_int_eq(unlink(other), 0);
	do {
		usleep(50000);
		w.far.bytes = 0;
		cw_read(&w, src, 5, 10);
		cw_read(&w, src, 5, 10);
	} while (w.far.bytes);
	sf_cache_state(w.cache, &state);
	ck_assert_str_eq(state.why, "");
	sf_source_unref(src);
	cw_end(&w);
	ck_assert_int_eq(umount(w.dir), 0);
	cw_remove(&w);
}
END_TEST

START_TEST(what_may_go_makes_room_first)
{
	struct sf_source *src;
	struct sf_cache_state state;
	const struct timespec old[2] = { { .tv_sec = 1000000 }, { .tv_sec = 1000000 } };
	char other[100];

	cw_dir(&w);
	ck_assert_int_eq(mount("tmpfs", w.dir, "tmpfs", 0, "size=20m,mode=0700"), 0);
	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	ck_assert_int_eq(utimensat(AT_FDCWD, cw_file(&w, ".map"), old, 0), 0);
	ck_assert_int_eq(utimensat(AT_FDCWD, cw_file(&w, ".data"), old, 0), 0);
	snprintf(other, sizeof(other), "%s/other", w.dir);
	fill(other);
	cw_begin(&w, "two");
	ck_assert_uint_eq(lines("cache directory"), 0);
	sf_cache_state(w.cache, &state);
	ck_assert_str_eq(state.why, "");
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
	Suite *s = suite_create("cache_floor");
	TCase *t = tcase_create("cache_floor");

	if (!may_mount())
		return sf_test_skip("a small file system cannot be mounted here");
	tcase_set_timeout(t, 60);
	tcase_add_test(t, below_the_floor_nothing_is_kept_and_it_is_said_at_once);
	tcase_add_test(t, what_may_go_makes_room_first);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
