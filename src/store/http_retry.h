/* Which requests are tried again, and when: no I/O. */
#ifndef SF_STORE_HTTP_RETRY_H
#define SF_STORE_HTTP_RETRY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SF_HTTP_TRIES_MOST 10 /* where no deadline ends it */
#define SF_HTTP_WAIT_FIRST_MS 200

/* Is it the server's or the network's trouble, that may be over soon? Of an answer's status; of what
 * sf_http_req's done was given. */
bool sf_http_status_again(unsigned status);
bool sf_http_error_again(int r);

/* How long to wait before the @n-th further try (1, 2 …): full jitter, at random between 0 and @first_ms
 * doubled @n - 1 times, a hundred times that at most. */
unsigned sf_http_wait_ms(unsigned first_ms, unsigned n, uint64_t random);
/* The same where the server said @after_ms (-1: nothing) and @left_ms are left (INT64_MAX: no deadline
 * ends it): -1: there is no time for the @n-th further try, or there were enough; else a try that
 * would come too late comes sooner. */
int64_t sf_http_again_ms(unsigned first_ms, unsigned n, uint64_t random, int64_t after_ms,
                         int64_t left_ms);
uint64_t sf_http_random(void); /* any thread */
/* Retry-After: seconds, or a date, to be measured from @now (seconds since 1970). -1: neither. */
int64_t sf_http_retry_after_ms(const char *value, size_t len, int64_t now);

/*
 * What a store may spend on trying again: when all of its requests fail, they must not become ten
 * times as many. A request that succeeds gives back what its own tries took, and a little more: a
 * server that fails every other time is asked twice as often for as long as it takes, one that
 * never answers a hundred times in all. (Amazon's clients give back the last try alone, and run out
 * at three failures in ten.) Any thread.
 */
struct sf_http_tokens {
	_Atomic int spent; /* { 0 }: none */
};
bool sf_http_tokens_take(struct sf_http_tokens *t); /* before a further try; false: none is left */
/* A request has succeeded with the @tries-th try: each but the first took from @t. */
void sf_http_tokens_give(struct sf_http_tokens *t, unsigned tries);

#endif
