/* The block cache: what is fetched, and how often. */
#include "config.h"

#include "tests/lib/cache_world.h"

#define B SF_CACHE_BLOCK

static struct cache_world w;

START_TEST(a_read_fetches_the_blocks_under_it_once)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 3 * B + 100, 10); /* one block */
	ck_assert_uint_eq(w.far.requests, 1);
	ck_assert_uint_eq(w.far.bytes, B);
	cw_read(&w, src, 3 * B, B);
	cw_read(&w, src, 4 * B - 1, 1);
	ck_assert_uint_eq(w.far.requests, 1);
	cw_read(&w, src, 4 * B - 1, 2); /* what is there is not fetched again */
	ck_assert_uint_eq(w.far.requests, 2);
	ck_assert_uint_eq(w.far.bytes, 2 * B);
	cw_read(&w, src, CW_BYTES - 1, 1); /* the last one is short */
	ck_assert_uint_eq(w.far.bytes, 2 * B + CW_BYTES % B);
	cw_read(&w, src, 0, CW_BYTES);
	ck_assert_uint_eq(w.far.bytes, CW_BYTES);
	w.far.requests = 0;
	cw_read(&w, src, 1, CW_BYTES - 2);
	ck_assert_uint_eq(w.far.requests, 0);
	ck_assert_uint_eq(w.io.counters.cache_fetched_bytes, CW_BYTES);
	ck_assert_uint_eq(w.io.counters.cache_misses, 4);
	ck_assert_uint_eq(w.io.counters.cache_hits, 3);
	/* whole reads, a byte beside one that was missing, all but the missing blocks */
	ck_assert_uint_eq(w.io.counters.cache_hit_bytes,
	                  B + 1 + CW_BYTES - 2 + 1 + 2 * B + CW_BYTES % B);
	sf_source_unref(src);
	cw_end(&w);

	/* another process: all of it is there */
	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	ck_assert_uint_eq(w.far.requests, 0);
	sf_source_unref(src);
	cw_end(&w);

	/* another version: nothing is */
	cw_begin(&w, "two");
	src = cw_open(&w);
	cw_read(&w, src, 0, 1);
	ck_assert_uint_eq(w.far.requests, 1);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(long_reads_are_fetched_in_requests_of_the_sources_length)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, 40 * B);
	ck_assert_uint_eq(w.far.requests, 4); /* of 8 blocks, and one at each end */
	ck_assert_uint_ge(w.far.most, 2);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(without_a_version_nothing_is_kept)
{
	static const char *const tags[] = { "", "W/\"weak\"" };

	for (unsigned i = 0; i < SF_ARRAY_LEN(tags); i++) {
		cw_begin(&w, tags[i]);
		struct sf_source *src = cw_open(&w);
		cw_read(&w, src, 5, 10);
		cw_read(&w, src, 5, 10);
		ck_assert_uint_eq(w.far.requests, 2);
		ck_assert_uint_eq(w.far.bytes, 20);
		sf_source_unref(src);
		cw_end(&w);
	}
	cw_remove(&w);
}
END_TEST

/* Two servers may call what they have the same. */
START_TEST(another_server_is_another_object)
{
	static char at[2][16] = { "http://one", "http://two" };

	cw_begin(&w, NULL);
	for (int i = 0; i < 4; i++) {
		struct sf_far far = { .etag = "same" };
		struct sf_store *mem, *store;
		struct sf_source *src;
		ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &far, &mem, NULL), 0);
		mem->at = at[i & 1];
		ck_assert_int_eq(sf_store_cached(mem, w.cache, &store, NULL), 0);
		ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &src, NULL), 0);
		cw_read(&w, src, 0, 100);
		ck_assert_uint_eq(far.requests > 0, i < 2);
		sf_source_unref(src);
		sf_store_free(store);
	}
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

static void clean(void)
{
	memset(&w, 0, sizeof(w));
}

int main(void)
{
	Suite *s = suite_create("cache");
	TCase *t = tcase_create("cache");

	tcase_add_checked_fixture(t, clean, NULL);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_read_fetches_the_blocks_under_it_once);
	tcase_add_test(t, long_reads_are_fetched_in_requests_of_the_sources_length);
	tcase_add_test(t, without_a_version_nothing_is_kept);
	tcase_add_test(t, another_server_is_another_object);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
