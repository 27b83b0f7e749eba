/* .npy headers. */
#ifndef SF_PARSE_NPY_H
#define SF_PARSE_NPY_H

#include <stdbool.h>
#include <stdint.h>
#include "base/buf.h"
#include "parse/dtype.h"

/* Version 1 header with magic, padded to a multiple of 64, as numpy.save writes it
 * (numpy/lib/format.py); row-major. */
void sf_npy_put_header(struct sf_buf *out, const char *descr, const uint64_t *shape, unsigned ndim);

#define SF_NPY_HEAD 12              /* bytes that say how long the header is */
#define SF_NPY_HEADER_MAX (1 << 20) /* bytes */
#define SF_NPY_DIMS_MAX 64          /* numpy's own limit */

struct sf_npy {
	enum sf_dtype dtype;
	bool fortran; /* the first dimension is the one whose elements lie side by side */
	unsigned ndim;
	uint64_t shape[SF_NPY_DIMS_MAX];
	uint64_t data_off, bytes; /* of the elements, in the file */
};
/* How long the header is, magic and all, from the file's first SF_NPY_HEAD bytes. -EBADMSG no .npy;
 * -ENOTSUP another version; -E2BIG. */
int sf_npy_head(const uint8_t *at, size_t len, size_t *ret_len, struct sf_error *err);
/* A whole header of versions 1 to 3. -EBADMSG; -ENOTSUP a dtype that torch lacks, or of other byte order. */
int sf_npy_parse(const uint8_t *at, size_t len, struct sf_npy *ret, struct sf_error *err);

#endif
