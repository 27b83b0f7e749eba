/* How long is a pickle? Its opcodes are stepped over, nothing is built. */
#ifndef SF_PARSE_PICKLE_SKIP_H
#define SF_PARSE_PICKLE_SKIP_H

#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

/*
 * sf_pickle_skip - bytes up to and with STOP of the pickle at the start of @p.
 *
 * Where sf_pickle_parse() takes a pickle, this gives the same length; it also steps over some that
 * one refuses.
 * Errors: -EAGAIN it does not end within @len bytes; -EBADMSG a byte that is no opcode.
 * Cost:   O(opcodes), no memory.
 */
int sf_pickle_skip(const uint8_t *p, size_t len, size_t *ret_used, struct sf_error *err);

#endif
