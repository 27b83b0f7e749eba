#include "config.h"

#include "base/mem.h"
#include "read/coalesce.h"

#define KEEP 16384 /* elements that a reset array keeps room for */

void sf_coalesce_reset(struct sf_coalesce *c)
{
	c->ranges.n = c->iovs.n = c->scatters.n = 0;
	if (c->ranges.cap > KEEP)
		sf_ranges_release(&c->ranges);
	if (c->iovs.cap > KEEP)
		sf_iovs_release(&c->iovs);
	if (c->scatters.cap > KEEP)
		sf_scatters_release(&c->scatters);
}

void sf_coalesce_release(struct sf_coalesce *c)
{
	sf_ranges_release(&c->ranges);
	sf_iovs_release(&c->iovs);
	sf_scatters_release(&c->scatters);
}

uint64_t sf_coalesce_bytes(const struct sf_coalesce *c)
{
	return c->ranges.cap * sizeof(*c->ranges.at) + c->iovs.cap * sizeof(*c->iovs.at) +
	       c->scatters.cap * sizeof(*c->scatters.at);
}

/* What all functions below need; requests are only joined within one call: items lie apart. */
struct run {
	struct sf_coalesce *c;
	uint64_t range_max, gap_max;
	struct sf_range like; /* source, item, kind */
	uint64_t base;
	uint8_t *dst;
	size_t first; /* ranges from here on are this call's */
};

/* Of one run: it may lie anywhere, before dst too. */
static uint8_t *place_of(const struct run *u, const struct sf_piece *p)
{
	return (uint8_t *)((uintptr_t)u->dst + p->dst_off);
}

static struct sf_range *current(struct run *u, bool span)
{
	struct sf_ranges *v = &u->c->ranges;

	return v->n > u->first && v->at[v->n - 1].span == span ? &v->at[v->n - 1] : NULL;
}

static struct sf_range *open_range(struct run *u, bool span, uint64_t off)
{
	struct sf_range r = u->like;

	r.off = u->base + off;
	r.span = span;
	r.iov0 = (uint32_t)u->c->iovs.n;
	r.scatter0 = (uint32_t)u->c->scatters.n;
	if (sf_ranges_push(&u->c->ranges, r) < 0)
		return NULL;
	if (span && sf_iovs_push(&u->c->iovs, (struct iovec){ 0 }) < 0)
		return NULL;
	u->c->ranges.at[u->c->ranges.n - 1].niov = span;
	return &u->c->ranges.at[u->c->ranges.n - 1];
}

/* One run straight to its place: at the end of the last request if it follows there, else a new
 * one. */
static int direct(struct run *u, uint64_t src, uint8_t *dst, uint64_t len)
{
	struct sf_iovs *v = &u->c->iovs;

	while (len) {
		struct sf_range *r = current(u, false);
		uint64_t at = u->base + src, gap = 0, n;
		bool joins = r && at >= r->off + r->len && at - (r->off + r->len) <= u->gap_max &&
		             at - r->off < u->range_max && r->niov + 2 <= SF_RANGE_IOV;

		if (joins) {
			gap = at - (r->off + r->len);
		} else {
			r = open_range(u, false, src);
			if (!r)
				return -ENOMEM;
		}
		n = SF_MIN(len, u->range_max - (at - r->off));
		struct iovec *last = r->niov ? &v->at[v->n - 1] : NULL;
		if (!gap && last && last->iov_base &&
		    (uint8_t *)last->iov_base + last->iov_len == dst) {
			last->iov_len += n;
		} else {
			if (gap && sf_iovs_push(v, (struct iovec){ NULL, gap }) < 0)
				return -ENOMEM;
			if (sf_iovs_push(v, (struct iovec){ dst, n }) < 0)
				return -ENOMEM;
			r->niov += 1 + (gap > 0);
		}
		r->len += gap + n;
		src += n;
		dst += n;
		len -= n;
	}
	return 0;
}

