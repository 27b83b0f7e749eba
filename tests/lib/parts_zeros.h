/* Zeros as a part of a view's file: no view has any. */
#ifndef SF_TESTS_LIB_PARTS_ZEROS_H
#define SF_TESTS_LIB_PARTS_ZEROS_H

#include "base/mem.h"
#include "read/reader.h"

static inline int parts_zeros(struct sf_parts *p, uint64_t len)
{
	static const uint8_t zeros[65536];
	int r = 0;

	for (uint64_t n; len && r >= 0; len -= n) {
		n = SF_MIN(len, (uint64_t)sizeof(zeros));
		r = sf_parts_bytes(p, zeros, n);
	}
	return r;
}

#endif
