/* Errors: negative errno as the return value, and a text for people. */
#ifndef SF_BASE_ERROR_H
#define SF_BASE_ERROR_H

#include <errno.h>
#include <stdarg.h>

#define SF_ERROR_MAX 1024 /* bytes with the final NUL; longer messages are cut at a character */

/*
 * A message, filled if and only if the call that got it failed. It lives in the caller's storage
 * (no allocation: -ENOMEM must be reportable), so one per thread and call. Initialise with { 0 } or
 * SF_ERROR_INIT.
 */
struct sf_error {
	char msg[SF_ERROR_MAX];
};
/* clang-format off: it would stretch this over six lines */
#define SF_ERROR_INIT     \
	{                 \
		{         \
			0 \
		}         \
	}
/* clang-format on */

/*
 * sf_fail - put a message into @err and return @code.
 *
 * @code is negative errno. @err may be NULL (a probe that only wants the code). The arguments may
 * point into @err.
 */
int sf_fail(struct sf_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* sf_fail_ctx - put "WORDS: " in front of the message that is there already; returns @code. */
int sf_fail_ctx(struct sf_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));

/* sf_fail_errno - sf_fail() with errno's code, ": strerror" put behind the words. Call right after
 * the system call. */
int sf_fail_errno(struct sf_error *err, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

#endif
