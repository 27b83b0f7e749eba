/* The block cache: what it has is lent, and checked ahead of who reads on. */
#include "config.h"

#include <unistd.h>

#include "tests/lib/cache_world.h"

#define B SF_CACHE_BLOCK

static struct cache_world w;

START_TEST(what_is_there_is_lent_and_stays_while_it_is)
{
	struct sf_source *src;
	struct sf_lease lease;
	struct iovec iov;
	uint8_t got[1000];

	cw_begin(&w, NULL);
	src = cw_open(&w);
	ck_assert_int_eq(sf_source_lend(src, 10, 1000, SF_FETCH_TENSOR, &lease), -EAGAIN);
	iov = (struct iovec){ got, 1000 };
	ck_assert_int_eq(sf_source_try(src, 10, &iov, 1, 1000, SF_FETCH_TENSOR, NULL), -EAGAIN);
	cw_read(&w, src, 0, 1);
	ck_assert_int_eq(sf_source_lend(src, 10, 1000, SF_FETCH_TENSOR, &lease), 0);
	ck_assert_int_eq(sf_source_try(src, 10, &iov, 1, 1000, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_mem_eq(got, w.bytes + 10, 1000);
	ck_assert_int_eq(sf_source_lend(src, B - 1, 2, SF_FETCH_TENSOR, &(struct sf_lease){ 0 }),
	                 -EAGAIN);
	/* evicted, closed: what is lent is lent */
	ck_assert_int_eq(unlink(cw_file(&w, ".data")), 0);
	ck_assert_int_eq(unlink(cw_file(&w, ".map")), 0);
	sf_source_unref(src);
	ck_assert_mem_eq(lease.at, w.bytes + 10, 1000);
	sf_lease_release(&lease);
	ck_assert_uint_eq(w.far.requests, 1);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

static int lent(struct sf_source *src, uint64_t off)
{
	struct sf_lease lease;
	int r = sf_source_lend(src, off, 100, SF_FETCH_TENSOR, &lease);

	if (r == 0) {
		ck_assert_mem_eq(lease.at, w.bytes + off, 100);
		sf_lease_release(&lease);
	}
	return r;
}

/* More than is checked at once, and nothing but lends: what is checked moves on with the reader. */
START_TEST(who_is_lent_all_of_it_reads_on_without_a_wait)
{
	const size_t n = 40u << 20;
	struct sf_store *far, *store;
	struct sf_source *src;

	cw_begin(&w, NULL);
	free(w.bytes);
	w.bytes = malloc(n);
	for (size_t i = 0; i < n; i++)
		w.bytes[i] = (uint8_t)(i * 2654435761u >> 13);
	w.object.at = w.bytes;
	w.object.len = n;
	struct sf_far large = { .etag = "large" };
	for (int i = 0; i < 2; i++) {
		ck_assert_int_eq(sf_store_far(&w.io, &w.object, 1, &large, &far, NULL), 0);
		ck_assert_int_eq(sf_store_cached(far, w.cache, &store, NULL), 0);
		ck_assert_int_eq(store->ops->open(store, "a/x", NULL, &src, NULL), 0);
		cw_read(&w, src, 0, i ? B : n);
		for (uint64_t at = B; i && at < n; at += B) {
			for (int k = 0; k < 2000 && lent(src, at); k++)
				usleep(5000);
			ck_assert_int_eq(lent(src, at), 0);
		}
		sf_source_unref(src);
		sf_store_free(store);
	}
	ck_assert_uint_eq(large.bytes, n);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(what_lies_on_disk_is_checked_ahead_of_who_reads_on)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, 30 * B); /* and not the rest */
	sf_source_unref(src);
	cw_end(&w);

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 5 * B, 1); /* who reads here and there reads no more than that */
	usleep(50000);
	ck_assert_int_eq(lent(src, 6 * B), -EAGAIN);
	cw_read(&w, src, 6 * B, 1);
	for (int i = 0; i < 2000 && lent(src, 29 * B); i++)
		usleep(5000);
	ck_assert_int_eq(lent(src, 29 * B), 0);
	for (uint64_t i = 7; i < 29; i++)
		ck_assert_int_eq(lent(src, i * B), 0);
	ck_assert_int_eq(lent(src, 30 * B), -EAGAIN); /* not there, and not fetched for it */
	ck_assert_uint_eq(w.far.requests, 0);
	cw_read(&w, src, 0, CW_BYTES);
	ck_assert_uint_eq(w.far.bytes, CW_BYTES - 30 * B);
	sf_source_unref(src);
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
	Suite *s = suite_create("cache_lend");
	TCase *t = tcase_create("cache_lend");

	tcase_add_checked_fixture(t, clean, NULL);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, what_is_there_is_lent_and_stays_while_it_is);
	tcase_add_test(t, who_is_lent_all_of_it_reads_on_without_a_wait);
	tcase_add_test(t, what_lies_on_disk_is_checked_ahead_of_who_reads_on);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
