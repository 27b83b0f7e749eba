#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/pickle_skip.h"

/* What stands behind an opcode: so many bytes, or one of these. */
enum { LINE = 0x40, TWO_LINES, COUNTED_1, COUNTED_4, COUNTED_8, NO_OPCODE = 0xff };

static uint8_t argument(uint8_t op)
{
	switch (op) {
	case '(':
	case '.':
	case '0':
	case '1':
	case '2':
	case 'N':
	case 'Q':
	case 'R':
	case 'a':
	case 'b':
	case 'd':
	case 'e':
	case 'l':
	case 'o':
	case 's':
	case 't':
	case 'u':
	case ')':
	case ']':
	case '}':
	case 0x81:
	case 0x85:
	case 0x86:
	case 0x87:
	case 0x88:
	case 0x89:
	case 0x8f:
	case 0x90:
	case 0x91:
	case 0x92:
	case 0x93:
	case 0x94:
	case 0x97:
	case 0x98:
		return 0;
	case 'K':
	case 'h':
	case 'q':
	case 0x80:
	case 0x82:
		return 1;
	case 'M':
	case 0x83:
		return 2;
	case 'J':
	case 'j':
	case 'r':
	case 0x84:
		return 4;
	case 'G':
	case 0x95:
		return 8;
	case 'F':
	case 'I':
	case 'L':
	case 'P':
	case 'S':
	case 'V':
	case 'g':
	case 'p':
		return LINE;
	case 'c':
	case 'i':
		return TWO_LINES;
	case 'C':
	case 'U':
	case 0x8a:
	case 0x8c:
		return COUNTED_1;
	case 'B':
	case 'T':
	case 'X':
	case 0x8b:
		return COUNTED_4;
	case 0x8d:
	case 0x8e:
	case 0x96:
		return COUNTED_8;
	default:
		return NO_OPCODE;
	}
}

/* Over @lines ends of lines; NULL: they are not all there. */
static const uint8_t *skip_lines(const uint8_t *p, const uint8_t *end, int lines)
{
	for (; lines && p; lines--) {
		p = memchr(p, '\n', (size_t)(end - p));
		p = p ? p + 1 : NULL;
	}
	return p;
}

int sf_pickle_skip(const uint8_t *p, size_t len, size_t *ret_used, struct sf_error *err)
{
	const uint8_t *at = p, *end = p + len;

	while (at < end) {
		uint8_t op = *at++, arg = argument(op);
		size_t left = (size_t)(end - at), width;
		uint64_t n = arg;

		if (op == '.') {
			*ret_used = (size_t)(at - p);
			return 0;
		}
		switch (arg) {
		case LINE:
		case TWO_LINES:
			at = skip_lines(at, end, arg == LINE ? 1 : 2);
			if (!at)
				goto more;
			continue;
		case COUNTED_1:
		case COUNTED_4:
		case COUNTED_8:
			width = arg == COUNTED_1 ? 1 : arg == COUNTED_4 ? 4 : 8;
			if (left < width)
				goto more;
			n = width == 1 ? at[0] : width == 4 ? sf_le32(at) : sf_le64(at);
			at += width;
			left -= width;
			break;
		case NO_OPCODE:
			return sf_fail(
				err, -EBADMSG,
				"pickle: byte 0x%02x at %zu is not an opcode of protocols 0 to 5",
				op, (size_t)(at - 1 - p));
		default:
			break;
		}
		if (n > left)
			goto more;
		at += n;
	}
more:
	return sf_fail(err, -EAGAIN, "pickle: no STOP within %zu bytes", len);
}
