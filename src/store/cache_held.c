#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/cache_held.h"
#include "store/cache_tie.h"
#include "store/store_file.h"

bool sf_cache_behind_take(struct sf_cache *c, uint64_t bytes)
{
	const uint64_t most = sf_budget_limit(c->io->budget) / 2;
	uint64_t before = atomic_fetch_add(&c->behind, bytes);

	if (!before || before + bytes <= most)
		return true;
	atomic_fetch_sub(&c->behind, bytes);
	return false;
}

void sf_cache_behind_give(struct sf_cache *c, uint64_t bytes)
{
	atomic_fetch_sub(&c->behind, bytes);
}

/* @io: NULL: it is gone, with its budget. */
static void unref(struct sf_cache_held *h, struct sf_io *io)
{
	struct sf_cache_object *o = h->c->o;
	struct sf_cache *cache = o->cache;

	if (atomic_fetch_sub_explicit(&h->refs, 1, memory_order_acq_rel) != 1)
		return;
	sf_pages_release(&h->pages);
	if (io)
		sf_budget_give(io->budget, SF_BUDGET_FETCH, h->len);
	sf_cache_behind_give(cache, h->len);
	sf_blocks_unref(h->c);
	sf_cache_object_unref(o);
	free(h);
}

static void unlist(struct sf_cache_held *h, int r)
{
	struct sf_cache_object *o = h->c->o;

	pthread_mutex_lock(&o->m);
	for (struct sf_cache_held **at = &h->c->held; *at; at = &(*at)->next)
		if (*at == h) {
			*at = h->next;
			break;
		}
	sf_cache_set_locked(h->c, h->first, h->n, r < 0 ? SF_BLOCK_UNKNOWN : SF_BLOCK_THERE, 0,
	                    NULL);
	pthread_mutex_unlock(&o->m);
}

static void write_task(struct sf_task *task)
{
	struct sf_cache_held *h = sf_container_of(task, struct sf_cache_held, task);
	struct sf_cache *cache = h->c->o->cache;
	struct sf_cache_tie *tie = sf_cache_tie_ref(cache->tie);
	int r = sf_cache_file_store(h->c->file, h->first, h->pages.at, h->len);
	struct sf_io *io = sf_cache_tie_done(tie);

	if (io && r < 0)
		sf_cache_failed(cache, r);
	if (r == -ESTALE)
		sf_blocks_retire(h->c);
	if (io)
		(r < 0 ? sf_cache_not_kept : sf_cache_kept)(cache, h->len);
	unlist(h, r);
	unref(h, io);
	sf_cache_tie_end(tie, io);
	sf_cache_tie_unref(tie);
}

int sf_cache_hold(struct sf_blocks *c, uint64_t first, unsigned n, struct sf_pages *pages,
                  uint64_t len)
{
	struct sf_cache_held *h = calloc(1, sizeof(*h));

	if (!h)
		return -ENOMEM;
	*h = (struct sf_cache_held){ .task.run = write_task,
		                     .c = c,
		                     .refs = 1,
		                     .first = first,
		                     .n = n,
		                     .len = len,
		                     .pages = *pages };
	*pages = (struct sf_pages){ 0 };
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->o->refs, 1, memory_order_relaxed);
	pthread_mutex_lock(&c->o->m);
	h->next = c->held;
	c->held = h;
	sf_cache_set_locked(c, first, n, SF_BLOCK_HELD, 0, NULL);
	pthread_mutex_unlock(&c->o->m);
	sf_cache_tie_begin(c->o->cache->tie);
	sf_thread_pool_submit(c->o->cache->io->keep, &h->task);
	return 0;
}

/* ---- copying ---- */

/* The part of a request that is copied next. */
struct cursor {
	const struct iovec *iov;
	int niov;
	size_t skip; /* bytes of iov[0] that are done */
	uint64_t off;
};

static uint64_t off_of(const struct sf_cache_held *h)
{
	return h->first * SF_CACHE_BLOCK;
}

