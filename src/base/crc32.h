/* CRC-32 of zip: libdeflate's where it is found, else zlib's. */
#ifndef SF_BASE_CRC32_H
#define SF_BASE_CRC32_H

#include <stddef.h>
#include <stdint.h>

/* Of the bytes before, then those of @p: @crc starts at 0. */
uint32_t sf_crc32(uint32_t crc, const void *p, size_t len);
/* Of a's bytes and then b's, from the CRC of each. */
uint32_t sf_crc32_combine(uint32_t a, uint32_t b, uint64_t len_b);

#endif
