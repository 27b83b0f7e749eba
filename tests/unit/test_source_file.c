/* What a local file answers when the kernel answers in part, not at once, or not at all: its calls
 * are ours here
 * (--wrap in tests/local.mk), so that the page cache of this machine has no say. */
#include "config.h"

#include <errno.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/uio.h>
#include <sys/vfs.h>

#include "base/mem.h"
#include "store/source.h"
#include "tests/lib/sf_test.h"

#define PAGE 4096
#define BYTES (200 * PAGE + 17) /* more than three windows of 64 pages */
#define EXT4_MAGIC 0xef53
#define TMPFS_MAGIC 0x01021994

static struct {
	long magic; /* of the file system */
	int absent; /* the one page that is not resident; -1 none */
	int absent_all;
	size_t most;     /* bytes of one preadv */
	int interrupted; /* preadv calls that EINTR ends first */
	int read_errno;
	int nowait_errno; /* of preadv2; 0: what most says */
	unsigned preadv2, mincore;
} kernel;
static const uint8_t *map_base; /* where the file is mapped, for page numbers */

int __real_fstatfs(int fd, struct statfs *st);
int __wrap_fstatfs(int fd, struct statfs *st);
int __wrap_fstatfs(int fd, struct statfs *st)
{
	int r = __real_fstatfs(fd, st);

	st->f_type = kernel.magic;
	return r;
}

int __wrap_mincore(void *at, size_t len, unsigned char *in);
int __wrap_mincore(void *at, size_t len, unsigned char *in)
{
	kernel.mincore++;
	if (!map_base) /* the first that is asked about is page 0 */
		map_base = at;
	for (size_t i = 0; i < (len + PAGE - 1) / PAGE; i++)
		in[i] = kernel.absent_all || (const uint8_t *)at + i * PAGE ==
		                                     map_base + kernel.absent * (ptrdiff_t)PAGE
		                ? 0xfe /* the other bits mean nothing */
		                : 0xff;
	return 0;
}

/* At most kernel.most bytes, into as many places as that takes. */
static ssize_t some(int fd, const struct iovec *iov, int niov, off_t off)
{
	size_t left = kernel.most, done = 0;

	for (int i = 0; i < niov && left; i++) {
		size_t n = SF_MIN(iov[i].iov_len, left);
		ssize_t r = pread(fd, iov[i].iov_base, n, off + (off_t)done);
		if (r <= 0)
			return done ? (ssize_t)done : r;
		done += (size_t)r;
		left -= (size_t)r;
		if ((size_t)r < n)
			break;
	}
	return (ssize_t)done;
}

ssize_t __wrap_preadv(int fd, const struct iovec *iov, int niov, off_t off);
ssize_t __wrap_preadv(int fd, const struct iovec *iov, int niov, off_t off)
{
	if (kernel.interrupted) {
		kernel.interrupted--;
		errno = EINTR;
		return -1;
	}
	if (kernel.read_errno || niov > 1024) {
		errno = niov > 1024 ? EINVAL : kernel.read_errno;
		return -1;
	}
	return some(fd, iov, niov, off);
}

ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int niov, off_t off, int flags);
ssize_t __wrap_preadv2(int fd, const struct iovec *iov, int niov, off_t off, int flags)
{
	kernel.preadv2++;
	ck_assert_int_eq(flags, RWF_NOWAIT);
	if (kernel.interrupted) {
		kernel.interrupted--;
		errno = EINTR;
		return -1;
	}
	errno = kernel.nowait_errno;
	return errno ? -1 : some(fd, iov, niov, off);
}

static uint8_t bytes[BYTES], got[BYTES];
static char path[256];
static struct sf_io io;
static struct sf_store *store;
static struct sf_source *src;

static void begin(long magic)
{
	const char *tmp = getenv("TMPDIR");
	uint64_t seed = 5;

	kernel = (__typeof__(kernel)){ .magic = magic, .absent = -1, .most = SIZE_MAX };
	map_base = NULL;
	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)sf_test_rand(&seed);
	ck_assert_int_eq(sf_io_init(&io, 2, NULL), 0);
	snprintf(path, sizeof(path), "%s/sf-source-file-XXXXXX", tmp ? tmp : "/tmp");
	ck_assert_ptr_nonnull(mkdtemp(path));
	ck_assert_int_eq(sf_store_open(&io, path, NULL, &store, NULL), 0);
	strcat(path, "/x");
	FILE *f = fopen(path, "w");
	ck_assert_uint_eq(fwrite(bytes, 1, BYTES, f), BYTES);
	fclose(f);
	ck_assert_int_eq(store->ops->open(store, "x", NULL, &src, NULL), 0);
}

