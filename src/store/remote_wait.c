#include "config.h"

#include <stdatomic.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/remote_trip.h"

/* What a request for an object's bytes waits for: its next try, its turn to ask a server that is away,
 * credentials. */

#define MS INT64_C(1000000)
#define QUICK 10      /* times the first wait: for who comes when the server is dead */
#define QUICK_TRIES 3 /* of those */

bool sf_remote_failed(struct sf_remote_store *s, const char *url, int64_t sent_ns, int64_t after_ms,
                      const char *why, struct sf_outage **ret)
{
	struct sf_outage *o = atomic_load_explicit(&s->outage, memory_order_acquire);
	int64_t answered = atomic_load_explicit(&s->answered_ns, memory_order_relaxed);

	if (!o) {
		struct sf_outage *mine = sf_outage_of(s->s.io, url);
		/* one for good: who waits is in its lists */
		if (atomic_compare_exchange_strong(&s->outage, &o, mine))
			o = mine;
	}
	*ret = o;
	/* what began before another's answer says nothing of the time until that */
	return o && sf_outage_failed(o, SF_MAX(sent_ns, answered), after_ms, why);
}

static void go_on(struct sf_task *task)
{
	struct sf_trip *t = sf_container_of(task, struct sf_trip, task);

	if (t->wait_r < 0)
		t->ops->end(t, t->wait_r);
	else
		t->ops->fly(t);
}

/* Takes no lock: it may be called under any. */
static void wake(struct sf_trip *t, int r, const char *why)
{
	t->wait_r = r < 0 ? sf_fail(&t->http.err, r, "%s", why) : 0;
	t->task.run = go_on;
	sf_thread_pool_submit(t->src->s.io->pool, &t->task);
}

/* ---- credentials ---- */

static void ready(struct sf_renew_wait *w, int r, const char *why)
{
	struct sf_trip *t = sf_container_of(w, struct sf_trip, wait);
	struct sf_error err = SF_ERROR_INIT;

	sf_fail(&err, r, "'%s': %s", t->src->s.name, why);
	wake(t, r, err.msg);
}

void sf_trip_park(struct sf_trip *t)
{
	struct sf_remote_store *store = t->src->store;
	bool cancelled;

	t->wait = (struct sf_renew_wait){
		.ready = ready,
		.end_ns = t->end_ns ? t->end_ns - sf_outage_slack_ns(t->src->s.io) : 0,
	};
	pthread_mutex_lock(&t->src->locked.m);
	cancelled = t->cancelled;
	t->parked = !cancelled;
	if (!cancelled) /* under the lock: whoever cancels it must find it there */
		sf_renew_park(store->ops->waits_for(store), &t->wait);
	pthread_mutex_unlock(&t->src->locked.m);
	if (cancelled)
		t->ops->end(t, sf_fail(&t->http.err, -ECANCELED, "'%s': canceled", t->src->s.name));
}

/* ---- a server that is away ---- */

static struct sf_outage *outage_of(const struct sf_trip *t)
{
	return atomic_load_explicit(&t->src->store->outage, memory_order_acquire);
}

static void have_turn(struct sf_turn *turn, int r, const char *why)
{
	struct sf_trip *t = sf_container_of(turn, struct sf_trip, turn);

	t->http.not_before_ns = turn->not_before_ns;
	wake(t, r, why);
}

static void wait_turn(struct sf_trip *t, struct sf_outage *o)
{
	bool cancelled;

	t->turn.end_ns = t->end_ns;
	t->turn.tries = t->tries;
	pthread_mutex_lock(&t->src->locked.m);
	cancelled = t->cancelled;
	t->waits = !cancelled;
	if (!cancelled) /* under the lock, as above */
		sf_outage_wait(o, &t->turn);
	pthread_mutex_unlock(&t->src->locked.m);
	if (cancelled)
		t->ops->end(t, sf_fail(&t->http.err, -ECANCELED, "'%s': canceled", t->src->s.name));
}

