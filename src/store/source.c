#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
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

int sf_source_inside(const struct sf_source *src, uint64_t off, uint64_t len, struct sf_error *err)
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

void sf_count_fetched(struct sf_io *io, enum sf_fetch_kind kind, uint64_t bytes)
{
	struct sf_counters *c = &io->counters;

	atomic_fetch_add_explicit(&c->fetched_requests[kind], 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->fetched_bytes[kind], bytes, memory_order_relaxed);
}

static void count(const struct sf_source *src, const char *how, uint64_t off, uint64_t len,
                  enum sf_fetch_kind kind)
{
	if (!src->ops->counts)
		sf_count_fetched(src->io, kind, len);
	if (__builtin_expect(src->io->trace_fd >= 0, 0))
		trace(src, how, off, len, kind);
}

int sf_source_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                  uint64_t len, enum sf_fetch_kind kind, struct sf_error *err)
{
	int r = sf_source_inside(src, off, len, err);

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
	r = sf_source_inside(src, off, len, NULL);
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
	req->r = sf_source_inside(src, req->off, req->len, &req->err);
	if (req->r < 0)
		return 1;
	req->src = src;
	req->hook = NULL;
	atomic_store_explicit(&req->met, false, memory_order_relaxed);
	if (!req->ahead)
		count(src, "submit", req->off, req->len, req->kind);
	src->ops->submit(src, req);
	return atomic_exchange_explicit(&req->met, true, memory_order_acq_rel);
}

static void end_task(struct sf_task *task)
{
	struct sf_io_req *req = sf_container_of(task, struct sf_io_req, task);

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
