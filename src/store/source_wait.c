#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/source_wait.h"

/*
 * A read that is waited for, held by whoever waits and by its request. Where the source cannot end
 * a request (a file on a server that does not answer) it is left to itself at the deadline; its
 * bytes go to a place of its own, for the caller's may be gone when they come.
 */
struct sf_waiting {
	struct sf_io_req req;
	struct iovec iov;
	struct sf_source *src; /* a reference */
	_Atomic uint32_t refs;
	pthread_mutex_t m;
	pthread_cond_t c;
	bool done;
	int r;
	uint8_t own[];
};

#define LOOK_MS 50 /* how often it is looked whether the program ends */
/* bytes of a request that may be left, each with its deadline */
#define OWN_MAX ((uint64_t)1 << 20)

void sf_waiting_unref(struct sf_waiting *w)
{
	if (atomic_fetch_sub_explicit(&w->refs, 1, memory_order_acq_rel) != 1)
		return;
	pthread_cond_destroy(&w->c);
	pthread_mutex_destroy(&w->m);
	sf_source_unref(w->src);
	free(w);
}

static void wake(struct sf_io_req *req, int r)
{
	struct sf_waiting *w = sf_container_of(req, struct sf_waiting, req);

	pthread_mutex_lock(&w->m);
	w->done = true;
	w->r = r;
	pthread_cond_signal(&w->c);
	pthread_mutex_unlock(&w->m);
	sf_waiting_unref(w);
}

/* @buf NULL: into w->own. */
static struct sf_waiting *waiting_new(struct sf_source *src, uint64_t off, void *buf, uint64_t len,
                                      enum sf_fetch_kind kind)
{
	struct sf_waiting *w = malloc(sizeof(*w) + (buf ? 0 : (size_t)len));

	if (!w)
		return NULL;
	memset(w, 0, sizeof(*w));
	w->src = sf_source_ref(src);
	w->refs = 2;
	w->iov = (struct iovec){ buf ? buf : w->own, (size_t)len };
	w->req.off = off;
	w->req.len = len;
	w->req.iov = &w->iov;
	w->req.niov = 1;
	w->req.kind = kind;
	w->req.done = wake;
	w->req.wakes = true;
	pthread_mutex_init(&w->m, NULL);
	sf_cond_init(&w->c);
	return w;
}

/* At the deadline a request that can be ended is, and its end waited for: it has the caller's
 * buffer. */
int sf_waiting_end(struct sf_waiting *w, unsigned timeout_ms, struct sf_error *err)
{
	struct sf_source *src = w->src;
	const int64_t end_ms = sf_now_ms() + timeout_ms;
	/* what can neither be ended nor left behind is waited for */
	const bool leaves = src->ops->cancel || timeout_ms;
	bool late = false, stopped = false;
	int r;

	pthread_mutex_lock(&w->m);
	while (!w->done && !late && !stopped) {
		int64_t left = timeout_ms ? end_ms - sf_now_ms() : LOOK_MS;
		const struct timespec until = sf_until_ms(
			CLOCK_MONOTONIC, (uint64_t)SF_MAX(SF_MIN(left, (int64_t)LOOK_MS), 0));
		pthread_cond_timedwait(&w->c, &w->m, &until);
		late = timeout_ms && sf_now_ms() >= end_ms;
		stopped = leaves && atomic_load_explicit(&src->io->stop, memory_order_relaxed);
	}
	if (!w->done && src->ops->cancel) {
		pthread_mutex_unlock(&w->m);
		src->ops->cancel(src, &w->req);
		pthread_mutex_lock(&w->m);
		while (!w->done)
			pthread_cond_wait(&w->c, &w->m);
	}
	r = w->done ? w->r : stopped ? -ECANCELED : -ETIMEDOUT;
	if (stopped && (!w->done || r == -ECANCELED))
		r = sf_fail(err, -ECANCELED, "'%s': canceled", src->name);
	else if (!w->done || (late && r == -ECANCELED))
		r = sf_fail(err, -ETIMEDOUT, "'%s': no answer to %llu bytes at %llu within %u ms",
		            src->name, (unsigned long long)w->req.len,
		            (unsigned long long)w->req.off, timeout_ms);
	else if (r < 0)
		sf_fail(err, r, "%s", w->req.err.msg);
	pthread_mutex_unlock(&w->m);
	return r;
}

static void begin(struct sf_waiting *w)
{
	if (sf_source_submit(w->src, &w->req))
		wake(&w->req, w->req.r);
}

struct sf_waiting *sf_waiting_begin(struct sf_source *src, uint64_t off, uint64_t len,
                                    enum sf_fetch_kind kind)
{
	struct sf_waiting *w = waiting_new(src, off, NULL, len, kind);

	if (w) {
		w->req.ahead = true;
		begin(w);
	}
	return w;
}

const uint8_t *sf_waiting_bytes(const struct sf_waiting *w)
{
	return w->own;
}

/* One request, into @buf; @own: by way of a buffer that may be left with it. */
static int read_waiting(struct sf_source *src, uint64_t off, void *buf, uint64_t len, bool own,
                        enum sf_fetch_kind kind, struct sf_error *err)
{
	struct sf_waiting *w = waiting_new(src, off, own ? NULL : buf, len, kind);
	int r;

	if (!w)
		return sf_fail(err, -ENOMEM, "'%s': no memory for %llu bytes", src->name,
		               (unsigned long long)len);
	begin(w);
	r = sf_waiting_end(w, src->io->timeout_ms, err);
	if (r == 0 && own)
		memcpy(buf, w->own, (size_t)len);
	sf_waiting_unref(w);
	return r;
}

int sf_source_read(struct sf_source *src, uint64_t off, void *buf, uint64_t len,
                   enum sf_fetch_kind kind, struct sf_error *err)
{
	const bool own = !src->ops->cancel && src->io->timeout_ms;
	struct iovec iov = { buf, len };
	int r;

	if (!len)
		return sf_source_inside(src, off, len, err);
	r = sf_source_try(src, off, &iov, 1, len, kind, err);
	if (r != -EAGAIN)
		return r;
	r = 0;
	for (uint64_t done = 0, n; done < len && r >= 0; done += n) {
		n = own ? SF_MIN(len - done, OWN_MAX) : len;
		r = read_waiting(src, off + done, (uint8_t *)buf + done, n, own, kind, err);
	}
	return r;
}

int sf_source_read_all(struct sf_source *src, uint64_t limit, enum sf_fetch_kind kind,
                       uint8_t **ret, uint64_t *ret_len, struct sf_error *err)
{
	SF_FREE uint8_t *at = NULL;
	int r;

	if (src->size > limit || src->size >= SIZE_MAX)
		return sf_fail(err, -E2BIG, "'%s' has %llu bytes, the limit is %llu", src->name,
		               (unsigned long long)src->size, (unsigned long long)limit);
	at = malloc((size_t)src->size + 1);
	if (!at)
		return sf_fail(err, -ENOMEM, "'%s': no memory for %llu bytes", src->name,
		               (unsigned long long)src->size);
	r = sf_source_read(src, 0, at, src->size, kind, err);
	if (r < 0)
		return r;
	at[src->size] = '\0';
	*ret = SF_STEAL(at);
	*ret_len = src->size;
	return 0;
}
