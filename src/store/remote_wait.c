#include "config.h"

#include "base/clock.h"
#include "base/mem.h"
#include "store/remote_trip.h"

/* What a request for an object's bytes waits for: its next try, credentials. */

void sf_trip_again(struct sf_trip *t, int r, int64_t after_ms)
{
	int64_t now = sf_now_ns(),
		ms = SF_MAX(after_ms, (int64_t)sf_http_wait_ms(t->tries, sf_http_random()));
	bool late = t->end_ns && now + ms * 1000000 >= t->end_ns;

	if (late || t->tries >= SF_HTTP_TRIES_MOST ||
	    !sf_http_tokens_take(&t->src->store->tokens)) {
		if (t->tries > 1)
			sf_fail(&t->http.err, r, "%s (tried %u times)", t->http.err.msg, t->tries);
		sf_trip_end(t, r);
		return;
	}
	t->http.not_before_ns = now + ms * 1000000;
	sf_trip_fly(t);
}

static void go_on(struct sf_task *task)
{
	struct sf_trip *t = sf_container_of(task, struct sf_trip, task);

	if (t->wait_r < 0)
		sf_trip_end(t, t->wait_r);
	else
		sf_trip_fly(t);
}

void sf_trip_ready(struct sf_renew_wait *w, int r, const char *why)
{
	struct sf_trip *t = sf_container_of(w, struct sf_trip, wait);

	t->wait_r = r < 0 ? sf_fail(&t->http.err, r, "'%s': %s", t->src->s.name, why) : 0;
	t->task.run = go_on;
	sf_thread_pool_submit(t->src->s.io->pool, &t->task);
}

void sf_trip_park(struct sf_trip *t)
{
	struct sf_remote_store *store = t->src->store;
	bool cancelled;

	t->wait = (struct sf_renew_wait){ .ready = sf_trip_ready };
	pthread_mutex_lock(&t->src->locked.m);
	cancelled = t->cancelled;
	t->parked = !cancelled;
	if (!cancelled) /* under the lock: whoever cancels it must find it there */
		sf_renew_park(store->ops->waits_for(store), &t->wait);
	pthread_mutex_unlock(&t->src->locked.m);
	if (cancelled)
		sf_trip_end(t, sf_fail(&t->http.err, -ECANCELED, "'%s': canceled", t->src->s.name));
}
