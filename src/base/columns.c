#include "config.h"

#include "base/columns.h"
#include "base/mem.h"
#include "base/utf8.h"

struct range {
	uint32_t from, to;
};

/* Source: Unicode 15 EastAsianWidth.txt, W and F, neighbours taken together. */
static const struct range wide[] = {
	{ 0x1100, 0x115f },   { 0x2e80, 0x303e },   { 0x3041, 0xa4cf },   { 0xa960, 0xa97f },
	{ 0xac00, 0xd7a3 },   { 0xf900, 0xfaff },   { 0xfe30, 0xfe6f },   { 0xff00, 0xff60 },
	{ 0xffe0, 0xffe6 },   { 0x16fe0, 0x18cff }, { 0x1b000, 0x1b2ff }, { 0x1f300, 0x1f64f },
	{ 0x1f680, 0x1f6ff }, { 0x1f900, 0x1f9ff }, { 0x1fa70, 0x1faff }, { 0x20000, 0x3fffd },
};
/* The combining marks of the common blocks, joiners, variation selectors. */
static const struct range none[] = {
	{ 0x300, 0x36f },   { 0x483, 0x489 },   { 0x591, 0x5bd },   { 0x610, 0x61a },
	{ 0x64b, 0x65f },   { 0x1ab0, 0x1aff }, { 0x1dc0, 0x1dff }, { 0x200b, 0x200f },
	{ 0x202a, 0x202e }, { 0x2060, 0x2064 }, { 0x20d0, 0x20ff }, { 0x302a, 0x302d },
	{ 0xfe00, 0xfe0f }, { 0xfe20, 0xfe2f }, { 0xfeff, 0xfeff }, { 0xe0100, 0xe01ef },
};

static int in(const struct range *r, size_t n, uint32_t c)
{
	for (size_t i = 0; i < n && r[i].from <= c; i++)
		if (c <= r[i].to)
			return 1;
	return 0;
}

size_t sf_columns(const char *s, size_t len)
{
	size_t columns = 0, n;
	uint32_t c;

	for (; (n = sf_utf8_unit(s, len, &c)) > 0; s += n, len -= n)
		columns += in(none, SF_ARRAY_LEN(none), c)   ? 0
		           : in(wide, SF_ARRAY_LEN(wide), c) ? 2
		                                             : 1;
	return columns;
}
