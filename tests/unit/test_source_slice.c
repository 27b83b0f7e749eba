#include "config.h"

#include <string.h>

#include "store/source_slice.h"
#include "store/source_wait.h"
#include "tests/lib/sf_test.h"
#include "tests/lib/store_far.h"

#define BYTES 10000

static uint8_t bytes[BYTES];
static const struct sf_mem_object object = { "x.tar", bytes, BYTES };
static struct sf_io io;

static struct sf_store *begin(bool busy)
{
	static struct sf_fault plan;
	struct sf_store *mem, *store;

	plan = (struct sf_fault){ .fail_at = 1000000, .busy = busy, .code = -EIO };
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	for (int i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)(i * 7 + i / 256);
	ck_assert_int_eq(sf_store_mem(&io, &object, 1, &mem, NULL), 0);
	ck_assert_int_eq(sf_store_fault(mem, &plan, &store, NULL), 0);
	return store;
}

static struct sf_source *slice(struct sf_store *store, uint64_t off, uint64_t len)
{
	const struct sf_objinfo info = { "a/b", len, { .mtime_ns = 5, .etag = "tag" } };
	struct sf_error err = SF_ERROR_INIT;
	struct sf_source *inner, *ret;

	ck_assert_int_eq(store->ops->open(store, "x.tar", NULL, &inner, NULL), 0);
	ck_assert_msg(sf_source_slice(inner, off, &info, &ret, &err) == 0, "%s", err.msg);
	sf_source_unref(inner);
	return ret;
}

/* At once (_i 0), and by requests. */
START_TEST(its_bytes_are_those_of_the_place)
{
	struct sf_store *store = begin(_i);
	struct sf_source *s = slice(store, 512, 3000);
	uint8_t got[3000];

	ck_assert_str_eq(s->name, "a/b");
	ck_assert_uint_eq(s->size, 3000);
	ck_assert_str_eq(s->version.etag, "tag");
	ck_assert_int_eq(sf_source_read(s, 0, got, 3000, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_int_eq(memcmp(got, bytes + 512, 3000), 0);
	ck_assert_int_eq(sf_source_read(s, 2999, got, 1, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_uint_eq(got[0], bytes[512 + 2999]);
	ck_assert_int_eq(sf_source_read(s, 2999, got, 2, SF_FETCH_TENSOR, NULL), -EBADMSG);
	/* who asks has his own numbers again when it ends */
	struct sf_waiting *w = sf_waiting_begin(s, 100, 200, SF_FETCH_TENSOR);
	ck_assert_int_eq(sf_waiting_end(w, 0, NULL), 0);
	ck_assert_int_eq(memcmp(sf_waiting_bytes(w), bytes + 612, 200), 0);
	sf_waiting_unref(w);
	sf_source_unref(s);
	sf_store_free(store);
	sf_io_release(&io);
}
END_TEST

START_TEST(a_slice_of_a_slice)
{
	struct sf_store *store = begin(true);
	struct sf_source *s = slice(store, 1000, 5000), *t;
	const struct sf_objinfo info = { .name = "c", .size = 10 };
	uint8_t got[10];

	ck_assert_int_eq(sf_source_slice(s, 4990, &info, &t, NULL), 0);
	ck_assert_int_eq(sf_source_read(t, 0, got, 10, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_int_eq(memcmp(got, bytes + 5990, 10), 0);
	sf_source_unref(t);
	struct sf_error err = SF_ERROR_INIT;
	ck_assert_int_eq(sf_source_slice(s, 4991, &info, &t, &err), -EBADMSG);
	ck_assert_msg(strstr(err.msg, "4991") && strstr(err.msg, "5000"), "%s", err.msg);
	sf_source_unref(s);
	sf_store_free(store);
	sf_io_release(&io);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("source_slice");
	TCase *tc = tcase_create("source_slice");

	tcase_add_loop_test(tc, its_bytes_are_those_of_the_place, 0, 2);
	tcase_add_test(tc, a_slice_of_a_slice);
	suite_add_tcase(s, tc);
	return sf_test_main(s);
}
