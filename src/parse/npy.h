/* .npy headers. */
#ifndef SF_PARSE_NPY_H
#define SF_PARSE_NPY_H

#include <stdint.h>
#include "base/buf.h"

/* Version 1 header with magic, padded to a multiple of 64, as numpy.save writes it
 * (numpy/lib/format.py); row-major. */
void sf_npy_put_header(struct sf_buf *out, const char *descr, const uint64_t *shape, unsigned ndim);

#endif
