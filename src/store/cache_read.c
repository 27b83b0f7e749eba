#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/cache_held.h"
#include "store/filter.h"

/*
 * A read of which not all is known to be there. It goes on in tasks of the pool: blocks that nobody
 * has looked for it claims, looks for in the map, and fetches what is missing, runs of blocks side
 * by side; then it waits for those that others claimed; when all are there it copies them out of the
 * file, or of the memory that they are written from behind its back (cache_held.h). That memory is our
 * own: the reader's may be a place that several parts of a request go to, or be written to by its owner
 * meanwhile.
 *
 * Where the cache is no help (no room, no memory, a disk that fails) the read goes to the source
 * inside as it came: nothing is rounded up that nobody keeps.
 */

#define RUN_MOST 258 /* blocks of one run: 16 MiB and both ends */

struct run {
	struct sf_io_req io;
	struct sf_cache_read *q;
	struct run *next;
	uint64_t first; /* block */
	unsigned n;
	uint64_t len; /* bytes */
	struct iovec iov;
	struct sf_pages pages;
};

struct sf_cache_read {
	struct sf_task task;
	struct sf_io_hook hook; /* of the request, when it goes to the source inside */
	struct sf_source *src;
	struct sf_cache_object *o;
	struct sf_io_req *req;
	struct sf_blocks *c; /* a reference; NULL: not open yet */
	uint64_t first, end; /* blocks */
	_Atomic unsigned refs;
	/* under o->m */
	struct sf_cache_read *prev, *next; /* of o->reads */
	struct sf_cache_wait wait;
	struct run *out;  /* runs that are fetched */
	unsigned pending; /* of them, and who starts them */
	int r;            /* what failed first; its message is in req->err */
	bool canceled, without, fetched;
	uint64_t missed; /* bytes of the request that were fetched for it */
	bool forwarded;  /* the request is the inner source's */
};

static struct sf_source *inner_of(const struct sf_cache_read *q)
{
	return sf_filter_inner(q->src);
}

static void unref(struct sf_cache_read *q)
{
	if (atomic_fetch_sub_explicit(&q->refs, 1, memory_order_acq_rel) != 1)
		return;
	if (q->c)
		sf_blocks_unref(q->c);
	free(q);
}

static void unlink_locked(struct sf_cache_read *q)
{
	*(q->prev ? &q->prev->next : &q->o->reads) = q->next;
	if (q->next)
		q->next->prev = q->prev;
}

/* ---- blocks ---- */

static void give_back(struct sf_cache_read *q, const struct run *run, enum sf_block_state state)
{
	pthread_mutex_lock(&q->o->m);
	sf_cache_set_locked(q->c, run->first, run->n, state, 0, NULL);
	pthread_mutex_unlock(&q->o->m);
}

static unsigned run_most(const struct sf_cache_read *q)
{
	uint64_t n = sf_source_hints(q->src)->range_max / SF_CACHE_BLOCK;

	/* both ends of a request of that length are rounded up */
	return (unsigned)SF_MIN(n + 2, (uint64_t)RUN_MOST);
}

static struct run *run_new(struct sf_cache_read *q, uint64_t first)
{
	struct run *run = calloc(1, sizeof(*run));

	if (run) {
		run->q = q;
		run->first = first;
	}
	return run;
}

enum claim { ALL_THERE, OTHERS, OURS, NO_MEMORY };

/* What nobody has looked for becomes ours, in runs; where there is nothing such the read waits for
 * what others have. */
static enum claim claim_locked(struct sf_cache_read *q, struct run **ret)
{
	struct run *first = NULL, *last = NULL;
	unsigned most = run_most(q);
	bool others = false;

	for (uint64_t i = q->first; i < q->end; i++) {
		others |= q->c->state[i] == SF_BLOCK_BUSY;
		if (q->c->state[i] != SF_BLOCK_UNKNOWN)
			continue;
		if (!last || last->first + last->n != i || last->n == most) {
			struct run *run = run_new(q, i);
			if (!run && !first)
				return NO_MEMORY;
			if (!run)
				break; /* when these are there it claims again */
			*(last ? &last->next : &first) = run;
			last = run;
		}
		last->n++;
		q->c->state[i] = SF_BLOCK_BUSY;
	}
	*ret = first;
	if (first)
		return OURS;
	if (!others)
		return ALL_THERE;
	sf_cache_wait_locked(q->c, &q->wait);
	return OTHERS;
}

