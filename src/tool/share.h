/* Work that ranks share: which part of it is whose. Pure. */
#ifndef SF_TOOL_SHARE_H
#define SF_TOOL_SHARE_H

#include <stddef.h>
#include <stdint.h>

/*
 * sf_share - which of @n things of @bytes[i] are @rank's: neighbours, of about as many bytes as every other
 * rank's.
 *
 * From *ret_first on, up to *ret_end. All ranks come to the same. Cost: O(n).
 */
void sf_share(const uint64_t *bytes, size_t n, uint32_t rank, uint32_t size, size_t *ret_first,
              size_t *ret_end);

#endif