void sf_trip_begin(struct sf_trip *t)
{
	struct sf_outage *o = outage_of(t);
	bool goes = true;

	t->turn.go = have_turn;
	if (o && sf_outage_dead(o)) {
		t->quick_ns = sf_now_ns() + QUICK * MS * sf_outage_first_ms(t->src->s.io);
		pthread_mutex_lock(&t->src->locked.m); /* nobody knows it yet who could cancel it */
		t->waits = true;
		goes = sf_outage_lead(o, &t->turn);
		pthread_mutex_unlock(&t->src->locked.m);
	}
	if (goes)
		t->ops->fly(t);
}

void sf_trip_wake(struct sf_trip *t)
{
	struct sf_remote_store *store = t->src->store;

	if ((t->parked && sf_renew_leave(store->ops->waits_for(store), &t->wait)) ||
	    (t->waits && sf_outage_leave(outage_of(t), &t->turn)))
		wake(t, 0, "");
}

static void leave(struct sf_trip *t, int r)
{
	if (t->turn.state != SF_TURN_NONE)
		sf_outage_over(outage_of(t), &t->turn, r, t->http.err.msg);
}

void sf_trip_given_up(struct sf_trip *t)
{
	struct sf_outage *o;
	int64_t now = sf_now_ns();

	if (!t->end_ns || t->end_ns - now > sf_outage_slack_ns(t->src->s.io) || t->status ||
	    t->sent_ns > now)
		return;
	sf_fail(&t->http.err, -ETIMEDOUT, "'%s': no answer for %lld ms", t->src->s.name,
	        (long long)((now - t->sent_ns) / MS));
	sf_remote_failed(t->src->store, t->call.url, t->sent_ns, -1, t->http.err.msg, &o);
	leave(t, -ETIMEDOUT);
}

void sf_trip_leave(struct sf_trip *t)
{
	leave(t, 0);
	if (t->outage)
		sf_outage_count(t->outage, -1);
	t->outage = NULL;
}

/* ---- once more ---- */

/* How long until its next try; -1: there is none. */
static int64_t wait_ms(const struct sf_trip *t, int64_t after_ms)
{
	int64_t now = sf_now_ns(), left = t->end_ns ? (t->end_ns - now) / MS : INT64_MAX;

	if (t->quick_ns && t->tries >= QUICK_TRIES)
		return -1;
	if (t->quick_ns)
		left = SF_MIN(left, (t->quick_ns - now) / MS);
	return sf_http_again_ms(sf_outage_first_ms(t->src->s.io), t->tries, sf_http_random(),
	                        after_ms, left);
}

void sf_trip_again(struct sf_trip *t, int r, int64_t after_ms)
{
	struct sf_remote_store *store = t->src->store;
	struct sf_outage *o = NULL;
	/* an answer that is wrong is one */
	bool away = r != -EBADMSG &&
	            sf_remote_failed(store, t->call.url, t->sent_ns, after_ms, t->http.err.msg, &o);
	int64_t ms;

	if (t->quick_ns && (!o || !sf_outage_dead(o)))
		t->quick_ns = 0;
	if (!t->quick_ns)
		leave(t, 0);
	ms = wait_ms(t, after_ms);
	if (ms >= 0 && !away) {
		if (sf_http_tokens_take(&store->tokens))
			t->paid++;
		else if (!o)
			ms = -1;
		else
			away = true, sf_outage_spent(o);
	}
	if (ms < 0) {
		leave(t, t->status ? 0 : r);
		if (t->tries > 1)
			sf_fail(&t->http.err, r, "%s (tried %u times)", t->http.err.msg, t->tries);
		t->ops->end(t, r);
		return;
	}
	atomic_fetch_add_explicit(&t->src->s.io->counters.retried, 1, memory_order_relaxed);
	if (o && !t->outage) {
		t->outage = o;
		sf_outage_count(o, 1);
	}
	if (away && !t->quick_ns) {
		wait_turn(t, o);
		return;
	}
	t->http.not_before_ns = sf_now_ns() + ms * MS;
	t->ops->fly(t);
}
