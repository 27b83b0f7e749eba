#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "sf_test.h"
#include "store/source_ahead.h"
#include "tests/lib/store_far.h"

#define BYTES (3u << 20)

static uint8_t bytes[BYTES], got[BYTES];

/* Small reads all over an archive: a request for what fits, few for what does not, and always the
 * bytes. */
START_TEST(small_reads_are_few_requests)
{
	static const struct {
		uint64_t begin, end;
		unsigned most;
	} part[] = { { 0, 1000, 1 }, { 5000, 5000 + SF_AHEAD_BYTES, 1 }, { BYTES - 10, BYTES, 1 } };
	const struct sf_mem_object o = { "a", bytes, BYTES };
	struct sf_far far = { .hints = {
				      .range_max = 8 << 20, .head_guess = 4096, .inflight = 4 } };
	uint64_t seed = sf_test_seed("ahead");
	struct sf_store *store;
	struct sf_source *src;
	struct sf_io io;

	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)sf_test_rand(&seed);
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	ck_assert_int_eq(sf_store_far(&io, &o, 1, &far, &store, NULL), 0);
	ck_assert_int_eq(store->ops->open(store, "a", NULL, &src, NULL), 0);
	for (size_t p = 0; p < SF_ARRAY_LEN(part); p++) {
		struct sf_source_ahead a = { .src = src,
			                     .begin = part[p].begin,
			                     .end = part[p].end };
		uint64_t room = part[p].end - part[p].begin;
		far.requests = 0;
		for (int i = 0; i < 200; i++) {
			uint64_t at = sf_test_below(&seed, room),
				 n = sf_test_below(&seed, SF_MIN(room - at, 500u) + 1);
			ck_assert_int_eq(sf_source_ahead_read(&a, part[p].begin + at, got, n,
			                                      SF_FETCH_HEADER, NULL),
			                 0);
			ck_assert_mem_eq(got, bytes + part[p].begin + at, n);
		}
		ck_assert_uint_le(far.requests, part[p].most);
		sf_source_ahead_release(&a);
	}
	/* from front to back through what does not fit; a large read goes by it, one outside too */
	struct sf_source_ahead a = { .src = src, .begin = 10, .end = BYTES - 10 };
	far.requests = 0;
	for (uint64_t at = 10; at + 1000 < BYTES - 10; at += 1000)
		ck_assert_int_eq(
			sf_source_ahead_read(&a, at, got + at, 1000, SF_FETCH_HEADER, NULL), 0);
	ck_assert_mem_eq(got + 10, bytes + 10, BYTES - 2000);
	ck_assert_uint_le(far.requests, 4);
	far.requests = 0;
	ck_assert_int_eq(sf_source_ahead_read(&a, 10, got, SF_AHEAD_BYTES, SF_FETCH_TENSOR, NULL),
	                 0);
	ck_assert_mem_eq(got, bytes + 10, SF_AHEAD_BYTES);
	ck_assert_int_eq(sf_source_ahead_read(&a, 0, got, 20, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_mem_eq(got, bytes, 20);
	ck_assert_uint_eq(far.requests, 2);
	ck_assert_int_eq(sf_source_ahead_read(&a, BYTES - 5, got, 10, SF_FETCH_TENSOR, NULL),
	                 -EBADMSG);
	ck_assert_int_eq(sf_source_ahead_read(&a, UINT64_MAX, got, 10, SF_FETCH_TENSOR, NULL),
	                 -EBADMSG);
	sf_source_ahead_release(&a);
	sf_source_unref(src);
	sf_store_free(store);
	sf_io_release(&io);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("source_ahead");
	TCase *c = tcase_create("source_ahead");

	tcase_set_timeout(c, 30);
	tcase_add_test(c, small_reads_are_few_requests);
	suite_add_tcase(s, c);
	return sf_test_main(s);
}
