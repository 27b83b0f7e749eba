/* What can be said of many numbers in one pass, and how they are spread in a second one. Pure. */
#ifndef SF_TOOL_STATS_H
#define SF_TOOL_STATS_H

#include <stddef.h>
#include <stdint.h>

/* { 0 } at first. */
struct sf_stats {
	uint64_t n;               /* numbers */
	uint64_t nan, pinf, ninf; /* not finite; they count in nothing below */
	uint64_t zeros;
	double min, max; /* of the finite ones, if there are any (n > nan + pinf + ninf) */
	/* m2: the sum of squared distances from the mean. NaN: beyond what a double holds, which
	 * begins with numbers of 10^154 */
	double mean, m2;
};
void sf_stats_add(struct sf_stats *s, const double *v, size_t n);
uint64_t sf_stats_finite(const struct sf_stats *s);
/* Of all of them, not of a sample (numpy's std). 0 without finite numbers, NaN as m2. */
double sf_stats_std(const struct sf_stats *s);

#define SF_BINS 20
/* Equal parts of [min, max], as numpy.histogram has them; a single value is in the middle of
 * [v - 0.5, v + 0.5]. */
struct sf_histogram {
	double min, max;
	uint64_t bin[SF_BINS];
};
void sf_histogram_begin(struct sf_histogram *h, const struct sf_stats *s);
void sf_histogram_add(struct sf_histogram *h, const double *v, size_t n);

#endif
