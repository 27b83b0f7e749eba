#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "store/source.h"

/* Tuned for preadv out of the page cache and from disk. */
const struct sf_source_hints sf_hints_local = {
	.range_max = UINT64_C(1) << 20,
	.gap_max = 4096,
	.inflight = 64,
};

struct sf_source *sf_source_ref(struct sf_source *src)
{
	atomic_fetch_add_explicit(&src->refs, 1, memory_order_relaxed);
	return src;
}

void sf_source_unref(struct sf_source *src)
{
	if (src && atomic_fetch_sub_explicit(&src->refs, 1, memory_order_acq_rel) == 1)
		src->ops->free(src);
}

void sf_source_unrefp(struct sf_source **src)
{
	sf_source_unref(*src);
}

int sf_version_check(const char *name, uint64_t want_size, const struct sf_version *want,
                     uint64_t size, const struct sf_version *found, struct sf_error *err)
{
	const char *a = want->etag ? want->etag : "", *b = found->etag ? found->etag : "";
	bool known = want->dev || want->ino || want->mtime_ns || want->etag;

	if (want_size != UINT64_MAX && want_size != size)
		return sf_fail(err, -ESTALE,
		               "'%s' changed: it had %llu bytes when it was loaded, now %llu", name,
		               (unsigned long long)want_size, (unsigned long long)size);
	if (!known || (want->dev == found->dev && want->ino == found->ino &&
	               want->mtime_ns == found->mtime_ns && strcmp(a, b) == 0))
		return 0;
	if (want->etag || found->etag)
		return sf_fail(err, -ESTALE,
		               "'%s' changed: its tag was '%s' when it was loaded, now '%s'", name,
		               a, b);
	if (want->dev == found->dev && want->ino == found->ino)
		return sf_fail(err, -ESTALE,
		               "'%s' changed: it was written at %lld.%09lld when it was loaded, "
		               "now at %lld.%09lld",
		               name, (long long)(want->mtime_ns / 1000000000),
		               (long long)(want->mtime_ns % 1000000000),
		               (long long)(found->mtime_ns / 1000000000),
		               (long long)(found->mtime_ns % 1000000000));
	return sf_fail(err, -ESTALE,
	               "'%s' was replaced: it was inode %llu of device %llu when it was loaded, "
	               "now %llu of %llu",
	               name, (unsigned long long)want->ino, (unsigned long long)want->dev,
	               (unsigned long long)found->ino, (unsigned long long)found->dev);
}

static int check_range(const struct sf_source *src, uint64_t off, uint64_t len,
                       struct sf_error *err)
{
	if (off <= src->size && len <= src->size - off)
		return 0;
	return sf_fail(err, -EBADMSG, "'%s': %llu bytes at %llu were asked for, it has %llu",
	               src->name, (unsigned long long)len, (unsigned long long)off,
	               (unsigned long long)src->size);
}

/* One write of a whole line, so that lines of several threads do not mix. A trace that cannot be
 * written is lost. */
static void trace(const struct sf_source *src, const char *how, uint64_t off, uint64_t len,
                  enum sf_fetch_kind kind)
{
	static const char *const kinds[SF_FETCH_NKINDS] = { "metadata", "header", "object",
		                                            "tensor" };
	struct sf_buf line = { .limit = 65536 };

	sf_buf_str(&line, "{\"file\": ");
	sf_escape_json(&line, src->name, strlen(src->name));
	sf_buf_printf(&line, ", \"off\": %llu, \"len\": %llu, \"kind\": \"%s\", \"how\": \"%s\"}\n",
	              (unsigned long long)off, (unsigned long long)len, kinds[kind], how);
	if (!sf_buf_check(&line) && write(src->io->trace_fd, line.at, line.len) < 0)
		errno = 0;
	sf_buf_release(&line);
}

static void count(const struct sf_source *src, const char *how, uint64_t off, uint64_t len,
                  enum sf_fetch_kind kind)
{
	struct sf_counters *c = &src->io->counters;

	atomic_fetch_add_explicit(&c->fetched_requests[kind], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->fetched_bytes[kind], len, memory_order_relaxed);
	if (__builtin_expect(src->io->trace_fd >= 0, 0))
		trace(src, how, off, len, kind);
}

int sf_source_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                  uint64_t len, enum sf_fetch_kind kind, struct sf_error *err)
{
	int r = check_range(src, off, len, err);

	if (r < 0)
		return r;
	r = src->ops->try_read(src, off, iov, niov, len, err);
	if (r != -EAGAIN)
		count(src, "try", off, len, kind);
	return r;
}

int sf_source_lend(struct sf_source *src, uint64_t off, uint64_t len, enum sf_fetch_kind kind,
                   struct sf_lease *ret)
{
	struct sf_lease lease = { 0 };
	int r;

	if (!src->ops->lend)
		return -ENOTSUP;
	r = check_range(src, off, len, NULL);
	if (r >= 0)
		r = src->ops->lend(src, off, len, &lease);
	if (r < 0)
		return r;
	count(src, "lend", off, len, kind);
	lease.src = sf_source_ref(src);
	*ret = lease;
	return 0;
}

void sf_lease_release(struct sf_lease *lease)
{
	if (lease->token)
		lease->src->ops->unlend(lease->src, lease->token);
	sf_source_unref(lease->src);
	*lease = (struct sf_lease){ 0 };
}

