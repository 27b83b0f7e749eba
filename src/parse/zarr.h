/* .zarray: what an array of zarr's version 2 is, and how its chunks are stored. */
#ifndef SF_PARSE_ZARR_H
#define SF_PARSE_ZARR_H

#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"
#include "parse/codec.h"
#include "parse/dtype.h"
#include "parse/torch_item.h" /* SF_DIMS_MAX */

struct sf_zarr {
	unsigned ndim;
	uint64_t shape[SF_DIMS_MAX];
	/* elements of a chunk, each at least 1; chunks at the array's end are stored whole */
	uint64_t chunk[SF_DIMS_MAX];
	uint64_t cells[SF_DIMS_MAX]; /* chunks along each dimension */
	uint64_t ncells;             /* in all */
	uint64_t chunk_bytes;        /* of one, before it was compressed */
	enum sf_dtype dtype;
	bool column_major; /* within a chunk */
	char separator;    /* in chunks' names: '.' or '/' */
	enum sf_codec codec;
	bool has_fill; /* null: elements that are not stored are not defined */
	uint8_t fill[16];
};

/*
 * sf_zarr_parse - the text of a .zarray.
 *
 * Little-endian numbers, bool, complex, and the words that ml_dtypes gives ("bfloat16"); no filters.
 * Errors: -EBADMSG malformed, or numbers that contradict each other (with both); -ENOTSUP another
 * version, a type, a compressor or a filter that is not read (named); -ENOMEM.
 * Threads: pure.
 * Source: zarr-developers/zarr-specs docs/v2/v2.0.rst; zarr-python 2.18; for bfloat16
 * google/tensorstore's zarr driver.
 */
int sf_zarr_parse(const char *text, size_t len, struct sf_zarr *ret, struct sf_error *err);

/* The name of the chunk at @cell: "3.0.1"; "0" without dimensions. @text has SF_ZARR_NAME bytes. */
#define SF_ZARR_NAME (SF_DIMS_MAX * 21)
size_t sf_zarr_chunk_name(const struct sf_zarr *z, const uint64_t *cell, char *text);

#endif
