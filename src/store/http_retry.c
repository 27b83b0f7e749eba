#include "config.h"

#include <ctype.h>
#include <errno.h>
#include <stdatomic.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/http_range.h"
#include "store/http_retry.h"

#define WAIT_MOST 100u          /* times the first wait */
#define SECONDS_MOST 999999999u /* more is no number of seconds that anybody means */
#define AFTER_MOST_S 3600u      /* what a server may ask us to wait */
#define TOKENS 500
#define TOKENS_TRY 5

bool sf_http_status_again(unsigned status)
{
	switch (status) {
	case 408:
	case 429:
	case 500:
	case 502:
	case 503:
	case 504:
	case 509:
		return true;
	}
	return false;
}

bool sf_http_error_again(int r)
{
	switch (r) {
	case -ETIMEDOUT:
	case -ECONNREFUSED:
	case -ECONNRESET:
	case -ECONNABORTED:
	case -EHOSTUNREACH:
		return true;
	}
	return false;
}

unsigned sf_http_wait_ms(unsigned first_ms, unsigned n, uint64_t random)
{
	const uint64_t limit = (uint64_t)first_ms * WAIT_MOST;
	uint64_t most = first_ms;

	while (n-- > 1 && most < limit)
		most *= 2;
	return (unsigned)(random % (SF_MIN(most, limit) + 1));
}

int64_t sf_http_again_ms(unsigned first_ms, unsigned n, uint64_t random, int64_t after_ms,
                         int64_t left_ms)
{
	int64_t ms = sf_http_wait_ms(first_ms, n, random);

	if (left_ms == INT64_MAX)
		return n < SF_HTTP_TRIES_MOST ? SF_MAX(ms, after_ms) : -1;
	if (left_ms <= first_ms || after_ms >= left_ms)
		return -1;
	return SF_MAX(ms < left_ms ? ms : left_ms / 2, after_ms);
}

int64_t sf_http_retry_after_ms(const char *value, size_t len, int64_t now)
{
	const char *at = value;
	char text[64];
	int64_t then;
	uint64_t s;

	if (sf_http_number(&at, value + len, &s) && at == value + len)
		return s > SECONDS_MOST ? -1 : (int64_t)SF_MIN(s, AFTER_MOST_S) * 1000;
	if (len >= sizeof(text))
		return -1;
	memcpy(text, value, len);
	text[len] = '\0';
	if (!sf_http_date(text, &then))
		return -1;
	return then <= now ? 0 : SF_MIN(then - now, (int64_t)AFTER_MOST_S) * 1000;
}

uint64_t sf_http_random(void)
{
	static _Atomic uint64_t state;
	uint64_t z = atomic_fetch_add_explicit(&state, 0x9e3779b97f4a7c15, memory_order_relaxed) ^
	             (uint64_t)sf_now_ns();

	z = (z ^ z >> 30) * 0xbf58476d1ce4e5b9;
	z = (z ^ z >> 27) * 0x94d049bb133111eb;
	return z ^ z >> 31;
}

bool sf_http_tokens_take(struct sf_http_tokens *t)
{
	if (atomic_fetch_add_explicit(&t->spent, TOKENS_TRY, memory_order_relaxed) <=
	    TOKENS - TOKENS_TRY)
		return true;
	atomic_fetch_sub_explicit(&t->spent, TOKENS_TRY, memory_order_relaxed);
	return false;
}

void sf_http_tokens_give(struct sf_http_tokens *t, unsigned tries)
{
	const int back = tries > 1 ? (int)(tries - 1) * TOKENS_TRY + 1 : 1;
	int spent = atomic_load_explicit(&t->spent, memory_order_relaxed);

	while (spent > 0 &&
	       !atomic_compare_exchange_weak_explicit(&t->spent, &spent, SF_MAX(spent - back, 0),
	                                              memory_order_relaxed, memory_order_relaxed))
		;
}
