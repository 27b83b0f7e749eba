#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "parse/dtype_number.h"
#include "parse/dtype_text.h"

#define EXACT_INT (INT64_C(1) << 53) /* what every JSON reader keeps exactly */

/* False: no float of one number. */
static bool get_float(enum sf_dtype dtype, const uint8_t *p, double *ret)
{
	if (!sf_dtype_info(dtype)->is_float && (dtype < SF_F8_E4M3FN || dtype > SF_F8_E8M0FNU))
		return false;
	sf_dtype_doubles(ret, dtype, p, 1);
	return true;
}

/* The parts of an element of several numbers; how many, 0 for any other. */
static unsigned get_pair(enum sf_dtype dtype, const uint8_t *p, double ret[2],
                         enum sf_dtype *ret_part)
{
	static const enum sf_dtype part[SF_NDTYPES] = {
		[SF_COMPLEX32] = SF_FLOAT16,    [SF_BCOMPLEX32] = SF_BFLOAT16,
		[SF_COMPLEX64] = SF_FLOAT32,    [SF_COMPLEX128] = SF_FLOAT64,
		[SF_F4_E2M1FN_X2] = SF_FLOAT16,
	};

	*ret_part = part[dtype];
	if (sf_dtype_numbers(dtype) != 2)
		return 0;
	sf_dtype_doubles(ret, dtype, p, 1);
	return 2;
}

static bool is_signed(enum sf_dtype dtype)
{
	return dtype == SF_INT8 || dtype == SF_INT16 || dtype == SF_INT32 || dtype == SF_INT64 ||
	       dtype == SF_QINT8 || dtype == SF_QINT32;
}

static uint64_t get_bits(enum sf_dtype dtype, const uint8_t *p)
{
	unsigned bytes = sf_dtype_info(dtype)->bytes;
	uint64_t v = 0;

	for (unsigned i = bytes; i-- > 0;)
		v = v << 8 | p[i];
	if (is_signed(dtype) && bytes < 8)
		v = (uint64_t)((int64_t)(v << (64 - 8 * bytes)) >> (64 - 8 * bytes));
	return v;
}

static size_t json_float(char *buf, size_t size, double d, bool twice)
{
	int n = 0;

	if (!isfinite(d))
		return (size_t)snprintf(buf, size, "{\"$float\": \"%s\"}",
		                        isnan(d) ? "nan"
		                        : d > 0  ? "inf"
		                                 : "-inf");
	for (int digits = twice ? 15 : 6; digits <= 17; digits++) {
		n = snprintf(buf, size, "%.*g", digits, d);
		if (twice ? strtod(buf, NULL) == d : strtof(buf, NULL) == (float)d)
			break;
	}
	if (!strpbrk(buf, ".e")) /* a float stays one */
		n += snprintf(buf + n, size - (size_t)n, ".0");
	return (size_t)n;
}

size_t sf_dtype_json(char buf[SF_DTYPE_TEXT], enum sf_dtype dtype, const void *at)
{
	const uint8_t *p = at;
	double d, pair[2];
	enum sf_dtype part;
	size_t n;

	if (dtype == SF_BOOL)
		return (size_t)snprintf(buf, SF_DTYPE_TEXT, *p ? "true" : "false");
	if (get_float(dtype, p, &d))
		return json_float(buf, SF_DTYPE_TEXT, d, dtype == SF_FLOAT64);
	if (get_pair(dtype, p, pair, &part)) {
		buf[0] = '[';
		n = 1 + json_float(buf + 1, SF_DTYPE_TEXT / 2, pair[0], part == SF_FLOAT64);
		n += (size_t)snprintf(buf + n, SF_DTYPE_TEXT - n, ", ");
		n += json_float(buf + n, SF_DTYPE_TEXT - n, pair[1], part == SF_FLOAT64);
		return n + (size_t)snprintf(buf + n, SF_DTYPE_TEXT - n, "]");
	}
	uint64_t v = get_bits(dtype, p);
	bool minus = is_signed(dtype) && (int64_t)v < 0;
	uint64_t size = minus ? -v : v;
	return (size_t)snprintf(buf, SF_DTYPE_TEXT,
	                        size > (uint64_t)EXACT_INT ? "{\"$int\": \"%s%" PRIu64 "\"}"
	                                                   : "%s%" PRIu64,
	                        minus ? "-" : "", size);
}

static int digits_of(enum sf_dtype dtype)
{
	return dtype == SF_FLOAT64 ? 8 : dtype == SF_FLOAT32 ? 6 : 4;
}

/* %g would print a NaN's sign, which means nothing. */
static double unsigned_nan(double d)
{
	return isnan(d) ? (double)NAN : d;
}

size_t sf_dtype_text(char buf[SF_DTYPE_TEXT], enum sf_dtype dtype, const void *at)
{
	const uint8_t *p = at;
	double d, pair[2];
	enum sf_dtype part;

	if (dtype == SF_BOOL)
		return (size_t)snprintf(buf, SF_DTYPE_TEXT, *p ? "True" : "False");
	if (get_float(dtype, p, &d))
		return (size_t)snprintf(buf, SF_DTYPE_TEXT, "%.*g", digits_of(dtype),
		                        unsigned_nan(d));
	if (get_pair(dtype, p, pair, &part))
		return (size_t)snprintf(buf, SF_DTYPE_TEXT,
		                        dtype == SF_F4_E2M1FN_X2 ? "(%.*g, %.*g)" : "%.*g%+.*gj",
		                        digits_of(part), unsigned_nan(pair[0]), digits_of(part),
		                        unsigned_nan(pair[1]));
	uint64_t v = get_bits(dtype, p);
	return is_signed(dtype) ? (size_t)snprintf(buf, SF_DTYPE_TEXT, "%" PRId64, (int64_t)v)
	                        : (size_t)snprintf(buf, SF_DTYPE_TEXT, "%" PRIu64, v);
}
