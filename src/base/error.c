#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/error.h"

/* A message cut in the middle of a character would spoil the line it is printed on. */
static void cut_at_character(char *msg, size_t len)
{
	size_t start = len, need;

	while (start > 0 && ((unsigned char)msg[start - 1] & 0xc0) == 0x80)
		start--;
	if (start == 0 || (unsigned char)msg[start - 1] < 0xc0)
		return; /* the last byte is ASCII, or no UTF-8 at all */
	start--;
	need = (unsigned char)msg[start] >= 0xf0 ? 4 : (unsigned char)msg[start] >= 0xe0 ? 3 : 2;
	if (len - start < need)
		msg[start] = '\0';
}

/* Into the caller's own buffer first: the text may be read from the error that is replaced. */
static void format(char msg[SF_ERROR_MAX], const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));
static void format(char msg[SF_ERROR_MAX], const char *fmt, va_list ap)
{
	int n = vsnprintf(msg, SF_ERROR_MAX, fmt, ap);

	if (n < 0)
		snprintf(msg, SF_ERROR_MAX, "(message could not be formatted: %s)", fmt);
	else if (n >= SF_ERROR_MAX)
		cut_at_character(msg, SF_ERROR_MAX - 1);
}

/* "@head: @tail" into @err; @tail may be @err's own text. */
static void join(struct sf_error *err, const char *head, const char *tail)
{
	char msg[SF_ERROR_MAX];
	size_t nhead = strlen(head), ntail = strlen(tail);
	size_t room = sizeof(msg) - 1;

	memcpy(msg, head, nhead); /* at most room: it was formatted into as much */
	for (const char *p = ": "; *p && nhead < room; p++)
		msg[nhead++] = *p;
	if (ntail > room - nhead)
		ntail = room - nhead;
	memcpy(msg + nhead, tail, ntail);
	msg[nhead + ntail] = '\0';
	if (nhead + ntail == room)
		cut_at_character(msg, room);
	memcpy(err->msg, msg, nhead + ntail + 1);
}

int sf_fail(struct sf_error *err, int code, const char *fmt, ...)
{
	char msg[SF_ERROR_MAX];
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	format(msg, fmt, ap);
	va_end(ap);
	memcpy(err->msg, msg, strlen(msg) + 1);
	return code;
}

int sf_fail_ctx(struct sf_error *err, int code, const char *fmt, ...)
{
	char msg[SF_ERROR_MAX];
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	format(msg, fmt, ap);
	va_end(ap);
	join(err, msg, err->msg);
	return code;
}

int sf_fail_errno(struct sf_error *err, const char *fmt, ...)
{
	int code = errno > 0 ? errno : EIO;
	char msg[SF_ERROR_MAX], text[128];
	va_list ap;

	if (!err)
		return -code;
	va_start(ap, fmt);
	format(msg, fmt, ap);
	va_end(ap);
	join(err, msg, strerror_r(code, text, sizeof(text)));
	return -code;
}
