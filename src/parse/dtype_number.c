#include "config.h"

#include <math.h>
#include <string.h>

#include "base/mem.h"
#include "parse/dtype_number.h"

double sf_dtype_small(uint8_t b, int ebits, int mbits, int bias)
{
	int e = b >> mbits & ((1 << ebits) - 1), m = b & ((1 << mbits) - 1);
	double d = e ? ldexp((1 << mbits) + m, e - bias - mbits) : ldexp(m, 1 - bias - mbits);

	return b >> (ebits + mbits) & 1 ? -d : d;
}

/* What a complex number is made of; SF_DTYPE_NONE: it is none. */
static enum sf_dtype part_of(enum sf_dtype dtype)
{
	switch (dtype) {
	case SF_COMPLEX32:
		return SF_FLOAT16;
	case SF_BCOMPLEX32:
		return SF_BFLOAT16;
	case SF_COMPLEX64:
		return SF_FLOAT32;
	case SF_COMPLEX128:
		return SF_FLOAT64;
	default:
		return SF_DTYPE_NONE;
	}
}

unsigned sf_dtype_numbers(enum sf_dtype dtype)
{
	if (part_of(dtype) != SF_DTYPE_NONE || dtype == SF_F4_E2M1FN_X2)
		return 2;
	switch (dtype) {
	case SF_DTYPE_NONE:
	case SF_QUINT4X2:
	case SF_QUINT2X4:
	case SF_BITS8:
	case SF_BITS16:
	case SF_BITS1X8:
	case SF_BITS2X4:
	case SF_BITS4X2:
	case SF_NDTYPES:
		return 0;
	default:
		return 1;
	}
}

/* Source: pytorch/pytorch c10/util/Float8_*.h, Float4_e2m1fn_x2.h, 2.14. */
static double one_byte(enum sf_dtype dtype, uint8_t b)
{
	uint16_t half = (uint16_t)(b << 8); /* E5M2 is the upper byte of one */
	float f;

	switch (dtype) {
	case SF_BOOL:
		return b != 0;
	case SF_UINT8:
	case SF_QUINT8:
		return b;
	case SF_INT8:
	case SF_QINT8:
		return (int8_t)b;
	case SF_F8_E5M2:
		sf_dtype_cast(&f, SF_FLOAT32, &half, SF_FLOAT16, 1);
		return (double)f;
	case SF_F8_E4M3FN:
		return (b & 0x7f) == 0x7f ? (double)NAN : sf_dtype_small(b, 4, 3, 7);
	case SF_F8_E4M3FNUZ:
		return b == 0x80 ? (double)NAN : sf_dtype_small(b, 4, 3, 8);
	case SF_F8_E5M2FNUZ:
		return b == 0x80 ? (double)NAN : sf_dtype_small(b, 5, 2, 16);
	default: /* SF_F8_E8M0FNU */
		return b == 0xff ? (double)NAN : ldexp(1, b - 127);
	}
}

#define INTEGERS(type)                                    \
	for (size_t i = 0; i < n; i++) {                  \
		type v;                                   \
		memcpy(&v, s + i * sizeof(v), sizeof(v)); \
		dst[i] = (double)v;                       \
	}                                                 \
	return

static void integers(double *dst, enum sf_dtype dtype, const uint8_t *s, size_t n)
{
	switch (dtype) {
	case SF_INT16:
		INTEGERS(int16_t);
	case SF_UINT16:
		INTEGERS(uint16_t);
	case SF_INT32:
	case SF_QINT32:
		INTEGERS(int32_t);
	case SF_UINT32:
		INTEGERS(uint32_t);
	case SF_INT64:
		INTEGERS(int64_t);
	default:
		INTEGERS(uint64_t);
	}
}

static void bytes(double *dst, enum sf_dtype dtype, const uint8_t *s, size_t n)
{
	double value[256];

	if (n < 256) { /* else a table pays */
		for (size_t i = 0; i < n; i++)
			dst[i] = one_byte(dtype, s[i]);
		return;
	}
	for (unsigned b = 0; b < 256; b++)
		value[b] = one_byte(dtype, (uint8_t)b);
	for (size_t i = 0; i < n; i++)
		dst[i] = value[s[i]];
}

void sf_dtype_doubles(double *dst, enum sf_dtype dtype, const void *src, size_t n)
{
	const uint8_t *s = src;
	enum sf_dtype part = part_of(dtype);

	if (!sf_dtype_numbers(dtype))
		return;
	if (part != SF_DTYPE_NONE) {
		sf_dtype_cast(dst, SF_FLOAT64, src, part, 2 * n);
	} else if (sf_dtype_info(dtype)->is_float) {
		sf_dtype_cast(dst, SF_FLOAT64, src, dtype, n);
	} else if (dtype == SF_F4_E2M1FN_X2) {
		for (size_t i = 0; i < n; i++) {
			dst[2 * i] = sf_dtype_small(s[i] & 15, 2, 1, 1);
			dst[2 * i + 1] = sf_dtype_small(s[i] >> 4, 2, 1, 1);
		}
	} else if (sf_dtype_info(dtype)->bytes == 1) {
		bytes(dst, dtype, s, n);
	} else {
		integers(dst, dtype, s, n);
	}
}
