/* A tensor's elements as numbers, a block after the other, in bounded memory. */
#ifndef SF_TOOL_NUMBERS_H
#define SF_TOOL_NUMBERS_H

#include "lib/session.h"

#define SF_NUMBERS_BLOCK 4096 /* elements, at most */
#define SF_NUMBERS_SLICE (UINT64_C(1) << 20)

/*
 * sf_numbers_each - all of @tensor's elements in row-major order, as they are stored, as doubles
 * (parse/dtype_number.h).
 *
 * @each: a block; negative ends it. Errors: those of reading, with the file and the offset; -ENOTSUP
 * of a dtype that is no number.
 * Memory: two MiB. Threads: any number at once.
 */
int sf_numbers_each(struct sf_reader *r, uint32_t tensor,
                    int (*each)(void *arg, const double *v, size_t n), void *arg,
                    struct sf_error *err);

#endif
