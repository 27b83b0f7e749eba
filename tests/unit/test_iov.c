#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <string.h>
#include <unistd.h>

#include "base/iov.h"
#include "base/mem.h"
#include "tests/lib/sf_test.h"

enum { BYTES = 300000, PIECES = 3000 };
static uint8_t bytes[BYTES], got[BYTES];

/* [0, BYTES) in random pieces, empty ones too; the last one ends it. */
static int cut(uint64_t *seed, struct iovec *iov)
{
	size_t at = 0;
	int n = 0;

	for (size_t i = 0; i < BYTES; i++)
		bytes[i] = (uint8_t)sf_test_rand(seed);
	for (; n < PIECES - 1; n++) {
		size_t some = sf_test_below(seed, 200), len = SF_MIN(some, BYTES - at);
		iov[n] = (struct iovec){ bytes + at, len };
		at += len;
	}
	iov[n++] = (struct iovec){ bytes + at, BYTES - at };
	return n;
}

START_TEST(what_is_left_of_a_list)
{
	static uint64_t seed;
	struct iovec all[PIECES], left[PIECES];

	seed = sf_test_seed("what_is_left_of_a_list");
	int n = cut(&seed, all);
	for (int i = 0; i < 200; i++) {
		size_t done = i == 0 ? 0 : i == 1 ? BYTES : sf_test_below(&seed, BYTES), rest = 0;
		struct iovec *at = left;
		int k = n;
		memcpy(left, all, sizeof(all));
		sf_iov_skip(&at, &k, done);
		ck_assert_ptr_eq(at + k, left + n);
		if (k > 0)
			ck_assert_ptr_eq(at->iov_base, bytes + done);
		for (int j = 0; j < k; j++)
			rest += at[j].iov_len;
		ck_assert_uint_eq(rest, BYTES - done);
	}
}
END_TEST

static void *drain(void *arg)
{
	size_t at = 0;

	for (ssize_t k; at < BYTES && (k = read(*(int *)arg, got + at, 777)) > 0;)
		at += (size_t)k;
	return NULL;
}

/* Far more than it holds, with a reader that takes little at a time: short writes, and EAGAIN. */
START_TEST(a_pipe_that_does_not_block_gets_all)
{
	uint64_t seed = sf_test_seed("a_pipe_that_does_not_block_gets_all");
	struct iovec iov[PIECES];
	pthread_t reader;
	int fd[2], n = cut(&seed, iov);

	ck_assert_int_eq(pipe2(fd, O_CLOEXEC), 0);
	ck_assert_int_eq(fcntl(fd[1], F_SETFL, O_NONBLOCK), 0);
	ck_assert_int_gt(fcntl(fd[1], F_SETPIPE_SZ, 4096), 0);
	ck_assert_int_eq(pthread_create(&reader, NULL, drain, &fd[0]), 0);
	ck_assert_int_eq(sf_writev_all(fd[1], iov, n), 0);
	pthread_join(reader, NULL);
	ck_assert_mem_eq(got, bytes, BYTES);
	close(fd[0]);
	close(fd[1]);
}
END_TEST

START_TEST(a_file_gets_it_at_its_place)
{
	uint64_t seed = sf_test_seed("a_file_gets_it_at_its_place");
	struct iovec iov[PIECES];
	char path[] = "/tmp/sf-iov-XXXXXX";
	int fd = mkstemp(path), n = cut(&seed, iov);

	ck_assert_int_ge(fd, 0);
	unlink(path);
	ck_assert_int_eq(sf_pwritev_all(fd, iov, n, 12345), 0);
	ck_assert_int_eq(lseek(fd, 0, SEEK_END), 12345 + BYTES);
	ck_assert_int_eq(pread(fd, got, BYTES, 12345), BYTES);
	ck_assert_mem_eq(got, bytes, BYTES);
	close(fd);
}
END_TEST

START_TEST(what_the_system_says_comes_back)
{
	struct iovec iov = { bytes, 1 };
	int fd = open("/dev/null", O_RDONLY | O_CLOEXEC);

	ck_assert_int_eq(sf_writev_all(fd, &iov, 1), -EBADF);
	ck_assert_int_eq(sf_pwritev_all(fd, &iov, 1, 0), -EBADF);
	ck_assert_int_eq(sf_writev_all(fd, &iov, 0), 0);
	close(fd);
}
END_TEST

int main(void)
{
	Suite *s = suite_create("iov");
	TCase *t = tcase_create("all");

	tcase_add_test(t, what_is_left_of_a_list);
	tcase_add_test(t, a_pipe_that_does_not_block_gets_all);
	tcase_add_test(t, a_file_gets_it_at_its_place);
	tcase_add_test(t, what_the_system_says_comes_back);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
