#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/dtype.h"

/*
 * All of f16, bf16 and f32 are f32 without loss, so they go through a block of floats and are
 * rounded once, on the way out. f64 is rounded straight to its target (torch goes through f32,
 * which rounds twice: they differ in one value of 2^29 or so). Numbers are loaded and stored by
 * memcpy: rows of a view begin anywhere. The host is little-endian or the same loads would be
 * wrong; _Static_assert below says so.
 */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__,
               "casts read little-endian numbers as the host's");
#define BLOCK 256

static uint32_t float_bits(float f)
{
	uint32_t u;
	memcpy(&u, &f, 4);
	return u;
}

static float bits_float(uint32_t u)
{
	float f;
	memcpy(&f, &u, 4);
	return f;
}

static float half_to_float(uint16_t h)
{
	uint32_t sign = (uint32_t)(h & 0x8000) << 16, rest = (uint32_t)(h & 0x7fff) << 13;

	if (rest >= 0x7c00u << 13) /* Inf, NaN: the exponent's top is f32's top */
		return bits_float(sign | rest | 0x7f800000u);
	if (rest < 0x400u << 13) /* subnormal; by a multiplication of normal floats, in case
	                            denormals are off in this process */
		return bits_float(sign | float_bits((float)(h & 0x3ff) * 0x1p-24f));
	return bits_float(sign | (rest + ((127u - 15) << 23)));
}

static uint16_t float_to_half(float f)
{
	uint32_t u = float_bits(f), sign = u >> 16 & 0x8000;

	u &= 0x7fffffffu;
	if (u > 0x7f800000u)
		return (uint16_t)(sign | 0x7e00 | (u >> 13 & 0x1ff)); /* quiet */
	if (u >= 0x477ff000u) /* 65520, half way between the largest half and the next */
		return (uint16_t)(sign | 0x7c00);
	if (u < 0x38800000u) /* below 2^-14: 0.5's unit in the last place is the smallest half's;
	                        the FPU rounds */
		return (uint16_t)(sign | (float_bits(bits_float(u) + 0.5f) - 0x3f000000u));
	u += 0xc8000fffu +
	     (u >> 13 & 1); /* bias 127 -> 15, and half a unit, a bit less when even */
	return (uint16_t)(sign | u >> 13);
}

static uint16_t float_to_bf16(float f)
{
	uint32_t u = float_bits(f);
	uint32_t quiet = u >> 16 | 0x40, even = (u + 0x7fff + (u >> 16 & 1)) >> 16;

	return (uint16_t)((u & 0x7fffffffu) > 0x7f800000u ? quiet : even);
}

/* f64 to a sign, @ebits of exponent and @mbits of mantissa. */
static inline uint16_t double_to_small(uint64_t u, int ebits, int mbits)
{
	const int bias = (1 << (ebits - 1)) - 1;
	const uint64_t inf = (uint64_t)((1 << ebits) - 1) << mbits;
	uint16_t sign = (uint16_t)(u >> 48 & 0x8000);
	int e = (int)(u >> 52 & 0x7ff), shift = 52 - mbits, biased;
	uint64_t m = u & ((UINT64_C(1) << 52) - 1), q, rem, half;

	if (e == 0x7ff)
		return (uint16_t)(sign | inf | (m ? UINT64_C(1) << (mbits - 1) | m >> shift : 0));
	if (e == 0)
		return sign; /* far below the smallest */
	biased = e - 1023 + bias;
	if (biased > 2 * bias)
		return (uint16_t)(sign | inf);
	m |= UINT64_C(1) << 52;
	if (biased < 1) {
		shift += 1 - biased;
		biased = 1;
		if (shift > 53)
			return sign;
	}
	q = m >> shift;
	rem = m & ((UINT64_C(1) << shift) - 1);
	half = UINT64_C(1) << (shift - 1);
	q += rem > half || (rem == half && (q & 1));
	/* q has the leading 1 of a normal number, which counts the exponent up by one; so does a
	 * carry, into Inf at the end */
	return (uint16_t)(sign | (((uint64_t)(biased - 1) << mbits) + q));
}

static void load_floats(float *to, const uint8_t *src, enum sf_dtype from, size_t n)
{
	uint16_t h[BLOCK];

	if (from == SF_FLOAT32) {
		memcpy(to, src, n * 4);
		return;
	}
	memcpy(h, src, n * 2);
	if (from == SF_BFLOAT16)
		for (size_t i = 0; i < n; i++)
			to[i] = bits_float((uint32_t)h[i] << 16);
	else
		for (size_t i = 0; i < n; i++)
			to[i] = half_to_float(h[i]);
}

static void store_floats(uint8_t *dst, enum sf_dtype to, const float *from, size_t n)
{
	uint16_t h[BLOCK];
	double d[BLOCK];

	switch (to) {
	case SF_FLOAT32:
		memcpy(dst, from, n * 4);
		break;
	case SF_FLOAT64:
		for (size_t i = 0; i < n; i++)
			d[i] = (double)from[i];
		memcpy(dst, d, n * 8);
		break;
	case SF_BFLOAT16:
		for (size_t i = 0; i < n; i++)
			h[i] = float_to_bf16(from[i]);
		memcpy(dst, h, n * 2);
		break;
	default:
		for (size_t i = 0; i < n; i++)
			h[i] = float_to_half(from[i]);
		memcpy(dst, h, n * 2);
	}
}

static void from_doubles(uint8_t *dst, enum sf_dtype to, const uint8_t *src, size_t n)
{
	for (size_t i = 0; i < n; i++) {
		uint64_t u;
		memcpy(&u, src + i * 8, 8);
		if (to == SF_FLOAT32) {
			double d;
			float f;
			memcpy(&d, &u, 8);
			f = (float)d;
			memcpy(dst + i * 4, &f, 4);
		} else {
			uint16_t h = to == SF_BFLOAT16 ? double_to_small(u, 8, 7)
			                               : double_to_small(u, 5, 10);
			memcpy(dst + i * 2, &h, 2);
		}
	}
}

void sf_dtype_cast(void *dst, enum sf_dtype to, const void *src, enum sf_dtype from, size_t n)
{
	const struct sf_dtype_info *a = sf_dtype_info(from), *b = sf_dtype_info(to);
	const uint8_t *s = src;
	uint8_t *d = dst;

	if (!n || !a->is_float || !b->is_float)
		return;
	if (to == from) {
		memcpy(d, s, n * a->bytes);
		return;
	}
	if (from == SF_FLOAT64) {
		from_doubles(d, to, s, n);
		return;
	}
	for (size_t at = 0; at < n; at += BLOCK) {
		size_t k = SF_MIN(n - at, (size_t)BLOCK);
		float block[BLOCK];
		load_floats(block, s + at * a->bytes, from, k);
		store_floats(d + at * b->bytes, to, block, k);
	}
}
