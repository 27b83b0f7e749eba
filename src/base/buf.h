/* A growing byte buffer that is made with a limit, so that no input can grow it without end. */
#ifndef SF_BASE_BUF_H
#define SF_BASE_BUF_H

#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include "base/budget.h"

/*
 * { .limit = N }: never holds more than N bytes; { 0 } has no limit (only for text of our own
 * making). The first failure (memory or limit) sticks in .failed and further appends do nothing, so
 * a chain of appends is checked once at its end with sf_buf_check().
 */
struct sf_buf {
	uint8_t *at;
	size_t len, cap, limit;
	/* what its memory is charged to (budget.h); NULL: nothing. Kept as limit is */
	struct sf_charge *charge;
	int failed; /* 0, -ENOMEM or -E2BIG */
};

void sf_buf_release(struct sf_buf *b); /* frees; @b is empty again, limit kept */
void sf_buf_reset(struct sf_buf *b);   /* len = 0 and failed = 0, memory kept */
void sf_buf_add(struct sf_buf *b, const void *p, size_t len);
void sf_buf_byte(struct sf_buf *b, uint8_t byte);
void sf_buf_str(struct sf_buf *b, const char *s); /* without its NUL */
void sf_buf_printf(struct sf_buf *b, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
/* room for len bytes more, counted in; NULL = failed */
void *sf_buf_extend(struct sf_buf *b, size_t len);
int sf_buf_check(const struct sf_buf *b); /* 0 or the sticky error */
/* as if an append had failed with @code; 0: nothing. For parts made in another buffer */
void sf_buf_fail(struct sf_buf *b, int code);
/* NUL behind (not counted in len); "" when failed */
const char *sf_buf_cstr(struct sf_buf *b);
/* Bytes in it that may be looked at: none after a failure, as sf_buf_cstr() has none then. */
static inline size_t sf_buf_bytes(const struct sf_buf *b)
{
	return b->failed ? 0 : b->len;
}

#endif
