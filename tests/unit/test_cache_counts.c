/* Bytes asked, bytes that the cache had, bytes fetched: three numbers, of all ways to read. */
#include "config.h"

#include "store/fetch_many.h"
#include "tests/lib/cache_world.h"

#define B SF_CACHE_BLOCK

static struct cache_world w;

static uint64_t fetched(void)
{
	uint64_t n = 0;

	for (int i = 0; i < SF_FETCH_NKINDS; i++)
		n += w.io.counters.fetched_bytes[i];
	return n;
}

static void expect(uint64_t asked, uint64_t hit, uint64_t got)
{
	ck_assert_uint_eq(w.io.counters.cache_asked_bytes, asked);
	ck_assert_uint_eq(w.io.counters.cache_hit_bytes, hit);
	ck_assert_uint_eq(w.io.counters.cache_fetched_bytes, got);
	ck_assert_uint_eq(fetched(), got);
	ck_assert_uint_eq(w.far.bytes, got);
}

START_TEST(what_was_fetched_is_not_what_was_asked)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, B + 10, 100);
	expect(100, 0, B);
	cw_read(&w, src, B + 10, 100); /* tried, or lent */
	expect(200, 100, B);
	cw_read(&w, src, B - 10, B + 20); /* ten bytes of it on each side are new */
	expect(200 + B + 20, 100 + B, 3 * B);
	sf_source_unref(src);
	cw_end(&w);

	/* another process: all of it comes from disk */
	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, 3 * B);
	cw_read(&w, src, 5, 3 * B - 5);
	expect(6 * B - 5, 6 * B - 5, 0);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(what_goes_past_the_cache_is_fetched)
{
	struct sf_source *src;

	cw_begin_size(&w, NULL, 1); /* nothing has room */
	src = cw_open(&w);
	cw_read(&w, src, 10, 100);
	cw_read(&w, src, 10, 100);
	expect(200, 0, 200);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* What a load begins ahead is counted once, by whichever source in front of the cache. */
START_TEST(what_a_load_asks_for_ahead_is_counted_once)
{
	uint8_t got[1000];

	for (int i = 0; i < 2; i++) {
		cw_begin(&w, NULL);
		struct sf_fetch_one one = { .name = "a/x", .len = 1000 };
		sf_fetch_many(w.store, &one, 1, SF_FETCH_METADATA);
		ck_assert_int_eq(one.r, 0);
		ck_assert_int_eq(
			sf_source_read(one.src, 0, got, sizeof(got), SF_FETCH_METADATA, NULL), 0);
		ck_assert_mem_eq(got, w.bytes, sizeof(got));
		expect(1000, i ? 1000 : 0, i ? 0 : B);
		sf_fetch_many_release(&one, 1);
		cw_end(&w);
	}
	cw_remove(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache_counts");
	TCase *t = tcase_create("cache_counts");

	tcase_add_test(t, what_was_fetched_is_not_what_was_asked);
	tcase_add_test(t, what_goes_past_the_cache_is_fetched);
	tcase_add_test(t, what_a_load_asks_for_ahead_is_counted_once);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
