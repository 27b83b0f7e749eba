#include "config.h"
#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>
#include "base/iov.h"
#include "base/mem.h"
#include "base/vec.h"
#include "parse/zip_write.h"
#include "tool/write_parts.h"

enum {
	/*
	 * Bytes of one read and write: they pass the CPU's cache between read, CRC and write. A
	 * write straight from the mapped shard saves the copy but faults every page in on the
	 * way: 1.7 CPU-s per GiB on tmpfs against 0.7.
	 */
	PART = 512 << 10,
	THREADS_MAX = 64,
};

/* A range of the file that is cut into parts. */
struct span {
	uint64_t off, len;
};
SF_VEC(spans, struct span);

/* One file being written. A part is a number: where it lies is computed, so a claim costs nothing. */
struct writing {
	struct sf_session *s;
	struct sf_vfile *file;
	struct sf_progress *progress;
	const char *path;
	int fd;
	struct spans spans;
	uint64_t *first;       /* span i's first part; [n]: how many there are */
	_Atomic uint32_t *crc; /* of span i, from its parts in any order; NULL: not wanted */
	_Atomic uint64_t next;
	_Atomic int failed; /* the first error's code; its message is err */
	pthread_mutex_t m;
	struct sf_error err; /* under m */
};

static void fail(struct writing *w, int r, const struct sf_error *err)
{
	pthread_mutex_lock(&w->m);
	if (!atomic_load(&w->failed)) {
		w->err = *err;
		atomic_store(&w->failed, r);
	}
	pthread_mutex_unlock(&w->m);
}

/* Which limit: "File too large" is said of the process's own and of the file system's. */
static int too_large(const struct writing *w, struct sf_error *err)
{
	struct rlimit lim;

	if (getrlimit(RLIMIT_FSIZE, &lim) == 0 && lim.rlim_cur != RLIM_INFINITY &&
	    lim.rlim_cur < w->file->size)
		return sf_fail(err, -EFBIG,
		               "'%s' would have %llu bytes, this process may write files of %llu "
		               "(ulimit -f)",
		               w->path, (unsigned long long)w->file->size,
		               (unsigned long long)lim.rlim_cur);
	return sf_fail(err, -EFBIG, "'%s' would have %llu bytes: %s", w->path,
	               (unsigned long long)w->file->size, strerror(EFBIG));
}

static int pwrite_all(struct writing *w, struct iovec *iov, int n, uint64_t off,
                      struct sf_error *err)
{
	int r = sf_pwritev_all(w->fd, iov, n, off);

	if (r == -EFAULT)
		return sf_fail(err, -ESTALE, "a shard was truncated while it was read");
	if (r == -EFBIG)
		return too_large(w, err);
	return r < 0 ? sf_fail(err, r, "'%s': %s", w->path, strerror(-r)) : 0;
}

static uint64_t parts_of(uint64_t len)
{
	return len / PART + (len % PART != 0);
}

/* The span that part @i is of. Empty ones have no parts. */
static size_t span_at(const struct writing *w, uint64_t i)
{
	return sf_last_start(w->first, w->spans.n, i);
}

/* @buf: PART bytes. */
static int write_part(struct writing *w, uint64_t i, void *buf, struct sf_error *err)
{
	size_t at = span_at(w, i);
	const struct span *s = &w->spans.at[at];
	uint64_t skip = (i - w->first[at]) * PART;
	struct sf_read rd = { .emit = sf_vfile_emit,
		              .arg = w->file,
		              .off = s->off + skip,
		              .len = SF_MIN(s->len - skip, (uint64_t)PART),
		              .buf = buf };
	int r = sf_read_wait(w->s->reader, &rd);

	if (r < 0) {
		sf_fail(err, r, "%s", rd.err.msg);
	} else {
		/* CRCs are sums: each part adds its own, shifted by the bytes behind it */
		if (w->crc)
			atomic_fetch_xor(&w->crc[at], sf_crc32_combine(sf_crc32(0, buf, rd.len), 0,
			                                               s->len - skip - rd.len));
		r = pwrite_all(w, rd.iov, rd.niov, rd.off, err);
	}
	if (r >= 0)
		sf_progress_add(w->progress, rd.len);
	sf_read_release(&rd);
	return r;
}

