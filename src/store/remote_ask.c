#include "config.h"

#include <stdatomic.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/remote.h"

/* A server that never answered is more likely misspelt than about to come back. */
#define UNREACHED_TRIES 3

#define BODY_SLOWEST 64 /* bytes a ms: slower than that nobody writes */

#define LOOK_MS 50 /* how often it is looked whether anybody still wants the answer */

/* False: nobody does. */
static bool wait_ms(int64_t ms, const _Atomic bool *stop)
{
	for (int64_t n; ms > 0; ms -= n) {
		n = SF_MIN(ms, LOOK_MS);
		if (*stop)
			return false;
		struct timespec t = sf_timespec((uint64_t)n * 1000000);
		nanosleep(&t, NULL);
	}
	return !*stop;
}

static int64_t left_ms(int64_t end_ns)
{
	return end_ns == INT64_MAX ? INT64_MAX : (end_ns - sf_now_ns()) / 1000000;
}

/* A try failed: how long until the next; -1: there is none. */
static int64_t again_ms(struct sf_remote_store *s, const char *url, int64_t sent_ns,
                        int64_t after_ms, unsigned tries, int64_t end_ns, const char *why)
{
	struct sf_outage *o = NULL;
	/* of one that has never answered there is nothing to wait for */
	bool away = atomic_load_explicit(&s->reached, memory_order_relaxed) &&
	            sf_remote_failed(s, url, sent_ns, after_ms, why, &o);

	if (!away && !sf_http_tokens_take(&s->tokens)) {
		if (!o)
			return -1;
		sf_outage_spent(o);
	}
	return sf_http_again_ms(sf_outage_first_ms(s->s.io), tries, sf_http_random(), after_ms,
	                        left_ms(end_ns));
}

bool sf_remote_pause(struct sf_remote_store *s, unsigned n, const _Atomic bool *stop)
{
	int64_t ms =
		sf_http_again_ms(sf_outage_first_ms(s->s.io), n, sf_http_random(), -1, INT64_MAX);

	return ms >= 0 && wait_ms(ms, stop ? stop : &s->s.io->stop);
}

int sf_remote_ask(struct sf_remote_store *s, const struct sf_http_ask *ask,
                  struct sf_http_answer *ret, struct sf_error *err)
{
	return sf_remote_ask_made(s, ask, NULL, NULL, ret, err);
}

int sf_remote_ask_made(struct sf_remote_store *s, const struct sf_http_ask *ask,
                       sf_remote_make *make, void *arg, struct sf_http_answer *ret,
                       struct sf_error *err)
{
	int64_t all_ms = (int64_t)SF_MAX(s->s.io->timeout_ms, ask->timeout_ms) +
	                 (int64_t)(ask->body_len / BODY_SLOWEST);
	int64_t end_ns = s->s.io->timeout_ms ? sf_now_ns() + all_ms * 1000000 : INT64_MAX;

	for (unsigned tries = 1;; tries++) {
		struct sf_http_ask one = *ask;
		struct sf_error why = SF_ERROR_INIT;
		int64_t sent_ns = sf_now_ns(), ms;
		int r;

		if (s->s.io->timeout_ms)
			one.timeout_ms = (unsigned)SF_MIN(SF_MAX(left_ms(end_ns), (int64_t)1),
			                                  (int64_t)INT32_MAX);
		r = make ? make(arg, &one, err) : 0;
		if (r < 0)
			return r;
		r = sf_http_ask(s->s.io, &one, ret, &why);
		if (r >= 0)
			atomic_store_explicit(&s->reached, true, memory_order_relaxed);
		if (r >= 0 && !sf_http_status_again(ret->status)) {
			sf_remote_answered(s);
			if (ret->status < 400)
				sf_http_tokens_give(&s->tokens, tries);
			return 0;
		}
		if (r >= 0)
			sf_fail(&why, -EIO, "the server answers %u", ret->status);
		if (r < 0 && (!sf_http_error_again(r) ||
		              (tries == UNREACHED_TRIES &&
		               !atomic_load_explicit(&s->reached, memory_order_relaxed))))
			return sf_fail(err, r, "%s", why.msg);
		ms = again_ms(s, one.url, sent_ns, r >= 0 ? ret->after_ms : -1, tries, end_ns,
		              why.msg);
		if (ms < 0)
			return r < 0 ? sf_fail(err, r, "%s", why.msg) : r;
		if (r >= 0)
			sf_http_answer_release(ret);
		if (!wait_ms(ms, ask->stop ? ask->stop : &s->s.io->stop))
			return sf_fail(err, -ECANCELED, "%s (canceled)", why.msg);
		atomic_fetch_add_explicit(&s->s.io->counters.retried, 1, memory_order_relaxed);
	}
}
