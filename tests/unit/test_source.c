#include "config.h"

#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <sys/stat.h>
#include <time.h>

#include "base/mem.h"
#include "store/guard.h"
#include "tests/lib/test_stores.h"
#include "tests/lib/sf_test.h"

#define BYTES 300000

static uint8_t bytes[BYTES];
static char path[256];
static struct sf_io io;
static struct sf_store *store;
static struct sf_source *src;
static struct sf_mem_object object = { "x", bytes, BYTES };

/* 0 a file, 1 memory */
static void begin(int how)
{
	const char *tmp = getenv("TMPDIR");
	uint64_t seed = 5;

	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)sf_test_rand(&seed);
	ck_assert_int_eq(sf_io_init(&io, 3, NULL), 0);
	object.len = BYTES;
	if (how) {
		ck_assert_int_eq(sf_store_mem(&io, &object, 1, &store, NULL), 0);
	} else {
		snprintf(path, sizeof(path), "%s/sf-source-XXXXXX", tmp ? tmp : "/tmp");
		ck_assert_ptr_nonnull(mkdtemp(path));
		ck_assert_int_eq(sf_store_open(&io, path, NULL, &store, NULL), 0);
		strcat(path, "/x");
		FILE *f = fopen(path, "w");
		ck_assert_uint_eq(fwrite(bytes, 1, BYTES, f), BYTES);
		fclose(f);
	}
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &src, NULL), 0);
}

