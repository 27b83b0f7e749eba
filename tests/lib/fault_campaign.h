/* What the two fault campaigns share: how many faults, what is left over, how long a call took. */
#ifndef SF_TESTS_LIB_FAULT_CAMPAIGN_H
#define SF_TESTS_LIB_FAULT_CAMPAIGN_H

#include <dirent.h>
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>

#include "base/clock.h"
#include "sf_test.h"

/* A reader's deadline, and how much later than that a call may return on a machine that has a lot
 * else to do. */
#define CAMPAIGN_TIMEOUT_MS 2000
#define CAMPAIGN_LATE_MS 20000

/* SF_FAULTS=N: so many broken answers instead of @few. */
static inline uint64_t campaign_faults(uint64_t few)
{
	const char *many = getenv("SF_FAULTS");

	return many ? strtoull(many, NULL, 10) : few;
}

static inline unsigned campaign_entries(const char *dir)
{
	DIR *d = opendir(dir);
	unsigned n = 0;

	while (d && readdir(d))
		n++;
	if (d)
		closedir(d);
	return n;
}

/* Descriptors, threads and memory of the process. */
struct campaign_held {
	unsigned fds, threads;
	size_t bytes; /* malloc'ed; 0 with a sanitizer, which looks for leaks itself */
};
static inline struct campaign_held campaign_held(void)
{
	return (struct campaign_held){ campaign_entries("/proc/self/fd"),
		                       campaign_entries("/proc/self/task"), mallinfo2().uordblks };
}

/* Nothing is left over since @before: what grows with the faults does by a hundred bytes a fault,
 * and more than a list of free memory that a thread keeps. */
static inline void campaign_check(const struct campaign_held *before, uint64_t faults)
{
	ck_assert_uint_eq(campaign_entries("/proc/self/fd"), before->fds);
	/* a thread that has been joined may be seen for a moment */
	for (int i = 0; i < 1000 && campaign_entries("/proc/self/task") != before->threads; i++)
		usleep(1000);
	ck_assert_uint_eq(campaign_entries("/proc/self/task"), before->threads);
	ck_assert_uint_le(mallinfo2().uordblks, before->bytes + (384u << 10) + 20 * faults);
}

static inline void campaign_longest(_Atomic int64_t *longest_ms, int64_t start_ms)
{
	int64_t ms = sf_now_ms() - start_ms;

	for (int64_t most = *longest_ms;
	     ms > most && !atomic_compare_exchange_weak(longest_ms, &most, ms);)
		;
}

#endif
