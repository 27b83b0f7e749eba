/* A file system without files that have no name: link with -Wl,--wrap=open,--wrap=open64. */
#ifndef SF_TESTS_LIB_NO_TMPFILE_H
#define SF_TESTS_LIB_NO_TMPFILE_H

#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdbool.h>

static bool no_tmpfile; /* open() of one says so, as NFS does */

int __real_open(const char *path, int flags, ...);
int __real_open64(const char *path, int flags, ...);
int __wrap_open(const char *path, int flags, ...);
int __wrap_open64(const char *path, int flags, ...);

#define WRAP_OPEN(name)                                                           \
	int __wrap_##name(const char *path, int flags, ...)                       \
	{                                                                         \
		va_list ap;                                                       \
		va_start(ap, flags);                                              \
		mode_t mode = flags & O_CREAT || (flags & O_TMPFILE) == O_TMPFILE \
		                      ? (mode_t)va_arg(ap, int)                   \
		                      : 0;                                        \
		va_end(ap);                                                       \
		if (no_tmpfile && (flags & O_TMPFILE) == O_TMPFILE) {             \
			errno = EOPNOTSUPP;                                       \
			return -1;                                                \
		}                                                                 \
		return __real_##name(path, flags, mode);                          \
	}
WRAP_OPEN(open)
WRAP_OPEN(open64)

#endif
