/* Sizes of one-tensor files without making them: 10^5 of these are asked for by one ls -lR. */
#ifndef SF_VIEW_VIEW_SIZE_H
#define SF_VIEW_VIEW_SIZE_H

#include "base/mem.h"
#include "view/view.h"

/* The bytes a tensor has as @dtype (its own, or what it is cast to). */
uint64_t sf_tensor_bytes_as(const struct sf_tensor *t, enum sf_dtype dtype);
/* Where a file ends whose last part begins at @off: false when that is past what a file can be. */
static inline bool sf_file_end(uint64_t off, uint64_t len, uint64_t *ret)
{
	return sf_add(off, len, ret) && *ret <= INT64_MAX;
}
/* The file is one that sf_view_npy / sf_view_safetensors (of this entry alone, cast, full name)
 * would make. 0 or -ENOMEM, -E2BIG. */
int sf_view_npy_size(const struct sf_catalog *c, uint32_t entry, uint64_t *ret);
int sf_view_safetensors_size(const struct sf_catalog *c, uint32_t entry, uint64_t *ret);

#endif
