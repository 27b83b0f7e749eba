#include "config.h"

#include "base/mem.h"
#include "save/save_plan.h"

#define ALIGN 64 /* payloads lie at multiples of it in their items, and so in the file */

/* Files as a heap: on top the one with least, of several the first. */
struct heap {
	uint32_t *file;
	uint64_t *end; /* of each file */
	unsigned n;
};

static bool is_less(const struct heap *h, uint32_t a, uint32_t b)
{
	return h->end[a] != h->end[b] ? h->end[a] < h->end[b] : a < b;
}

static void sink(struct heap *h)
{
	for (unsigned at = 0, child; (child = 2 * at + 1) < h->n; at = child) {
		uint32_t swap = h->file[at];

		if (child + 1 < h->n && is_less(h, h->file[child + 1], h->file[child]))
			child++;
		if (!is_less(h, h->file[child], swap))
			return;
		h->file[at] = h->file[child];
		h->file[child] = swap;
	}
}

static int by_len(const void *a, const void *b, void *arg)
{
	const uint64_t *len = arg;
	uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;

	return len[x] != len[y] ? (len[x] > len[y] ? -1 : 1) : (x > y) - (x < y);
}

struct placing {
	const struct sf_layout_in *in;
	struct heap heap;
	uint32_t *ret_file;
	uint64_t *ret_off;
	struct sf_error *err;
};

static int put(struct placing *p, uint32_t item, uint32_t file)
{
	uint64_t *end = &p->heap.end[file], off;

	if (!sf_add(*end, ALIGN - 1, &off) ||
	    !sf_add(off & ~(uint64_t)(ALIGN - 1), p->in->len[item], end) || *end >> 63)
		return sf_fail(p->err, -E2BIG, "item %u of %llu bytes: its file passes 2^63 bytes",
		               item, (unsigned long long)p->in->len[item]);
	p->ret_file[item] = file;
	p->ret_off[item] = off & ~(uint64_t)(ALIGN - 1);
	return 0;
}

static int place(struct placing *p, uint32_t *order, uint32_t n, uint32_t ntensors)
{
	int r = 0;

	/* one file is written as it came: nothing is to be balanced */
	if (p->heap.n > 1)
		qsort_r(order, ntensors, sizeof(*order), by_len, (void *)p->in->len);
	for (uint32_t i = 0; i < n && r >= 0; i++) {
		uint32_t file = i < ntensors ? p->heap.file[0] : (i - ntensors) % p->heap.n;
		r = put(p, order[i], file);
		if (i < ntensors)
			sink(&p->heap);
	}
	return r;
}

static bool is_written(const uint8_t *write, uint64_t i)
{
	return !write || (write[i / 8] >> i % 8 & 1);
}

int sf_save_layout(const struct sf_layout_in *in, uint64_t n, const uint8_t *write, unsigned nfiles,
                   uint32_t *ret_file, uint64_t *ret_off, struct sf_error *err)
{
	struct placing p = { .in = in, .ret_file = ret_file, .ret_off = ret_off, .err = err };
	uint32_t total = 0, ntensors;

	if (!nfiles || n >= UINT32_MAX)
		return sf_fail(err, -EINVAL, "%u files for %llu items", nfiles,
		               (unsigned long long)n);
	SF_FREE uint32_t *order = sf_alloc_array(n, sizeof(*order));
	SF_FREE uint32_t *file = sf_alloc_array(nfiles, sizeof(*file));
	SF_FREE uint64_t *end = calloc(nfiles, sizeof(*end));
	if (!order || !file || !end)
		return sf_fail(err, -ENOMEM, "no memory to lay out %llu items",
		               (unsigned long long)n);

	for (uint32_t f = 0; f < nfiles; f++)
		file[f] = f;
	p.heap = (struct heap){ .file = file, .end = end, .n = nfiles };
	for (uint32_t i = 0; i < n; i++)
		if (!in->is_object[i] && is_written(write, i))
			order[total++] = i;
	ntensors = total;
	for (uint32_t i = 0; i < n; i++)
		if (in->is_object[i] && is_written(write, i))
			order[total++] = i;
	return place(&p, order, total, ntensors);
}

/* ---- all ranks ---- */

struct of_rank { /* a rank's items: as many as the most of a rank */
	uint64_t *len, *off;
	uint32_t *file;
	uint8_t *is_object;
};

static void of_rank_release(struct of_rank *o)
{
	free(o->len);
	free(o->off);
	free(o->file);
	free(o->is_object);
}

static int of_rank_init(struct of_rank *o, const struct sf_global_plan *g)
{
	uint64_t most = 0;

	for (uint32_t r = 0; r < g->nranks; r++)
		most = SF_MAX(most, g->rank_items[r]);
	o->len = sf_alloc_array(most, sizeof(*o->len));
	o->off = sf_alloc_array(most, sizeof(*o->off));
	o->file = sf_alloc_array(most, sizeof(*o->file));
	o->is_object = sf_alloc_array(most, 1);
	return o->len && o->off && o->file && o->is_object ? 0 : -ENOMEM;
}

/* Chunks sorted by rank: those of rank r are at[first[r]] … at[first[r + 1] - 1]. */
struct by_rank {
	uint64_t *at, *first;
	uint8_t *is_object; /* of a chunk */
};

static void by_rank_release(struct by_rank *b)
{
	free(b->at);
	free(b->first);
	free(b->is_object);
}

