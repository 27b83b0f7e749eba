#include "config.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/mem.h"
#include "base/memory_limit.h"
#include "tests/lib/sf_test.h"

#define MIB (UINT64_C(1) << 20)

static char root[64];

/* A file below the root, its directories too. */
__attribute__((format(printf, 2, 3))) static void put(const char *path, const char *fmt, ...)
{
	char full[400];
	va_list ap;
	FILE *f;

	snprintf(full, sizeof(full), "%s%s", root, path);
	for (char *s = full + strlen(root) + 1; (s = strchr(s, '/')); *s++ = '/') {
		*s = '\0';
		mkdir(full, 0700);
	}
	f = fopen(full, "w");
	ck_assert_ptr_nonnull(f);
	va_start(ap, fmt);
	vfprintf(f, fmt, ap);
	va_end(ap);
	ck_assert_int_eq(fclose(f), 0);
}

static void begin(void)
{
	snprintf(root, sizeof(root), "/tmp/sf_cgroup_XXXXXX");
	ck_assert_ptr_nonnull(mkdtemp(root));
	put("/proc/meminfo", "MemFree: 5 kB\nMemTotal:  %d kB\n", 64 << 20);
}

static void end(void)
{
	char cmd[100];

	snprintf(cmd, sizeof(cmd), "rm -rf '%s'", root);
	ck_assert_int_eq(system(cmd), 0);
}

START_TEST(without_a_group_it_is_the_machines)
{
	ck_assert_uint_eq(sf_memory_limit(root), (uint64_t)64 << 30);
	ck_assert_uint_eq(sf_memory_default(root), 1024 * MIB);
	put("/proc/self/cgroup", "0::/\n");
	ck_assert_uint_eq(sf_memory_limit(root), (uint64_t)64 << 30);
	put("/proc/meminfo", "MemTotal: %d kB\n", 2 << 20);
	ck_assert_uint_eq(sf_memory_default(root), 512 * MIB);
	put("/proc/meminfo", "nothing\n");
	ck_assert_uint_eq(sf_memory_limit(root), UINT64_MAX);
	ck_assert_uint_eq(sf_memory_default(root), 1024 * MIB);
}
END_TEST

START_TEST(v2_the_least_of_the_group_and_those_above)
{
	put("/proc/self/cgroup", "0::/a.slice/pod/c\n");
	put("/sys/fs/cgroup/a.slice/pod/c/memory.max", "max\n");
	put("/sys/fs/cgroup/a.slice/pod/memory.max", "%llu\n", 2048ull << 20);
	put("/sys/fs/cgroup/a.slice/memory.max", "%llu\n", 4096ull << 20);
	put("/sys/fs/cgroup/b.slice/memory.max", "1\n"); /* another's */
	ck_assert_uint_eq(sf_memory_limit(root), 2048 * MIB);
	ck_assert_uint_eq(sf_memory_default(root), 512 * MIB);
	put("/sys/fs/cgroup/a.slice/pod/c/memory.high", "%llu\n", 800ull << 20);
	ck_assert_uint_eq(sf_memory_default(root), 200 * MIB);
	put("/sys/fs/cgroup/a.slice/pod/c/memory.max", "%llu\n", 20ull << 20);
	ck_assert_uint_eq(sf_memory_limit(root), 20 * MIB);
	ck_assert_uint_eq(sf_memory_default(root), 16 * MIB); /* no less */
}
END_TEST

START_TEST(v2_in_a_container_the_root_is_its_own)
{
	put("/proc/self/cgroup", "0::/\n");
	put("/sys/fs/cgroup/memory.max", "%llu\n", 400ull << 20);
	ck_assert_uint_eq(sf_memory_default(root), 100 * MIB);
	put("/proc/self/cgroup", "0::/system.slice/docker-1234.scope\n"); /* by the host's name */
	ck_assert_uint_eq(sf_memory_default(root), 100 * MIB);
}
END_TEST

START_TEST(v1_that_of_the_memory_controller)
{
	put("/proc/self/cgroup",
	    "12:cpu,cpuacct:/x\n9:hugetlb,memory:/docker/1\n1:name=systemd:/memory\n0::/u\n");
	put("/sys/fs/cgroup/memory/docker/1/memory.limit_in_bytes", "%llu\n", 1024ull << 20);
	put("/sys/fs/cgroup/memory/memory.limit_in_bytes", "9223372036854771712\n");
	put("/sys/fs/cgroup/memory/x/memory.limit_in_bytes", "1\n");
	ck_assert_uint_eq(sf_memory_limit(root), 1024 * MIB);
	ck_assert_uint_eq(sf_memory_default(root), 256 * MIB);
}
END_TEST

START_TEST(what_makes_no_sense_limits_nothing)
{
	static const char *const lines[] = {
		"", "\n", "0", "0:", "::", "0::", "memory", "0::a b/../..\n", "0:memory:\n"
	};
	static const char *const limits[] = {
		"", "max", "-1", "x", "99999999999999999999999", "18446744073709551615"
	};

	for (unsigned i = 0; i < SF_ARRAY_LEN(lines); i++) {
		put("/proc/self/cgroup", "%s", lines[i]);
		ck_assert_uint_eq(sf_memory_limit(root), (uint64_t)64 << 30);
	}
	put("/proc/self/cgroup", "0::/g\n");
	for (unsigned i = 0; i < SF_ARRAY_LEN(limits); i++) {
		put("/sys/fs/cgroup/g/memory.max", "%s", limits[i]);
		ck_assert_uint_eq(sf_memory_limit(root), (uint64_t)64 << 30);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("memory_limit");
	TCase *t = tcase_create("memory_limit");

	tcase_add_checked_fixture(t, begin, end);
	tcase_add_test(t, without_a_group_it_is_the_machines);
	tcase_add_test(t, v2_the_least_of_the_group_and_those_above);
	tcase_add_test(t, v2_in_a_container_the_root_is_its_own);
	tcase_add_test(t, v1_that_of_the_memory_controller);
	tcase_add_test(t, what_makes_no_sense_limits_nothing);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
