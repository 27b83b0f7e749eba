#include "config.h"
#include <errno.h>
#include <stdatomic.h>
#include <time.h>
#include <string.h>
#include <stdlib.h>
#include "base/clock.h"
#include "base/mem.h"
#include "fuse/steps.h"

/*
 * A request whose read is parked (read/reader.h). In fs->locked's list from before sf_readahead_park
 * to its reply. Two hold it, the one who parks the read and the one who replies, so that the first
 * may still look at it when sf_readahead_park came back.
 */
struct sf_parked_request {
	_Atomic unsigned refs;
	_Atomic bool interrupted;
	struct sf_readahead_read q;
	struct sf_fs *fs;
	struct sf_slot *slot; /* references: the handle may be released while the read waits */
	struct sf_vfile *file;
	fuse_req_t req;
	struct sf_parked_request *prev, *next;
};

static void count_error(struct sf_fs *fs, const struct sf_slot *slot, const struct sf_read *rd,
                        int r)
{
	sf_fs_count_failure(fs, r);
	if (r == -ECANCELED)
		return;
	/* of a stored file, or where none is to blame of the file that was read */
	sf_fs_log_failure(fs, rd->file != SF_NONE ? "shard" : "view", r,
	                  rd->file != SF_NONE ? (uint64_t)slot->number << 32 | rd->file
	                                      : (uintptr_t)rd->arg,
	                  "read of %llu bytes at %llu: %s", (unsigned long long)rd->len,
	                  (unsigned long long)rd->off, rd->err.msg[0] ? rd->err.msg : strerror(-r));
}

static void reply(struct sf_fs *fs, struct sf_slot *slot, fuse_req_t req, struct sf_read *rd, int r)
{
	if (r < 0) {
		r = sf_steps_code(slot, r);
		count_error(fs, slot, rd, r);
		fuse_reply_err(req, sf_fs_errno(r));
		return;
	}
	/*
	 * Some of the iovecs may point into a mapped shard. If it was truncated since the check the
	 * kernel's copy meets EFAULT and ends the request with EIO itself; there is nothing to
	 * reply any more.
	 */
	int sent = fuse_reply_iov(req, rd->iov, rd->niov);
	if (sent == -EFAULT)
		sf_fs_log_failure(fs, "view", sent, (uintptr_t)rd->arg,
		                  "read at %llu: a shard was truncated while it was read",
		                  (unsigned long long)rd->off);
}

static void interrupted(fuse_req_t req, void *data)
{
	struct sf_parked_request *p = data;
	(void)req;
	atomic_store(&p->interrupted, true);
	atomic_thread_fence(memory_order_seq_cst); /* either the cancel finds the read parked, or
	                                              park_request() finds the flag */
	sf_readahead_cancel(p->slot->s->reader, &p->q);
}

static void parked_request_unref(struct sf_parked_request *p)
{
	struct sf_fs *fs = p->fs;

	if (atomic_fetch_sub(&p->refs, 1) != 1)
		return;
	sf_readahead_release(&p->q);
	sf_vfile_unref(p->file);
	sf_slot_unref(&fs->slots, p->slot);
	free(p);
	pthread_mutex_lock(&fs->locked.m);
	if (--fs->locked.n == 0)
		pthread_cond_broadcast(&fs->locked.c);
	pthread_mutex_unlock(&fs->locked.m);
}

/* Called by whoever completed the last byte: a pool thread or the deadline's. */
static void parked_request_done(struct sf_read *rd, int r)
{
	struct sf_parked_request *p = rd->priv;
	struct sf_fs *fs = p->fs;

	/* From here no interrupt can reach the read; waits for one that is being delivered. */
	fuse_req_interrupt_func(p->req, NULL, NULL);
	reply(fs, p->slot, p->req, rd, r);

	pthread_mutex_lock(&fs->locked.m);
	*(p->prev ? &p->prev->next : &fs->locked.first) = p->next;
	if (p->next)
		p->next->prev = p->prev;
	pthread_mutex_unlock(&fs->locked.m);

	parked_request_unref(p);
}

