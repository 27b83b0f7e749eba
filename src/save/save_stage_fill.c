#include "config.h"

#include "base/mem.h"
#include "parse/torch_item.h" /* SF_DIMS_MAX */
#include "save/save_stage.h"

/* Rows and columns of a tile: its source lines and its target rows both stay in the first cache. */
#define TILE 32

/* A box in memory: runs of bytes that lie side by side, and the dimensions above them that could not be
 * folded into them. */
struct gather {
	const uint8_t *at;
	uint64_t run; /* bytes */
	unsigned n;
	uint64_t extent[SF_DIMS_MAX + 1], step[SF_DIMS_MAX + 1]; /* step in bytes */
};

static bool is_dense(const struct sf_save_item *item)
{
	uint64_t step = 1;

	for (unsigned i = item->ndim; item->from.stride && i-- > 0;) {
		if (item->extent[i] == 0)
			return true; /* of nothing */
		if (item->extent[i] > 1 && item->from.stride[i] != step)
			return false;
		step *= item->extent[i];
	}
	return true;
}

const void *sf_stage_direct(const struct sf_save_item *item)
{
	if (item->kind == SF_SAVE_OBJECT)
		return item->archive;
	return item->from.device == SHARDFUSE_HOST && item->from.at && is_dense(item)
	               ? item->from.at
	               : NULL;
}

int sf_stage_device(const struct sf_save_item *item, const struct sf_device **ret,
                    struct sf_error *err)
{
	if (item->kind == SF_SAVE_TENSOR && item->from.at && item->from.device == SHARDFUSE_CUDA)
		return sf_device_cuda(ret, err);
	*ret = item->kind == SF_SAVE_TENSOR && item->from.at && item->from.own ? item->from.own
	                                                                       : sf_device_host();
	return 0;
}

static void swap(uint64_t *a, uint64_t *b)
{
	uint64_t t = *a;

	*a = *b;
	*b = t;
}

static void gather_begin(struct gather *g, const struct sf_save_item *item)
{
	const uint64_t elem = sf_dtype_info(item->dtype)->bytes;
	unsigned n = 0; /* so far, the innermost first */

	*g = (struct gather){ .at = item->from.at, .run = elem };
	if (is_dense(item)) {
		g->run = item->bytes ? item->bytes : 1;
		return;
	}
	for (unsigned i = item->ndim; i-- > 0;) {
		uint64_t extent = item->extent[i], step = item->from.stride[i] * elem;
		if (extent == 1)
			continue;
		if (n == 0 && step == g->run) {
			g->run *= extent;
		} else if (n > 0 && step == g->step[n - 1] * g->extent[n - 1]) {
			g->extent[n - 1] *= extent;
		} else {
			g->extent[n] = extent;
			g->step[n++] = step;
		}
	}
	g->n = n;
	for (unsigned i = 0; i < n / 2; i++) { /* outermost first */
		swap(&g->extent[i], &g->extent[n - 1 - i]);
		swap(&g->step[i], &g->step[n - 1 - i]);
	}
}

/* Where the odometer is: a coordinate of each dimension, and the address they make. */
struct place {
	uint64_t c[SF_DIMS_MAX + 1];
	const uint8_t *at;
};

static void place_begin(const struct gather *g, uint64_t run, struct place *p)
{
	p->at = g->at;
	for (unsigned i = g->n; i-- > 0; run /= g->extent[i]) {
		p->c[i] = run % g->extent[i];
		p->at += p->c[i] * g->step[i];
	}
}

/* @by more in dimension @d, which stays within it or comes to its end. */
static void place_move(const struct gather *g, unsigned d, uint64_t by, struct place *p)
{
	p->c[d] += by;
	p->at += by * g->step[d];
	while (d > 0 && p->c[d] == g->extent[d]) {
		p->at -= p->c[d] * g->step[d];
		p->c[d] = 0;
		d--;
		p->c[d]++;
		p->at += g->step[d];
	}
}

