#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/clock.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "store/upload_priv.h"

/* ---- threads ---- */

/* A job that may run now, taken out of the queue; NULL: none. */
static struct sf_upload_job *take_locked(struct sf_uploads_state *st)
{
	struct sf_upload_job **at = &st->first, *job;

	/* what has no body goes past those that wait for a slot */
	while ((job = *at) && job->body && st->bodies >= st->throttle)
		at = &job->next;
	if (!job)
		return NULL;
	*at = job->next;
	st->queued--;
	if (!*at)
		st->last = at;
	st->bodies += job->body;
	return job;
}

static void *work(void *arg)
{
	struct sf_uploads *u = arg;
	struct sf_uploads_state *st = u->state;
	struct sf_upload_job *job;

	pthread_mutex_lock(&st->m);
	for (;;) {
		job = take_locked(st);
		if (!job && st->ending)
			break;
		if (!job) {
			st->idle++;
			pthread_cond_wait(&st->work, &st->m);
			st->idle--;
			continue;
		}
		bool body = job->body;
		pthread_mutex_unlock(&st->m);
		job->run(u, job);
		pthread_mutex_lock(&st->m);
		st->bodies -= body;
		st->ends++;
		pthread_cond_broadcast(&st->ended);
	}
	pthread_mutex_unlock(&st->m);
	return NULL;
}

static void queue_locked(struct sf_uploads_state *st, struct sf_upload_job *job)
{
	job->next = NULL;
	*st->last = job;
	st->last = &job->next;
	st->queued++;
	pthread_cond_signal(&st->work);
}

/* One more where nobody is free: at most as many as may send at once. -EAGAIN: there is none at all. */
static int have_thread_locked(struct sf_uploads *u, struct sf_error *err)
{
	struct sf_uploads_state *st = u->state;
	pthread_t t;
	int r;

	if (st->idle > st->queued || st->threads.n >= st->throttle)
		return 0;
	r = sf_threads_reserve(&st->threads, st->threads.n + 1);
	if (r >= 0)
		r = sf_thread_start(&t, work, u);
	if (r >= 0)
		st->threads.at[st->threads.n++] = t;
	if (r >= 0 || st->threads.n)
		return 0;
	return sf_fail(err, r, "no thread that writes objects: %s", strerror(-r));
}

int sf_uploads_threads_init(struct sf_uploads *u, struct sf_error *err)
{
	struct sf_uploads_state *st = calloc(1, sizeof(*st));

	if (!st)
		return sf_fail(err, -ENOMEM, "no memory for uploads");
	st->throttle = u->throttle ? u->throttle : SF_UPLOAD_THROTTLE;
	st->last = &st->first;
	st->ends = 1;
	pthread_mutex_init(&st->m, NULL);
	pthread_cond_init(&st->work, NULL);
	sf_cond_init(&st->ended);
	u->state = st;
	return 0;
}

void sf_uploads_release(struct sf_uploads *u)
{
	struct sf_uploads_state *st = u->state;

	if (!st)
		return;
	pthread_mutex_lock(&st->m);
	st->ending = true;
	pthread_cond_broadcast(&st->work);
	pthread_mutex_unlock(&st->m);
	for (size_t i = 0; i < st->threads.n; i++)
		pthread_join(st->threads.at[i], NULL);
	sf_threads_release(&st->threads);
	pthread_cond_destroy(&st->ended);
	pthread_cond_destroy(&st->work);
	pthread_mutex_destroy(&st->m);
	free(st);
	u->state = NULL;
}

bool sf_uploads_stopped(const struct sf_uploads *u)
{
	return u->cancel ? atomic_load(u->cancel) : atomic_load(&u->store->io->stop);
}

/* Until a job has ended or a moment is over: whoever cancels wakes nobody. */
static void wait_locked(struct sf_uploads_state *st)
{
	const struct timespec until = sf_until_ms(CLOCK_MONOTONIC, SF_UPLOAD_LOOK_MS);

	pthread_cond_timedwait(&st->ended, &st->m, &until);
}

int sf_uploads_enter(struct sf_uploads *u, struct sf_error *err)
{
	struct sf_uploads_state *st = u->state;
	int r = 0;

	pthread_mutex_lock(&st->m);
	while (!(r = sf_uploads_stopped(u) ? -ECANCELED : 0) && st->bodies >= st->throttle)
		wait_locked(st);
	st->bodies += r == 0;
	pthread_mutex_unlock(&st->m);
	return r < 0 ? sf_fail(err, r, "canceled") : 0;
}

void sf_uploads_leave(struct sf_uploads *u)
{
	struct sf_uploads_state *st = u->state;

	pthread_mutex_lock(&st->m);
	st->bodies--;
	pthread_cond_signal(&st->work);
	pthread_cond_broadcast(&st->ended);
	pthread_mutex_unlock(&st->m);
}

/* ---- how an upload fails ---- */

static void fail_locked(struct sf_upload *up, int r, const char *why)
{
	if (up->r < 0)
		return;
	up->r = sf_fail(&up->err, r, "%s", why);
	atomic_store(&up->stop, true);
}

