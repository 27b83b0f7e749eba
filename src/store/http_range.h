/* What headers say of ranges, lengths and times. Pure. */
#ifndef SF_STORE_HTTP_RANGE_H
#define SF_STORE_HTTP_RANGE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Decimal digits from *@at on, at least one; *@at is behind them then. False: none, or above
 * 2^64 - 1. */
bool sf_http_number(const char **at, const char *end, uint64_t *ret);
/* A text that is a number and nothing else. */
bool sf_http_number_text(const char *text, uint64_t *ret);
/* "bytes 0-99/1234" → first, last and total; of one that names no bytes (416) first and last are 0;
 * a total that is not told is UINT64_MAX. -1: it is something else. */
int sf_content_range(const char *at, size_t len, uint64_t *first, uint64_t *last, uint64_t *total);
/* "Sun, 06 Nov 1994 08:49:37 GMT" → seconds since 1970. False: it is something else, or before 1970 or
 * after 2200. */
bool sf_http_date(const char *text, int64_t *ret_s);

#endif
