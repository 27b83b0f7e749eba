#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "tests/lib/test_stores.h"

/*
 * What the sources of one store share: the plan, and a thread that holds delayed requests back.
 * Every delay is the same, so the queue is in order of its ends. In req->priv: [0] the end in ms,
 * [1] the failure to end with, or 0.
 */
struct faulter {
	struct sf_fault *plan;
	_Atomic uint32_t refs;
	struct {
		pthread_mutex_t m;
		pthread_cond_t c;
		struct sf_io_req *first, **last;
		bool running, ending;
	} locked;
	pthread_t thread;
};

struct fault_source {
	struct sf_source s;
	struct sf_source *inner;
	struct faulter *f;
};

struct fault_store {
	struct sf_store s;
	struct sf_store *inner;
	struct faulter *f;
};

static struct faulter *faulter_new(struct sf_fault *plan)
{
	struct faulter *f = calloc(1, sizeof(*f));
	pthread_condattr_t attr;

	if (!f)
		return NULL;
	f->plan = plan;
	f->refs = 1;
	pthread_mutex_init(&f->locked.m, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&f->locked.c, &attr);
	pthread_condattr_destroy(&attr);
	f->locked.last = &f->locked.first;
	return f;
}

static void faulter_destroy(struct faulter *f)
{
	pthread_cond_destroy(&f->locked.c);
	pthread_mutex_destroy(&f->locked.m);
	free(f);
}

static void faulter_unref(struct faulter *f)
{
	bool running, self;

	if (atomic_fetch_sub(&f->refs, 1) != 1)
		return;
	/* The queue is empty: a request's caller holds its source, which holds us. */
	pthread_mutex_lock(&f->locked.m);
	f->locked.ending = true;
	running = f->locked.running;
	self = running && pthread_equal(pthread_self(), f->thread);
	if (self)
		f->locked.running = false; /* a request's end let the last source go: the thread
		                              frees f when it ends */
	pthread_cond_signal(&f->locked.c);
	pthread_mutex_unlock(&f->locked.m);
	if (self) {
		pthread_detach(pthread_self());
		return;
	}
	if (running)
		pthread_join(f->thread, NULL);
	faulter_destroy(f);
}

static uint64_t now_ms(void)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

static int planned(struct fault_source *f)
{
	struct sf_fault *p = f->f->plan;
	int64_t n = atomic_fetch_add(&p->seen, 1);

	return p->fail_at >= 0 && n == p->fail_at ? (p->code ? p->code : -EIO) : 0;
}

/* The failure's message; a short read also leaves the bytes it got. */
static int fail(struct fault_source *f, uint64_t off, const struct iovec *iov, uint64_t len,
                int code, struct sf_error *err)
{
	if (code == -ECANCELED)
		return sf_fail(err, code, "'%s': canceled", f->s.name);
	if (f->f->plan->short_read) {
		struct iovec half = { iov->iov_base, SF_MIN(iov->iov_len, len / 2) };
		f->inner->ops->try_read(f->inner, off, &half, 1, half.iov_len, NULL);
		return sf_fail(err, code, "'%s': injected: %llu of %llu bytes at %llu", f->s.name,
		               (unsigned long long)half.iov_len, (unsigned long long)len,
		               (unsigned long long)off);
	}
	return sf_fail(err, code, "'%s': injected: %llu bytes at %llu", f->s.name,
	               (unsigned long long)len, (unsigned long long)off);
}

static int fault_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                     uint64_t len, struct sf_error *err)
{
	struct fault_source *f = (struct fault_source *)src;
	int r;

	if (f->f->plan->delay_ms || f->f->plan->busy)
		return -EAGAIN;
	r = planned(f);
	if (f->f->plan->busy_every && atomic_load(&f->f->plan->seen) % f->f->plan->busy_every == 0)
		return -EAGAIN;
	return r < 0 ? fail(f, off, iov, len, r, err)
	             : f->inner->ops->try_read(f->inner, off, iov, niov, len, err);
}

/* Outside the lock; the caller of the request may free everything in it. */
static void go_on(struct sf_io_req *req, int code)
{
	struct fault_source *f = (struct fault_source *)req->src;

	if (code < 0) {
		sf_io_req_end(req, fail(f, req->off, req->iov, req->len, code, &req->err));
		return;
	}
	req->src = f->inner;
	f->inner->ops->submit(f->inner, req);
}

static void *hold_back(void *arg)
{
	struct faulter *f = arg;
	bool detached;

	pthread_mutex_lock(&f->locked.m);
	for (;;) {
		struct sf_io_req *req = f->locked.first;
		uint64_t now = now_ms(), until = req ? (uint64_t)(uintptr_t)req->priv[0] : 0;
		if (req && until <= now) {
			f->locked.first = req->next;
			if (!req->next)
				f->locked.last = &f->locked.first;
			pthread_mutex_unlock(&f->locked.m);
			go_on(req, (int)(intptr_t)req->priv[1]);
			pthread_mutex_lock(&f->locked.m);
			continue;
		}
		if (f->locked.ending)
			break;
		if (!req) {
			pthread_cond_wait(&f->locked.c, &f->locked.m);
			continue;
		}
		struct timespec t = { (time_t)(until / 1000), (long)(until % 1000) * 1000000 };
		pthread_cond_timedwait(&f->locked.c, &f->locked.m, &t);
	}
	detached = !f->locked.running;
	pthread_mutex_unlock(&f->locked.m);
	if (detached)
		faulter_destroy(f);
	return NULL;
}

