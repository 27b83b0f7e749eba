#include "config.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <stdlib.h>

#include "base/mem.h"
#include "read/readahead.h"
#include "view/vfile.h"

enum { NOT_PREPARED, PREPARING, PREPARED };

struct sf_vfile_failure {
	int code;
	struct sf_error why;
};

void sf_vfile_init(struct sf_vfile *f, const struct sf_vfile_ops *ops, struct sf_reader *reader)
{
	f->ops = ops;
	f->reader = reader;
	f->nrec = 0;
	f->start = NULL;
	f->size = 0;
	atomic_init(&f->refs, 1);
	pthread_mutex_init(&f->locked.m, NULL);
	pthread_cond_init(&f->locked.c, NULL);
	f->locked.state = ops->prepare ? NOT_PREPARED : PREPARED;
	f->locked.failed = NULL;
	f->locked.ahead = NULL;
	f->locked.openers = 0;
	atomic_init(&f->ready, !ops->prepare);
}

struct sf_vfile *sf_vfile_ref(struct sf_vfile *f)
{
	atomic_fetch_add_explicit(&f->refs, 1, memory_order_relaxed);
	return f;
}

void sf_vfile_unref(struct sf_vfile *f)
{
	if (!f || atomic_fetch_sub_explicit(&f->refs, 1, memory_order_acq_rel) != 1)
		return;
	pthread_cond_destroy(&f->locked.c);
	pthread_mutex_destroy(&f->locked.m);
	free(f->locked.failed);
	f->ops->free(f);
}

int sf_vfile_size(struct sf_vfile *f, uint64_t *ret)
{
	if (!atomic_load_explicit(&f->ready, memory_order_acquire))
		return -EAGAIN;
	*ret = f->size;
	return 0;
}

/* NULL: the next try may do better, or there is no memory to remember it. */
static struct sf_vfile_failure *failure(int code, const struct sf_error *err)
{
	struct sf_vfile_failure *f;

	if (code != -EBADMSG && code != -E2BIG && code != -ENOTSUP)
		return NULL;
	f = malloc(sizeof(*f));
	if (f)
		*f = (struct sf_vfile_failure){ code, *err };
	return f;
}

int sf_vfile_prepare(struct sf_vfile *f, struct sf_error *err)
{
	struct sf_error own = SF_ERROR_INIT;
	int r;

	err = err ? err : &own;
	if (atomic_load_explicit(&f->ready, memory_order_acquire))
		return 0;
	pthread_mutex_lock(&f->locked.m);
	while (f->locked.state == PREPARING)
		pthread_cond_wait(&f->locked.c, &f->locked.m);
	if (f->locked.state == PREPARED) {
		pthread_mutex_unlock(&f->locked.m);
		return 0;
	}
	if (f->locked.failed) {
		r = sf_fail(err, f->locked.failed->code, "%s", f->locked.failed->why.msg);
		pthread_mutex_unlock(&f->locked.m);
		return r;
	}
	f->locked.state = PREPARING;
	pthread_mutex_unlock(&f->locked.m);

	r = f->ops->prepare(f, err); /* waits for I/O: no lock is held */

	pthread_mutex_lock(&f->locked.m);
	f->locked.state = r < 0 ? NOT_PREPARED : PREPARED;
	f->locked.failed = r < 0 ? failure(r, err) : NULL;
	if (r >= 0)
		atomic_store_explicit(&f->ready, 1, memory_order_release);
	pthread_cond_broadcast(&f->locked.c);
	pthread_mutex_unlock(&f->locked.m);
	return r < 0 ? r : 0;
}

/* The last record that starts at or before @off: of several empty ones and the one behind them,
 * that one. */
static uint32_t record_at(const struct sf_vfile *f, uint64_t off)
{
	return (uint32_t)sf_last_start(f->start, f->nrec, off);
}

int sf_vfile_emit(void *vfile, uint64_t off, uint64_t len, struct sf_parts *parts,
                  struct sf_error *err)
{
	struct sf_vfile *f = vfile;
	uint64_t end;

	if (!sf_add(off, len, &end) || end > f->size)
		return sf_fail(err, -EINVAL,
		               "bytes %" PRIu64 " + %" PRIu64 " of a virtual file of %" PRIu64, off,
		               len, f->size);
	if (len == 0)
		return 0;
	for (uint32_t rec = record_at(f, off); rec < f->nrec && off < end; rec++) {
		uint64_t to = SF_MIN(end, f->start[rec + 1]);
		if (to <= off)
			continue;
		int r = f->ops->emit(f, rec, off - f->start[rec], to - off, parts, err);
		if (r < 0)
			return r;
		off = to;
	}
	return 0;
}

int64_t sf_vfile_pread(struct sf_vfile *f, uint64_t off, void *buf, uint64_t len,
                       struct sf_error *err)
{
	struct sf_readahead *ahead;
	int r = sf_vfile_prepare(f, err);

	if (r < 0)
		return r;
	if (off >= f->size || len == 0)
		return 0;
	struct sf_readahead_read q = { .rd = { .emit = sf_vfile_emit,
		                               .arg = f,
		                               .off = off,
		                               .len = SF_MIN(len, f->size - off),
		                               .buf = buf } };
	pthread_mutex_lock(&f->locked.m);
	ahead = f->locked.ahead; /* there as long as whoever joined it may read */
	pthread_mutex_unlock(&f->locked.m);
	r = sf_readahead_wait(ahead, f->reader, &q);
	if (r < 0)
		sf_fail(err, r, "%s", q.rd.err.msg);
	sf_readahead_release(&q);
	return r < 0 ? r : (int64_t)q.rd.len;
}

int sf_vfile_read_all(struct sf_vfile *f, void **ret, size_t *ret_len, struct sf_error *err)
{
	SF_FREE uint8_t *at = NULL;
	uint64_t size = 0;
	int64_t got = 0;
	int r = sf_vfile_prepare(f, err);

	if (r >= 0)
		r = sf_vfile_size(f, &size);
	if (r >= 0 && (size >= SIZE_MAX || !(at = malloc((size_t)size + 1))))
		r = sf_fail(err, -ENOMEM, "no memory for a value of %llu bytes",
		            (unsigned long long)size);
	if (r >= 0)
		got = sf_vfile_pread(f, 0, at, (size_t)size, err);
	if (r < 0 || got < 0)
		return r < 0 ? r : (int)got;
	*ret = SF_STEAL(at);
	*ret_len = (size_t)size;
	return 0;
}

struct sf_readahead *sf_vfile_join_readahead(struct sf_vfile *f)
{
	struct sf_readahead *a;

	pthread_mutex_lock(&f->locked.m);
	if (!f->locked.ahead)
		f->locked.ahead = sf_readahead_new(f->reader, sf_vfile_emit, f, f->size);
	a = f->locked.ahead;
	f->locked.openers += a != NULL;
	pthread_mutex_unlock(&f->locked.m);
	return a;
}

void sf_vfile_leave_readahead(struct sf_vfile *f)
{
	struct sf_readahead *last = NULL;

	pthread_mutex_lock(&f->locked.m);
	if (--f->locked.openers == 0)
		last = SF_STEAL(f->locked.ahead);
	pthread_mutex_unlock(&f->locked.m);
	sf_readahead_close(last);
}
