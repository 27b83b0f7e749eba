#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/deadline.h"
#include "base/mem.h"
#include "base/pages.h"
#include "store/filter.h"
#include "store/hedge.h"
#include "store/hedge_times.h"

/* Of one store. */
struct hedged_store {
	struct sf_io *io;
	struct sf_deadlines *clock;
	pthread_mutex_t m; /* guards times, and of pairs all that is marked */
	struct sf_hedge_times times;
};

struct hedged_source {
	struct sf_filter flt;
	struct hedged_store *store;
};

/*
 * A request and its second one. The first writes to the places of whoever asked, the second to pages
 * of its own, which are copied there when both have ended: nobody writes there after that, and
 * nothing of it outlives the request. Held by the request, and by the clock that is about to make the
 * second.
 */
struct pair {
	struct sf_io_hook hook;
	struct sf_deadline slow;
	struct hedged_store *store;
	struct sf_source *inner; /* alive until the request is over */
	struct sf_io_req *req;
	int64_t began_ns;
	_Atomic unsigned refs;
	struct sf_io_req second;
	struct iovec iov;
	struct sf_pages pages;
	/* under the store's lock */
	bool ended;  /* the first has, with r */
	bool flying; /* the second has not ended */
	bool won;    /* it has all bytes, and the first was told to end */
	int r;
};

static void count(_Atomic uint64_t *at, uint64_t n)
{
	atomic_fetch_add_explicit(at, n, memory_order_relaxed);
}

