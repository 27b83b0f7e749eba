#include "config.h"

#include <stdio.h>

#include "save/save_plan_priv.h"

static size_t add(char *buf, size_t size, size_t n, const char *between, uint64_t v)
{
	if (n < size)
		n += (size_t)snprintf(buf + n, size - n, "%s%llu", between, (unsigned long long)v);
	return n;
}

void sf_plan_point_text(char *buf, size_t size, const uint64_t *at, unsigned ndim)
{
	size_t n = (size_t)snprintf(buf, size, "[");

	for (unsigned d = 0; d < ndim; d++)
		n = add(buf, size, n, d ? ", " : "", at[d]);
	if (n < size)
		snprintf(buf + n, size - n, "]");
}

void sf_plan_box_text(char *buf, size_t size, const uint64_t *box, unsigned ndim)
{
	size_t n = (size_t)snprintf(buf, size, "[");

	for (unsigned d = 0; d < ndim; d++) {
		n = add(buf, size, n, d ? ", " : "", box[d]);
		n = add(buf, size, n, ":", box[d] + box[ndim + d]);
	}
	if (n < size)
		snprintf(buf + n, size - n, "]");
}
