/* The n-th system call that changes what is on disk fails, or the process is killed just before it. Included
 * by one source of a test; link with $(syscall_fault_ldflags). */
#ifndef SF_TESTS_LIB_SYSCALL_FAULT_H
#define SF_TESTS_LIB_SYSCALL_FAULT_H

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdio.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>

static struct {
	unsigned long at; /* of the calls since it was armed, from 1; 0: none */
	int err;          /* errno of that one; 0: SIGKILL */
	bool sticky;      /* and of all that come after it */
	bool no_exchange; /* a file system without RENAME_EXCHANGE */
	_Atomic unsigned long count;
	_Atomic bool hit;
} syscall_fault;

/* From now on. Returns nothing; the calls are counted in any case. */
static inline void syscall_fault_arm(unsigned long at, int err, bool sticky)
{
	syscall_fault.at = at;
	syscall_fault.err = err;
	syscall_fault.sticky = sticky;
	atomic_store(&syscall_fault.hit, false);
	atomic_store(&syscall_fault.count, 0);
}

/* True: this call fails, with errno set. */
static bool syscall_fault_is_now(void)
{
	unsigned long n = atomic_fetch_add(&syscall_fault.count, 1) + 1;

	if (!syscall_fault.at || n < syscall_fault.at ||
	    (n > syscall_fault.at && !syscall_fault.sticky))
		return false;
	if (!syscall_fault.err)
		for (;;)
			kill(getpid(), SIGKILL);
	atomic_store(&syscall_fault.hit, true);
	errno = syscall_fault.err;
	return true;
}

#define FAULT(type, name, params, args)     \
	type __real_##name params;          \
	type __wrap_##name params;          \
	type __wrap_##name params           \
	{                                   \
		if (syscall_fault_is_now()) \
			return -1;          \
		return __real_##name args;  \
	}
FAULT(int, mkdir, (const char *path, mode_t mode), (path, mode))
FAULT(int, mkdirat, (int dir, const char *path, mode_t mode), (dir, path, mode))
FAULT(int, fallocate, (int fd, int mode, off_t off, off_t len), (fd, mode, off, len))
FAULT(int, fallocate64, (int fd, int mode, off_t off, off_t len), (fd, mode, off, len))
FAULT(ssize_t, pwritev, (int fd, const struct iovec *iov, int n, off_t off), (fd, iov, n, off))
FAULT(ssize_t, pwritev64, (int fd, const struct iovec *iov, int n, off_t off), (fd, iov, n, off))
FAULT(ssize_t, pwrite, (int fd, const void *at, size_t n, off_t off), (fd, at, n, off))
FAULT(ssize_t, pwrite64, (int fd, const void *at, size_t n, off_t off), (fd, at, n, off))
FAULT(int, fsync, (int fd), (fd))
FAULT(int, fdatasync, (int fd), (fd))
FAULT(int, renameat, (int a, const char *from, int b, const char *to), (a, from, b, to))
FAULT(int, unlinkat, (int dir, const char *path, int flags), (dir, path, flags))
FAULT(int, flock, (int fd, int op), (fd, op))

int __real_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags);
int __wrap_renameat2(int a, const char *from, int b, const char *to, unsigned flags)
{
	if (syscall_fault_is_now())
		return -1;
	if (syscall_fault.no_exchange && flags & RENAME_EXCHANGE) {
		errno = EINVAL;
		return -1;
	}
	return __real_renameat2(a, from, b, to, flags);
}

/* It is closed all the same, as the kernel does. */
int __real_close(int fd);
int __wrap_close(int fd);
int __wrap_close(int fd)
{
	bool fails = syscall_fault_is_now();
	int why = errno, r = __real_close(fd);

	if (fails)
		errno = why;
	return fails ? -1 : r;
}

#define FAULT_OPEN(name, params, call)                                   \
	int __real_##name params;                                        \
	int __wrap_##name params;                                        \
	int __wrap_##name params                                         \
	{                                                                \
		va_list ap;                                              \
		va_start(ap, flags);                                     \
		mode_t mode = flags & O_CREAT ? va_arg(ap, mode_t) : 0;  \
		va_end(ap);                                              \
		return syscall_fault_is_now() ? -1 : __real_##name call; \
	}
FAULT_OPEN(open, (const char *path, int flags, ...), (path, flags, mode))
FAULT_OPEN(open64, (const char *path, int flags, ...), (path, flags, mode))
FAULT_OPEN(openat, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))
FAULT_OPEN(openat64, (int dir, const char *path, int flags, ...), (dir, path, flags, mode))

#endif