static void advance(struct cursor *at, uint64_t len)
{
	at->off += len;
	while (at->niov && len >= at->iov->iov_len - at->skip) {
		len -= at->iov->iov_len - at->skip;
		at->skip = 0;
		at->iov++;
		at->niov--;
	}
	at->skip += len;
}

static void copy_held(struct cursor *at, const struct sf_cache_held *h, uint64_t len)
{
	while (len) {
		const uint8_t *from = h->pages.at + (at->off - off_of(h));
		size_t k = (size_t)SF_MIN(len, (uint64_t)(at->iov->iov_len - at->skip));
		memcpy((uint8_t *)at->iov->iov_base + at->skip, from, k);
		advance(at, k);
		len -= k;
	}
}

static int copy_file(const struct sf_blocks *c, struct cursor *at, uint64_t len, bool wait,
                     struct sf_error *err)
{
	struct sf_source *local = c->file->local;

	while (len) { /* a place at a time: what is half in memory is a rare sight */
		struct iovec one = { (uint8_t *)at->iov->iov_base + at->skip,
			             SF_MIN(at->iov->iov_len - at->skip, (size_t)len) };
		int r = !one.iov_len ? 0
		        : wait ? sf_source_file_read(local, at->off, &one, 1, one.iov_len, err)
		               : local->ops->try_read(local, at->off, &one, 1, one.iov_len, err);
		if (r < 0)
			return r;
		advance(at, one.iov_len);
		len -= one.iov_len;
	}
	return 0;
}

/* Those that have bytes of [off, end), referenced, in no order: their number, or -ENOMEM. *ret: malloc'ed,
 * NULL for none. */
static ssize_t held_of(struct sf_blocks *c, uint64_t off, uint64_t end, struct sf_cache_held ***ret)
{
	size_t n = 0, k = 0;

	*ret = NULL;
	pthread_mutex_lock(&c->o->m);
	for (struct sf_cache_held *h = c->held; h; h = h->next)
		n += off_of(h) < end && off_of(h) + h->len > off;
	if (n)
		*ret = calloc(n, sizeof(struct sf_cache_held *));
	for (struct sf_cache_held *h = c->held; *ret && h; h = h->next)
		if (off_of(h) < end && off_of(h) + h->len > off) {
			atomic_fetch_add_explicit(&h->refs, 1, memory_order_relaxed);
			(*ret)[k++] = h;
		}
	pthread_mutex_unlock(&c->o->m);
	return n && !*ret ? -ENOMEM : (ssize_t)n;
}

/* The one that has byte @off, or the nearest one behind it. */
static const struct sf_cache_held *next_of(struct sf_cache_held **at, size_t n, uint64_t off)
{
	const struct sf_cache_held *best = NULL;

	for (size_t i = 0; i < n; i++)
		if (off_of(at[i]) + at[i]->len > off && (!best || off_of(at[i]) < off_of(best)))
			best = at[i];
	return best;
}

int sf_cache_copy(struct sf_blocks *c, uint64_t off, const struct iovec *iov, int niov,
                  uint64_t len, bool wait, struct sf_error *err)
{
	struct cursor at = { .iov = iov, .niov = niov, .off = off };
	const uint64_t end = off + len;
	struct sf_cache_held **held;
	ssize_t n = held_of(c, off, end, &held);
	int r = 0;

	if (n < 0)
		return sf_fail(err, -ENOMEM, "no memory");
	if (!n)
		r = wait ? sf_source_file_read(c->file->local, off, iov, niov, len, err)
		         : c->file->local->ops->try_read(c->file->local, off, iov, niov, len, err);
	while (n && r >= 0 && at.off < end) {
		const struct sf_cache_held *h = next_of(held, (size_t)n, at.off);
		uint64_t upto = h ? SF_MIN(off_of(h), end) : end;
		if (h && off_of(h) <= at.off)
			copy_held(&at, h, SF_MIN(off_of(h) + h->len, end) - at.off);
		else
			r = copy_file(c, &at, upto - at.off, wait, err);
	}
	for (ssize_t i = 0; i < n; i++)
		unref(held[i], c->o->cache->io);
	free(held);
	return r;
}