/* Makes [src, end) part of a span; at most range_max bytes. Returns it, or NULL without memory. */
static struct sf_range *span(struct run *u, uint64_t src, uint64_t end)
{
	struct sf_range *r = current(u, true);
	uint64_t from = u->base + src, to = u->base + end;

	if (!r || from < r->off ||
	    (from > r->off + r->len && from - (r->off + r->len) > u->gap_max) ||
	    to - r->off > u->range_max) {
		r = open_range(u, true, src);
		if (!r)
			return NULL;
	}
	r->len = SF_MAX(r->len, to - r->off);
	return r;
}

static int scatter(struct run *u, struct sf_range *r, uint64_t src, struct sf_scatter s)
{
	s.src_off = u->base + src - r->off;
	r->nscatter++;
	return sf_scatters_push(&u->c->scatters, s) < 0 ? -ENOMEM : 0;
}

/* A piece whose runs are short and close together: as many of them in a span as go in. */
static int tiny(struct run *u, const struct sf_piece *p)
{
	uint64_t step = p->count > 1 ? (uint64_t)p->src_step : p->len,
		 most = (u->range_max - p->len) / step + 1;

	for (uint64_t i = 0, n; i < p->count; i += n) {
		uint64_t src = p->src_off + i * step;
		/* in what is left of the current span, but not in a small rest of it */
		struct sf_range *r = current(u, true);
		n = SF_MIN(most, p->count - i);
		if (r && u->base + src >= r->off && u->base + src - r->off < u->range_max / 2)
			n = SF_MIN(n,
			           (u->range_max - (u->base + src - r->off) - p->len) / step + 1);
		r = span(u, src, src + (n - 1) * step + p->len);
		if (!r)
			return -ENOMEM;
		struct sf_scatter s = { u->dst + p->dst_off + (int64_t)i * p->dst_step,
			                0,
			                p->len,
			                n,
			                (int64_t)step,
			                p->dst_step };
		if (scatter(u, r, src, s) < 0)
			return -ENOMEM;
	}
	return 0;
}

/*
 * Pieces that step alike over a source where their runs lie side by side: rows of a transposed
 * item. What they take at each step is one span. Returns how many of the @n pieces that are.
 */
static size_t alike(const struct run *u, const struct sf_piece *p, size_t n)
{
	uint64_t end = p->src_off + p->len;
	int64_t d = n > 1 ? (int64_t)(p[1].src_off - p[0].src_off) : 0;
	int64_t D = n > 1 ? (int64_t)(p[1].dst_off - p[0].dst_off) : 0;
	size_t k = 1;

	while (k < n && d > 0 && p[k].len == p->len && p[k].count == p->count &&
	       p[k].src_step == p->src_step && p[k].dst_step == p->dst_step &&
	       (int64_t)(p[k].src_off - p[k - 1].src_off) == d &&
	       (int64_t)(p[k].dst_off - p[k - 1].dst_off) == D && p[k].src_off >= end &&
	       p[k].src_off - end <= u->gap_max &&
	       p[k].src_off + p->len - p->src_off <= SF_MIN(u->range_max, (uint64_t)p->src_step)) {
		end = p[k].src_off + p->len;
		k++;
	}
	return k;
}

/* Does a span that has all the runs of @n pieces that are alike pass what one request may? */
static bool is_long(const struct run *u, const struct sf_piece *p, size_t n)
{
	uint64_t width = p[n - 1].src_off + p->len - p->src_off;

	return n > 1 && (p->count - 1) * (uint64_t)p->src_step + width > u->range_max;
}

/*
 * Rows of a transposed item that is longer than one request: each has runs all over it. A span has
 * so many steps as go in, and all the rows' runs at these: no byte is in two spans.
 */
