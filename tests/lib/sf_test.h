/* What every test program in C shares: a main, a seed that is printed, the place of the test
 * data. */
#ifndef SF_TESTS_LIB_SF_TEST_H
#define SF_TESTS_LIB_SF_TEST_H

#include <check.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/error.h"

/* Not run: says why, counts one, and gives the exit status that the harness takes for a skip. */
static inline int sf_test_skip(const char *why)
{
	printf("SKIP: %s\n0 passed, 0 failed, 1 skipped\n", why);
	return 77;
}

/*
 * Runs a suite and ends with the line that contrib/check adds up. Check forks a process for each
 * test unless CK_FORK=no (gdb, sanitizers), so threads and files are made inside the test.
 */
static inline int sf_test_main(Suite *suite)
{
	SRunner *runner = srunner_create(suite);
	int run, failed;

	setvbuf(stdout, NULL, _IOLBF, 0);
	srunner_run_all(runner, CK_ENV);
	run = srunner_ntests_run(runner);
	failed = srunner_ntests_failed(runner);
	srunner_free(runner);
	printf("%d passed, %d failed, 0 skipped\n", run - failed, failed);
	return failed || !run ? EXIT_FAILURE : EXIT_SUCCESS;
}

/* A path below tests/data (SF_TEST_DATA from the Makefile), in @buf of 4096 bytes. */
static inline const char *sf_test_data(char *buf, const char *below)
{
	const char *dir = getenv("SF_TEST_DATA");

	snprintf(buf, 4096, "%s/%s", dir ? dir : "tests/data", below);
	return buf;
}

/* The random state of a test: SF_TEST_SEED repeats a run. The seed is printed, for the log of a
 * failure. */
static inline uint64_t sf_test_seed(const char *test)
{
	const char *s = getenv("SF_TEST_SEED");
	struct timeval now;
	uint64_t seed;

	gettimeofday(&now, NULL);
	seed = s ? strtoull(s, NULL, 0) : (uint64_t)now.tv_sec * 1000003u + (uint64_t)now.tv_usec;
	printf("%s: SF_TEST_SEED=%llu\n", test, (unsigned long long)seed);
	fflush(stdout);
	return seed;
}

/* splitmix64 */
static inline uint64_t sf_test_rand(uint64_t *state)
{
	uint64_t z = *state += 0x9e3779b97f4a7c15;

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

/* From 0 to @n - 1. */
static inline size_t sf_test_below(uint64_t *state, size_t n)
{
	return (size_t)(sf_test_rand(state) % n);
}

#endif
