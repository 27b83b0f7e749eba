#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/cache_map.h"
#include "store/cache_sweep.h"
#include "tests/lib/sf_test.h"

#define KB 1024

static char top[64];
static int dir;

static void begin(void)
{
	snprintf(top, sizeof(top), "/tmp/sf_sweep_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(top));
	dir = open(top, O_RDONLY | O_DIRECTORY);
	ck_assert_int_ge(dir, 0);
}

static void end(void)
{
	char cmd[100];

	close(dir);
	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", top);
	ck_assert_int_eq(system(cmd), 0);
}

static const char *name_of(char c)
{
	static char name[SF_CACHE_NAME + 1];

	memset(name, c, SF_CACHE_NAME);
	return name;
}

static void put(const char *name, const char *suffix, size_t bytes, time_t ago)
{
	static const char zeros[256 * KB];
	const struct timespec when = { time(NULL) - ago, 0 };
	char path[200];
	int fd;

	snprintf(path, sizeof(path), "%s%s", name, suffix);
	fd = openat(dir, path, O_CREAT | O_WRONLY, 0600);
	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(write(fd, zeros, bytes), (ssize_t)bytes);
	ck_assert_int_eq(futimens(fd, (struct timespec[]){ when, when }), 0);
	close(fd);
}

/* An object of about so many KiB, used so long ago. */
static void object(char c, size_t kb, time_t ago)
{
	put(name_of(c), ".data", kb * KB, ago + 5);
	put(name_of(c), ".map", 8 * KB, ago);
}

static bool there(const char *name)
{
	return faccessat(dir, name, F_OK, 0) == 0;
}

static bool object_there(char c)
{
	char path[200];
	bool data, map;

	snprintf(path, sizeof(path), "%s.data", name_of(c));
	data = there(path);
	snprintf(path, sizeof(path), "%s.map", name_of(c));
	map = there(path);
	ck_assert_int_eq(data, map);
	return data;
}

static void note(void *arg, const char *name)
{
	ck_assert_uint_eq(strlen(name), SF_CACHE_NAME);
	strncat(arg, name, 1);
}

START_TEST(the_longest_unused_goes_until_the_rest_fits)
{
	char gone[10] = "";
	struct sf_cache_sweep s = {
		.limit = 400 * KB, .young_s = 60, .removed = note, .arg = gone
	};

	begin();
	object('a', 100, 1000);
	object('b', 100, 3000);
	object('c', 100, 2000);
	object('d', 50, 1500);
	ck_assert_int_eq(sf_cache_sweep(dir, &s, NULL), 0); /* all of it fits */
	ck_assert_str_eq(gone, "");
	ck_assert_uint_ge(s.kept, 350 * KB);
	object('e', 100, 100);
	ck_assert_int_eq(sf_cache_sweep(dir, &s, NULL), 0);
	ck_assert_str_eq(gone, "bc"); /* 7/8 of the limit are left */
	ck_assert(!object_there('b') && !object_there('c'));
	ck_assert(object_there('a') && object_there('d') && object_there('e'));
	ck_assert_uint_le(s.kept, 350 * KB);
	ck_assert_uint_ge(s.freed, 200 * KB);
	ck_assert(!s.full);
	end();
}
END_TEST

START_TEST(what_is_in_use_stays)
{
	struct sf_cache_sweep s = { .limit = 100 * KB, .young_s = 60 };

	begin();
	object('a', 100, 10);
	object('b', 100, 20);
	ck_assert_int_eq(sf_cache_sweep(dir, &s, NULL), 0);
	ck_assert(object_there('a') && object_there('b'));
	ck_assert_uint_gt(s.kept, s.limit);
	object('c', 100, -100000); /* the clock was wrong then */
	ck_assert_int_eq(sf_cache_sweep(dir, &s, NULL), 0);
	ck_assert(!object_there('c'));
	end();
}
END_TEST

START_TEST(room_is_made_on_the_file_system)
{
	struct sf_cache_sweep s = { .limit = UINT64_MAX, .floor = UINT64_MAX, .young_s = 60 };

	begin();
	object('a', 100, 100);
	object('b', 100, 5);
	ck_assert_int_eq(sf_cache_sweep(dir, &s, NULL), 0);
	ck_assert(!object_there('a') && object_there('b'));
	ck_assert(s.full);
	s.floor = 1;
	ck_assert_int_eq(sf_cache_sweep(dir, &s, NULL), 0);
	ck_assert(!s.full);
	end();
}
END_TEST

START_TEST(nothing_else_is_touched)
{
	static const char *const others[] = {
		"thesis.data",
		"a.map",
		"0123456789abcdef.data",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.data2",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaag.data",
		"aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa.data",
	};
	struct sf_cache_sweep s = { .limit = 1, .young_s = 60 };

	begin();
	for (size_t i = 0; i < SF_ARRAY_LEN(others); i++)
		put(others[i], "", 10 * KB, 100000);
	put(name_of('b'), ".data", 10, 100000); /* halves of objects are ours */
	put(name_of('c'), ".map", 10, 100000);
	ck_assert_int_eq(sf_cache_sweep(dir, &s, NULL), 0);
	for (size_t i = 0; i < SF_ARRAY_LEN(others); i++)
		ck_assert_msg(there(others[i]), "%s", others[i]);
	ck_assert(!object_there('b') && !object_there('c'));
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache_sweep");
	TCase *t = tcase_create("cache_sweep");

	tcase_add_test(t, the_longest_unused_goes_until_the_rest_fits);
	tcase_add_test(t, what_is_in_use_stays);
	tcase_add_test(t, room_is_made_on_the_file_system);
	tcase_add_test(t, nothing_else_is_touched);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
