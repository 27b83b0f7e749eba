#include "config.h"

#include <string.h>

#include "base/path.h"
#include "base/utf8.h"

#define ESCAPE_FIRST 0xdc80u /* the surrogates that stand for one byte each */
#define ESCAPE_LAST 0xdcffu

bool sf_utf8_valid(const char *s, size_t len)
{
	uint32_t c;

	for (size_t n; len; s += n, len -= n)
		if (!(n = sf_utf8_next(s, len, &c)))
			return false;
	return true;
}

static bool is_escape(uint32_t c)
{
	return c >= ESCAPE_FIRST && c <= ESCAPE_LAST;
}

/* The first byte from @s on that may begin a surrogate, NULL none: most names have none at all. */
static const char *may_be(const char *s, size_t len)
{
	return len ? memchr(s, 0xed, len) : NULL;
}

bool sf_surrogates_any(const char *s, size_t len)
{
	for (const char *at, *end = s + len; (at = may_be(s, (size_t)(end - s))); s = at + 1)
		if (is_escape(sf_utf8_surrogate(at, (size_t)(end - at))))
			return true;
	return false;
}

size_t sf_surrogates_to_bytes(const char *s, size_t len, char *out)
{
	const char *end = s + len;
	size_t n = 0;

	while (s < end) {
		uint32_t c = sf_utf8_surrogate(s, (size_t)(end - s));
		if (is_escape(c)) {
			out[n++] = (char)(c & 0xff);
			s += 3;
			continue;
		}
		const char *next = may_be(s + 1, (size_t)(end - s) - 1);
		size_t plain = (size_t)((next ? next : end) - s);
		memmove(out + n, s, plain);
		n += plain;
		s += plain;
	}
	return n;
}

/* C0, DEL and C1: what a terminal may take for an order. */
static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c < 0xa0);
}

void sf_escape_text(struct sf_buf *out, const char *s, size_t len)
{
	uint32_t c;

	for (size_t n; len; s += n, len -= n) {
		n = sf_utf8_next(s, len, &c);
		if (n && !is_control(c)) {
			sf_buf_add(out, s, n);
			if (c == '\\')
				sf_buf_byte(out, '\\');
			continue;
		}
		n = n ? n : 1;
		for (size_t i = 0; i < n; i++)
			sf_buf_printf(out, "\\x%02x", (uint8_t)s[i]);
	}
}

void sf_escape_json(struct sf_buf *out, const char *s, size_t len)
{
	static const char shorts[] = "\bb\tt\nn\ff\rr\"\"\\\\";
	size_t plain = 0; /* bytes before @s that need no escape and are not added yet */
	uint32_t c;

	sf_buf_byte(out, '"');
	for (size_t n; len; s += n, len -= n) {
		n = sf_utf8_unit(s, len, &c);
		bool stray = is_escape(c); /* no valid character is a surrogate */
		uint32_t lone = stray ? sf_utf8_surrogate(s, len) : 0;
		if (lone && !is_escape(lone)) { /* three bytes that say \udcXX are three bytes */
			c = lone;
			n = 3;
		}
		if (!stray && c >= 0x20 && c != '"' && c != '\\') {
			plain += n;
			continue;
		}
		sf_buf_add(out, s - plain, plain);
		plain = 0;
		const char *e = shorts;
		while (*e && (uint32_t)*e != c)
			e += 2;
		if (*e) {
			sf_buf_byte(out, '\\');
			sf_buf_byte(out, (uint8_t)e[1]);
		} else {
			sf_buf_printf(out, "\\u%04x", c);
		}
	}
	sf_buf_add(out, s - plain, plain);
	sf_buf_byte(out, '"');
}