void sf_upload_fail(struct sf_upload *up, int r, const char *why)
{
	pthread_mutex_lock(&up->u->state->m);
	fail_locked(up, r, why);
	pthread_mutex_unlock(&up->u->state->m);
}

static int failed_locked(struct sf_upload *up, struct sf_error *err)
{
	if (sf_uploads_stopped(up->u))
		fail_locked(up, -ECANCELED, "canceled");
	return up->r < 0 ? sf_fail(err, up->r, "%s", up->err.msg) : 0;
}

int sf_upload_failed(struct sf_upload *up, struct sf_error *err)
{
	pthread_mutex_lock(&up->u->state->m);
	int r = failed_locked(up, err);
	pthread_mutex_unlock(&up->u->state->m);
	return r;
}

int sf_upload_wait(struct sf_upload *up, struct sf_error *err)
{
	struct sf_uploads_state *st = up->u->state;
	int r;

	pthread_mutex_lock(&st->m);
	while ((r = failed_locked(up, err)), up->pending)
		wait_locked(st);
	pthread_mutex_unlock(&st->m);
	return r;
}

/* ---- room ---- */

/* Of the budget, or of so many parts. */
static bool take_room(struct sf_uploads *u, uint64_t len)
{
	struct sf_uploads_state *st = u->state;
	bool taken;

	if (u->budget)
		return sf_budget_take(u->budget, SF_UPLOAD_KIND, len);
	pthread_mutex_lock(&st->m);
	taken = st->held < 2 * st->throttle;
	st->held += taken;
	pthread_mutex_unlock(&st->m);
	return taken;
}

/* Not under the lock: who waits for the budget is called. */
static void give_room(struct sf_upload_part *p)
{
	struct sf_uploads *u = p->up->u;
	enum sf_upload_room had = p->room;

	p->room = SF_UPLOAD_NO_ROOM;
	if (had == SF_UPLOAD_CHARGED && u->budget) {
		sf_budget_give(u->budget, SF_UPLOAD_KIND, p->len);
		return;
	}
	pthread_mutex_lock(&u->state->m);
	u->state->held -= had == SF_UPLOAD_CHARGED;
	p->up->beside -= had == SF_UPLOAD_BESIDE;
	pthread_mutex_unlock(&u->state->m);
}

static int wait_for_room(struct sf_upload *up, uint64_t len, enum sf_upload_room *ret,
                         struct sf_error *err)
{
	struct sf_uploads_state *st = up->u->state;
	uint64_t ends = 0;
	int r;

	for (;;) {
		pthread_mutex_lock(&st->m);
		r = failed_locked(up, err);
		if (ends && ends == st->ends) /* nothing has ended since it was looked */
			wait_locked(st);
		ends = st->ends;
		pthread_mutex_unlock(&st->m);
		if (r < 0)
			return r;
		if (take_room(up->u, len)) {
			*ret = SF_UPLOAD_CHARGED;
			return 0;
		}
		pthread_mutex_lock(&st->m);
		/* each upload may have one; and whoever could wait for no end */
		bool anyway = !up->beside || !st->onway;
		up->beside += anyway;
		pthread_mutex_unlock(&st->m);
		if (anyway) {
			*ret = SF_UPLOAD_BESIDE;
			return 0;
		}
	}
}

int sf_upload_part_new(struct sf_upload *up, uint32_t number, uint64_t len,
                       struct sf_upload_part **ret, struct sf_error *err)
{
	struct sf_upload_part *p = calloc(1, sizeof(*p));
	int r;

	if (!p)
		return sf_fail(err, -ENOMEM, "no memory for a part");
	r = wait_for_room(up, len, &p->room, err);
	if (r < 0) {
		free(p);
		return r;
	}
	p->up = up;
	p->number = number;
	p->len = len;
	r = len > SIZE_MAX ? -ENOMEM
	                   : sf_page_pool_take(&up->u->store->io->pages, (size_t)len, &p->pages);
	if (r < 0) {
		sf_upload_part_free(p);
		return sf_fail(err, r, "no memory for a part of %llu bytes",
		               (unsigned long long)len);
	}
	*ret = p;
	return 0;
}

/* Its bytes are not needed any more. */
static void empty(struct sf_upload_part *p)
{
	sf_page_pool_give(&p->up->u->store->io->pages, &p->pages);
	sf_upload_ranges_release(&p->ranges);
	if (p->room != SF_UPLOAD_NO_ROOM)
		give_room(p);
}

void sf_upload_part_free(struct sf_upload_part *p)
{
	if (!p)
		return;
	empty(p);
	free(p->etag);
	free(p);
}

/* ---- a part goes up ---- */

static struct sf_put_to to_of(const struct sf_upload *up)
{
	return (struct sf_put_to){
		.name = up->name, .type = up->type, .when = up->when, .stop = &up->stop
	};
}

/* The upload's id is there, or never will be: those parts that waited for it go on. */
static void go_on_locked(struct sf_upload *up)
{
	struct sf_uploads_state *st = up->u->state;

	for (struct sf_upload_job *next; up->held; up->held = next) {
		next = up->held->next;
		queue_locked(st, up->held);
	}
	up->held_last = &up->held;
}

