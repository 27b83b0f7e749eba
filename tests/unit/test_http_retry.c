#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "sf_test.h"
#include "store/http_range.h"
#include "store/http_retry.h"

START_TEST(what_passes_is_told_from_what_stays)
{
	static const unsigned again[] = { 408, 429, 500, 502, 503, 504, 509 };
	unsigned n = 0;

	for (unsigned s = 100; s < 600; s++)
		n += sf_http_status_again(s);
	ck_assert_uint_eq(n, SF_ARRAY_LEN(again));
	for (size_t i = 0; i < SF_ARRAY_LEN(again); i++)
		ck_assert(sf_http_status_again(again[i]));
	ck_assert(sf_http_error_again(-ETIMEDOUT));
	ck_assert(sf_http_error_again(-ECONNRESET));
	ck_assert(!sf_http_error_again(-EKEYREJECTED));
	ck_assert(!sf_http_error_again(-EBADMSG));
	ck_assert(!sf_http_error_again(-ECANCELED));
}
END_TEST

/* Between 0 and 200 ms, twice as many each time, 20 s at most. */
START_TEST(waits_grow_to_a_limit)
{
	uint64_t seed = sf_test_seed("waits");

	for (unsigned n = 1, most = 200; n < 40; n++, most = SF_MIN(2 * most, 20000u)) {
		unsigned top = 0;
		for (int i = 0; i < 2000; i++) {
			unsigned ms = sf_http_wait_ms(200, n, sf_test_rand(&seed));
			ck_assert_uint_le(ms, most);
			top = SF_MAX(top, ms);
		}
		ck_assert_uint_gt(top, most * 9 / 10);
	}
}
END_TEST

/* A deadline decides how often something is tried again; where there is none, ten tries do. */
START_TEST(a_deadline_decides_when_to_stop)
{
	uint64_t seed = sf_test_seed("again");

	ck_assert_int_ge(sf_http_again_ms(200, 9, sf_test_rand(&seed), -1, INT64_MAX), 0);
	ck_assert_int_eq(sf_http_again_ms(200, 10, sf_test_rand(&seed), -1, INT64_MAX), -1);
	ck_assert_int_ge(sf_http_again_ms(200, 50, sf_test_rand(&seed), -1, 60000), 0);
	ck_assert_int_eq(sf_http_again_ms(200, 1, sf_test_rand(&seed), -1, 200), -1);
	ck_assert_int_eq(sf_http_again_ms(200, 1, sf_test_rand(&seed), -1, -5), -1);
	/* what would come too late comes sooner */
	for (int i = 0; i < 1000; i++)
		ck_assert_int_lt(sf_http_again_ms(200, 20, sf_test_rand(&seed), -1, 1000), 1000);
	/* but never before the server wants to be asked */
	ck_assert_int_ge(sf_http_again_ms(200, 1, sf_test_rand(&seed), 7000, 60000), 7000);
	ck_assert_int_eq(sf_http_again_ms(200, 1, sf_test_rand(&seed), 7000, 6000), -1);
	ck_assert_int_ge(sf_http_again_ms(200, 20, sf_test_rand(&seed), 900, 1000), 900);
}
END_TEST

START_TEST(retry_after_is_seconds_or_a_date)
{
	static const struct {
		const char *value;
		int64_t ms;
	} v[] = {
		{ "0", 0 },
		{ "120", 120000 },
		{ "", -1 },
		{ "-1", -1 },
		{ "12x", -1 },
		{ "9999999999", -1 },
		{ "Wed, 21 Oct 2015 07:28:30 GMT", 30000 },
		{ "Wed, 21 Oct 2015 07:27:00 GMT", 0 },
		{ "Wed, 21 Oct 2015 07:28:30 GMTx", -1 },
		{ "tomorrow", -1 },
		/* an hour is enough of waiting, and no date is too far to count in milliseconds */
		{ "3601", 3600000 },
		{ "999999999", 3600000 },
		{ "Fri, 21 Oct 2195 07:28:30 GMT", 3600000 },
		{ "Fri, 31 Dec 9999 23:59:59 GMT", -1 },
		{ "Wed, 31 Dec 1969 23:59:59 GMT", -1 },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(v); i++)
		ck_assert_int_eq(sf_http_retry_after_ms(v[i].value, strlen(v[i].value), 1445412480),
		                 v[i].ms);
}
END_TEST

