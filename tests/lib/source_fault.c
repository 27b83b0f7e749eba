#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "store/filter.h"
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
	struct sf_filter flt;
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
		return sf_fail(err, code, "'%s': canceled", f->flt.s.name);
	if (f->f->plan->short_read) {
		struct iovec half = { iov->iov_base, SF_MIN(iov->iov_len, len / 2) };
		f->flt.inner->ops->try_read(f->flt.inner, off, &half, 1, half.iov_len, NULL);
		return sf_fail(err, code, "'%s': injected: %llu of %llu bytes at %llu",
		               f->flt.s.name, (unsigned long long)half.iov_len,
		               (unsigned long long)len, (unsigned long long)off);
	}
	return sf_fail(err, code, "'%s': injected: %llu bytes at %llu", f->flt.s.name,
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
	             : f->flt.inner->ops->try_read(f->flt.inner, off, iov, niov, len, err);
}

/* Outside the lock; the caller of the request may free everything in it. */
static void go_on(struct sf_io_req *req, int code)
{
	struct fault_source *f = (struct fault_source *)req->src;

	if (code < 0) {
		sf_io_req_end(req, fail(f, req->off, req->iov, req->len, code, &req->err));
		return;
	}
	sf_filter_submit(&f->flt.s, req);
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
	if (req && s->flt.inner->ops->cancel)
		s->flt.inner->ops->cancel(s->flt.inner, req);
}

static int fault_lend(struct sf_source *src, uint64_t off, uint64_t len, struct sf_lease *ret)
{
	return -ENOTSUP; /* it would go round the faults */
}

static void fault_free(struct sf_source *src)
{
	faulter_unref(((struct fault_source *)src)->f);
	sf_filter_free(src);
}

static const struct sf_source_ops source_ops = {
	.try_read = fault_try,
	.lend = fault_lend,
	.submit = fault_submit,
	.cancel = fault_cancel,
	.free = fault_free,
};

static int wrap(void *arg, struct sf_source *inner, struct sf_source **ret, struct sf_error *err)
{
	struct fault_source *s = calloc(1, sizeof(*s));

	if (!s)
		return sf_fail(err, -ENOMEM, "'%s': no memory", inner->name);
	s->f = arg;
	atomic_fetch_add(&s->f->refs, 1);
	sf_filter_init(&s->flt, &source_ops, inner);
	*ret = &s->flt.s;
	return 0;
}

static void let_go(void *arg)
{
	faulter_unref(arg);
}

int sf_source_fault(struct sf_source *src, struct sf_fault *plan, struct sf_source **ret,
                    struct sf_error *err)
{
	struct faulter *f = faulter_new(plan);
	int r;

	if (!f)
		return sf_fail(err, -ENOMEM, "'%s': no memory", src->name);
	r = wrap(f, src, ret, err);
	faulter_unref(f);
	return r;
}

int sf_store_fault(struct sf_store *s, struct sf_fault *plan, struct sf_store **ret,
                   struct sf_error *err)
{
	struct faulter *f = faulter_new(plan);

	if (!f)
		return sf_fail(err, -ENOMEM, "no memory for faults");
	return sf_store_filter(s, wrap, let_go, f, ret, err);
}
