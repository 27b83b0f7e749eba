/* UTF-8, one character at a time; strict: no surrogates, no overlong forms, nothing past
 * U+10FFFF. */
#ifndef SF_BASE_UTF8_H
#define SF_BASE_UTF8_H

#include <stddef.h>
#include <stdint.h>

/* The bytes (1 to 4) of the character at @s, or 0 when there is none within @len; *ret is its code
 * point. */
static inline size_t sf_utf8_next(const char *s, size_t len, uint32_t *ret)
{
	const uint8_t *b = (const uint8_t *)s;
	static const uint32_t least[5] = { 0, 0, 0x80, 0x800, 0x10000 };
	uint32_t c;
	size_t n;

	if (!len)
		return 0;
	c = b[0];
	if (c < 0x80) {
		*ret = c;
		return 1;
	}
	n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	if (c < 0xc2 || c > 0xf4 || n > len)
		return 0;
	c &= 0x7fu >> n;
	for (size_t i = 1; i < n; i++) {
		if ((b[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (b[i] & 0x3f);
	}
	if (c < least[n] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff))
		return 0;
	*ret = c;
	return n;
}

/* The surrogate at @s as three bytes (ED A0 80 ... ED BF BF: "surrogatepass"), or 0 when there is
 * none within @len. */
static inline uint32_t sf_utf8_surrogate(const char *s, size_t len)
{
	const uint8_t *b = (const uint8_t *)s;

	if (len < 3 || b[0] != 0xed || b[1] < 0xa0 || b[1] > 0xbf || (b[2] & 0xc0) != 0x80)
		return 0;
	return 0xd000u | (b[1] & 0x3fu) << 6 | (b[2] & 0x3fu);
}

/* The same as sf_utf8_next() for bytes that need not be UTF-8: a stray byte is a character of its
 * own, U+DC80 + ... as Python has it. */
static inline size_t sf_utf8_unit(const char *s, size_t len, uint32_t *ret)
{
	size_t n = sf_utf8_next(s, len, ret);

	if (n || !len)
		return n;
	*ret = 0xdc00u | (uint8_t)s[0];
	return 1;
}

#endif
