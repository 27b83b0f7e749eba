#include "config.h"

#include "base/clock.h"
#include "base/mem.h"
#include "tests/lib/sf_test.h"

START_TEST(a_point_in_time_is_nanoseconds_and_back)
{
	static const uint64_t ns[] = { 0, 1, 999999999, 1000000000, 1000000001, INT64_MAX };

	for (size_t i = 0; i < SF_ARRAY_LEN(ns); i++) {
		struct timespec t = sf_timespec(ns[i]);
		ck_assert_int_lt(t.tv_nsec, 1000000000);
		ck_assert_uint_eq(sf_timespec_ns(&t), ns[i]);
	}
}
END_TEST

/* What pthread_cond_timedwait() refuses is a nanosecond too many: every part of a second is tried. */
START_TEST(until_is_as_far_ahead_as_asked)
{
	static const clockid_t clocks[] = { CLOCK_MONOTONIC, CLOCK_REALTIME };

	for (uint64_t ms = 0; ms < 5000; ms++) {
		clockid_t clock = clocks[ms % 2];
		struct timespec before, after, until;
		clock_gettime(clock, &before);
		until = sf_until_ms(clock, ms);
		clock_gettime(clock, &after);
		ck_assert_int_ge(until.tv_nsec, 0);
		ck_assert_int_lt(until.tv_nsec, 1000000000);
		ck_assert_uint_ge(sf_timespec_ns(&until), sf_timespec_ns(&before) + ms * 1000000);
		ck_assert_uint_le(sf_timespec_ns(&until), sf_timespec_ns(&after) + ms * 1000000);
	}
}
END_TEST

START_TEST(now_does_not_go_back)
{
	int64_t last = 0;

	for (int i = 0; i < 1000; i++) {
		int64_t ms = sf_now_ms(), ns = sf_now_ns();
		ck_assert_int_ge(ns, last);
		ck_assert_int_le(ms, ns / 1000000);
		last = ns;
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("clock");
	TCase *t = tcase_create("all");

	tcase_add_test(t, a_point_in_time_is_nanoseconds_and_back);
	tcase_add_test(t, until_is_as_far_ahead_as_asked);
	tcase_add_test(t, now_does_not_go_back);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