/* What the map has of @run, in its stead those of its blocks that are missing, in runs. */
static struct run *missing(struct run *run)
{
	struct sf_cache_read *q = run->q;
	const uint64_t first = run->first;
	const unsigned n = run->n;
	struct run *list = NULL, *part;
	bool there[RUN_MOST];

	sf_cache_file_verify(q->c->file, first, n, there);
	for (unsigned i = 0, k; i < n; i += k) {
		for (k = 1; i + k < n && there[i + k] == there[i]; k++)
			;
		part = run ? SF_STEAL(run) : run_new(q, 0);
		if (!part) {
			struct run none = { .first = first + i, .n = k };
			give_back(q, &none, there[i] ? SF_BLOCK_THERE : SF_BLOCK_UNKNOWN);
			continue;
		}
		part->first = first + i;
		part->n = k;
		if (there[i]) {
			give_back(q, part, SF_BLOCK_THERE);
			run = part;
		} else {
			part->next = list;
			list = part;
		}
	}
	free(run);
	return list;
}

/* ---- fetching ---- */

static bool prepare(struct run *run)
{
	struct sf_cache_read *q = run->q;
	struct sf_cache *cache = q->o->cache;
	struct sf_budget *budget = sf_cache_io(cache)->budget;
	const uint64_t off = run->first * SF_CACHE_BLOCK;

	run->len = SF_MIN(run->n * SF_CACHE_BLOCK, q->o->id.size - off);
	if (!q->c->file->writable || !sf_cache_promise(cache, run->len))
		return false;
	if (!sf_cache_behind_take(cache, run->len)) {
		sf_cache_not_kept(cache, run->len);
		return false;
	}
	if (!sf_budget_take(budget, SF_BUDGET_FETCH, run->len)) {
		sf_cache_behind_give(cache, run->len);
		sf_cache_not_kept(cache, run->len);
		return false;
	}
	if (sf_pages_make(&run->pages, run->len) < 0) {
		sf_budget_give(budget, SF_BUDGET_FETCH, run->len);
		sf_cache_behind_give(cache, run->len);
		sf_cache_not_kept(cache, run->len);
		return false;
	}
	run->iov = (struct iovec){ run->pages.at, run->len };
	run->io.off = off;
	run->io.len = run->len;
	run->io.iov = &run->iov;
	run->io.niov = 1;
	run->io.kind = q->req->kind;
	run->io.yields = q->req->yields;
	run->io.ahead = true; /* counted when it has come */
	return true;
}

static void drop(struct run *run)
{
	struct sf_cache *cache = run->q->o->cache;

	sf_pages_release(&run->pages);
	sf_budget_give(sf_cache_io(cache)->budget, SF_BUDGET_FETCH, run->len);
	sf_cache_behind_give(cache, run->len);
	free(run);
}

/* It has come: whoever waits for it is given it out of memory, or, where the read is for the disk's
 * sake or there is no memory for a list, out of the file. Is it somewhere? *ret_held: in memory, and
 * not @run's any more. */
static bool put_down(struct run *run, bool *ret_held)
{
	struct sf_cache_read *q = run->q;
	struct sf_cache *cache = q->o->cache;
	int r;

	*ret_held = !q->req->keep &&
	            sf_cache_hold(q->c, run->first, run->n, &run->pages, run->len) >= 0;
	if (*ret_held)
		return true;
	r = sf_cache_file_store(q->c->file, run->first, run->pages.at, run->len);
	if (r == -ESTALE)
		sf_blocks_retire(q->c);
	if (r < 0)
		sf_cache_failed(cache, r);
	(r < 0 ? sf_cache_not_kept : sf_cache_kept)(cache, run->len);
	return r >= 0;
}

/* How much of what the reader wants is in it. */
static uint64_t wanted(const struct run *run)
{
	const struct sf_io_req *req = run->q->req;
	uint64_t first = SF_MAX(run->io.off, req->off),
		 end = SF_MIN(run->io.off + run->len, req->off + req->len);

	return end - first;
}

