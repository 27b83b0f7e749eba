#include "config.h"

#include <libdeflate.h>

#include "base/mem.h"
#include "base/crc32.h"

uint32_t sf_crc32(uint32_t crc, const void *p, size_t len)
{
	return len ? libdeflate_crc32(crc, p, len) : crc; /* both libraries restart at a NULL */
}
