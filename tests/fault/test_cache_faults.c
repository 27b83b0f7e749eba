/* Each allocation of the block cache fails once: a read is right all the same, or says so. */
#include "config.h"

#include "tests/fuzz/fz_malloc.h"
#include "tests/lib/cache_world.h"

static struct cache_world w;
static uint8_t got[CW_BYTES];

/* No assertion while allocations fail: those take memory too. */
static int use(struct sf_error *err)
{
	static const uint64_t at[][2] = {
		{ 0, 100 }, { 50, 3 * SF_CACHE_BLOCK }, { 0, CW_BYTES }, { 1, 1000 }
	};
	struct sf_store *far = NULL, *store = NULL;
	struct sf_cache *cache = NULL;
	struct sf_source *src = NULL;
	struct sf_lease lease;
	int r = sf_store_far(&w.io, &w.object, 1, &w.far, &far, err);

	if (r < 0)
		return r;
	r = sf_cache_new(&w.io, w.dir, 1 << 30, &cache, err);
	if (r >= 0)
		r = sf_store_cached(far, cache, &store, err);
	if (r < 0) {
		sf_store_free(far);
		sf_cache_unref(cache);
		return r;
	}
	r = store->ops->open(store, "a/x", NULL, &src, err);
	for (size_t i = 0; i < SF_ARRAY_LEN(at) && r >= 0; i++) {
		uint64_t off = at[i][0], len = at[i][1];
		memset(got, 0xa5, len);
		r = sf_source_read(src, off, got, len, SF_FETCH_TENSOR, err);
		if (r >= 0 && memcmp(got, w.bytes + off, len) != 0)
			r = -1000;
		if (r >= 0 && sf_source_lend(src, off, len, SF_FETCH_TENSOR, &lease) == 0) {
			if (memcmp(lease.at, w.bytes + off, len) != 0)
				r = -1001;
			sf_lease_release(&lease);
		}
	}
	sf_source_unref(src);
	sf_store_free(store);
	sf_cache_unref(cache);
	return r;
}

START_TEST(without_memory_reads_are_right_or_say_so)
{
	long failed = 1, n, refused = 0, made_do = 0;

	cw_dir(&w);
	cw_bytes(&w);
	for (n = 0; failed; n++) {
		struct sf_error err = SF_ERROR_INIT;
		ck_assert_int_eq(sf_io_init(&w.io, 2, NULL), 0);
		w.far = (struct sf_far){ .etag = "one",
			                 .inline_of = 1,
			                 .hints = { .range_max = 8 * SF_CACHE_BLOCK,
			                            .inflight = 8 } };
		fz_malloc_fails(n, false);
		int r = use(&err);
		failed = fz_malloc_fails(-1, false);
		if (r < 0)
			ck_assert_msg(failed && r == -ENOMEM && err.msg[0], "allocation %ld: %d %s",
			              n, r, err.msg);
		refused += r < 0;
		made_do += failed && r >= 0;
		sf_io_release(&w.io);
		if (n & 1) { /* half of them with what is there already */
			char cmd[200];
			snprintf(cmd, sizeof(cmd), "rm -f '%s'/*.map '%s'/*.data", w.dir, w.dir);
			ck_assert_int_eq(system(cmd), 0);
		}
	}
	ck_assert_int_ge(refused, 3);
	ck_assert_int_ge(made_do, 5); /* the cache is no reason to fail */
	cw_remove(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache_faults");
	TCase *t = tcase_create("cache_faults");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, without_memory_reads_are_right_or_say_so);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
