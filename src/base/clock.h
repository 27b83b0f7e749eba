/* Points in time: now, and what a timed wait is given. */
#ifndef SF_BASE_CLOCK_H
#define SF_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

#define SF_NS_PER_S UINT64_C(1000000000)

static inline struct timespec sf_timespec(uint64_t ns)
{
	return (struct timespec){ (time_t)(ns / SF_NS_PER_S), (long)(ns % SF_NS_PER_S) };
}
static inline uint64_t sf_timespec_ns(const struct timespec *t)
{
	return (uint64_t)t->tv_sec * SF_NS_PER_S + (uint64_t)t->tv_nsec;
}

/* Of the clock that only goes forward; signed, so that what is left of a wait can be less than
 * nothing. */
static inline int64_t sf_now_ns(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (int64_t)sf_timespec_ns(&t);
}
static inline int64_t sf_now_ms(void)
{
	return sf_now_ns() / 1000000;
}

/* The same to a few ms, for next to nothing. */
static inline int64_t sf_now_coarse_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC_COARSE, &t);
	return (int64_t)(sf_timespec_ns(&t) / 1000000);
}

/* In @ms from now, by @clock: that of the condition or the join that waits until then
 * (CLOCK_REALTIME, unless sf_cond_init() made it). */
static inline struct timespec sf_until_ms(clockid_t clock, uint64_t ms)
{
	struct timespec t;

	clock_gettime(clock, &t);
	t.tv_sec += (time_t)(ms / 1000);
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	if (t.tv_nsec >= (long)SF_NS_PER_S) {
		t.tv_nsec -= (long)SF_NS_PER_S;
		t.tv_sec++;
	}
	return t;
}

/* A condition whose timed waits are by CLOCK_MONOTONIC: whoever sets the other clock moves no
 * deadline of ours. */
static inline void sf_cond_init(pthread_cond_t *c)
{
	pthread_condattr_t attr;

	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(c, &attr);
	pthread_condattr_destroy(&attr);
}

#endif
