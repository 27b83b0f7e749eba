#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/near.h"

unsigned sf_edits(const char *a, size_t a_len, const char *b, size_t b_len, unsigned max)
{
	/* Cell (i, j) is the distance of the first i letters of a from the first j of b; only |i -
	 * j| <= max can be within max, and those of three rows are kept. */
	enum { WIDTH = 2 * SF_NEAR_MAX + 1 };
	unsigned row[3][WIDTH], far;
	unsigned *before = row[0], *last = row[1], *now = row[2];

	max = SF_MIN(max, (unsigned)SF_NEAR_MAX);
	far = max + 1;
	if ((a_len > b_len ? a_len - b_len : b_len - a_len) > max)
		return far;
	size_t width = 2 * (size_t)max + 1;
	for (size_t r = 0; r < 3; r++)
		for (size_t k = 0; k < WIDTH; k++)
			row[r][k] = far;
	for (size_t k = max; k < width; k++) /* i = 0: j letters to add */
		last[k] = (unsigned)(k - max);
	for (size_t i = 1; i <= a_len; i++) {
		unsigned least = far;
		for (size_t k = 0; k < width; k++) {
			size_t j = i + k; /* + max */
			now[k] = far;
			if (j < max || j - max > b_len)
				continue;
			j -= max;
			unsigned d = k + 1 < width ? last[k + 1] + 1 : far; /* a's letter goes */
			if (j) {
				d = SF_MIN(d, last[k] + (a[i - 1] != b[j - 1]));
				if (k)
					d = SF_MIN(d, now[k - 1] + 1); /* b's comes */
			}
			if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
				d = SF_MIN(d, before[k] + 1);
			now[k] = SF_MIN(d, far);
			least = SF_MIN(least, now[k]);
		}
		if (least > max)
			return far;
		unsigned *t = before;
		before = last;
		last = now;
		now = t;
	}
	return last[b_len + max - a_len];
}

unsigned sf_edits_allowed(size_t len)
{
	return len < 3 ? 0 : len < 6 ? 1 : len < 12 ? 2 : 3;
}

bool sf_is_near(const char *a, size_t a_len, const char *b, size_t b_len)
{
	unsigned allowed = sf_edits_allowed(a_len);

	return a_len && b_len &&
	       (sf_edits(a, a_len, b, b_len, allowed) <= allowed ||
	        strncmp(a, b, a_len < b_len ? a_len : b_len) == 0);
}