static void end(int how)
{
	sf_source_unref(src);
	sf_store_free(store);
	sf_io_release(&io);
	if (!how) {
		unlink(path);
		*strrchr(path, '/') = 0;
		rmdir(path);
	}
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

struct submitted {
	struct sf_io_req req;
	atomic_int r;
	atomic_bool done;
};
static void note(struct sf_io_req *req, int r)
{
	struct submitted *s = (struct submitted *)req;

	atomic_store(&s->r, r);
	atomic_store(&s->done, true);
}
static void submit(struct sf_source *to, struct submitted *s)
{
	if (sf_source_submit(to, &s->req))
		note(&s->req, s->req.r);
}
static int wait_done(struct submitted *s)
{
	while (!atomic_load(&s->done))
		usleep(100);
	return atomic_load(&s->r);
}

/* Property: any range into any list of places, tried, submitted or read, is the bytes. */
START_TEST(any_range_into_any_places_is_the_bytes)
{
	uint64_t seed = sf_test_seed("any_range");
	uint8_t *got = malloc(BYTES);

	begin(_i);
	for (int round = 0; round < 400; round++) {
		uint64_t off = sf_test_below(&seed, BYTES),
			 len = 1 + sf_test_below(&seed, BYTES - off), at = 0;
		struct iovec iov[200];
		int n = 0, how = (int)sf_test_below(&seed, 3);
		while (at < len) {
			uint64_t k = n == 199 ? len - at
			                      : 1 + sf_test_below(&seed,
			                                          SF_MIN(len - at, len / 100 + 1));
			iov[n++] = (struct iovec){ got + at, k };
			at += k;
		}
		memset(got, 0, len);
		if (how == 0) {
			ck_assert_int_eq(sf_source_read(src, off, got, len, SF_FETCH_OBJECT, NULL),
			                 0);
		} else if (how == 1) {
			ck_assert_int_eq(
				sf_source_try(src, off, iov, n, len, SF_FETCH_TENSOR, NULL), 0);
		} else {
			struct submitted s = { .req = { .off = off,
				                        .len = len,
				                        .iov = iov,
				                        .niov = n,
				                        .done = note } };
			submit(src, &s);
			ck_assert_int_eq(wait_done(&s), 0);
		}
		ck_assert_mem_eq(got, bytes + off, len);
	}
	free(got);
	end(_i);
}
END_TEST

START_TEST(ranges_past_the_end_name_all_numbers)
{
	struct sf_error err = SF_ERROR_INIT;
	struct sf_lease lease;
	uint8_t b[8];

	begin(_i);
	ck_assert_int_eq(sf_source_read(src, BYTES - 3, b, 4, SF_FETCH_TENSOR, &err), -EBADMSG);
	ck_assert_ptr_nonnull(strstr(err.msg, "'x'"));
	ck_assert_ptr_nonnull(strstr(err.msg, "299997"));
	ck_assert_ptr_nonnull(strstr(err.msg, "300000"));
	ck_assert_int_eq(sf_source_read(src, UINT64_MAX, b, 4, SF_FETCH_TENSOR, &err), -EBADMSG);
	ck_assert_int_eq(sf_source_lend(src, BYTES, 1, SF_FETCH_TENSOR, &lease), -EBADMSG);
	ck_assert_int_eq(sf_source_read(src, BYTES, b, 0, SF_FETCH_TENSOR, &err), 0);
	end(_i);
}
END_TEST

START_TEST(lent_bytes_are_the_bytes_and_outlive_the_source)
{
	struct sf_lease lease;
	int to[2];
	uint8_t got[1000];

	begin(_i);
	ck_assert_int_eq(sf_source_lend(src, 12345, 1000, SF_FETCH_TENSOR, &lease), 0);
	sf_source_unref(src);
	ck_assert_int_eq(pipe(to), 0);
	ck_assert_int_eq(write(to[1], lease.at, 1000), 1000);
	ck_assert_int_eq(read(to[0], got, 1000), 1000);
	ck_assert_mem_eq(got, bytes + 12345, 1000);
	src = lease.src; /* the lease's reference is let go by end() */
	close(to[0]);
	close(to[1]);
	ck_assert_uint_eq(io.counters.fetched_bytes[SF_FETCH_TENSOR], 1000);
	ck_assert_uint_eq(io.counters.fetched_requests[SF_FETCH_TENSOR], 1);
	end(_i);
}
END_TEST

START_TEST(a_file_that_was_cut_is_stale)
{
	struct submitted s = { 0 };
	struct sf_error err = SF_ERROR_INIT;
	uint8_t b[100];
	struct iovec iov = { b, 100 };

	begin(0);
	ck_assert_int_eq(truncate(path, 1050), 0);
	s.req = (struct sf_io_req){ .off = 1000, .len = 100, .iov = &iov, .niov = 1, .done = note };
	submit(src, &s);
	ck_assert_int_eq(wait_done(&s), -ESTALE);
	ck_assert_ptr_nonnull(strstr(s.req.err.msg, "1050"));
	ck_assert_int_eq(sf_source_check(src, &err), -ESTALE);
	ck_assert_ptr_nonnull(strstr(err.msg, "300000"));
	end(0);
}
END_TEST

START_TEST(read_all_has_a_limit)
{
	struct sf_error err = SF_ERROR_INIT;
	uint8_t *all;
	uint64_t len;

	begin(_i);
	ck_assert_int_eq(sf_source_read_all(src, BYTES - 1, SF_FETCH_METADATA, &all, &len, &err),
	                 -E2BIG);
	ck_assert_int_eq(sf_source_read_all(src, BYTES, SF_FETCH_METADATA, &all, &len, &err), 0);
	ck_assert_uint_eq(len, BYTES);
	ck_assert_mem_eq(all, bytes, BYTES);
	ck_assert_uint_eq(all[BYTES], 0);
	free(all);
	end(_i);
}
END_TEST

START_TEST(a_trace_has_a_line_a_read)
{
	char line[512] = "";
	int to[2];
	uint8_t b[8];

	begin(_i);
	ck_assert_int_eq(pipe(to), 0);
	io.trace_fd = to[1];
	ck_assert_int_eq(sf_source_read(src, 77, b, 8, SF_FETCH_HEADER, NULL), 0);
	ck_assert_int_gt(read(to[0], line, sizeof(line) - 1), 0);
	ck_assert_str_eq(line, "{\"file\": \"x\", \"off\": 77, \"len\": 8, \"kind\": \"header\", "
	                       "\"how\": \"try\"}\n");
	close(to[0]);
	close(to[1]);
	end(_i);
}
END_TEST

START_TEST(the_planned_request_fails_and_no_other)
{
	struct sf_fault plan = { .fail_at = 3, .code = -EIO };
	struct sf_source *f;
	struct sf_error err = SF_ERROR_INIT;
	uint8_t b[8];

	begin(1);
	ck_assert_int_eq(sf_source_fault(src, &plan, &f, NULL), 0);
	for (int i = 0; i < 8; i++)
		ck_assert_int_eq(sf_source_read(f, 0, b, 8, SF_FETCH_TENSOR, &err),
		                 i == 3 ? -EIO : 0);
	ck_assert_ptr_nonnull(strstr(err.msg, "injected"));
	sf_source_unref(f);
	end(1);
}
END_TEST

START_TEST(delays_delay_and_the_deadline_ends_them)
{
	struct sf_fault plan = { .fail_at = -1, .delay_ms = 60 };
	struct sf_source *f;
	struct sf_error err = SF_ERROR_INIT;
	struct submitted s[2] = { 0 };
	uint8_t b[8];
	struct iovec iov = { b, 8 };
	uint64_t t0;

	begin(1);
	ck_assert_int_eq(sf_source_fault(src, &plan, &f, NULL), 0);
	ck_assert_int_eq(sf_source_try(f, 0, &iov, 1, 8, SF_FETCH_TENSOR, NULL), -EAGAIN);
	t0 = now_ms();
	ck_assert_int_eq(sf_source_read(f, 5, b, 8, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_mem_eq(b, bytes + 5, 8);
	ck_assert_uint_ge(now_ms() - t0, 59);
	plan.delay_ms = 60000;
	io.timeout_ms = 50;
	ck_assert_int_eq(sf_source_read(f, 5, b, 8, SF_FETCH_TENSOR, &err), -ETIMEDOUT);
	ck_assert_ptr_nonnull(strstr(err.msg, "50 ms"));
	/* one of two is canceled, then the other; canceling once more is nothing */
	for (int i = 0; i < 2; i++) {
		s[i].req = (struct sf_io_req){ .len = 8, .iov = &iov, .niov = 1, .done = note };
		submit(f, &s[i]);
	}
	f->ops->cancel(f, &s[1].req);
	ck_assert_int_eq(wait_done(&s[1]), -ECANCELED);
	ck_assert(!atomic_load(&s[0].done));
	f->ops->cancel(f, &s[1].req);
	f->ops->cancel(f, &s[0].req);
	ck_assert_int_eq(wait_done(&s[0]), -ECANCELED);
	sf_source_unref(f);
	end(1);
}
END_TEST

/* Short runs are copied out of the mapping: the same bytes, and a file that is cut under the copy
 * is no SIGBUS. */
START_TEST(a_guarded_copy_gives_the_bytes_or_says_that_the_file_was_cut)
{
	uint8_t *got = malloc(BYTES);
	struct sf_error err = SF_ERROR_INIT;
	struct iovec iov[300];

	begin(0);
	ck_assert_int_eq(sf_guard_install(), 0);
	io.guard = true;
	for (int i = 0; i < 300; i++)
		iov[i] = (struct iovec){ got + (299 - i) * 1000, 1000 };
	ck_assert_int_eq(sf_source_try(src, 0, iov, 300, BYTES, SF_FETCH_TENSOR, NULL), 0);
	for (int i = 0; i < 300; i++)
		ck_assert_mem_eq(got + (299 - i) * 1000, bytes + i * 1000, 1000);
	ck_assert_int_eq(truncate(path, 9000), 0);
	for (int again = 0; again < 3; again++) {
		int r = sf_source_try(src, 0, iov, 300, BYTES, SF_FETCH_TENSOR, &err);
		/* -EAGAIN: the pages are known to be gone before they are touched */
		ck_assert_msg(r == -ESTALE || r == -EAGAIN, "%d", r);
	}
	/* straight at it, whatever is known */
	struct sf_lease lent = { 0 };
	ck_assert_int_eq(truncate(path, BYTES), 0);
	ck_assert_int_eq(sf_source_read(src, 0, got, BYTES, SF_FETCH_TENSOR, NULL), 0);
	ck_assert_int_eq(src->ops->lend(src, 0, BYTES, &lent), 0);
	ck_assert_int_eq(truncate(path, 9000), 0);
	ck_assert_int_eq(sf_guard_copy(iov, 300, lent.at), -EFAULT);
	ck_assert_int_eq(sf_guard_copy(iov, 9, lent.at), 0);
	free(got);
	end(0);
}
END_TEST

static Suite *suite(void)
{
	Suite *s = suite_create("source");
	TCase *t = tcase_create("source");

	tcase_add_loop_test(t, any_range_into_any_places_is_the_bytes, 0, 2);
	tcase_add_loop_test(t, ranges_past_the_end_name_all_numbers, 0, 2);
	tcase_add_loop_test(t, lent_bytes_are_the_bytes_and_outlive_the_source, 0, 2);
	tcase_add_test(t, a_file_that_was_cut_is_stale);
	tcase_add_loop_test(t, read_all_has_a_limit, 0, 2);
	tcase_add_loop_test(t, a_trace_has_a_line_a_read, 0, 2);
	tcase_add_test(t, a_guarded_copy_gives_the_bytes_or_says_that_the_file_was_cut);
	tcase_add_test(t, the_planned_request_fails_and_no_other);
	tcase_add_test(t, delays_delay_and_the_deadline_ends_them);
	suite_add_tcase(s, t);
	return s;
}

int main(void)
{
	return sf_test_main(suite());
}
