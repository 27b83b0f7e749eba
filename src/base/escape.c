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
	const char *at;

	for (; (at = may_be(s, len)); len -= (size_t)(at + 1 - s), s = at + 1)
		if (is_escape(sf_utf8_surrogate(at, len - (size_t)(at - s))))
			return true;
	return false;
}

size_t sf_surrogates_to_bytes(const char *s, size_t len, char *out)
{
	const char *end;
	size_t n = 0;

	if (len == 0)
		return 0;
	end = s + len;
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

/*
 * Source: Unicode 15, categories Cc, Cf, Zl, Zp, Co, Cs, and Zs but the blank; what Python's
 * str.isprintable() refuses, unassigned characters left aside.
 */
bool sf_char_is_shown(uint32_t c)
{
	static const uint32_t hidden[][2] = {
		{ 0, 0x1f },          { 0x7f, 0xa0 },          { 0xad, 0xad },
		{ 0x600, 0x605 },     { 0x61c, 0x61c },        { 0x6dd, 0x6dd },
		{ 0x70f, 0x70f },     { 0x890, 0x891 },        { 0x8e2, 0x8e2 },
		{ 0x1680, 0x1680 },   { 0x180e, 0x180e },      { 0x2000, 0x200f },
		{ 0x2028, 0x202f },   { 0x205f, 0x206f },      { 0x3000, 0x3000 },
		{ 0xd800, 0xf8ff },   { 0xfdd0, 0xfdef },      { 0xfeff, 0xfeff },
		{ 0xfff9, 0xfffb },   { 0x110bd, 0x110bd },    { 0x110cd, 0x110cd },
		{ 0x13430, 0x1343f }, { 0x1bca0, 0x1bca3 },    { 0x1d173, 0x1d17a },
		{ 0xe0000, 0xe00ff }, { 0xf0000, UINT32_MAX },
	};

	for (size_t i = 0; i < sizeof(hidden) / sizeof(hidden[0]) && c >= hidden[i][0]; i++)
		if (c <= hidden[i][1])
			return false;
	return (c & 0xfffe) != 0xfffe;
}

void sf_escape_text(struct sf_buf *out, const char *s, size_t len)
{
	uint32_t c;

	for (size_t n; len; s += n, len -= n) {
		n = sf_utf8_next(s, len, &c);
		if (n && sf_char_is_shown(c)) {
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

/* \uXXXX, of a character past them two. */
static void put_u(struct sf_buf *out, uint32_t c)
{
	if (c > 0xffff)
		sf_buf_printf(out, "\\u%04x\\u%04x", 0xd7c0 + (c >> 10), 0xdc00 + (c & 0x3ff));
	else
		sf_buf_printf(out, "\\u%04x", c);
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
		if (!stray && !lone && c != '"' && c != '\\' && sf_char_is_shown(c)) {
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
			put_u(out, c);
		}
	}
	sf_buf_add(out, s - plain, plain);
	sf_buf_byte(out, '"');
}

void sf_escape_json_text(struct sf_buf *out, const char *s, size_t len)
{
	bool in_string = false;
	uint32_t c;

	for (size_t n; len; s += n, len -= n) {
		bool blank = *s == '\t' || *s == '\n' || *s == '\r';
		n = sf_utf8_unit(s, len, &c);
		if (in_string && c == '\\' && len > 1 && (uint8_t)s[1] >= 0x20 &&
		    (uint8_t)s[1] < 0x7f) {
			n = 2;
			sf_buf_add(out, s, n);
		} else if (sf_char_is_shown(c) || (blank && !in_string)) {
			in_string ^= c == '"';
			sf_buf_add(out, s, n);
		} else if (in_string) {
			put_u(out, c);
		} else {
			sf_buf_byte(out, ' ');
		}
	}
}
