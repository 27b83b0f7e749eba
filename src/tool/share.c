#include "config.h"

#include "tool/share.h"

/* A thing is the rank's in whose part of all bytes its middle lies. */
void sf_share(const uint64_t *bytes, size_t n, uint32_t rank, uint32_t size, size_t *ret_first,
              size_t *ret_end)
{
	double all = 0, before = 0;
	size_t first = n, end = n;

	for (size_t i = 0; i < n; i++)
		all += (double)bytes[i] + 1; /* what has no bytes costs something, too */
	for (size_t i = 0; i < n; i++) {
		double own = (double)bytes[i] + 1;
		uint32_t whose = (uint32_t)((before + own / 2) / all * size);
		before += own;
		if (first == n && whose >= rank)
			first = i;
		if (whose > rank) {
			end = i;
			break;
		}
	}
	*ret_first = first;
	*ret_end = end;
}
