#include "config.h"

#include <stdint.h>
#include <string.h>

#include "base/mem.h"
#include "store/http_basic.h"

void sf_base64(struct sf_buf *to, const void *at, size_t len, bool url)
{
	static const char digits[] =
		"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789";
	const char *more = url ? "-_" : "+/";
	const uint8_t *from = at;

	for (size_t i = 0; i < len; i += 3) {
		uint32_t v = (uint32_t)from[i] << 16;
		size_t n = SF_MIN(len - i, (size_t)3) + 1;

		v |= i + 1 < len ? (uint32_t)from[i + 1] << 8 : 0;
		v |= i + 2 < len ? from[i + 2] : 0;
		for (size_t k = 0; k < n; k++) {
			uint32_t six = v >> (18 - 6 * k) & 63;
			sf_buf_byte(to, (uint8_t)(six < 62 ? digits[six] : more[six - 62]));
		}
		for (; n < 4 && !url; n++)
			sf_buf_byte(to, '=');
	}
}

char *sf_http_basic(const char *user, const char *password)
{
	struct sf_buf plain = { 0 }, b = { 0 };
	size_t len = strlen(user) + strlen(password) + 1;

	/* no part of it stays behind in a buffer that was too small */
	sf_buf_extend(&plain, len + 1);
	sf_buf_extend(&b, 32 + len * 2);
	plain.len = b.len = 0;
	sf_buf_printf(&plain, "%s:%s", user, password);
	sf_buf_str(&b, "Authorization: Basic ");
	sf_base64(&b, plain.at, plain.len, false);
	sf_buf_cstr(&b);
	bool bad = sf_buf_check(&plain) < 0 || sf_buf_check(&b) < 0;
	if (plain.at)
		explicit_bzero(plain.at, plain.cap);
	sf_buf_release(&plain);
	if (bad) {
		if (b.at)
			explicit_bzero(b.at, b.cap);
		sf_buf_release(&b);
	}
	return bad ? NULL : (char *)b.at;
}
