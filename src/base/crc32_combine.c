#include "config.h"

#include "base/crc32.h"

/*
 * CRCs are polynomials over two elements, bit-reversed (the highest coefficient is bit 0), modulo
 * zip's 0xedb88320. len_b bytes behind a's multiply it by x^(8 len_b). zlib has the same, with
 * lengths of 32 bits on some systems.
 */
static uint32_t multiply(uint32_t a, uint32_t b)
{
	uint32_t p = 0;

	for (uint32_t bit = 1u << 31; bit; bit >>= 1) {
		if (a & bit)
			p ^= b;
		b = b >> 1 ^ (b & 1 ? 0xedb88320u : 0);
	}
	return p;
}

uint32_t sf_crc32_combine(uint32_t a, uint32_t b, uint64_t len_b)
{
	uint32_t power = 1u << 23, shift = 1u << 31; /* x^8; 1 */

	for (; len_b; len_b >>= 1) {
		if (len_b & 1)
			shift = multiply(power, shift);
		power = multiply(power, power);
	}
	return multiply(shift, a) ^ b;
}
