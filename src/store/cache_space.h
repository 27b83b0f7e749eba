/* How much room the file system of a cache directory has, and how much of it stays free. */
#ifndef SF_STORE_CACHE_SPACE_H
#define SF_STORE_CACHE_SPACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define SF_CACHE_WHY_MAX 160

/* bytes */
struct sf_cache_space {
	uint64_t free, total; /* free: for this user */
	/* Nothing is kept that would leave less than that free: 1/20 of it all, 1 GiB at most. */
	uint64_t floor;
	bool read_only;
};
/* Of the file system of directory @dir. -errno; one that does not say how large it is has room: all
 * free, no floor. Waits for the disk. */
int sf_cache_space(int dir, struct sf_cache_space *ret);
/* Can nothing be kept there as it is? Then @buf says why: "40.0 MB of 1000.0 MB are free, less than the
 * 50.0 MB that stay so", or "read-only". What is kept already may make room: that is not looked at. */
bool sf_cache_space_lack(const struct sf_cache_space *s, char *buf, size_t size);

#endif
