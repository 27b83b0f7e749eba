/* Elements of any type as numbers, for those who compute with them. */
#ifndef SF_PARSE_DTYPE_NUMBER_H
#define SF_PARSE_DTYPE_NUMBER_H

#include "parse/dtype.h"

/* Numbers that an element is: 1; 2 of a complex one (real, imaginary) and of float4_e2m1fn_x2 (low,
 * high); 0: none that mean anything (bits, packed integers). */
unsigned sf_dtype_numbers(enum sf_dtype dtype);

/*
 * sf_dtype_doubles - @n elements as n * sf_dtype_numbers() doubles.
 *
 * Integers beyond 2^53 are rounded; bools are 0 and 1; quantized ones their integers. @src need not
 * be aligned. Nothing, of a type that is no number.
 */
void sf_dtype_doubles(double *dst, enum sf_dtype dtype, const void *src, size_t n);

/* A sign, @ebits of exponent, @mbits of mantissa and no infinity: what the small floats are, which
 * differ in bias and in which bytes are NaN. */
double sf_dtype_small(uint8_t b, int ebits, int mbits, int bias);

#endif
