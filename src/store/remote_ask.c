#include "config.h"

#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/remote.h"

/* A server that never answered is more likely misspelt than about to come back. */
#define UNREACHED_TRIES 3

int sf_remote_ask(struct sf_remote_store *s, const struct sf_http_ask *ask,
                  struct sf_http_answer *ret, struct sf_error *err)
{
	int64_t end_ns = s->s.io->timeout_ms ? sf_now_ns() + (int64_t)s->s.io->timeout_ms * 1000000
	                                     : INT64_MAX;

	for (unsigned tries = 1;; tries++) {
		struct sf_http_ask one = *ask;
		int r;

		if (s->s.io->timeout_ms)
			one.timeout_ms =
				(unsigned)SF_MAX((end_ns - sf_now_ns()) / 1000000, (int64_t)1);
		r = sf_http_ask(s->s.io, &one, ret, err);
		if (r >= 0)
			atomic_store_explicit(&s->reached, true, memory_order_relaxed);
		if (r >= 0 && !sf_http_status_again(ret->status)) {
			if (ret->status < 400)
				sf_http_tokens_give(&s->tokens, tries);
			return 0;
		}
		if (r < 0 && (!sf_http_error_again(r) ||
		              (tries == UNREACHED_TRIES &&
		               !atomic_load_explicit(&s->reached, memory_order_relaxed))))
			return r;
		int64_t ms = sf_http_wait_ms(tries, sf_http_random());
		if (r >= 0)
			ms = SF_MAX(ms, ret->after_ms);
		if (tries >= SF_HTTP_TRIES_MOST || sf_now_ns() + ms * 1000000 >= end_ns ||
		    !sf_http_tokens_take(&s->tokens))
			return r;
		if (r >= 0)
			sf_http_answer_release(ret);
		struct timespec t = sf_timespec((uint64_t)ms * 1000000);
		nanosleep(&t, NULL);
	}
}
