#include "config.h"

#include <math.h>
#include <stdbool.h>

#include "base/mem.h"
#include "tool/stats.h"

/*
 * A block at a time: sums of distances from the block's first number, then joined with what there
 * was (Chan, Golub, LeVeque 1979), so that 10^9 numbers of one size lose nothing. Lanes are summed
 * side by side, which the compiler makes vectors of.
 */
#define LANES 8

struct lanes {
	double sum[LANES], square[LANES], min[LANES], max[LANES];
	uint64_t zeros[LANES];
};

/* false: some are not finite, and *l is nothing. @n is a multiple of LANES. */
static bool add_lanes(struct lanes *l, const double *v, size_t n, double from)
{
	double odd[LANES] = { 0 };

	for (size_t i = 0; i < n; i += LANES)
		for (unsigned k = 0; k < LANES; k++) {
			double x = v[i + k], d = x - from;
			odd[k] += x - x; /* 0, or NaN */
			l->sum[k] += d;
			l->square[k] += d * d;
			l->min[k] = x < l->min[k] ? x : l->min[k];
			l->max[k] = x > l->max[k] ? x : l->max[k];
			l->zeros[k] += x == 0;
		}
	for (unsigned k = 0; k < LANES; k++)
		if (odd[k] != 0)
			return false;
	return true;
}

/* @k finite numbers whose distances from @from add up to @sum, squared to @square. */
static void join(struct sf_stats *s, uint64_t k, double from, double sum, double square)
{
	const uint64_t had = sf_stats_finite(s);
	const double n = (double)k, all = (double)(had + k), mean = from + sum / n,
		     apart = mean - s->mean;

	s->m2 += square - sum * (sum / n) + apart * apart * ((double)had * n / all);
	s->mean += apart * (n / all);
	if (!isfinite(s->mean) || !isfinite(s->m2)) /* from now on */
		s->m2 = (double)NAN;
	if (!isfinite(s->mean))
		s->mean = (double)NAN;
	s->n += k;
}

static void extremes(struct sf_stats *s, bool first, double min, double max)
{
	s->min = first || min < s->min ? min : s->min;
	s->max = first || max > s->max ? max : s->max;
}

static bool add_block(struct sf_stats *s, const double *v, size_t n)
{
	struct lanes l = { .zeros = { 0 } };
	double sum = 0, square = 0, min = v[0], max = v[0];

	for (unsigned k = 0; k < LANES; k++)
		l.min[k] = l.max[k] = v[0];
	if (!add_lanes(&l, v, n, v[0]))
		return false;
	for (unsigned k = 0; k < LANES; k++) {
		sum += l.sum[k];
		square += l.square[k];
		min = l.min[k] < min ? l.min[k] : min;
		max = l.max[k] > max ? l.max[k] : max;
		s->zeros += l.zeros[k];
	}
	extremes(s, sf_stats_finite(s) == 0, min, max);
	join(s, n, v[0], sum, square);
	return true;
}

static void add_one(struct sf_stats *s, double x)
{
	if (isfinite(x)) {
		s->zeros += x == 0;
		extremes(s, sf_stats_finite(s) == 0, x, x);
		join(s, 1, x, 0, 0);
		return;
	}
	s->n++;
	s->nan += isnan(x) != 0;
	s->pinf += isinf(x) && x > 0;
	s->ninf += isinf(x) && x < 0;
}

void sf_stats_add(struct sf_stats *s, const double *v, size_t n)
{
	const size_t whole = n / LANES * LANES;
	size_t i = 0;

	if (whole && add_block(s, v, whole))
		i = whole;
	for (; i < n; i++)
		add_one(s, v[i]);
}

uint64_t sf_stats_finite(const struct sf_stats *s)
{
	return s->n - s->nan - s->pinf - s->ninf;
}

double sf_stats_std(const struct sf_stats *s)
{
	uint64_t n = sf_stats_finite(s);

	return n ? sqrt(s->m2 < 0 ? 0 : s->m2 / (double)n) : 0;
}

void sf_histogram_begin(struct sf_histogram *h, const struct sf_stats *s)
{
	*h = (struct sf_histogram){ .min = s->min, .max = s->max };
	if (h->min == h->max) {
		h->min -= 0.5;
		h->max += 0.5;
	}
}

void sf_histogram_add(struct sf_histogram *h, const double *v, size_t n)
{
	/* halves, since the whole may be more than a double holds */
	const double width = h->max / 2 - h->min / 2;

	for (size_t i = 0; i < n; i++) {
		double at = (v[i] / 2 - h->min / 2) / width * SF_BINS;
		if (isfinite(v[i]))
			h->bin[at < SF_BINS ? (unsigned)SF_MAX(at, 0) : SF_BINS - 1]++;
	}
}
