#include "config.h"

#include <errno.h>

#include "base/mem.h"
#include "ckpt/box.h"
#include "ckpt/ckpt_order.h"

#define INSERTION_MAX 48 /* below it a radix pass costs more */

void sf_order_scratch_release(struct sf_order_scratch *s)
{
	sf_sort_keys_release(&s->key);
	sf_sort_keys_release(&s->tmp);
}

static void insertion_sort(uint64_t *at, size_t n, unsigned shift)
{
	for (size_t i = 1; i < n; i++) {
		uint64_t v = at[i];
		size_t k = i;
		for (; k > 0 && at[k - 1] >> shift > v >> shift; k--)
			at[k] = at[k - 1];
		at[k] = v;
	}
}

void sf_sort_u64(uint64_t *at, uint64_t *tmp, size_t n, unsigned shift)
{
	uint64_t *from = at, *to = tmp, differ = 0;

	if (n <= INSERTION_MAX) {
		insertion_sort(at, n, shift);
		return;
	}
	for (size_t i = 1; i < n; i++)
		differ |= at[i] ^ at[0];
	for (; shift < 64; shift += 8) {
		size_t count[256] = { 0 }, sum = 0;

		if (!(differ >> shift & 0xff))
			continue;
		for (size_t i = 0; i < n; i++)
			count[from[i] >> shift & 0xff]++;
		for (unsigned b = 0; b < 256; b++) {
			size_t c = count[b];
			count[b] = sum;
			sum += c;
		}
		for (size_t i = 0; i < n; i++)
			to[count[from[i] >> shift & 0xff]++] = from[i];
		uint64_t *swap = from;
		from = to;
		to = swap;
	}
	if (from != at)
		memcpy(at, from, n * sizeof(*at));
}

static int compare_first(const void *a, const void *b, void *arg)
{
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
	uint64_t fx = sf_chunk_first(arg, x), fy = sf_chunk_first(arg, y);

	return fx != fy ? (fx < fy ? -1 : 1) : (x > y) - (x < y);
}

static int compare_empty(const void *a, const void *b, void *arg)
{
	const struct sf_tensor *t = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	for (unsigned d = 0; d < t->ndim; d++) {
		uint64_t cx = sf_chunk_origin(t, x, d), cy = sf_chunk_origin(t, y, d);
		if (cx != cy)
			return cx < cy ? -1 : 1;
	}
	return (x > y) - (x < y);
}

static unsigned bits(uint64_t v)
{
	return v ? 64 - (unsigned)__builtin_clzll(v) : 0;
}

/* @n chunk numbers, not sorted. Their first elements and the numbers mostly fit one word together. */
static int sort_by_first(const struct sf_tensor *t, struct sf_order_scratch *s, uint32_t *order,
                         uint32_t n, uint64_t last_first)
{
	unsigned low = bits(t->nchunks);

	if (bits(last_first) + low > 64) {
		qsort_r(order, n, sizeof(*order), compare_first, (void *)t);
		return 0;
	}
	if (sf_sort_keys_reserve(&s->key, n) < 0 || sf_sort_keys_reserve(&s->tmp, n) < 0)
		return -ENOMEM;
	for (uint32_t i = 0; i < n; i++)
		s->key.at[i] = sf_chunk_first(t, order[i]) << low | order[i];
	sf_sort_u64(s->key.at, s->tmp.at, n, low);
	for (uint32_t i = 0; i < n; i++)
		order[i] = (uint32_t)(s->key.at[i] & ((UINT64_C(1) << low) - 1));
	return 0;
}

int sf_order_build(const struct sf_tensor *t, struct sf_order_scratch *s, uint32_t *order,
                   uint32_t *ret_n)
{
	uint32_t n = 0, empty = t->nchunks;
	uint64_t before = 0, greatest = 0;
	bool sorted = true;

	for (uint32_t i = 0; i < t->nchunks; i++) {
		if (sf_chunk_empty(t, i)) {
			order[--empty] = i;
			continue;
		}
		uint64_t first = sf_chunk_first(t, i);
		sorted &= first >= before;
		before = first;
		greatest = SF_MAX(greatest, first);
		order[n++] = i;
	}
	if (!sorted && sort_by_first(t, s, order, n, greatest) < 0)
		return -ENOMEM;
	if (n < t->nchunks)
		qsort_r(order + n, t->nchunks - n, sizeof(*order), compare_empty, (void *)t);
	*ret_n = n;
	return 0;
}

static uint64_t fill_hulls(const struct sf_tensor *t, uint64_t *hull_end, uint32_t lo, uint32_t hi)
{
	uint32_t mid = lo + (hi - lo) / 2;
	uint64_t end = sf_chunk_end(t, t->order[mid]);

	if (lo < mid)
		end = SF_MAX(end, fill_hulls(t, hull_end, lo, mid));
	if (mid + 1 < hi) {
		uint64_t right = fill_hulls(t, hull_end, mid + 1, hi);
		end = SF_MAX(end, right);
	}
	return hull_end[mid] = end;
}

void sf_order_hulls(const struct sf_tensor *t, uint64_t *hull_end)
{
	if (t->norder)
		fill_hulls(t, hull_end, 0, t->norder);
}

struct query {
	const struct sf_tensor *t;
	uint64_t from, to;
	int (*each)(void *arg, uint32_t chunk);
	void *arg;
};

static int query_range(const struct query *q, uint32_t lo, uint32_t hi)
{
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2, chunk = q->t->order[mid];
		int r;

		if (q->t->hull_end[mid] <= q->from)
			return 0; /* all of this range ends before */
		r = query_range(q, lo, mid);
		if (r)
			return r;
		if (sf_chunk_first(q->t, chunk) >= q->to)
			return 0; /* so does all to the right of it */
		if (sf_chunk_end(q->t, chunk) > q->from) {
			r = q->each(q->arg, chunk);
			if (r)
				return r;
		}
		lo = mid + 1;
	}
	return 0;
}

int sf_order_query(const struct sf_tensor *t, uint64_t from, uint64_t to,
                   int (*each)(void *arg, uint32_t chunk), void *arg)
{
	const struct query q = { t, from, to, each, arg };

	return query_range(&q, 0, t->norder);
}
