#include "config.h"

#include <errno.h>
#include <setjmp.h>
#include <signal.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>

#include "store/guard.h"
#include "tests/lib/sf_test.h"

/* A mapped file whose second half is cut off: PAGE bytes may be touched, what follows is SIGBUS. */
#define PAGE 4096
static uint8_t *map;
static int file;

static void begin(void)
{
	uint8_t text[PAGE];

	file = memfd_create("guard", 0);
	ck_assert_int_ge(file, 0);
	for (int i = 0; i < PAGE; i++)
		text[i] = (uint8_t)(i * 7 + i / 256);
	ck_assert_int_eq(pwrite(file, text, PAGE, 0), PAGE);
	ck_assert_int_eq(ftruncate(file, 2 * PAGE), 0);
	map = mmap(NULL, 2 * PAGE, PROT_READ, MAP_SHARED, file, 0);
	ck_assert_ptr_ne(map, MAP_FAILED);
	ck_assert_int_eq(ftruncate(file, PAGE), 0);
}

static void end(void)
{
	munmap(map, 2 * PAGE);
	close(file);
}

/* _i: bytes of a run, those that are moved in place and one that is not. */
static const uint64_t lens[] = { 1, 16, 32, 64, 100, 128, 256 };

START_TEST(strided_runs_go_to_their_places_or_the_cut_is_told)
{
	uint64_t len = lens[_i], count = PAGE / len;
	uint8_t *got = malloc(4 * PAGE);

	begin();
	ck_assert_int_eq(sf_guard_install(), 0);
	memset(got, 0x55, 4 * PAGE);
	ck_assert_int_eq(sf_guard_copy_strided(got, (int64_t)len * 2, map, len, count), 0);
	for (uint64_t i = 0; i < count; i++) {
		ck_assert_mem_eq(got + 2 * i * len, map + i * len, len);
		for (uint64_t k = len; k < 2 * len && i + 1 < count; k++)
			ck_assert_uint_eq(got[2 * i * len + k], 0x55);
	}
	/* backwards too */
	ck_assert_int_eq(sf_guard_copy_strided(got + len, -(int64_t)len, map, len, 2), 0);
	ck_assert_mem_eq(got, map + len, len);
	ck_assert_mem_eq(got + len, map, len);
	/* the second run, and the last of many, lie where the file was cut; as often as one asks */
	for (int again = 0; again < 3; again++) {
		ck_assert_int_eq(sf_guard_copy_strided(got, (int64_t)len, map + PAGE - len, len, 2),
		                 -EFAULT);
		ck_assert_int_eq(sf_guard_copy_strided(got, (int64_t)len, map, len,
		                                       count + 1 + (PAGE % len > 0)),
		                 -EFAULT);
	}
	ck_assert_int_eq(sf_guard_copy_strided(got, (int64_t)len, map, len, count), 0);
	free(got);
	end();
}
END_TEST

START_TEST(copies_that_meet_the_cut_one_after_the_other_all_return)
{
	uint8_t got[2 * PAGE];
	struct iovec iov[2] = { { got, PAGE - 10 }, { got + PAGE, 11 } };

	begin();
	ck_assert_int_eq(sf_guard_install(), 0);
	for (int again = 0; again < 3; again++)
		ck_assert_int_eq(sf_guard_copy(iov, 2, map), -EFAULT);
	iov[1].iov_len = 10;
	ck_assert_int_eq(sf_guard_copy(iov, 2, map), 0);
	ck_assert_mem_eq(got, map, PAGE - 10);
	ck_assert_mem_eq(got + PAGE, map + PAGE - 10, 10);
	end();
}
END_TEST

static sigjmp_buf other;
static volatile uintptr_t other_at;

static void other_info(int sig, siginfo_t *info, void *context)
{
	(void)sig;
	(void)context;
	other_at = (uintptr_t)info->si_addr;
	siglongjmp(other, 1);
}

static void other_plain(int sig)
{
	(void)sig;
	siglongjmp(other, 2);
}

static void touch(const uint8_t *at)
{
	(void)*(const volatile uint8_t *)at;
}

/* After copies of the very range that is touched: well ended, or ended by the cut. */
START_TEST(a_bus_error_outside_of_a_copy_goes_to_who_was_there_before)
{
	struct sigaction act = { .sa_flags = SA_NODEFER };
	uint8_t got[2 * PAGE];
	struct iovec iov = { got, PAGE };

	begin();
	if (_i == 0) {
		act.sa_sigaction = other_info;
		act.sa_flags |= SA_SIGINFO;
	} else {
		act.sa_handler = other_plain;
	}
	ck_assert_int_eq(sigaction(SIGBUS, &act, NULL), 0);
	ck_assert_int_eq(sf_guard_install(), 0);
	for (int after = 0; after < 5; after++) {
		/* volatile: a jump comes back here */
		static volatile int r;
		ck_assert_int_eq(ftruncate(file, 2 * PAGE), 0);
		if (after == 1)
			ck_assert_int_eq(sf_guard_copy(&iov, 1, map + PAGE), 0);
		else if (after == 2)
			ck_assert_int_eq(sf_guard_copy_strided(got, 64, map + PAGE, 64, PAGE / 64),
			                 0);
		ck_assert_int_eq(ftruncate(file, PAGE), 0);
		if (after == 3)
			ck_assert_int_eq(sf_guard_copy(&iov, 1, map + PAGE), -EFAULT);
		else if (after == 4)
			ck_assert_int_eq(sf_guard_copy_strided(got, 64, map + PAGE, 64, PAGE / 64),
			                 -EFAULT);
		other_at = 0;
		r = sigsetjmp(other, 1); /* ThreadSanitizer calls handlers with all blocked */
		if (r == 0) {
			touch(map + PAGE + 5);
			ck_abort_msg("the file was cut, yet it could be read");
		}
		ck_assert_int_eq(r, _i + 1);
		if (_i == 0)
			ck_assert_uint_eq(other_at, (uintptr_t)map + PAGE + 5);
	}
	end();
}
END_TEST

/* _i: how the process would take SIGBUS without the guard; it ends by it either way. */
START_TEST(without_anybody_before_a_bus_error_ends_the_process)
{
	int status;
	pid_t pid;

	begin();
	pid = fork();
	ck_assert_int_ge(pid, 0);
	if (pid == 0) {
		signal(SIGBUS, _i ? SIG_IGN : SIG_DFL);
		alarm(20);
		if (sf_guard_install() == 0)
			touch(map + PAGE);
		_exit(1);
	}
	ck_assert_int_eq(waitpid(pid, &status, 0), pid);
	ck_assert(WIFSIGNALED(status));
	ck_assert_int_eq(WTERMSIG(status), SIGBUS);
	end();
}
END_TEST

int main(void)
{
	Suite *s = suite_create("guard");
	TCase *t = tcase_create("guard");

	tcase_add_loop_test(t, strided_runs_go_to_their_places_or_the_cut_is_told, 0,
	                    sizeof(lens) / sizeof(*lens));
	tcase_add_test(t, copies_that_meet_the_cut_one_after_the_other_all_return);
	tcase_add_loop_test(t, a_bus_error_outside_of_a_copy_goes_to_who_was_there_before, 0, 2);
	tcase_add_loop_test(t, without_anybody_before_a_bus_error_ends_the_process, 0, 2);
	suite_add_tcase(s, t);
	return sf_test_main(s);
}
