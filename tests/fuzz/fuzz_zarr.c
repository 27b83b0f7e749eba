#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "parse/zarr.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any bytes as a .zarray. What is taken has numbers that agree with each other. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t cells = 1, bytes, last[SF_DIMS_MAX] = { 0 };
	char name[SF_ZARR_NAME];
	struct sf_zarr z;
	int r = sf_zarr_parse((const char *)data, size, &z, &err);

	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	if (r < 0)
		return 0;
	bytes = sf_dtype_info(z.dtype)->bytes;
	for (unsigned d = 0; d < z.ndim; d++) {
		if (!z.chunk[d] ||
		    z.cells[d] != z.shape[d] / z.chunk[d] + !!(z.shape[d] % z.chunk[d]))
			abort();
		cells *= z.cells[d];
		bytes *= z.chunk[d];
		last[d] = UINT64_MAX;
	}
	if (cells != z.ncells || bytes != z.chunk_bytes)
		abort();
	if (sf_zarr_chunk_name(&z, last, name) >= sizeof(name) || strlen(name) == 0)
		abort();
	return 0;
}
