/* The block cache: a descriptor of an object that is here whole, for passthrough. */
#include "config.h"

#include <unistd.h>

#include "tests/lib/cache_world.h"

#define B SF_CACHE_BLOCK

static struct cache_world w;

static int fd_of(const char *etag)
{
	const struct sf_objinfo want = { .name = "a/x", .size = CW_BYTES, .version.etag = etag };
	struct sf_error err = SF_ERROR_INIT;
	int fd = w.store->ops->fd(w.store, "a/x", &want, &err);

	ck_assert(fd >= 0 || (fd == -EAGAIN && *err.msg));
	return fd;
}

static void expect_whole(int fd)
{
	uint8_t *got = malloc(CW_BYTES + 1);

	ck_assert_int_ge(fd, 0);
	ck_assert_int_eq(pread(fd, got, CW_BYTES + 1, 0), CW_BYTES);
	ck_assert_mem_eq(got, w.bytes, CW_BYTES);
	free(got);
	close(fd);
}

START_TEST(all_of_it_or_none)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	ck_assert_int_eq(fd_of("one"), -EAGAIN);
	cw_read(&w, src, 0, CW_BYTES - 1 - CW_BYTES % B); /* all but the last two blocks' end */
	ck_assert_int_eq(fd_of("one"), -EAGAIN);
	cw_read(&w, src, CW_BYTES - 1, 1);
	expect_whole(fd_of("one"));
	ck_assert_int_eq(fd_of("two"), -EAGAIN); /* another version */
	ck_assert_int_eq(fd_of("W/\"one\""), -EAGAIN);
	sf_source_unref(src); /* the last one: what was known of it goes */
	w.far.requests = 0;
	ck_assert_int_eq(fd_of("one"), -EAGAIN);
	ck_assert_uint_eq(w.far.requests, 0); /* no server is asked for it */
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(what_another_process_fetched_is_checked_first)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, B);
	cw_read(&w, src, 0, CW_BYTES);
	expect_whole(fd_of("one"));
	ck_assert_uint_eq(w.far.requests, 0);
	/* what was dropped goes on for who has it, and is nobody's else */
	int fd = fd_of("one");
	ck_assert_int_eq(unlink(cw_file(&w, ".data")), 0);
	ck_assert_int_eq(unlink(cw_file(&w, ".map")), 0);
	expect_whole(fd);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache_whole");
	TCase *t = tcase_create("cache_whole");

	tcase_add_test(t, all_of_it_or_none);
	tcase_add_test(t, what_another_process_fetched_is_checked_first);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