static void end(void)
{
	sf_source_unref(src);
	sf_store_free(store);
	sf_io_release(&io);
	unlink(path);
	*strrchr(path, '/') = 0;
	rmdir(path);
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

/* @off, @len into places of @each bytes, submitted. */
static int submit(struct submitted *s, uint64_t off, uint64_t len, uint64_t each)
{
	static struct iovec iov[2000];
	int n = 0;

	memset(got, 0x55, sizeof(got));
	for (uint64_t at = 0; at < len; at += each)
		iov[n++] = (struct iovec){ got + at, SF_MIN(each, len - at) };
	*s = (struct submitted){
		.req = { .off = off, .len = len, .iov = iov, .niov = n, .done = note }
	};
	if (sf_source_submit(src, &s->req))
		note(&s->req, s->req.r);
	while (!atomic_load(&s->done))
		usleep(100);
	return atomic_load(&s->r);
}

/* Property: however few bytes a call gives, and wherever that ends in the list of places. */
START_TEST(a_request_answered_in_pieces_is_whole)
{
	uint64_t seed = sf_test_seed("pieces");
	struct submitted s;

	begin(EXT4_MAGIC);
	for (int round = 0; round < 150; round++) {
		uint64_t each = 1 + sf_test_below(&seed, 600), off = sf_test_below(&seed, 5000),
			 len = 1 + sf_test_below(&seed, SF_MIN(BYTES - off, 2000 * each));
		kernel.most = 1 + sf_test_below(&seed, round % 3 ? 20 * each : 200 * each);
		kernel.most = SF_MAX(kernel.most, len / 500);
		kernel.interrupted = round % 4;
		int r = submit(&s, off, len, each);
		ck_assert_msg(r == 0, "%d %s", r, s.req.err.msg);
		ck_assert_msg(memcmp(got, bytes + off, len) == 0,
		              "each %llu, at most %zu, %llu bytes", (unsigned long long)each,
		              kernel.most, (unsigned long long)len);
		ck_assert_uint_eq(got[SF_MIN(len, BYTES - 1)],
		                  len < BYTES ? 0x55 : bytes[BYTES - 1]);
	}
	end();
}
END_TEST

START_TEST(an_error_of_the_kernel_is_told_with_the_range)
{
	struct submitted s;

	begin(EXT4_MAGIC);
	kernel.read_errno = EIO;
	ck_assert_int_eq(submit(&s, 1234, 567, 100), -EIO);
	ck_assert_msg(strstr(s.req.err.msg, "'x'") && strstr(s.req.err.msg, "1234") &&
	                      strstr(s.req.err.msg, "567"),
	              "%s", s.req.err.msg);
	end();
}
END_TEST

static int try(uint64_t off, uint64_t len, struct sf_error *err)
{
	struct iovec iov[2] = { { got, len / 2 }, { got + len / 2, len - len / 2 } };

	memset(got, 0x55, sizeof(got));
	return sf_source_try(src, off, iov, 2, len, SF_FETCH_TENSOR, err);
}

START_TEST(what_is_not_there_at_once_is_left_to_submit)
{
	struct sf_error err = SF_ERROR_INIT;

	begin(EXT4_MAGIC);
	kernel.interrupted = 2;
	ck_assert_int_eq(try(100, 1000, &err), 0);
	ck_assert_mem_eq(got, bytes + 100, 1000);
	kernel.most = 999; /* resident in part */
	ck_assert_int_eq(try(100, 1000, &err), -EAGAIN);
	kernel.most = SIZE_MAX;
	kernel.nowait_errno = EAGAIN;
	ck_assert_int_eq(try(100, 1000, &err), -EAGAIN);
	kernel.nowait_errno = EIO;
	ck_assert_int_eq(try(100, 1000, &err), -EIO);
	ck_assert_msg(strstr(err.msg, "'x'") && strstr(err.msg, "1000"), "%s", err.msg);
	kernel.nowait_errno = 0;
	ck_assert_int_eq(try(100, 1000, &err), 0);
	end();
}
END_TEST

START_TEST(a_file_system_that_cannot_say_is_not_asked_again)
{
	const int none[] = { EOPNOTSUPP, ENOSYS, EINVAL };
	struct sf_error err = SF_ERROR_INIT;

	begin(EXT4_MAGIC);
	kernel.nowait_errno = none[_i];
	for (int i = 0; i < 3; i++)
		ck_assert_int_eq(try(100, 1000, &err), -EAGAIN);
	ck_assert_uint_eq(kernel.preadv2, 1);
	end();
}
END_TEST

START_TEST(memory_is_read_at_once_and_short_only_when_it_was_cut)
{
	struct sf_error err = SF_ERROR_INIT;

	begin(TMPFS_MAGIC);
	kernel.nowait_errno = EAGAIN;
	ck_assert_int_eq(try(100, 1000, &err), 0);
	ck_assert_mem_eq(got, bytes + 100, 1000);
	ck_assert_uint_eq(kernel.preadv2, 0);
	kernel.most = 999;
	ck_assert_int_eq(try(100, 1000, &err), -ESTALE);
	ck_assert_msg(strstr(err.msg, "1099") && strstr(err.msg, " 1000 ") &&
	                      strstr(err.msg, " 100:"),
	              "%s", err.msg);
	end();
}
END_TEST

static int lend(uint64_t off, uint64_t len)
{
	struct sf_lease lease;
	int r = sf_source_lend(src, off, len, SF_FETCH_TENSOR, &lease);

	if (r == 0) {
		ck_assert_mem_eq(lease.at, bytes + off, len);
		sf_lease_release(&lease);
	}
	return r;
}

/* Whoever touches what is not resident waits for the disk. */
START_TEST(only_resident_bytes_are_lent)
{
	begin(EXT4_MAGIC);
	ck_assert_int_eq(lend(0, BYTES), 0);
	kernel.absent = 70; /* in the second window of 64 pages */
	usleep(40000);      /* what was seen a moment ago counts for 17 ms */
	ck_assert_int_eq(lend(0, BYTES), -EAGAIN);
	ck_assert_int_eq(lend(69 * PAGE, PAGE), 0);
	ck_assert_int_eq(lend(69 * PAGE, PAGE + 1), -EAGAIN);
	ck_assert_int_eq(lend(70 * PAGE + 5, 1), -EAGAIN);
	ck_assert_int_eq(lend(71 * PAGE - 1, 1), -EAGAIN);
	ck_assert_int_eq(lend(71 * PAGE, PAGE), 0);
	ck_assert_int_eq(lend(128 * PAGE, PAGE), 0);
	kernel.absent = 200; /* the last, of which the file has 17 bytes */
	ck_assert_int_eq(lend(BYTES - 1, 1), -EAGAIN);
	ck_assert_int_eq(lend(199 * PAGE, PAGE), 0);
	end();
}
END_TEST

START_TEST(a_window_that_was_resident_is_asked_about_once_in_a_while)
{
	unsigned before;

	begin(EXT4_MAGIC);
	ck_assert_int_eq(lend(0, 1), 0); /* maps it */
	before = kernel.mincore;
	/* as many of one window as fit a moment: a clock that ticks in between costs one more */
	for (int i = 0; i < 64; i++)
		ck_assert_int_eq(lend((uint64_t)(i + 64) * PAGE, PAGE), 0);
	ck_assert_uint_lt(kernel.mincore - before, 32);
	before = kernel.mincore;
	ck_assert_int_eq(lend(128 * PAGE, 1), 0); /* the next window is another */
	ck_assert_uint_eq(kernel.mincore - before, 1);
	kernel.absent_all = 1;
	usleep(40000);
	ck_assert_int_eq(lend(128 * PAGE, 1), -EAGAIN);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("source_file");
	TCase *t = tcase_create("source_file");

	tcase_add_test(t, a_request_answered_in_pieces_is_whole);
	tcase_add_test(t, an_error_of_the_kernel_is_told_with_the_range);
	tcase_add_test(t, what_is_not_there_at_once_is_left_to_submit);
	tcase_add_loop_test(t, a_file_system_that_cannot_say_is_not_asked_again, 0, 3);
	tcase_add_test(t, memory_is_read_at_once_and_short_only_when_it_was_cut);
	tcase_add_test(t, only_resident_bytes_are_lent);
	tcase_add_test(t, a_window_that_was_resident_is_asked_about_once_in_a_while);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