static int tiny_rows(struct run *u, const struct sf_piece *p, size_t n)
{
	uint64_t step = (uint64_t)p->src_step, width = p[n - 1].src_off + p->len - p->src_off,
		 most = (u->range_max - width) / step + 1;
	struct sf_scatter row = { .len = p->len, .src_step = p->src_step, .dst_step = p->dst_step };
	struct sf_scatter all = { .len = p->len,
		                  .count = n,
		                  .src_step = (int64_t)(p[1].src_off - p[0].src_off),
		                  .dst_step = (int64_t)(p[1].dst_off - p[0].dst_off) };
	int r = 0;

	for (uint64_t i = 0; i < p->count && r >= 0; i += row.count) {
		uint64_t src = p->src_off + i * step;
		uint8_t *dst = u->dst + p->dst_off + (int64_t)i * p->dst_step;
		struct sf_range *range;
		row.count = SF_MIN(most, p->count - i);
		range = span(u, src, src + (row.count - 1) * step + width);
		if (!range)
			return -ENOMEM;
		/* the fewest copies: a row's runs, or all rows' at a step */
		for (size_t k = 0; k < n && row.count >= n && r >= 0; k++) {
			row.dst = dst + (int64_t)k * all.dst_step;
			r = scatter(u, range, src + k * (uint64_t)all.src_step, row);
		}
		for (uint64_t k = 0; k < row.count && row.count < n && r >= 0; k++) {
			all.dst = dst + (int64_t)k * p->dst_step;
			r = scatter(u, range, src + k * step, all);
		}
	}
	return r;
}

static int far_apart(struct run *u, const struct sf_piece *p, size_t n)
{
	uint64_t width = p[n - 1].src_off + p->len - p->src_off;
	struct sf_scatter s = { .len = p->len, .count = n };

	if (n > 1) {
		s.src_step = (int64_t)(p[1].src_off - p[0].src_off);
		s.dst_step = (int64_t)(p[1].dst_off - p[0].dst_off);
	}
	for (uint64_t i = 0; i < p->count; i++) {
		uint64_t src = p->src_off + i * (uint64_t)p->src_step;
		uint8_t *dst = u->dst + p->dst_off + (int64_t)i * p->dst_step;
		if (n == 1) {
			if (direct(u, src, dst, p->len) < 0)
				return -ENOMEM;
			continue;
		}
		struct sf_range *r = span(u, src, src + width);
		s.dst = dst;
		if (!r || scatter(u, r, src, s) < 0)
			return -ENOMEM;
	}
	return 0;
}

/* A short end of a strided piece goes the way its neighbour goes, into the same request. */
static bool tiny_beside(const struct sf_piece *p, size_t n, size_t i)
{
	return n > 1 && p[i ? i - 1 : 1].len < SF_TINY;
}

static size_t entries(const struct sf_coalesce *c)
{
	return c->ranges.n + c->iovs.n + c->scatters.n;
}

int sf_coalesce(struct sf_coalesce *c, const struct sf_source_hints *hints, uint32_t source,
                uint32_t item, uint8_t kind, uint64_t base, uint8_t *dst,
                const struct sf_piece *pieces, size_t n)
{
	size_t done;

	return sf_coalesce_some(c, hints, source, item, kind, base, dst, pieces, n, SIZE_MAX,
	                        &done);
}

