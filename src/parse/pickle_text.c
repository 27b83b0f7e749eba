#include "config.h"

#include <inttypes.h>
#include <locale.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/utf8.h"
#include "parse/pickle_build.h"

/* of a decimal integer: Python's own limit, and what keeps the conversion from being quadratic */
#define DIGITS_MAX 4300

bool sf_pm_utf8(const uint8_t *s, size_t len)
{
	for (size_t i = 0; i < len;) {
		uint32_t c;
		size_t n;
		if (s[i] < 0x80) {
			i++;
			continue;
		}
		n = sf_utf8_next((const char *)s + i, len - i, &c);
		if (!n && len - i >= 3 && s[i] == 0xed && s[i + 1] >= 0xa0 && s[i + 1] <= 0xbf &&
		    (s[i + 2] & 0xc0) == 0x80)
			n = 3; /* a surrogate */
		if (!n)
			return false;
		i += n;
	}
	return true;
}

int sf_pm_long(struct sf_pm *m, const uint8_t *s, size_t len)
{
	struct sf_pv *v;

	/* shortest: a last byte that only repeats the sign goes */
	while (len > 1 && ((s[len - 1] == 0 && s[len - 2] < 0x80) ||
	                   (s[len - 1] == 0xff && s[len - 2] >= 0x80)))
		len--;
	if (len > 8)
		return sf_pm_push_text(m, SF_PV_LONG, s, len);
	v = sf_pm_new(m, SF_PV_INT);
	if (!v)
		return sf_pm_no_memory(m);
	uint64_t u = len && s[len - 1] >= 0x80 ? UINT64_MAX : 0;
	for (size_t i = len; i-- > 0;)
		u = u << 8 | s[i];
	v->i = (int64_t)u;
	return sf_pm_push(m, v);
}

/* Decimal text of any length to two's complement. */
int sf_pm_int_line(struct sf_pm *m, const uint8_t *s, size_t len, bool is_long)
{
	uint64_t limb[DIGITS_MAX / 19 + 3] = { 0 };
	uint8_t bytes[sizeof(limb)];
	size_t n = 1;
	bool minus = false;

	if (!is_long && len == 2 && s[0] == '0' && (s[1] == '0' || s[1] == '1'))
		return sf_pm_push(m, s[1] == '1' ? m->yes : m->no);
	if (is_long && len && s[len - 1] == 'L')
		len--;
	if (len && (s[0] == '-' || s[0] == '+')) {
		minus = s[0] == '-';
		s++;
		len--;
	}
	if (!len)
		return sf_pm_fail(m, -EBADMSG, "an integer without digits");
	if (len > DIGITS_MAX)
		return sf_pm_fail(m, -E2BIG, "an integer of %zu digits, limit %d", len, DIGITS_MAX);
	for (size_t i = 0; i < len;) {
		uint64_t chunk = 0, scale = 1;
		for (; i < len && scale < UINT64_C(1000000000000000000); i++, scale *= 10) {
			if (s[i] < '0' || s[i] > '9')
				return sf_pm_fail(m, -EBADMSG, "byte 0x%02x in a decimal integer",
				                  s[i]);
			chunk = chunk * 10 + (uint64_t)(s[i] - '0');
		}
		unsigned __int128 carry = chunk;
		for (size_t k = 0; k < n; k++) {
			carry += (unsigned __int128)limb[k] * scale;
			limb[k] = (uint64_t)carry;
			carry >>= 64;
		}
		if (carry)
			limb[n++] = (uint64_t)carry;
	}
	n++; /* a limb of zeros for the sign */
	for (size_t k = 0, carry = 1; minus && k < n; k++) {
		limb[k] = ~limb[k] + carry;
		carry = carry && !limb[k];
	}
	for (size_t k = 0; k < n; k++)
		sf_put_le64(bytes + k * 8, limb[k]);
	return sf_pm_long(m, bytes, n * 8);
}

int sf_pm_float_line(struct sf_pm *m, const uint8_t *s, size_t len)
{
	char text[64], *end;
	struct sf_pv *v;
	locale_t c;

	/* repr(float) has at most 24 characters; strtod alone would take hexadecimals, blanks and
	 * nan(…) too */
	if (!len || len >= sizeof(text) ||
	    strspn(memcpy(text, s, len), "0123456789+-.eEinfa") < len)
		return sf_pm_fail(m, -EBADMSG, "no decimal float in %zu characters", len);
	text[len] = '\0';
	c = newlocale(LC_ALL_MASK, "C", (locale_t)0); /* the program's own may want a comma */
	if (!c)
		return sf_pm_no_memory(m);
	v = sf_pm_new(m, SF_PV_FLOAT);
	if (v)
		v->f = strtod_l(text, &end, c);
	freelocale(c);
	if (!v)
		return sf_pm_no_memory(m);
	if (*end)
		return sf_pm_fail(m, -EBADMSG, "'%s' is not a float", text);
	return sf_pm_push(m, v);
}

