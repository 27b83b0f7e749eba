#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "parse/pickle_skip.h"

/* What stands behind an opcode: so many bytes, or one of these. */
enum { LINE = 0x40, TWO_LINES, COUNTED_1, COUNTED_4, COUNTED_8, NO_OPCODE = 0xff };

/* clang-format off */
/* 1 more than that, so that 0 is no opcode. */
static const uint8_t behind[256] = {
#define A(op, what) [op] = (what) + 1
	A('(', 0), A('.', 0), A('0', 0), A('1', 0), A('2', 0), A('N', 0), A('Q', 0), A('R', 0), A('a', 0), A('b', 0),
	A('d', 0), A('e', 0), A('l', 0), A('o', 0), A('s', 0), A('t', 0), A('u', 0), A(')', 0), A(']', 0), A('}', 0),
	A(0x81, 0), A(0x85, 0), A(0x86, 0), A(0x87, 0), A(0x88, 0), A(0x89, 0), A(0x8f, 0), A(0x90, 0),
	A(0x91, 0), A(0x92, 0), A(0x93, 0), A(0x94, 0), A(0x97, 0), A(0x98, 0),
	A('K', 1), A('h', 1), A('q', 1), A(0x80, 1), A(0x82, 1),
	A('M', 2), A(0x83, 2),
	A('J', 4), A('j', 4), A('r', 4), A(0x84, 4),
	A('G', 8), A(0x95, 8),
	A('F', LINE), A('I', LINE), A('L', LINE), A('P', LINE), A('S', LINE), A('V', LINE), A('g', LINE), A('p', LINE),
	A('c', TWO_LINES), A('i', TWO_LINES),
	A('C', COUNTED_1), A('U', COUNTED_1), A(0x8a, COUNTED_1), A(0x8c, COUNTED_1),
	A('B', COUNTED_4), A('T', COUNTED_4), A('X', COUNTED_4), A(0x8b, COUNTED_4),
	A(0x8d, COUNTED_8), A(0x8e, COUNTED_8), A(0x96, COUNTED_8),
#undef A
};
/* clang-format on */

static uint8_t argument(uint8_t op)
{
	return (uint8_t)(behind[op] - 1);
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
