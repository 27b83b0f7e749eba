#include "config.h"

#include <string.h>

#include "base/path.h"
#include "base/quote.h"
#include "base/utf8.h"

static void put_python(struct sf_buf *out, uint32_t c, const char *s, size_t n, char quote)
{
	static const char shorts[] = "\nn\rr\tt\\\\";
	const char *e = shorts;

	while (*e && (uint32_t)*e != c)
		e += 2;
	if (*e || c == (uint32_t)quote) {
		sf_buf_byte(out, '\\');
		sf_buf_byte(out, (uint8_t)(*e ? e[1] : quote));
	} else if (sf_char_is_shown(c)) {
		sf_buf_add(out, s, n);
	} else {
		sf_buf_printf(out, c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x", c);
	}
}

void sf_quote_python(struct sf_buf *out, const char *s, size_t len)
{
	char quote = len && memchr(s, '"', len) && !memchr(s, '\'', len) ? '\'' : '"';
	uint32_t c;

	sf_buf_byte(out, (uint8_t)quote);
	for (size_t n; len; s += n, len -= n) {
		n = sf_utf8_unit(s, len, &c);
		put_python(out, c, s, n, quote);
	}
	sf_buf_byte(out, (uint8_t)quote);
}

static bool is_bare(const char *s, size_t len)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
				    "_@%+:,./-=";

	for (size_t i = 0; i < len; i++)
		if (!s[i] || !strchr(plain, s[i]))
			return false;
	return len && s[0] != '='; /* zsh makes a path of =ls */
}

static bool is_shown(const char *s, size_t len)
{
	uint32_t c;

	for (size_t n; len; s += n, len -= n) {
		n = sf_utf8_next(s, len, &c);
		if (!n || !sf_char_is_shown(c))
			return false;
	}
	return true;
}

/* Three octal digits: no digit behind them is taken for one more. */
static void put_ansi(struct sf_buf *out, const char *s, size_t len)
{
	uint32_t c;

	sf_buf_str(out, "$'");
	for (size_t n; len; s += n, len -= n) {
		n = sf_utf8_next(s, len, &c);
		if (n && sf_char_is_shown(c)) {
			if (c == '\'' || c == '\\')
				sf_buf_byte(out, '\\');
			sf_buf_add(out, s, n);
			continue;
		}
		n = n ? n : 1;
		for (size_t i = 0; i < n; i++)
			sf_buf_printf(out, "\\%03o", (uint8_t)s[i]);
	}
	sf_buf_byte(out, '\'');
}

void sf_quote_shell(struct sf_buf *out, const char *s, size_t len)
{
	if (is_bare(s, len)) {
		sf_buf_add(out, s, len);
		return;
	}
	if (!is_shown(s, len)) {
		put_ansi(out, s, len);
		return;
	}
	sf_buf_byte(out, '\'');
	for (size_t i = 0; i < len; i++)
		if (s[i] == '\'')
			sf_buf_str(out, "'\\''");
		else
			sf_buf_byte(out, (uint8_t)s[i]);
	sf_buf_byte(out, '\'');
}

void sf_quote_shell_message(struct sf_buf *out, const char *s, const char *otherwise)
{
	struct sf_buf word = { .limit = 300 };

	if (*s == '-')
		sf_buf_str(&word, "-- ");
	sf_quote_shell(&word, s, strlen(s));
	const char *text = sf_buf_cstr(&word);
	sf_buf_str(out, sf_buf_check(&word) < 0 || strchr(text, '\\') ? otherwise : text);
	sf_buf_release(&word);
}