/* A store whose requests all fail tries each again a hundred times in all, not ten times each. */
START_TEST(tries_run_out_and_come_back)
{
	struct sf_http_tokens t = { 0 };
	unsigned n = 0;

	while (sf_http_tokens_take(&t))
		n++;
	ck_assert_uint_eq(n, 100);
	for (int i = 0; i < 4; i++)
		sf_http_tokens_give(&t, 1);
	ck_assert(!sf_http_tokens_take(&t));
	sf_http_tokens_give(&t, 1);
	ck_assert(sf_http_tokens_take(&t));
	for (int i = 0; i < 1000; i++)
		sf_http_tokens_give(&t, 1);
	ck_assert_int_eq(t.spent, 0);
}
END_TEST

/* A server that fails three times of four: what gets through in the end costs nothing for good. */
START_TEST(what_succeeds_gives_back_what_it_took)
{
	struct sf_http_tokens t = { 0 };

	for (int i = 0; i < 10000; i++) {
		for (int k = 0; k < 3; k++)
			ck_assert(sf_http_tokens_take(&t));
		sf_http_tokens_give(&t, 4);
		ck_assert_int_eq(t.spent, 0);
	}
	/* of those that failed in the end, a little with each that succeeds */
	for (int k = 0; k < 9; k++)
		ck_assert(sf_http_tokens_take(&t));
	ck_assert(sf_http_tokens_take(&t));
	sf_http_tokens_give(&t, 2);
	ck_assert_int_eq(t.spent, 9 * 5 - 1);
}
END_TEST

START_TEST(ranges_are_read_strictly)
{
	static const struct {
		const char *value;
		int r;
		uint64_t first, last, total;
	} v[] = {
		{ "bytes 0-99/1234", 0, 0, 99, 1234 },
		{ "Bytes 5-5/6", 0, 5, 5, 6 },
		{ "bytes=1-2/3", 0, 1, 2, 3 },
		{ "bytes 1-2/*", 0, 1, 2, UINT64_MAX },
		{ "bytes */7", 0, 0, 0, 7 },
		{ "bytes 0-18446744073709551614/18446744073709551615", 0, 0, UINT64_MAX - 1,
		  UINT64_MAX },
		{ "bytes 0-18446744073709551616/7", -1, 0, 0, 0 },
		{ "bytes 2-1/7", -1, 0, 0, 0 },
		{ "bytes 1-2", -1, 0, 0, 0 },
		{ "bytes 1-2/", -1, 0, 0, 0 },
		{ "bytes 1-2/7x", -1, 0, 0, 0 },
		{ "bytes -2/7", -1, 0, 0, 0 },
		{ "bytes 1-/7", -1, 0, 0, 0 },
		{ "items 1-2/7", -1, 0, 0, 0 },
		{ "bytes", -1, 0, 0, 0 },
		{ "", -1, 0, 0, 0 },
	};

	for (size_t i = 0; i < SF_ARRAY_LEN(v); i++) {
		uint64_t first = 0, last = 0, total = 0;
		int r = sf_content_range(v[i].value, strlen(v[i].value), &first, &last, &total);
		ck_assert_msg(r == v[i].r, "%s", v[i].value);
		if (r < 0)
			continue;
		ck_assert_uint_eq(first, v[i].first);
		ck_assert_uint_eq(last, v[i].last);
		ck_assert_uint_eq(total, v[i].total);
	}
}
END_TEST

int main(void)
{
	Suite *s = suite_create("http_retry");
	TCase *c = tcase_create("http_retry");

	tcase_add_test(c, what_passes_is_told_from_what_stays);
	tcase_add_test(c, waits_grow_to_a_limit);
	tcase_add_test(c, retry_after_is_seconds_or_a_date);
	tcase_add_test(c, a_deadline_decides_when_to_stop);
	tcase_add_test(c, tries_run_out_and_come_back);
	tcase_add_test(c, what_succeeds_gives_back_what_it_took);
	tcase_add_test(c, ranges_are_read_strictly);
	suite_add_tcase(s, c);
	return sf_test_main(s);
}