/* torch reads a Python 2 str as UTF-8; what is none stays bytes. */
int sf_pm_bytes_str(struct sf_pm *m, const uint8_t *s, size_t len)
{
	return sf_pm_push_text(m, sf_pm_utf8(s, len) ? SF_PV_STR : SF_PV_BYTES, s, len);
}

static int hex_digits(const uint8_t *s, size_t len, size_t want, uint32_t *ret)
{
	uint32_t u = 0;

	if (len < want)
		return -1;
	for (size_t i = 0; i < want; i++) {
		uint8_t c = s[i], low = c | 0x20;
		if (c >= '0' && c <= '9')
			u = u << 4 | (uint32_t)(c - '0');
		else if (low >= 'a' && low <= 'f')
			u = u << 4 | (uint32_t)(low - 'a' + 10);
		else
			return -1;
	}
	*ret = u;
	return 0;
}

int sf_pm_string_line(struct sf_pm *m, const uint8_t *s, size_t len)
{
	static const char plain[] = "\\'\"abfnrtv", means[] = "\\'\"\a\b\f\n\r\t\v";
	uint8_t *out;
	size_t n = 0;

	if (len < 2 || s[0] != s[len - 1] || (s[0] != '\'' && s[0] != '"'))
		return sf_pm_fail(m, -EBADMSG, "a string without its quotes");
	s++;
	len -= 2;
	out = sf_pm_alloc(m, len + 1, 1);
	if (!out)
		return sf_pm_no_memory(m);
	for (size_t i = 0; i < len; i++) {
		const char *esc;
		uint32_t u;
		if (s[i] != '\\') {
			out[n++] = s[i];
			continue;
		}
		if (++i == len)
			return sf_pm_fail(m, -EBADMSG, "a backslash ends a string");
		esc = s[i] ? strchr(plain, s[i]) : NULL;
		if (esc) {
			out[n++] = (uint8_t)means[esc - plain];
		} else if (s[i] == 'x') {
			if (hex_digits(s + i + 1, len - i - 1, 2, &u) < 0)
				return sf_pm_fail(m, -EBADMSG, "a bad \\x in a string");
			out[n++] = (uint8_t)u;
			i += 2;
		} else if (s[i] >= '0' && s[i] <= '7') {
			u = (uint32_t)(s[i] - '0');
			for (int k = 0; k < 2 && i + 1 < len && s[i + 1] >= '0' && s[i + 1] <= '7';
			     k++)
				u = u << 3 | (uint32_t)(s[++i] - '0');
			out[n++] = (uint8_t)u;
		} else {
			out[n++] = '\\'; /* unknown ones stay as they are, as in Python */
			out[n++] = s[i];
		}
	}
	return sf_pm_bytes_str(m, out, n);
}

static size_t put_utf8(uint8_t *out, uint32_t c)
{
	if (c < 0x80) {
		out[0] = (uint8_t)c;
		return 1;
	}
	if (c < 0x800) {
		out[0] = (uint8_t)(0xc0 | c >> 6);
		out[1] = (uint8_t)(0x80 | (c & 0x3f));
		return 2;
	}
	if (c < 0x10000) {
		out[0] = (uint8_t)(0xe0 | c >> 12);
		out[1] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
		out[2] = (uint8_t)(0x80 | (c & 0x3f));
		return 3;
	}
	out[0] = (uint8_t)(0xf0 | c >> 18);
	out[1] = (uint8_t)(0x80 | (c >> 12 & 0x3f));
	out[2] = (uint8_t)(0x80 | (c >> 6 & 0x3f));
	out[3] = (uint8_t)(0x80 | (c & 0x3f));
	return 4;
}

int sf_pm_unicode_line(struct sf_pm *m, const uint8_t *s, size_t len)
{
	size_t n = 0;
	uint8_t *out = sf_pm_alloc(
		m, len,
		2); /* a latin-1 character may take two bytes, an escape takes fewer than it has */

	if (!out)
		return sf_pm_no_memory(m);
	for (size_t i = 0; i < len; i++) {
		uint32_t c = s[i];
		if (c == '\\' && i + 1 < len) {
			size_t digits = s[i + 1] == 'u' ? 4 : s[i + 1] == 'U' ? 8 : 0;
			if (!digits) {
				out[n++] = '\\'; /* and the next is plain, be it a backslash */
				c = s[++i];
			} else if (hex_digits(s + i + 2, len - i - 2, digits, &c) < 0 ||
			           c > 0x10ffff) {
				return sf_pm_fail(m, -EBADMSG, "a bad \\u in a text");
			} else {
				i += digits + 1;
			}
		}
		n += put_utf8(out + n, c);
	}
	return sf_pm_push_text(m, SF_PV_STR, out, n);
}