static void fault_submit(struct sf_source *src, struct sf_io_req *req)
{
	struct fault_source *s = (struct fault_source *)src;
	struct faulter *f = s->f;
	unsigned delay = f->plan->delay_ms;
	int code = planned(s), r = 0;

	if (!delay) {
		go_on(req, code);
		return;
	}
	req->priv[0] = (void *)(uintptr_t)(now_ms() + delay);
	req->priv[1] = (void *)(intptr_t)code;
	req->next = NULL;
	pthread_mutex_lock(&f->locked.m);
	if (!f->locked.running) {
		r = sf_thread_start(&f->thread, hold_back, f);
		f->locked.running = r == 0;
	}
	if (!r) {
		*f->locked.last = req;
		f->locked.last = &req->next;
		pthread_cond_signal(&f->locked.c);
	}
	pthread_mutex_unlock(&f->locked.m);
	if (r)
		sf_io_req_end(req, sf_fail(&req->err, r, "'%s': no thread for a delay", src->name));
}

static void fault_cancel(struct sf_source *src, struct sf_io_req *req)
{
	struct fault_source *s = (struct fault_source *)src;
	struct faulter *f = s->f;
	struct sf_io_req **p;

	pthread_mutex_lock(&f->locked.m);
	for (p = &f->locked.first; *p && *p != req; p = &(*p)->next)
		;
	if (*p) {
		/* to the front and due */
		*p = req->next;
		if (!*p)
			f->locked.last = p;
		req->next = f->locked.first;
		if (!req->next)
			f->locked.last = &req->next;
		f->locked.first = req;
		req->priv[0] = NULL;
		req->priv[1] = (void *)(intptr_t)-ECANCELED;
		pthread_cond_signal(&f->locked.c);
		req = NULL;
	}
	pthread_mutex_unlock(&f->locked.m);
	if (req && s->inner->ops->cancel)
		s->inner->ops->cancel(s->inner, req);
}

static int fault_check(struct sf_source *src, struct sf_error *err)
{
	struct fault_source *f = (struct fault_source *)src;

	return f->inner->ops->check(f->inner, err);
}

static void fault_source_free(struct sf_source *src)
{
	struct fault_source *f = (struct fault_source *)src;

	sf_source_unref(f->inner);
	faulter_unref(f->f);
	free(f);
}

static const struct sf_source_ops source_ops = {
	.try_read = fault_try,
	.submit = fault_submit,
	.cancel = fault_cancel,
	.check = fault_check,
	.free = fault_source_free,
};

/* Takes over neither: references both. */
static int wrap(struct sf_source *inner, struct faulter *f, struct sf_source **ret,
                struct sf_error *err)
{
	struct fault_source *s = calloc(1, sizeof(*s));

	if (!s)
		return sf_fail(err, -ENOMEM, "'%s': no memory", inner->name);
	atomic_fetch_add(&f->refs, 1);
	s->f = f;
	s->inner = sf_source_ref(inner);
	s->s.ops = &source_ops;
	s->s.refs = 1;
	s->s.io = inner->io;
	s->s.name = inner->name;
	s->s.size = inner->size;
	s->s.version = inner->version;
	*ret = &s->s;
	return 0;
}

int sf_source_fault(struct sf_source *src, struct sf_fault *plan, struct sf_source **ret,
                    struct sf_error *err)
{
	struct faulter *f = faulter_new(plan);
	int r;

	if (!f)
		return sf_fail(err, -ENOMEM, "'%s': no memory", src->name);
	r = wrap(src, f, ret, err);
	faulter_unref(f);
	return r;
}

static int fault_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                      struct sf_source **ret, struct sf_error *err)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	struct fault_store *f = (struct fault_store *)s;
	int r = f->inner->ops->open(f->inner, name, want, &src, err);

	return r < 0 ? r : wrap(src, f->f, ret, err);
}

static int fault_list(struct sf_store *s, const char *dir, unsigned depth,
                      int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                      struct sf_error *err)
{
	struct fault_store *f = (struct fault_store *)s;

	return f->inner->ops->list(f->inner, dir, depth, each, arg, err);
}

static void fault_store_free(struct sf_store *s)
{
	struct fault_store *f = (struct fault_store *)s;

	sf_store_free(f->inner);
	faulter_unref(f->f);
	free(s->source);
	free(f);
}

/* No fd: passthrough would go round the faults. */
static const struct sf_store_ops store_ops = { .open = fault_open,
	                                       .list = fault_list,
	                                       .free = fault_store_free };

int sf_store_fault(struct sf_store *s, struct sf_fault *plan, struct sf_store **ret,
                   struct sf_error *err)
{
	struct fault_store *f = calloc(1, sizeof(*f));

	if (f) {
		f->s.source = strdup(s->source);
		f->f = faulter_new(plan);
	}
	if (!f || !f->s.source || !f->f) {
		if (f) {
			free(f->s.source);
			if (f->f)
				faulter_unref(f->f);
		}
		free(f);
		return sf_fail(err, -ENOMEM, "'%s': no memory", s->source);
	}
	f->s.ops = &store_ops;
	f->s.io = s->io;
	f->inner = s;
	*ret = &f->s;
	return 0;
}