static void unref(struct pair *p)
{
	if (atomic_fetch_sub_explicit(&p->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (p->pages.at) {
		sf_pages_release(&p->pages);
		sf_budget_give(p->store->io->budget, SF_BUDGET_FETCH, p->second.len);
	}
	free(p);
}

/* Both have ended: what the request ends with. */
static int outcome(struct pair *p)
{
	struct sf_io_req *req = p->req;
	const uint8_t *from = p->pages.at;

	if (p->r >= 0 || !p->won)
		return p->r;
	for (int i = 0; i < req->niov; from += req->iov[i++].iov_len)
		memcpy(req->iov[i].iov_base, from, req->iov[i].iov_len);
	req->err.msg[0] = '\0';
	return 0;
}

/* ---- the second request ---- */

static void second_done(struct sf_io_req *second, int r)
{
	struct pair *p = sf_container_of(second, struct pair, second);
	struct hedged_store *store = p->store;
	bool last;

	pthread_mutex_lock(&store->m);
	p->flying = false;
	p->won = r == 0 && (!p->ended || p->r < 0);
	last = p->ended;
	if (p->won)
		count(&store->io->counters.hedged_won, 1);
	if (p->won && !last) /* its end waits for the lock: it is still there */
		p->inner->ops->cancel(p->inner, p->req);
	pthread_mutex_unlock(&store->m);
	if (last) {
		struct sf_io_req *req = p->req;
		r = outcome(p);
		unref(p);
		sf_io_req_end(req, r);
	}
}

/* The first has ended, the second has not. */
static void cancel_second_locked(struct pair *p)
{
	if (p->r >= 0 || p->r == -ECANCELED) /* else it may do better */
		p->inner->ops->cancel(p->inner, &p->second);
}

static bool take_memory(struct pair *p)
{
	struct sf_budget *budget = p->store->io->budget;

	if (!sf_budget_take_spare(budget, SF_BUDGET_FETCH, p->second.len))
		return false;
	if (sf_pages_make(&p->pages, p->second.len) >= 0)
		return true;
	sf_budget_give(budget, SF_BUDGET_FETCH, p->second.len);
	return false;
}

/* It is slow. */
static bool due(struct sf_deadline *d)
{
	struct pair *p = sf_container_of(d, struct pair, slow);

	atomic_fetch_add_explicit(&p->refs, 1, memory_order_relaxed);
	return true;
}

static void fire(struct sf_deadline *d)
{
	struct pair *p = sf_container_of(d, struct pair, slow);
	struct hedged_store *store = p->store;
	bool flies;

	pthread_mutex_lock(&store->m);
	if (!p->ended) {
		p->second = (struct sf_io_req){ .off = p->req->off,
			                        .len = p->req->len,
			                        .kind = p->req->kind,
			                        .yields = p->req->yields,
			                        .ahead = true, /* not counted as fetched */
			                        .done = second_done };
		p->flying = sf_hedge_times_spend(&store->times) && take_memory(p);
	}
	if (p->flying) {
		p->iov = (struct iovec){ p->pages.at, p->second.len };
		p->second.iov = &p->iov;
		p->second.niov = 1;
		count(&store->io->counters.hedged_requests, 1);
		count(&store->io->counters.hedged_bytes, p->second.len);
	}
	flies = p->flying;
	pthread_mutex_unlock(&store->m);
	/* without the lock: a source below may sign, and look for what it has. The request lasts
	 * until both have ended, be the first over meanwhile */
	if (flies && sf_source_submit(p->inner, &p->second)) {
		second_done(&p->second, p->second.r);
	} else if (flies) {
		pthread_mutex_lock(&store->m);
		if (p->flying && p->ended) /* before there was anything to cancel */
			cancel_second_locked(p);
		pthread_mutex_unlock(&store->m);
	}
	unref(p);
}

/* ---- the first ---- */

static int first_ended(struct sf_io_hook *hook, struct sf_io_req *req, int r)
{
	struct pair *p = sf_container_of(hook, struct pair, hook);
	struct hedged_store *store = p->store;
	bool flying;

	sf_deadlines_remove(store->clock, &p->slow);
	pthread_mutex_lock(&store->m);
	p->ended = true;
	p->r = r;
	flying = p->flying;
	if (flying)
		cancel_second_locked(p);
	if (r == 0 || p->won)
		sf_hedge_times_add(&store->times, req->len, (uint64_t)(sf_now_ns() - p->began_ns));
	pthread_mutex_unlock(&store->m);
	if (flying)
		return SF_IO_AGAIN; /* the second's end is the request's */
	r = outcome(p);
	unref(p);
	return r;
}

static void hedge_submit(struct sf_source *src, struct sf_io_req *req)
{
	struct hedged_source *s = (struct hedged_source *)src;
	struct hedged_store *store = s->store;
	struct pair *p = req->len ? calloc(1, sizeof(*p)) : NULL;
	unsigned ms;

	if (!p) { /* what is not hedged */
		sf_filter_submit(src, req);
		return;
	}
	p->hook.ended = first_ended;
	p->slow.due = due;
	p->slow.fire = fire;
	p->store = store;
	p->inner = s->flt.inner;
	p->req = req;
	p->began_ns = sf_now_ns();
	atomic_init(&p->refs, 1);
	pthread_mutex_lock(&store->m);
	sf_hedge_times_earn(&store->times);
	ms = sf_hedge_times_slow_ms(&store->times, req->len);
	pthread_mutex_unlock(&store->m);
	/* a clock that has no thread is none */
	if (ms)
		sf_deadlines_add(store->clock, &p->slow, store, ms);
	sf_filter_watch(src, req, &p->hook);
}

static const struct sf_source_ops hedge_ops = { .submit = hedge_submit };

/* ---- the store ---- */

static int wrap(void *arg, struct sf_source *src, struct sf_source **ret, struct sf_error *err)
{
	struct hedged_source *s = src->ops->cancel ? calloc(1, sizeof(*s)) : NULL;

	(void)err;
	if (!s) { /* a request that cannot be ended cannot lose */
		*ret = sf_source_ref(src);
		return 0;
	}
	sf_filter_init(&s->flt, &hedge_ops, src);
	s->store = arg;
	*ret = &s->flt.s;
	return 0;
}

static void done(void *arg)
{
	struct hedged_store *store = arg;

	sf_deadlines_free(store->clock);
	pthread_mutex_destroy(&store->m);
	free(store);
}

int sf_store_hedge(struct sf_store *s, struct sf_store **ret, struct sf_error *err)
{
	struct hedged_store *store = calloc(1, sizeof(*store));
	int r;

	if (!store)
		return sf_fail(err, -ENOMEM, "'%s': no memory", s->source);
	r = sf_deadlines_new(&store->clock, err);
	if (r < 0) {
		free(store);
		return r;
	}
	store->io = s->io;
	pthread_mutex_init(&store->m, NULL);
	return sf_store_filter(s, wrap, done, store, ret, err);
}
