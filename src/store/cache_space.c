#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <sys/statvfs.h>

#include "base/mem.h"
#include "store/cache_space.h"

#define FLOOR_MOST (UINT64_C(1) << 30)

int sf_cache_space(int dir, struct sf_cache_space *ret)
{
	struct statvfs vfs;

	if (fstatvfs(dir, &vfs) != 0)
		return -errno;
	*ret = (struct sf_cache_space){ .free = UINT64_MAX,
		                        .total = UINT64_MAX,
		                        .read_only = vfs.f_flag & ST_RDONLY };
	if (!vfs.f_blocks)
		return 0;
	ret->total = (uint64_t)vfs.f_blocks * vfs.f_frsize;
	ret->free = (uint64_t)vfs.f_bavail * vfs.f_frsize;
	ret->floor = SF_MIN(ret->total / 20, FLOOR_MOST);
	return 0;
}

bool sf_cache_space_lack(const struct sf_cache_space *s, char *buf, size_t size)
{
	const double mb = 1e6;

	if (s->read_only)
		snprintf(buf, size, "read-only");
	else if (s->free < s->floor)
		snprintf(buf, size,
		         "%.1f MB of %.1f MB are free, less than the %.1f MB that stay so",
		         (double)s->free / mb, (double)s->total / mb, (double)s->floor / mb);
	return s->read_only || s->free < s->floor;
}