static int begin(struct sf_upload *up, struct sf_error *err)
{
	const struct sf_put_ops *ops = up->u->store->ops->put;
	const struct sf_put_to to = to_of(up);
	char *id = NULL;
	int r = ops->begin(up->u->store, &to, &id, err);

	pthread_mutex_lock(&up->u->state->m);
	up->id = id;
	pthread_mutex_unlock(&up->u->state->m);
	return r;
}

static int send_part(struct sf_upload_part *p, char **ret_etag, struct sf_error *err)
{
	struct sf_upload *up = p->up;
	const struct sf_put_ops *ops = up->u->store->ops->put;
	const struct sf_put_body body = { .at = p->pages.at, .len = (size_t)p->filled };
	const struct sf_put_to to = to_of(up);
	/* the first of all sees none: the others wait until it has it */
	int r = up->id ? 0 : begin(up, err);

	if (r < 0)
		return r;
	r = ops->part(up->u->store, &to, up->id, p->number, &body, ret_etag, err);
	return r < 0 ? sf_fail_ctx(err, r, "part %u of %llu bytes", p->number + 1,
	                           (unsigned long long)p->filled)
	             : 0;
}

static void run_part(struct sf_uploads *u, struct sf_upload_job *job)
{
	struct sf_upload_part *p = sf_container_of(job, struct sf_upload_part, job);
	struct sf_upload *up = p->up;
	struct sf_error err = SF_ERROR_INIT;
	char *etag = NULL;
	int r = sf_upload_failed(up, &err);

	if (r >= 0)
		r = send_part(p, &etag, &err);
	p->etag = etag;
	empty(p);
	pthread_mutex_lock(&u->state->m);
	if (r < 0)
		fail_locked(up, r, err.msg);
	go_on_locked(up);
	u->state->onway--;
	up->pending--; /* the last of all: who waited may free it from then on */
	pthread_mutex_unlock(&u->state->m);
}

int sf_upload_part_send(struct sf_upload_part *p, struct sf_error *err)
{
	struct sf_upload *up = p->up;
	struct sf_uploads_state *st = up->u->state;
	int r;

	pthread_mutex_lock(&st->m);
	r = have_thread_locked(up->u, err);
	if (r < 0) {
		fail_locked(up, r, err ? err->msg : "no thread that writes objects");
		goto out;
	}
	p->job = (struct sf_upload_job){ .run = run_part, .body = true };
	p->full = true;
	up->pending++;
	st->onway++;
	if (up->begun && !up->id && up->r >= 0) {
		*up->held_last = &p->job;
		up->held_last = &p->job.next;
	} else {
		up->begun = true;
		queue_locked(st, &p->job);
	}
out:
	pthread_mutex_unlock(&st->m);
	return r;
}

/* ---- the same of many ---- */

struct many {
	struct sf_uploads *u;
	size_t n;
	_Atomic size_t next;
	int (*one)(struct sf_uploads *u, void *arg, size_t i, struct sf_error *err);
	void *arg;
	/* under state->m */
	unsigned running;
	int r;
	struct sf_error err;
};
struct many_job {
	struct sf_upload_job job;
	struct many *many;
};

static void do_some(struct many *m)
{
	for (size_t i; (i = atomic_fetch_add(&m->next, 1)) < m->n;) {
		struct sf_error err = SF_ERROR_INIT;
		int r = m->one(m->u, m->arg, i, &err);
		if (r >= 0)
			continue;
		pthread_mutex_lock(&m->u->state->m);
		if (m->r >= 0)
			m->r = sf_fail(&m->err, r, "%s", err.msg);
		pthread_mutex_unlock(&m->u->state->m);
	}
}

static void run_many(struct sf_uploads *u, struct sf_upload_job *job)
{
	struct many *m = sf_container_of(job, struct many_job, job)->many;

	do_some(m);
	pthread_mutex_lock(&u->state->m);
	m->running--;
	pthread_mutex_unlock(&u->state->m);
}

int sf_uploads_each(struct sf_uploads *u, size_t n,
                    int (*one)(struct sf_uploads *u, void *arg, size_t i, struct sf_error *err),
                    void *arg, struct sf_error *err)
{
	struct many m = { .u = u, .n = n, .one = one, .arg = arg };
	struct sf_uploads_state *st = u->state;
	size_t helpers = SF_MIN(n ? n - 1 : 0, (size_t)st->throttle);
	SF_FREE struct many_job *job = helpers ? calloc(helpers, sizeof(*job)) : NULL;

	pthread_mutex_lock(&st->m);
	for (size_t i = 0; job && i < helpers && have_thread_locked(u, NULL) >= 0; i++) {
		job[i] = (struct many_job){ .job.run = run_many, .many = &m };
		m.running++;
		queue_locked(st, &job[i].job);
	}
	pthread_mutex_unlock(&st->m);
	do_some(&m); /* here too: there may be no thread */
	pthread_mutex_lock(&st->m);
	while (m.running)
		wait_locked(st);
	pthread_mutex_unlock(&st->m);
	return m.r < 0 ? sf_fail(err, m.r, "%s", m.err.msg) : 0;
}
