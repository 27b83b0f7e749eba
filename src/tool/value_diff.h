/* How far two tensors' numbers are apart. */
#ifndef SF_TOOL_VALUE_DIFF_H
#define SF_TOOL_VALUE_DIFF_H

#include "read/reader.h"

/* { 0 } at first. */
struct sf_value_diff {
	uint64_t n;      /* elements compared */
	uint64_t differ; /* of them; a NaN is the same as any other */
	double max_abs; /* largest distance of two numbers; infinite where one of them is, or is NaN */
	double max_rel;  /* largest distance by the larger of the two magnitudes: 0 to 2 */
	uint64_t max_at; /* row-major number of the element with the largest distance */
};

/* @n elements of @per numbers each. */
void sf_value_diff_add(struct sf_value_diff *d, const double *x, const double *y, size_t n,
                       unsigned per);

struct sf_diff_side {
	struct sf_reader *reader;
	uint32_t tensor;
};
/*
 * sf_value_diff - all elements of two tensors of one shape, whatever their dtypes and shardings.
 *
 * Elements that are no numbers (bits) are compared as bytes, and are no distance apart.
 * @read: told of bytes, of both sides, as they are read; NULL: nobody is.
 * Errors: -EINVAL numbers of two kinds (complex and real; numbers and bits); those of reading.
 * Memory: 2 MiB and some. Threads: any number at once.
 */
int sf_value_diff(const struct sf_diff_side *x, const struct sf_diff_side *y,
                  void (*read)(void *arg, uint64_t bytes), void *arg, struct sf_value_diff *ret,
                  struct sf_error *err);

#endif
