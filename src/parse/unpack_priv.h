/* What one packing is to unpack.c. Private to src/parse/unpack*.c. */
#ifndef SF_PARSE_UNPACK_PRIV_H
#define SF_PARSE_UNPACK_PRIV_H

#include <stdbool.h>
#include "parse/unpack.h"

#define SF_UNPACK_MEMORY (UINT64_C(256) << 20) /* bytes that a decoder may take */

/* Bytes on their way: both ends move. */
struct sf_unpack_io {
	const uint8_t *in;
	size_t in_len;
	uint8_t *out;
	size_t out_len;
};

/* A library's. @own is what make gave. */
struct sf_unpack_ops {
	const char *name;
	int (*make)(void **ret, struct sf_error *err);
	/* Takes and gives what it can. 1: a stream has ended just here, another may follow; 0: it
	 * is inside one. */
	int (*step)(void *own, struct sf_unpack_io *io, struct sf_error *err);
	/* Another stream begins. */
	int (*again)(void *own, struct sf_error *err);
	void (*free)(void *own);
	bool padded; /* zeros may stand behind the last stream */
};
extern const struct sf_unpack_ops sf_unpack_gzip, sf_unpack_bzip2, sf_unpack_xz, sf_unpack_lzma,
	sf_unpack_zstd, sf_unpack_lz4;

#endif
