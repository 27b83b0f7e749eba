/* One element of a tensor as text. */
#ifndef SF_PARSE_DTYPE_TEXT_H
#define SF_PARSE_DTYPE_TEXT_H

#include "parse/dtype.h"

#define SF_DTYPE_TEXT 96 /* room for any element, with its NUL */

/*
 * sf_dtype_json - the element at @at as strict JSON, in the spelling of value.json.
 *
 * Floats are the shortest text that comes back as the same number (as a float32 where the dtype is
 * no wider), {"$float": "nan"|"inf"|"-inf"}; integers past 2^53 {"$int": "…"}; complex numbers
 * [re, im]; float4_e2m1fn_x2, whose element is two numbers, [low, high]; quantized ones their
 * integers, what has no value of its own (bits, packed integers) its bytes as an integer.
 * Returns the length. Threads: pure. @at need not be aligned.
 */
size_t sf_dtype_json(char buf[SF_DTYPE_TEXT], enum sf_dtype dtype, const void *at);
/* The same for people, as Python prints it and rounded to the digits that mean something: "0.0312",
 * "nan", "True", "1+2j". */
size_t sf_dtype_text(char buf[SF_DTYPE_TEXT], enum sf_dtype dtype, const void *at);

#endif