static int by_rank_init(struct by_rank *b, const struct sf_global_plan *g)
{
	b->at = sf_alloc_array(g->nchunks, sizeof(*b->at));
	b->first = calloc((size_t)g->nranks + 2, sizeof(*b->first));
	b->is_object = calloc(g->nchunks ? g->nchunks : 1, 1);
	if (!b->at || !b->first || !b->is_object)
		return -ENOMEM;
	for (uint64_t k = 0; k < g->nkeys; k++)
		if (g->key[k].kind == SF_SAVE_OBJECT)
			b->is_object[g->key[k].first] = 1;
	for (uint64_t c = 0; c < g->nchunks; c++)
		b->first[g->rank[c] + 2]++;
	for (uint32_t r = 0; r < g->nranks; r++)
		b->first[r + 2] += b->first[r + 1];
	for (uint64_t c = 0; c < g->nchunks; c++)
		b->at[b->first[g->rank[c] + 1]++] = c;
	return 0;
}

static int lay_rank(struct sf_global_plan *g, uint32_t rank, const struct by_rank *b,
                    struct of_rank *o, unsigned nfiles, struct sf_error *err)
{
	const struct sf_layout_in in = { .len = o->len, .is_object = o->is_object };
	int r;

	for (uint64_t i = b->first[rank]; i < b->first[rank + 1]; i++) {
		uint64_t c = b->at[i];
		o->len[g->item[c]] = g->len[c];
		o->is_object[g->item[c]] = b->is_object[c];
	}
	r = sf_save_layout(&in, g->rank_items[rank], g->bits + g->bits_at[rank], nfiles, o->file,
	                   o->off, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "rank %u", rank);
	for (uint64_t i = b->first[rank]; i < b->first[rank + 1]; i++) {
		uint64_t c = b->at[i];
		g->file[c] = o->file[g->item[c]];
		g->off[c] = o->off[g->item[c]];
	}
	return 0;
}

int sf_global_plan_layout(struct sf_global_plan *g, unsigned nfiles, struct sf_error *err)
{
	SF_CLEANUP(of_rank_release) struct of_rank o = { 0 };
	SF_CLEANUP(by_rank_release) struct by_rank b = { 0 };
	int r = 0;

	if (!g->file)
		g->file = sf_alloc_array(g->nchunks, sizeof(*g->file));
	if (!g->off)
		g->off = sf_alloc_array(g->nchunks, sizeof(*g->off));
	if (!g->file || !g->off || of_rank_init(&o, g) < 0 || by_rank_init(&b, g) < 0)
		return sf_fail(err, -ENOMEM, "no memory to lay out %llu items",
		               (unsigned long long)g->nchunks);
	for (uint32_t rank = 0; rank < g->nranks && r >= 0; rank++)
		r = lay_rank(g, rank, &b, &o, nfiles, err);
	return r;
}

/* ---- what ranks tell ---- */

/* Of the items of a rank: how many before each it writes. Returns how many there are. */
static uint64_t count_written(const struct sf_global_plan *g, uint32_t rank, uint64_t *before)
{
	const uint8_t *bits = g->bits + g->bits_at[rank];
	uint64_t n = 0;

	for (uint64_t i = 0; i < g->rank_items[rank]; i++) {
		before[i] = n;
		n += is_written(bits, i);
	}
	return n;
}

static int place_told(struct sf_global_plan *g, uint64_t c, const uint8_t *at, unsigned nfiles,
                      struct sf_error *err)
{
	g->file[c] = sf_le32(at);
	g->off[c] = sf_le64(at + 4);
	g->len[c] = sf_le64(at + 12);
	if (g->file[c] < nfiles && !(g->off[c] >> 62) && !(g->len[c] >> 62))
		return 0;
	return sf_fail(err, -EBADMSG, "rank %u: item %u in file %u of %u, %llu bytes at %llu",
	               g->rank[c], g->item[c], g->file[c], nfiles, (unsigned long long)g->len[c],
	               (unsigned long long)g->off[c]);
}

int sf_global_plan_places(struct sf_global_plan *g, const struct sf_save_record *told,
                          unsigned nfiles, struct sf_error *err)
{
	SF_CLEANUP(by_rank_release) struct by_rank b = { 0 };
	SF_FREE uint64_t *before = NULL;
	uint64_t most = 0;
	int r = 0;

	for (uint32_t rank = 0; rank < g->nranks; rank++)
		most = SF_MAX(most, g->rank_items[rank]);
	before = sf_alloc_array(most, sizeof(*before));
	if (!before || by_rank_init(&b, g) < 0)
		return sf_fail(err, -ENOMEM, "no memory for the places of %llu items",
		               (unsigned long long)g->nchunks);
	for (uint32_t rank = 0; rank < g->nranks && r >= 0; rank++) {
		uint64_t n = count_written(g, rank, before);
		if (told[rank].len != n * SF_PLACE_BYTES)
			return sf_fail(err, -EBADMSG,
			               "rank %u told of %zu bytes of places, wrote %llu items",
			               rank, told[rank].len, (unsigned long long)n);
		for (uint64_t i = b.first[rank]; i < b.first[rank + 1] && r >= 0; i++)
			r = place_told(g, b.at[i],
			               (const uint8_t *)told[rank].at +
			                       before[g->item[b.at[i]]] * SF_PLACE_BYTES,
			               nfiles, err);
	}
	return r;
}