/* A run has come, or failed. Returns whether it was the last thing that its read waited for. */
static bool run_ended(struct run *run, int r)
{
	struct sf_cache_read *q = run->q;
	struct sf_cache *cache = q->o->cache;
	bool kept = false, held = false, last;

	if (r >= 0) {
		sf_cache_count_fetched(cache, run->io.kind, run->len);
		kept = put_down(run, &held);
	} else {
		sf_cache_not_kept(cache, run->len);
	}
	pthread_mutex_lock(&q->o->m);
	/* One reader's wish to end is no other's, nor is its deadline: who waited claims the block
	 * and asks again, until its own. */
	if (!held)
		sf_cache_set_locked(q->c, run->first, run->n,
		                    kept ? SF_BLOCK_THERE : SF_BLOCK_UNKNOWN,
		                    r == -ECANCELED || r == -ETIMEDOUT ? 0 : r, &run->io.err);
	if (r < 0 && q->r >= 0) {
		q->r = r;
		q->req->err = run->io.err;
	}
	q->without |= r >= 0 && !kept;
	if (r >= 0)
		q->missed += wanted(run);
	for (struct run **at = &q->out; *at; at = &(*at)->next)
		if (*at == run) {
			*at = run->next;
			break;
		}
	pthread_mutex_unlock(&q->o->m);
	if (held)
		free(run);
	else
		drop(run);
	pthread_mutex_lock(&q->o->m);
	last = --q->pending == 0;
	pthread_mutex_unlock(&q->o->m);
	return last;
}

static void run_done(struct sf_io_req *req, int r)
{
	struct run *run = sf_container_of(req, struct run, io);
	struct sf_cache_read *q = run->q;

	if (run_ended(run, r))
		q->task.run(&q->task);
}

/* Nothing is submitted after the read was cancelled but what is under way here: submitting may ask
 * much of the source inside, so no lock is held, and fetch() looks once more. */
static void start(struct run *run)
{
	struct sf_cache_read *q = run->q;
	bool canceled;

	run->io.done = run_done;
	pthread_mutex_lock(&q->o->m);
	q->pending++;
	q->fetched = true;
	canceled = q->canceled;
	if (!canceled) {
		run->next = q->out;
		q->out = run;
	}
	pthread_mutex_unlock(&q->o->m);
	if (canceled)
		run->io.r = sf_fail(&run->io.err, -ECANCELED, "'%s': canceled", q->src->name);
	if (canceled || sf_source_submit(inner_of(q), &run->io))
		run_ended(run, run->io.r);
}

static void cancel_runs_locked(struct sf_cache_read *q)
{
	struct sf_source *inner = inner_of(q);

	for (struct run *run = q->out; run; run = run->next)
		inner->ops->cancel(inner, &run->io);
}

/* False: nothing is under way. */
static bool fetch(struct sf_cache_read *q, struct run *claimed)
{
	bool started = false, without = false, all_there = true, last;

	for (struct run *next; claimed; claimed = next) {
		struct run *parts;
		next = SF_STEAL(claimed->next);
		parts = missing(claimed);
		all_there &= !parts;
		for (struct run *run; (run = parts);) {
			parts = SF_STEAL(run->next);
			if (prepare(run)) {
				start(run);
				started = true;
				continue;
			}
			/* claimed again when those under way have ended and given their memory back */
			give_back(q, run, SF_BLOCK_UNKNOWN);
			free(run);
			without = true;
		}
	}
	if (all_there)
		sf_cache_check_ahead(q->c, q->first, q->end);
	pthread_mutex_lock(&q->o->m);
	q->without |= without && !started;
	if (q->canceled) /* whoever did may have come before the last of them was submitted */
		cancel_runs_locked(q);
	last = --q->pending == 0;
	pthread_mutex_unlock(&q->o->m);
	return !last;
}

/* ---- the end ---- */

static void finish(struct sf_cache_read *q, int r)
{
	struct sf_io_req *req = q->req;

	pthread_mutex_lock(&q->o->m);
	unlink_locked(q);
	pthread_mutex_unlock(&q->o->m);
	unref(q);
	sf_io_req_end(req, r);
}

static int forwarded_ended(struct sf_io_hook *hook, struct sf_io_req *req, int r)
{
	struct sf_cache_read *q = sf_container_of(hook, struct sf_cache_read, hook);

	if (r >= 0)
		sf_cache_count_fetched(q->o->cache, req->kind, req->len);
	sf_cache_count(q->o->cache, false, req->len, req->len);
	pthread_mutex_lock(&q->o->m);
	unlink_locked(q);
	q->forwarded = false;
	pthread_mutex_unlock(&q->o->m);
	unref(q);
	return r;
}

