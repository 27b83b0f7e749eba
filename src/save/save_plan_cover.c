#include "config.h"

#include <errno.h>
#include <pthread.h>

#include "save/save_plan_priv.h"

/* ---- the measure ---- */

static uint64_t secret[SHARDFUSE_DIMS_MAX];
static pthread_once_t drawn = PTHREAD_ONCE_INIT;

static void draw(void)
{
	for (unsigned d = 0; d < SHARDFUSE_DIMS_MAX; d++) {
		char what[16] = "save_plan_cover";
		what[15] = (char)d;
		secret[d] = sf_hash(what, sizeof(what)); /* seeded by the kernel */
	}
}

/* Murmur3's finalizer, twice, each with a secret: coordinates in a row must not give weights in a row. */
static inline uint64_t scatter(uint64_t x, unsigned d)
{
	for (unsigned round = 0; round < 2; round++) {
		x ^= secret[(d + round) % SHARDFUSE_DIMS_MAX] + d;
		x = (x ^ x >> 33) * UINT64_C(0xff51afd7ed558ccd);
		x = (x ^ x >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
		x ^= x >> 33;
	}
	x = (x & SF_COVER_P) + (x >> 61);
	return x >= SF_COVER_P ? x - SF_COVER_P : x;
}

static inline uint64_t axis(uint64_t x, uint64_t end, unsigned d)
{
	return x == 0 ? 0 : x == end ? 1 : scatter(x, d);
}

static inline uint64_t times(uint64_t a, uint64_t b)
{
	__extension__ unsigned __int128 p = (unsigned __int128)a * b;

	return sf_cover_sum((uint64_t)p & SF_COVER_P, (uint64_t)(p >> 61));
}

static inline uint64_t minus(uint64_t a, uint64_t b)
{
	return a >= b ? a - b : a + SF_COVER_P - b;
}

uint64_t sf_cover_weight(const uint64_t *shape, const uint64_t *origin, const uint64_t *extent,
                         unsigned ndim)
{
	uint64_t w = 1;

	pthread_once(&drawn, draw);
	for (unsigned d = 0; d < ndim; d++)
		if (origin[d] || extent[d] != shape[d])
			w = times(w, minus(axis(origin[d] + extent[d], shape[d], d),
			                   axis(origin[d], shape[d], d)));
	return w;
}

/* ---- where it is wrong ---- */

struct find {
	const uint64_t *shape, *coords;
	unsigned ndim;
	uint64_t n; /* of id */
	uint64_t *id;
	uint64_t origin[SHARDFUSE_DIMS_MAX], extent[SHARDFUSE_DIMS_MAX]; /* the part looked at */
};

/* What of a box lies in the part, as a box. False: nothing. */
static bool clip(const struct find *f, uint64_t id, uint64_t *origin, uint64_t *extent)
{
	const uint64_t *o = f->coords + 2 * f->ndim * id, *e = o + f->ndim;

	for (unsigned d = 0; d < f->ndim; d++) {
		uint64_t lo = SF_MAX(o[d], f->origin[d]);
		uint64_t hi = SF_MIN(o[d] + e[d], f->origin[d] + f->extent[d]);
		if (lo >= hi)
			return false;
		origin[d] = lo;
		extent[d] = hi - lo;
	}
	return true;
}

/* Do the boxes weigh what the part does? */
static bool weighs_right(const struct find *f)
{
	uint64_t sum = 0, o[SHARDFUSE_DIMS_MAX], e[SHARDFUSE_DIMS_MAX];

	for (uint64_t i = 0; i < f->n; i++)
		if (clip(f, f->id[i], o, e))
			sum = sf_cover_sum(sum, sf_cover_weight(f->shape, o, e, f->ndim));
	return sum == sf_cover_weight(f->shape, f->origin, f->extent, f->ndim);
}

static void keep_those_inside(struct find *f)
{
	uint64_t kept = 0, o[SHARDFUSE_DIMS_MAX], e[SHARDFUSE_DIMS_MAX];

	for (uint64_t i = 0; i < f->n; i++)
		if (clip(f, f->id[i], o, e))
			f->id[kept++] = f->id[i];
	f->n = kept;
}

/* Halves one dimension after another: one half is wrong, and the first that is has the first element. */
int sf_cover_find(const uint64_t *shape, unsigned ndim, const uint64_t *coords, uint64_t n,
                  uint64_t *ret_at, uint64_t *ret_a, uint64_t *ret_b)
{
	struct find f = { .shape = shape, .coords = coords, .ndim = ndim, .n = n };

	f.id = sf_alloc_array(n, sizeof(*f.id));
	if (!f.id)
		return -ENOMEM;
	for (uint64_t i = 0; i < n; i++)
		f.id[i] = i;
	for (unsigned d = 0; d < ndim; d++) {
		f.origin[d] = 0;
		f.extent[d] = shape[d];
	}
	for (unsigned d = 0; d < ndim; d++) {
		while (f.extent[d] > 1) {
			uint64_t all = f.extent[d];

			f.extent[d] = all / 2;
			if (weighs_right(&f)) {
				f.origin[d] += all / 2;
				f.extent[d] = all - all / 2;
			}
			keep_those_inside(&f);
		}
		ret_at[d] = f.origin[d];
	}
	keep_those_inside(&f);
	n = f.n;
	*ret_a = n ? f.id[0] : 0;
	*ret_b = n > 1 ? f.id[1] : 0;
	free(f.id);
	return n > 2 ? 2 : (int)n;
}