/* @n runs, @step apart, side by side to @to. A constant length is a load and a store. */
static void copy_runs(uint8_t *to, const uint8_t *from, uint64_t step, uint64_t run, uint64_t n)
{
	switch (run) {
#define RUNS(bytes)                                                       \
	case bytes:                                                       \
		for (uint64_t i = 0; i < n; i++)                          \
			memcpy(to + i * (bytes), from + i * step, bytes); \
		break
		RUNS(1);
		RUNS(2);
		RUNS(4);
		RUNS(8);
		RUNS(16);
	default:
		for (uint64_t i = 0; i < n; i++)
			memcpy(to + i * run, from + i * step, run);
	}
}

/* @rows whole rows of the innermost dimension, whose elements are farther apart in memory than the rows are:
 * tile by tile, so that a line that came from memory is used up before it goes. */
static void copy_tiles(const struct gather *g, uint8_t *to, const uint8_t *from, uint64_t rows)
{
	const uint64_t cols = g->extent[g->n - 1], down = g->step[g->n - 2];
	const uint64_t along = g->step[g->n - 1], width = cols * g->run;

	for (uint64_t c = 0; c < cols; c += TILE)
		for (uint64_t r = 0; r < rows; r += TILE)
			for (uint64_t i = r; i < SF_MIN(r + TILE, rows); i++)
				copy_runs(to + i * width + c * g->run, from + i * down + c * along,
				          along, g->run, SF_MIN(TILE, cols - c));
}

/* Whole rows that can go by tiles from where it is; 0: none. */
static uint64_t tile_rows(const struct gather *g, const struct place *p, size_t len)
{
	if (g->n < 2 || p->c[g->n - 1] || g->step[g->n - 2] >= g->step[g->n - 1] || g->run > 64)
		return 0;
	uint64_t left = g->extent[g->n - 2] - p->c[g->n - 2];
	uint64_t whole = len / (g->extent[g->n - 1] * g->run);
	return SF_MIN(left, whole);
}

static void gather_host(const struct gather *g, uint64_t off, uint8_t *to, size_t len)
{
	struct place p;
	uint64_t within = off % g->run;

	place_begin(g, off / g->run, &p);
	if (g->n == 0) {
		memcpy(to, g->at + off, len);
		return;
	}
	while (len > 0) {
		uint64_t part, rows = within ? 0 : tile_rows(g, &p, len);
		if (rows > 1) {
			copy_tiles(g, to, p.at, rows);
			part = rows * g->extent[g->n - 1] * g->run;
			place_move(g, g->n - 2, rows, &p);
		} else if (within || len < g->run) {
			part = SF_MIN(g->run - within, len);
			memcpy(to, p.at + within, part);
			place_move(g, g->n - 1, 1, &p);
		} else {
			uint64_t runs = SF_MIN(g->extent[g->n - 1] - p.c[g->n - 1], len / g->run);
			copy_runs(to, p.at, g->step[g->n - 1], g->run, runs);
			part = runs * g->run;
			place_move(g, g->n - 1, runs, &p);
		}
		within = 0;
		to += part;
		len -= part;
	}
}

/* Rows that go to a device at once. */
#define ROWS 32

/* The next of at most @len bytes: the runs that are left of a row, or a part of one. */
static uint64_t next_rows(const struct gather *g, struct place *p, uint64_t within, uint8_t *to,
                          size_t len, struct sf_device_rows *ret)
{
	*ret = (struct sf_device_rows){ to, p->at + within, SF_MIN(g->run - within, len), 0, 1 };
	if (g->n == 0)
		return ret->run;
	if (within == 0 && len >= g->run) {
		ret->step = g->step[g->n - 1];
		ret->n = SF_MIN(g->extent[g->n - 1] - p->c[g->n - 1], len / g->run);
	}
	place_move(g, g->n - 1, ret->n, p);
	return ret->run * ret->n;
}

