#include "config.h"

#include <zlib.h>

#include "base/mem.h"
#include "base/crc32.h"

uint32_t sf_crc32(uint32_t crc, const void *p, size_t len)
{
	return len ? (uint32_t)crc32_z(crc, p, len) : crc; /* both libraries restart at a NULL */
}
