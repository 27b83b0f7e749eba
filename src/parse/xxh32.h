/* XXH32, the checksum of LZ4's frames. */
#ifndef SF_PARSE_XXH32_H
#define SF_PARSE_XXH32_H

#include <stddef.h>
#include <stdint.h>

/* Of bytes that come piece by piece; seed 0. Source: Cyan4973/xxHash doc/xxhash_spec.md 0.2.0. */
struct sf_xxh32 {
	uint32_t lane[4];
	uint64_t len; /* bytes so far */
	uint8_t rest[16];
};
void sf_xxh32_begin(struct sf_xxh32 *x);
void sf_xxh32_add(struct sf_xxh32 *x, const uint8_t *p, size_t len);
uint32_t sf_xxh32_end(const struct sf_xxh32 *x);

#endif