int sf_coalesce_some(struct sf_coalesce *c, const struct sf_source_hints *hints, uint32_t source,
                     uint32_t item, uint8_t kind, uint64_t base, uint8_t *dst,
                     const struct sf_piece *pieces, size_t n, size_t most, size_t *ret_done)
{
	struct run u = { .c = c,
		         .range_max = hints->range_max,
		         .gap_max = hints->gap_max,
		         .like = { .source = source, .item = item, .kind = kind },
		         .base = base,
		         .dst = dst,
		         .first = c->ranges.n };

	size_t i = 0;

	for (size_t k; i < n && (i == 0 || entries(c) < most); i += k) {
		struct sf_piece p = pieces[i];
		int64_t len = (int64_t)p.len;
		int r = 0;

		k = 1;
		if (p.count > 1 && p.src_step == len && p.dst_step == len) {
			p.len *= p.count;
			p.count = 1;
		}
		if (p.count == 1 && (p.len >= SF_TINY || !tiny_beside(pieces, n, i)))
			r = direct(&u, p.src_off, place_of(&u, &p), p.len);
		else if (p.count > 1 && p.len < SF_TINY && p.src_step >= len &&
		         (uint64_t)(p.src_step - len) <= u.gap_max &&
		         is_long(&u, &pieces[i], k = alike(&u, &pieces[i], n - i)))
			r = tiny_rows(&u, &pieces[i], k);
		else if (p.count == 1 || (p.len < SF_TINY && p.src_step >= len &&
		                          (uint64_t)(p.src_step - len) <= u.gap_max)) {
			k = 1;
			r = tiny(&u, &p);
		} else if (p.src_step >= len && (uint64_t)(p.src_step - len) <= u.gap_max)
			for (uint64_t j = 0; j < p.count && r >= 0; j++)
				r = direct(&u, p.src_off + j * p.src_step,
				           u.dst + p.dst_off + (int64_t)j * p.dst_step, p.len);
		else
			r = far_apart(&u, &pieces[i],
			              k = p.src_step > 0 ? alike(&u, &pieces[i], n - i) : 1);
		if (r < 0)
			return r;
	}
	*ret_done = i;
	return 0;
}

uint64_t sf_range_needs(const struct sf_coalesce *c, const struct sf_range *r)
{
	const struct iovec *v = &c->iovs.at[r->iov0];
	uint64_t most = 0;

	if (r->span)
		return r->len;
	for (uint32_t k = 0; k < r->niov; k++)
		if (!v[k].iov_base)
			most = SF_MAX(most, (uint64_t)v[k].iov_len);
	return most;
}

void sf_range_lend(struct sf_coalesce *c, const struct sf_range *r, void *at)
{
	struct iovec *v = &c->iovs.at[r->iov0];

	if (r->span)
		v->iov_len = r->len;
	for (uint32_t k = 0; k < r->niov; k++)
		if (!v[k].iov_base)
			v[k].iov_base = at;
}

void sf_range_unlend(struct sf_coalesce *c, const struct sf_range *r, const void *at)
{
	struct iovec *v = &c->iovs.at[r->iov0];

	for (uint32_t k = 0; k < r->niov; k++)
		if (v[k].iov_base == at)
			v[k].iov_base = NULL;
}

#define COPY(n)                                                                                 \
	case n:                                                                                 \
		for (uint64_t i = 0; i < s->count; i++, src += s->src_step, dst += s->dst_step) \
			memcpy(dst, src, n);                                                    \
		break

void sf_range_scatter(const struct sf_coalesce *c, const struct sf_range *r)
{
	const uint8_t *from = r->niov ? c->iovs.at[r->iov0].iov_base : NULL;

	for (uint32_t k = r->scatter0; k < r->scatter0 + r->nscatter; k++) {
		const struct sf_scatter *s = &c->scatters.at[k];
		const uint8_t *src = from + s->src_off;
		uint8_t *dst = s->dst;
		switch (s->len) {
			COPY(1);
			COPY(2);
			COPY(4);
			COPY(8);
			COPY(16);
		default:
			for (uint64_t i = 0; i < s->count;
			     i++, src += s->src_step, dst += s->dst_step)
				memcpy(dst, src, s->len);
		}
	}
}

static bool within(const void *at, const uint8_t *from, uint64_t len)
{
	return (uintptr_t)at - (uintptr_t)from < len;
}

void sf_coalesce_move(struct sf_coalesce *c, const uint8_t *from, uint64_t len, uint8_t *to)
{
	for (size_t i = 0; i < c->iovs.n; i++)
		if (within(c->iovs.at[i].iov_base, from, len))
			c->iovs.at[i].iov_base =
				to + ((const uint8_t *)c->iovs.at[i].iov_base - from);
	for (size_t i = 0; i < c->scatters.n; i++)
		if (within(c->scatters.at[i].dst, from, len))
			c->scatters.at[i].dst = to + (c->scatters.at[i].dst - from);
}
