#include "config.h"

#include <errno.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/mem.h"

#define CHARGED_LARGE ((size_t)1 << 20)

void sf_buf_release(struct sf_buf *b)
{
	free(b->at);
	sf_charge_unuse(b->charge, b->cap);
	*b = (struct sf_buf){ .limit = b->limit, .charge = b->charge };
}

void sf_buf_reset(struct sf_buf *b)
{
	b->len = 0;
	b->failed = 0;
}

/* Room for @more bytes and a NUL behind them, which sf_buf_cstr() and vsnprintf() put there. */
static int reserve(struct sf_buf *b, size_t more)
{
	size_t need, cap, grow;
	uint8_t *at;

	if (b->failed)
		return -1;
	if (__builtin_add_overflow(b->len, more, &need) || (b->limit && need > b->limit)) {
		b->failed = -E2BIG;
		return -1;
	}
	if (b->at && need <= b->cap)
		return 0;
	cap = SF_MAX(need, (size_t)63);
	/* what is charged counts as large as it could be: then a quarter more, not as much again */
	grow = b->charge && b->cap > CHARGED_LARGE ? b->cap / 4 : b->cap + 1;
	if (b->cap <= SIZE_MAX / 4 && cap < b->cap + grow)
		cap = b->cap + grow;
	if (b->limit && cap > b->limit)
		cap = b->limit;
	if (!sf_charge_use(b->charge, cap - b->cap)) {
		b->failed = -ENOMEM;
		return -1;
	}
	at = cap < SIZE_MAX ? realloc(b->at, cap + 1) : NULL;
	if (!at) {
		sf_charge_unuse(b->charge, cap - b->cap);
		b->failed = -ENOMEM;
		return -1;
	}
	b->at = at;
	b->cap = cap;
	return 0;
}

void *sf_buf_extend(struct sf_buf *b, size_t len)
{
	if (reserve(b, len) < 0)
		return NULL;
	b->len += len;
	return b->at + b->len - len;
}

void sf_buf_add(struct sf_buf *b, const void *p, size_t len)
{
	if (!len || reserve(b, len) < 0)
		return;
	memcpy(b->at + b->len, p, len);
	b->len += len;
}

void sf_buf_byte(struct sf_buf *b, uint8_t byte)
{
	if (reserve(b, 1) == 0)
		b->at[b->len++] = byte;
}

void sf_buf_str(struct sf_buf *b, const char *s)
{
	sf_buf_add(b, s, strlen(s));
}

void sf_buf_printf(struct sf_buf *b, const char *fmt, ...)
{
	va_list ap, again;
	int n;

	if (reserve(b, 0) < 0)
		return;
	va_start(ap, fmt);
	va_copy(again, ap);
	n = vsnprintf((char *)b->at + b->len, b->cap - b->len + 1, fmt, ap);
	if (n < 0)
		b->failed = -ENOMEM; /* or a line over INT_MAX: not of our making */
	else if ((size_t)n <= b->cap - b->len)
		b->len += (size_t)n;
	else if (reserve(b, (size_t)n) == 0) {
		vsnprintf((char *)b->at + b->len, (size_t)n + 1, fmt, again);
		b->len += (size_t)n;
	}
	va_end(again);
	va_end(ap);
}

int sf_buf_check(const struct sf_buf *b)
{
	return b->failed;
}

void sf_buf_fail(struct sf_buf *b, int code)
{
	if (!b->failed)
		b->failed = code;
}

const char *sf_buf_cstr(struct sf_buf *b)
{
	if (b->failed || !b->at)
		return "";
	b->at[b->len] = '\0';
	return (const char *)b->at;
}