static void *worker(void *arg)
{
	struct writing *w = arg;
	struct sf_error err = SF_ERROR_INIT;
	SF_FREE void *buf = malloc(PART);

	if (!buf) {
		sf_fail(&err, -ENOMEM, "a buffer of %d bytes", PART);
		fail(w, -ENOMEM, &err);
	}
	while (!atomic_load(&w->failed)) {
		uint64_t i = atomic_fetch_add(&w->next, 1);
		if (i >= w->first[w->spans.n])
			break;
		int r = write_part(w, i, buf, &err);
		if (r < 0)
			fail(w, r, &err);
	}
	return NULL;
}

/* Everything in the spans, by @threads threads, this one among them. */
static int write_spans(struct writing *w, unsigned threads)
{
	pthread_t id[THREADS_MAX];
	unsigned n = 0;
	uint64_t parts = 0;

	w->first = sf_alloc_array(w->spans.n + 1, sizeof(*w->first));
	if (!w->first)
		return -ENOMEM;
	for (size_t i = 0; i < w->spans.n; i++) {
		w->first[i] = parts;
		parts += parts_of(w->spans.at[i].len);
	}
	w->first[w->spans.n] = parts;
	atomic_store(&w->next, 0);
	for (; n + 1 < threads && n + 1 < parts && n < THREADS_MAX; n++)
		if (pthread_create(&id[n], NULL, worker, w) != 0)
			break;
	worker(w);
	for (unsigned i = 0; i < n; i++)
		pthread_join(id[i], NULL);
	free(w->first);
	w->first = NULL;
	return atomic_load(&w->failed);
}

static int push(struct writing *w, uint64_t off, uint64_t len)
{
	return spans_push(&w->spans, (struct span){ off, len }) < 0 ? -ENOMEM : 0;
}

/* An empty record is a span too: CRCs are counted. */
static int push_payload(void *arg, uint32_t rec, uint64_t off, uint64_t len)
{
	(void)rec;
	return push(arg, off, len);
}

static int write_payloads(struct writing *w, unsigned threads)
{
	SF_FREE uint32_t *crc = NULL;
	int r = sf_view_pt_payloads(w->file, push_payload, w);

	if (r < 0)
		return r;
	w->crc = calloc(w->spans.n + 1, sizeof(*w->crc));
	crc = sf_alloc_array(w->spans.n, sizeof(*crc));
	r = w->crc && crc ? write_spans(w, threads) : -ENOMEM;
	for (size_t i = 0; r >= 0 && i < w->spans.n; i++)
		crc[i] = atomic_load(&w->crc[i]);
	free(w->crc);
	w->crc = NULL;
	return r < 0 ? r : sf_view_pt_set_crcs(w->file, crc, (uint32_t)w->spans.n);
}

/* A .pt: the tensors first, with their CRCs; then everything around them, which carries the CRCs:
 * headers, data.pkl, the directory. */
static int write_pt(struct writing *w, unsigned threads)
{
	uint64_t at = 0;
	int r = write_payloads(w, threads);
	struct spans payloads = w->spans;

	w->spans = (struct spans){ 0 };
	for (size_t i = 0; r >= 0 && i < payloads.n; i++) {
		r = push(w, at, payloads.at[i].off - at);
		at = payloads.at[i].off + payloads.at[i].len;
	}
	spans_release(&payloads);
	if (r >= 0)
		r = push(w, at, w->file->size - at);
	return r < 0 ? r : write_spans(w, threads);
}

int sf_write_parts(struct sf_session *s, struct sf_vfile *file, bool crc, int fd, const char *path,
                   unsigned threads, struct sf_progress *progress, struct sf_error *err)
{
	struct writing w = { .s = s,
		             .file = file,
		             .path = path,
		             .progress = progress,
		             .fd = fd,
		             .m = PTHREAD_MUTEX_INITIALIZER };
	int r;

	if (ftruncate(fd, (off_t)file->size) < 0)
		return errno == EFBIG ? too_large(&w, err) : sf_fail_errno(err, "'%s'", path);
	if (crc) {
		r = write_pt(&w, threads);
	} else {
		r = push(&w, 0, file->size);
		if (r >= 0)
			r = write_spans(&w, threads);
	}
	spans_release(&w.spans);
	if (r >= 0)
		return 0;
	if (atomic_load(&w.failed))
		return sf_fail(err, r, "%s", w.err.msg);
	return sf_fail(err, r, "'%s': %s", path, strerror(-r));
}
