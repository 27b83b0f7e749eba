#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/fetch_many.h"
#include "store/filter.h"
#include "store/source_wait.h"

/* A source of which some bytes are in memory. */
struct begun {
	struct sf_filter flt;
	struct sf_waiting *w; /* what has them; NULL: */
	uint8_t *own;
	uint64_t off, len;
};

static int begun_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                     uint64_t len, struct sf_error *err)
{
	const struct begun *b = (struct begun *)src;
	struct sf_source *inner = b->flt.inner;
	const uint8_t *from = b->w ? sf_waiting_bytes(b->w) : b->own;

	if (off < b->off || off - b->off > b->len || len > b->len - (off - b->off))
		return inner->ops->try_read(inner, off, iov, niov, len, err);
	from += off - b->off;
	for (int i = 0; i < niov; from += iov[i++].iov_len)
		memcpy(iov[i].iov_base, from, iov[i].iov_len);
	return 0;
}

static void begun_free(struct sf_source *src)
{
	struct begun *b = (struct begun *)src;

	if (b->w)
		sf_waiting_unref(b->w);
	free(b->own);
	sf_filter_free(src);
}

static const struct sf_source_ops begun_ops = { .try_read = begun_try, .free = begun_free };

/* Opened, and its bytes taken if they are there, or asked for. */
static int begin(struct sf_store *store, struct sf_fetch_one *o, enum sf_fetch_kind kind,
                 struct begun **ret)
{
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	struct begun *b = NULL;
	struct iovec iov;
	int r = store->ops->open(store, o->name, o->want, &src, &o->err);

	if (r < 0)
		return r;
	iov.iov_len = SF_MIN(o->len, src->size - SF_MIN(o->off, src->size));
	b = calloc(1, sizeof(*b));
	if (!b)
		return sf_fail(&o->err, -ENOMEM, "'%s': no memory", o->name);
	sf_filter_init(&b->flt, &begun_ops, src);
	*ret = b;
	b->own = iov.iov_base = malloc(iov.iov_len ? iov.iov_len : 1);
	r = !b->own       ? -ENOMEM
	    : iov.iov_len ? src->ops->try_read(src, o->off, &iov, 1, iov.iov_len, &o->err)
	                  : 0;
	if (r == -EAGAIN) {
		free(b->own);
		b->own = NULL;
		b->w = sf_waiting_begin(src, o->off, iov.iov_len, kind);
		r = b->w ? 0 : -ENOMEM;
	}
	if (r == -ENOMEM && !o->err.msg[0])
		sf_fail(&o->err, r, "'%s': no memory for %llu bytes", o->name,
		        (unsigned long long)iov.iov_len);
	b->off = o->off;
	b->len = iov.iov_len;
	return r;
}

static void end(struct sf_fetch_one *o, struct begun *b, unsigned timeout_ms)
{
	if (o->r == 0 && b->w)
		o->r = sf_waiting_end(b->w, timeout_ms, &o->err);
	if (o->r == 0)
		o->src = &b->flt.s;
	else if (b)
		sf_source_unref(&b->flt.s);
}

void sf_fetch_many(struct sf_store *store, struct sf_fetch_one *at, size_t n,
                   enum sf_fetch_kind kind)
{
	SF_FREE struct begun **b = calloc(n ? n : 1, sizeof(*b));
	unsigned timeout_ms = store->io->timeout_ms;
	size_t window = 1, ended = 0;

	for (size_t i = 0; i < n; i++) {
		at[i].src = NULL;
		at[i].err.msg[0] = '\0';
		at[i].r = b ? 0 : sf_fail(&at[i].err, -ENOMEM, "no memory for %zu objects", n);
	}
	for (size_t i = 0; b && ended < n; ended++) {
		/* the oldest is waited for while the others are under way */
		for (; i < n && i < ended + window; i++) {
			at[i].r = begin(store, &at[i], kind, &b[i]);
			if (b[i])
				window = SF_MAX(sf_source_hints(&b[i]->flt.s)->inflight, 1u);
		}
		end(&at[ended], b[ended], timeout_ms);
		if (at[ended].r == -ETIMEDOUT)
			timeout_ms = 1; /* they had as long */
	}
}

void sf_fetch_many_release(struct sf_fetch_one *at, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		sf_source_unref(at[i].src);
		at[i].src = NULL;
	}
}