int sf_source_submit(struct sf_source *src, struct sf_io_req *req)
{
	req->r = check_range(src, req->off, req->len, &req->err);
	if (req->r < 0)
		return 1;
	req->src = src;
	req->hook = NULL;
	atomic_store_explicit(&req->met, false, memory_order_relaxed);
	count(src, "submit", req->off, req->len, req->kind);
	src->ops->submit(src, req);
	return atomic_exchange_explicit(&req->met, true, memory_order_acq_rel);
}

static void end_task(struct sf_task *task)
{
	struct sf_io_req *req =
		(struct sf_io_req *)((char *)task - offsetof(struct sf_io_req, task));

	req->done(req, req->r);
}

void sf_io_req_end(struct sf_io_req *req, int r)
{
	bool here = req->wakes || req->src->ops->on_pool;
	struct sf_thread_pool *pool = req->src->io->pool;

	for (struct sf_io_hook *h; (h = req->hook);) {
		req->hook = h->outer;
		req->src = h->src;
		r = h->ended(h, req, r);
		if (r == SF_IO_AGAIN)
			return;
	}
	req->r = r;
	if (!atomic_exchange_explicit(&req->met, true, memory_order_acq_rel))
		return; /* who submits it goes on */
	if (here) {
		req->done(req, r);
		return;
	}
	/* a transport's thread has more to do than what waited for these bytes */
	req->task.run = end_task;
	sf_thread_pool_submit(pool, &req->task);
}

int sf_source_check(struct sf_source *src, struct sf_error *err)
{
	return src->ops->check(src, err);
}

/*
 * A read that is waited for, held by whoever waits and by its request. Where the source cannot end
 * a request (a file on a server that does not answer) it is left to itself at the deadline; its
 * bytes go to a place of its own, for the caller's may be gone when they come.
 */
struct waiting {
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

#define OWN_MAX \
	((uint64_t)1 << 20) /* bytes of a request that may be left, each with its deadline */

static void waiting_unref(struct waiting *w)
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
	struct waiting *w = (struct waiting *)((char *)req - offsetof(struct waiting, req));

	pthread_mutex_lock(&w->m);
	w->done = true;
	w->r = r;
	pthread_cond_signal(&w->c);
	pthread_mutex_unlock(&w->m);
	waiting_unref(w);
}

/* @buf NULL: into w->own. */
static struct waiting *waiting_new(struct sf_source *src, uint64_t off, void *buf, uint64_t len,
                                   enum sf_fetch_kind kind)
{
	struct waiting *w = malloc(sizeof(*w) + (buf ? 0 : (size_t)len));
	pthread_condattr_t attr;

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
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&w->c, &attr);
	pthread_condattr_destroy(&attr);
	return w;
}

/* At the deadline a request that can be ended is, and its end waited for: it has the caller's
 * buffer. */
static int wait_for(struct waiting *w, struct sf_error *err)
{
	struct sf_source *src = w->src;
	unsigned timeout_ms = src->io->timeout_ms;
	struct timespec until;
	bool late = false;
	int r;

	clock_gettime(CLOCK_MONOTONIC, &until);
	until.tv_sec += timeout_ms / 1000;
	until.tv_nsec += (long)(timeout_ms % 1000) * 1000000;
	if (until.tv_nsec >= 1000000000) {
		until.tv_nsec -= 1000000000;
		until.tv_sec++;
	}
	pthread_mutex_lock(&w->m);
	while (!w->done && !late) {
		if (!timeout_ms)
			pthread_cond_wait(&w->c, &w->m);
		else
			late = pthread_cond_timedwait(&w->c, &w->m, &until) == ETIMEDOUT;
	}
	if (!w->done && src->ops->cancel) {
		pthread_mutex_unlock(&w->m);
		src->ops->cancel(src, &w->req);
		pthread_mutex_lock(&w->m);
		while (!w->done)
			pthread_cond_wait(&w->c, &w->m);
	}
	r = w->done ? w->r : -ETIMEDOUT;
	if (!w->done || (late && r == -ECANCELED))
		r = sf_fail(err, -ETIMEDOUT, "'%s': no answer to %llu bytes at %llu within %u ms",
		            src->name, (unsigned long long)w->req.len,
		            (unsigned long long)w->req.off, timeout_ms);
	else if (r < 0)
		sf_fail(err, r, "%s", w->req.err.msg);
	pthread_mutex_unlock(&w->m);
	return r;
}

/* One request, into @buf; @own: by way of a buffer that may be left with it. */
static int read_waiting(struct sf_source *src, uint64_t off, void *buf, uint64_t len, bool own,
                        enum sf_fetch_kind kind, struct sf_error *err)
{
	struct waiting *w = waiting_new(src, off, own ? NULL : buf, len, kind);
	int r;

	if (!w)
		return sf_fail(err, -ENOMEM, "'%s': no memory for %llu bytes", src->name,
		               (unsigned long long)len);
	if (sf_source_submit(src, &w->req))
		wake(&w->req, w->req.r);
	r = wait_for(w, err);
	if (r == 0 && own)
		memcpy(buf, w->own, (size_t)len);
	waiting_unref(w);
	return r;
}

int sf_source_read(struct sf_source *src, uint64_t off, void *buf, uint64_t len,
                   enum sf_fetch_kind kind, struct sf_error *err)
{
	const bool own = !src->ops->cancel && src->io->timeout_ms;
	struct iovec iov = { buf, len };
	int r;

	if (!len)
		return check_range(src, off, len, err);
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
