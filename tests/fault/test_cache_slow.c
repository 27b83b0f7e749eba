/* A cache whose disk takes nothing for a while: no reader waits for it, what waits to be written is
 * bounded, and what was written in the end is there. */
#include "config.h"

#include <sys/uio.h>

#include "tests/lib/cache_asked.h"

#define B SF_CACHE_BLOCK

static struct cache_world w;
static _Atomic bool stuck;
static _Atomic unsigned hanging;

ssize_t __real_pwrite(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off);
ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t off);

ssize_t __wrap_pwrite(int fd, const void *buf, size_t len, off_t off)
{
	hanging++;
	while (stuck)
		usleep(200);
	hanging--;
	return __real_pwrite(fd, buf, len, off);
}

ssize_t __wrap_pwrite64(int fd, const void *buf, size_t len, off_t off)
{
	return __wrap_pwrite(fd, buf, len, off);
}

static void read_on(struct sf_source *src, uint64_t off, uint64_t len)
{
	struct sf_error err = SF_ERROR_INIT;
	int r = cw_read_err(&w, src, off, len, &err);

	ck_assert_msg(r == 0, "%d %s", r, err.msg);
}

static struct sf_source *begin(uint64_t memory)
{
	struct sf_source *src;

	cw_begin(&w, NULL);
	sf_budget_set_limit(w.io.budget, memory);
	src = cw_open(&w);
	cw_read(&w, src, 0, 1); /* its files are made */
	stuck = true;
	return src;
}

START_TEST(what_has_come_is_read_before_it_is_written)
{
	struct sf_source *src = begin(UINT64_C(1) << 30);
	uint8_t got[200];
	struct iovec iov[2] = { { got, 150 }, { got + 150, 50 } };
	struct sf_lease lease;

	read_on(src, B + 5, 10);
	read_on(src, 2 * B, 10 * B);
	ck_assert_uint_eq(w.far.bytes, 12 * B);
	while (!hanging) /* somebody writes, and waits */
		sched_yield();
	/* again: out of memory, at once, across what is on disk, too */
	ck_assert_int_eq(sf_source_try(src, B - 100, iov, 2, 200, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_mem_eq(got, w.bytes + B - 100, 200);
	ck_assert_int_eq(sf_source_try(src, 2 * B - 120, iov, 2, 200, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_mem_eq(got, w.bytes + 2 * B - 120, 200);
	ck_assert_int_eq(sf_source_lend(src, B, 10, SF_FETCH_TENSOR, &lease), -EAGAIN);
	read_on(src, 0, 12 * B);
	ck_assert_uint_eq(w.far.bytes, 12 * B);
	stuck = false;
	cw_settle(&w);
	ck_assert_int_eq(sf_source_lend(src, B, 10, SF_FETCH_TENSOR, &lease), 0);
	sf_lease_release(&lease);
	sf_source_unref(src);
	cw_end(&w);

	cw_begin(&w, NULL); /* another process */
	src = cw_open(&w);
	cw_read(&w, src, 0, 12 * B);
	ck_assert_uint_eq(w.far.bytes, 0);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

START_TEST(a_disk_that_takes_nothing_holds_half_of_the_memory_at_most)
{
	struct sf_source *src = begin(16 * B);
	struct sf_budget_stat stat;
	uint64_t kept;

	for (uint64_t i = 1; i < 40; i++)
		read_on(src, i * B + 7, 100);
	sf_budget_stat(w.io.budget, &stat);
	ck_assert_uint_eq(stat.held, 8 * B);
	/* nobody keeps the rest: it is not rounded up */
	kept = B + 8 * B;
	ck_assert_uint_eq(w.far.bytes, kept + (39 - 8) * 100);
	stuck = false;
	cw_settle(&w);
	sf_budget_stat(w.io.budget, &stat);
	ck_assert_uint_eq(stat.held, 0);
	cw_read(&w, src, 30 * B, 100); /* there is room again */
	ck_assert_uint_eq(w.far.bytes, kept + (39 - 8) * 100 + B);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* Who closes the file, or drops it, leaves what is under way to itself; the process's end waits for it. */
START_TEST(what_is_under_way_outlives_its_reader)
{
	struct sf_source *src = begin(UINT64_C(1) << 30);

	read_on(src, 0, 10 * B);
	sf_source_unref(src);
	stuck = false;
	cw_end(&w);
	cw_begin(&w, NULL);
	src = cw_open(&w);
	cw_read(&w, src, 0, 10 * B);
	ck_assert_uint_eq(w.far.bytes, 0);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* Who fetches for the disk's sake does not go on before it. */
START_TEST(a_read_that_is_to_be_kept_waits_for_the_disk)
{
	struct sf_source *src = begin(UINT64_C(1) << 30);
	struct asked a = { .r = 1 };

	a.at = malloc(B);
	a.iov = (struct iovec){ a.at, B };
	a.req = (struct sf_io_req){
		.off = 5 * B, .len = B, .iov = &a.iov, .niov = 1, .done = answered, .keep = true
	};
	if (sf_source_submit(src, &a.req))
		a.r = a.req.r;
	while (!hanging)
		sched_yield();
	ck_assert_int_eq(a.r, 1);
	stuck = false;
	ck_assert_int_eq(outcome(&a), 0);
	ck_assert_uint_eq(w.io.counters.cache_kept_bytes, 2 * B);
	ck_assert_mem_eq(a.at, w.bytes + 5 * B, B);
	free(a.at);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

/* A disk that hangs holds nobody up for ever, and what comes back from it harms nobody. */
START_TEST(the_end_does_not_wait_for_a_disk_that_hangs)
{
	struct sf_source *src = begin(UINT64_C(1) << 30);

	w.io.retry_ms = 4;
	read_on(src, 0, 10 * B);
	sf_source_unref(src);
	while (!hanging)
		sched_yield();
	cw_end(&w);
	ck_assert_ptr_nonnull(strstr(w.logged, "left to themselves"));
	ck_assert_uint_gt(hanging, 0);
	stuck = false;
	while (hanging)
		usleep(1000);
	w.io.retry_ms = 0;
	cw_begin(&w, NULL); /* right bytes, whatever was kept of them */
	src = cw_open(&w);
	cw_read(&w, src, 0, 10 * B);
	sf_source_unref(src);
	cw_end(&w);
	cw_remove(&w);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("cache_slow");
	TCase *t = tcase_create("cache_slow");

	tcase_set_timeout(t, 60);
	tcase_add_test(t, what_has_come_is_read_before_it_is_written);
	tcase_add_test(t, a_disk_that_takes_nothing_holds_half_of_the_memory_at_most);
	tcase_add_test(t, what_is_under_way_outlives_its_reader);
	tcase_add_test(t, the_end_does_not_wait_for_a_disk_that_hangs);
	tcase_add_test(t, a_read_that_is_to_be_kept_waits_for_the_disk);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