/* The request goes to the source inside, as it is. Not under the lock: it may end there. */
static void forward(struct sf_cache_read *q)
{
	struct sf_source *src = sf_source_ref(q->src), *inner = sf_filter_inner(src);
	struct sf_cache_object *o = q->o;
	struct sf_io_req *req = q->req;

	atomic_fetch_add_explicit(&q->refs, 1, memory_order_relaxed);
	q->hook.ended = forwarded_ended;
	sf_filter_watch(src, req, &q->hook);
	pthread_mutex_lock(&o->m);
	if (q->forwarded && q->canceled && inner->ops->cancel)
		inner->ops->cancel(inner, req); /* whoever did came before it was there */
	pthread_mutex_unlock(&o->m);
	unref(q);
	sf_source_unref(src);
}

static void copy_out(struct sf_cache_read *q)
{
	struct sf_io_req *req = q->req;
	int r = sf_cache_copy(q->c, req->off, req->iov, req->niov, req->len, true, &req->err);

	if (r < 0) { /* somebody cut it, or the disk fails */
		if (r != -ENOMEM)
			sf_blocks_retire(q->c);
		req->err.msg[0] = '\0';
		pthread_mutex_lock(&q->o->m);
		q->forwarded = true;
		pthread_mutex_unlock(&q->o->m);
		forward(q);
		return;
	}
	sf_cache_count(q->o->cache, !q->fetched, req->len, q->missed);
	req->here = !q->missed;
	finish(q, 0);
}

static void go_on(struct sf_task *task)
{
	struct sf_cache_read *q = sf_container_of(task, struct sf_cache_read, task);
	enum { FAIL, FORWARD, LOOK } what;
	enum claim claim = ALL_THERE;
	struct run *claimed = NULL;
	int r;

	do {
		if (!q->c && !q->without) {
			q->c = sf_blocks_get(q->o);
			q->without = !q->c;
		}
		pthread_mutex_lock(&q->o->m);
		r = q->r;
		if (r >= 0 && q->canceled)
			r = sf_fail(&q->req->err, -ECANCELED, "'%s': canceled", q->src->name);
		what = r < 0 ? FAIL : q->without ? FORWARD : LOOK;
		if (what == LOOK) {
			claim = claim_locked(q, &claimed);
			q->pending += claim == OURS;
			q->without = claim == NO_MEMORY;
			what = q->without ? FORWARD : LOOK;
		}
		q->forwarded = what == FORWARD;
		pthread_mutex_unlock(&q->o->m);
		if (what == FAIL) {
			finish(q, r);
			return;
		}
		if (what == FORWARD) {
			forward(q);
			return;
		}
		if (claim == ALL_THERE) {
			copy_out(q);
			return;
		}
	} while (claim == OURS && !fetch(q, claimed));
}

/* ---- what the source does ---- */

void sf_cache_submit(struct sf_source *src, struct sf_cache_object *o, struct sf_io_req *req)
{
	struct sf_cache_read *q = req->len ? calloc(1, sizeof(*q)) : NULL;

	if (!q) {
		if (req->len) {
			sf_cache_count_fetched(o->cache, req->kind, req->len);
			sf_cache_count(o->cache, false, req->len, req->len);
		}
		sf_filter_submit(src, req);
		return;
	}
	q->refs = 1;
	q->src = src;
	q->o = o;
	q->req = req;
	q->first = req->off / SF_CACHE_BLOCK;
	q->end = sf_cache_nblocks(req->off + req->len);
	q->wait = (struct sf_cache_wait){
		.first = q->first, .end = q->end, .task = &q->task, .r = &q->r, .err = &req->err
	};
	pthread_mutex_lock(&o->m);
	q->next = o->reads;
	if (q->next)
		q->next->prev = q;
	o->reads = q;
	pthread_mutex_unlock(&o->m);
	q->task.run = go_on;
	sf_thread_pool_submit(src->io->pool, &q->task);
}

void sf_cache_cancel(struct sf_source *src, struct sf_cache_object *o, struct sf_io_req *req)
{
	struct sf_source *inner = sf_filter_inner(src);
	struct sf_cache_read *q;

	pthread_mutex_lock(&o->m);
	for (q = o->reads; q && q->req != req; q = q->next)
		;
	if (!q) {
		inner->ops->cancel(inner, req); /* it went there at once, or has ended */
	} else if (!q->canceled) {
		q->canceled = true;
		if (q->forwarded)
			inner->ops->cancel(inner, req);
		cancel_runs_locked(q);
		if (q->wait.on) {
			sf_cache_wait_end_locked(q->c, &q->wait);
			sf_thread_pool_submit(src->io->pool, &q->task);
		}
	}
	pthread_mutex_unlock(&o->m);
}