/* Goes on with @q, which is moved to where completions find it. */
static void park_request(struct sf_fs *fs, fuse_req_t req, struct sf_handle *h,
                         struct sf_readahead_read *q)
{
	struct sf_parked_request *p = calloc(1, sizeof(*p));
	bool ending = false;

	if (!p) {
		sf_readahead_release(q);
		fuse_reply_err(req, ENOMEM);
		return;
	}
	p->refs = 2;
	p->fs = fs;
	p->req = req;
	p->slot = sf_slot_ref(&fs->slots, h->slot);
	p->file = sf_vfile_ref(h->file);
	p->q = *q;
	p->q.rd.done = parked_request_done;
	p->q.rd.priv = p;

	pthread_mutex_lock(&fs->locked.m);
	ending = fs->locked.ending;
	if (!ending) {
		p->next = fs->locked.first;
		if (p->next)
			p->next->prev = p;
		fs->locked.first = p;
		fs->locked.n++;
	}
	pthread_mutex_unlock(&fs->locked.m);
	if (ending) {
		fuse_reply_err(req, EIO);
		sf_readahead_release(&p->q);
		sf_vfile_unref(p->file);
		sf_slot_unref(&fs->slots, p->slot);
		free(p);
		return;
	}
	atomic_fetch_add_explicit(&fs->io->counters.parked, 1, memory_order_relaxed);
	/* before it is parked, which may reply and end req; an interrupt that comes in between finds
	 * nothing to cancel yet */
	fuse_req_interrupt_func(req, interrupted, p);
	sf_readahead_park(h->ahead, p->slot->s->reader, &p->q);
	atomic_thread_fence(memory_order_seq_cst);
	if (atomic_load(&p->interrupted))
		sf_readahead_cancel(p->slot->s->reader, &p->q);
	parked_request_unref(p);
}

void sf_fs_read(fuse_req_t req, fuse_ino_t ino, size_t size, off_t off, struct fuse_file_info *fi)
{
	struct sf_fs *fs = fuse_req_userdata(req);
	struct sf_handle *h = (struct sf_handle *)(uintptr_t)fi->fh;
	uint64_t at = (uint64_t)off;
	(void)ino;

	if (!h->file) {
		if (at >= h->text_len)
			fuse_reply_buf(req, NULL, 0);
		else
			fuse_reply_buf(req, h->text + at, SF_MIN(size, h->text_len - at));
		return;
	}
	if (atomic_load(&h->slot->gone)) {
		sf_fs_count_failure(fs, -ESTALE);
		fuse_reply_err(req, ESTALE);
		return;
	}
	if (at >= h->size || size == 0) {
		fuse_reply_buf(req, NULL, 0);
		return;
	}

	uint64_t len = SF_MIN((uint64_t)size, h->size - at);
	struct sf_counters *c = &fs->io->counters;
	atomic_fetch_add_explicit(&c->read_requests, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->read_bytes, len, memory_order_relaxed);

	struct sf_readahead_read q = {
		.rd = { .emit = sf_vfile_emit, .arg = h->file, .off = at, .len = len }
	};
	int r = sf_readahead_start(h->ahead, h->slot->s->reader, &q);
	if (r == -EAGAIN) {
		park_request(fs, req, h, &q);
		return;
	}
	reply(fs, h->slot, req, &q.rd, r);
	sf_readahead_release(&q);
}

static void wait_locked(struct sf_fs *fs, unsigned ms)
{
	const struct timespec until = sf_until_ms(CLOCK_REALTIME, ms);

	pthread_cond_timedwait(&fs->locked.c, &fs->locked.m, &until);
}

void sf_fs_drain(struct sf_fs *fs)
{
	pthread_mutex_lock(&fs->locked.m);
	fs->locked.ending = true;
	while (fs->locked.n) {
		/* none can be freed while the list holds it and we hold the lock; cancel only marks
		 * and wakes. Again each round: one that was about to be parked could not be
		 * cancelled yet */
		for (struct sf_parked_request *p = fs->locked.first; p; p = p->next)
			sf_readahead_cancel(p->slot->s->reader, &p->q);
		wait_locked(fs, 2);
	}
	pthread_mutex_unlock(&fs->locked.m);
}