/* Rows go to @d, joined to the copy that was queued last where that can be. */
static int copy_rows(const struct sf_device *d, const struct sf_device_rows *rows, size_t n,
                     void *stream, struct sf_stage_copies *copies, struct sf_error *err)
{
	struct sf_stage_copy *last = copies->n ? &copies->at[copies->n - 1] : NULL;
	void *before = last && last->device == d ? last->copy : NULL;
	struct sf_stage_copy now = { d, before };

	if (sf_stage_copies_reserve(copies, copies->n + 1) < 0)
		return sf_fail(err, -ENOMEM, "copies from %s", d->name);
	int r = d->copy(d, rows, n, stream, &now.copy, err);
	if (r >= 0 && now.copy && now.copy != before)
		sf_stage_copies_push(copies, now);
	return r;
}

/* The device copies row by row: nothing of it can be looked at here. */
static int gather_device(const struct gather *g, const struct sf_device *d, void *stream,
                         uint64_t off, uint8_t *to, size_t len, struct sf_stage_copies *copies,
                         struct sf_error *err)
{
	struct sf_device_rows rows[ROWS];
	struct place p;
	uint64_t within = off % g->run;
	int r = 0;

	place_begin(g, off / g->run, &p);
	while (r >= 0 && len > 0) {
		size_t n = 0;
		for (; n < ROWS && len > 0; n++) {
			uint64_t part = next_rows(g, &p, within, to, len, &rows[n]);
			within = 0;
			to += part;
			len -= part;
		}
		r = copy_rows(d, rows, n, stream, copies, err);
	}
	return r;
}

static int ask_provider(const struct sf_save_item *item, uint64_t off, void *to, size_t len,
                        struct sf_error *err)
{
	struct shardfuse_error why = { "" };

	if (!item->from.provide)
		return sf_fail(err, -EINVAL, "tensor '%s': neither memory nor a provider",
		               item->key);
	int r = item->from.provide(item->from.provide_arg, off, to, len, &why);
	if (r == 0)
		return 0;
	if (r > 0)
		return sf_fail(err, -EINVAL,
		               "tensor '%s': its provider, bytes %llu to %llu: returned %d, which "
		               "is neither 0 nor "
		               "negative",
		               item->key, (unsigned long long)off, (unsigned long long)(off + len),
		               r);
	why.msg[sizeof(why.msg) - 1] = 0;
	return sf_fail(err, r, "tensor '%s': its provider, bytes %llu to %llu: %s", item->key,
	               (unsigned long long)off, (unsigned long long)(off + len),
	               why.msg[0] ? why.msg : strerror(-r));
}

int sf_stage_fill_begin(const struct sf_save_item *item, uint64_t off, void *to, size_t len,
                        struct sf_stage_copies *copies, struct sf_error *err)
{
	const struct sf_device *d;
	struct gather g;
	int r;

	if (len == 0)
		return 0;
	if (item->kind == SF_SAVE_OBJECT) {
		memcpy(to, (const uint8_t *)item->archive + off, len);
		return 0;
	}
	if (!item->from.at)
		return ask_provider(item, off, to, len, err);
	r = sf_stage_device(item, &d, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "tensor '%s'", item->key);
	gather_begin(&g, item);
	if (d == sf_device_host()) {
		gather_host(&g, off, to, len);
		return 0;
	}
	r = gather_device(&g, d, item->from.stream, off, to, len, copies, err);
	return r < 0 ? sf_fail_ctx(err, r, "tensor '%s'", item->key) : 0;
}

int sf_stage_fill_wait(struct sf_stage_copies *copies, struct sf_error *err)
{
	int r = 0;

	for (size_t i = 0; i < copies->n; i++) {
		struct sf_stage_copy *c = &copies->at[i];
		int one = c->device->wait(c->device, c->copy, r < 0 ? NULL : err);
		r = r < 0 ? r : one;
	}
	copies->n = 0;
	return r;
}

int sf_stage_fill(const struct sf_save_item *item, uint64_t off, void *to, size_t len,
                  struct sf_error *err)
{
	struct sf_stage_copies copies = { 0 };
	int r = sf_stage_fill_begin(item, off, to, len, &copies, err);
	int waited = sf_stage_fill_wait(&copies, r < 0 ? NULL : err);

	sf_stage_copies_release(&copies);
	return r < 0 ? r : waited;
}
