#include "config.h"

#include <stdio.h>
#include <string.h>

#include "base/path.h"
#include "base/utf8.h"
#include "save/save_item.h"

#define ONE_MAX 16 /* bytes that a character may become: four as \\xHH each */

/* Without memory of its own: what failed may be malloc. */
struct sf_save_shown sf_save_shown(const char *name, size_t len)
{
	struct sf_save_shown ret;
	size_t at = 0;
	uint32_t c;

	for (size_t n; len; name += n, len -= n) {
		if (at + ONE_MAX + sizeof("...") > sizeof(ret.at)) {
			memcpy(ret.at + at, "...", 3);
			at += 3;
			break;
		}
		n = sf_utf8_next(name, len, &c);
		if (n && sf_char_is_shown(c)) {
			memcpy(ret.at + at, name, n);
			at += n;
			if (c == '\\')
				ret.at[at++] = '\\';
			continue;
		}
		n = n ? n : 1;
		for (size_t i = 0; i < n; i++)
			at += (size_t)snprintf(ret.at + at, 5, "\\x%02x", (uint8_t)name[i]);
	}
	ret.at[at] = '\0';
	return ret;
}
