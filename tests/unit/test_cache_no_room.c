/* The block cache: where the disk refuses, or there is no room on it or in memory. */
#include "config.h"

#include <sys/resource.h>
#include <unistd.h>

#include "tests/lib/cache_asked.h"

#define B SF_CACHE_BLOCK

static struct cache_world w;

START_TEST(a_disk_that_refuses_is_said_once_and_done_without)
{
	struct rlimit old, lim;
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, 1);
	ck_assert_int_eq(getrlimit(RLIMIT_FSIZE, &old), 0);
	lim = (struct rlimit){ 5 * B, old.rlim_max };
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &lim), 0);
	for (uint64_t i = 0; i < 40; i++)
		cw_read(&w, src, i * B, B);
	ck_assert_int_eq(setrlimit(RLIMIT_FSIZE, &old), 0);
	const char *said = strstr(w.logged, "File too large: nothing more is kept");
	ck_assert_ptr_nonnull(said);
	ck_assert_ptr_null(strstr(said + 1, "File too"));
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(no_more_is_kept_than_was_allowed)
{
	struct sf_source *src;
	struct stat st;

	cw_begin_size(&w, NULL, 10 * B);
	src = cw_open(&w);
	for (uint64_t i = 0; i < 40; i++)
		cw_read(&w, src, i * B + 7, 100);
	ck_assert_int_eq(stat(cw_file(&w, ".data"), &st), 0);
	ck_assert_uint_le((uint64_t)st.st_blocks * 512, 10 * B);
	/* what nobody keeps is not rounded up */
	ck_assert_uint_lt(w.far.bytes, 11 * B);
	cw_read(&w, src, 0, CW_BYTES);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(nor_by_many_at_once)
{
	struct asked a[30];
	struct sf_source *src;
	struct stat st;

	cw_begin_size(&w, NULL, 10 * B);
	w.far.hold_until = 8; /* nothing has come before many are under way */
	src = cw_open(&w);
	for (unsigned i = 0; i < SF_ARRAY_LEN(a); i++)
		ask(&a[i], src, i * B + 7, 100);
	for (unsigned i = 0; i < SF_ARRAY_LEN(a); i++) {
		ck_assert_int_eq(outcome(&a[i]), 0);
		ck_assert_mem_eq(a[i].at, w.bytes + i * B + 7, 100);
		free(a[i].at);
	}
	/* what has come is written behind its readers */
	for (int ms = 0; ms < 20000; ms++) {
		ck_assert_int_eq(stat(cw_file(&w, ".data"), &st), 0);
		if ((uint64_t)st.st_blocks * 512 >= 9 * B)
			break;
		usleep(1000);
	}
	ck_assert_uint_le((uint64_t)st.st_blocks * 512, 10 * B);
	ck_assert_uint_ge((uint64_t)st.st_blocks * 512, 9 * B);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(without_memory_the_read_goes_through)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	src = cw_open(&w);
	sf_budget_set_limit(w.io.budget, 1);
	cw_read(&w, src, 0, 20 * B); /* one run at a time */
	cw_read(&w, src, 0, CW_BYTES);
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
	Suite *s = suite_create("cache_no_room");
	TCase *t = tcase_create("cache_no_room");

	tcase_add_checked_fixture(t, clean, NULL);
	tcase_set_timeout(t, 60);
	tcase_add_test(t, a_disk_that_refuses_is_said_once_and_done_without);
	tcase_add_test(t, no_more_is_kept_than_was_allowed);
	tcase_add_test(t, nor_by_many_at_once);
	tcase_add_test(t, without_memory_the_read_goes_through);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
