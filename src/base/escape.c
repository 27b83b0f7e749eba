#include "config.h"

#include "base/path.h"
#include "base/utf8.h"

bool sf_utf8_valid(const char *s, size_t len)
{
	uint32_t c;

	for (size_t n; len; s += n, len -= n)
		if (!(n = sf_utf8_next(s, len, &c)))
			return false;
	return true;
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
		bool stray = c >= 0xdc80 && c <= 0xdcff; /* no valid character is a surrogate */
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
