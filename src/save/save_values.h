/* Inside of shardfuse_value: a parsed pickle's tree that nobody parsed. */
#ifndef SF_SAVE_SAVE_VALUES_H
#define SF_SAVE_SAVE_VALUES_H

#include <stdbool.h>
#include "base/error.h"
#include "parse/pickle_read.h"
#include "shardfuse_save.h"

/* The tree; the values' own, alive as long as they. Nothing in it is shared, heights are 0. */
struct sf_pv *sf_save_value_tree(const struct shardfuse_value *v);

/*
 * What the JSON reader makes values of. Bytes as they are: a str that is UTF-8 or has surrogates as
 * three bytes (Python's "surrogatepass"), as a pickle has it. NULL: no memory.
 */
struct shardfuse_value *sf_save_value_text(struct shardfuse_values *vs, enum sf_pv_kind kind,
                                           const char *at, size_t len);
struct shardfuse_value *sf_save_value_uint(struct shardfuse_values *vs, uint64_t v);
/* shardfuse_value_set(); @replace: of equal keys the last gives the value, the first the place. */
int sf_save_value_set(struct shardfuse_value *dict, struct shardfuse_value *key,
                      struct shardfuse_value *v, bool replace);
/*
 * sf_save_value_json - RFC 8259 JSON, nothing else: no NaN, no comments. Of equal keys the last wins,
 * as Python's json has it.
 *
 * Errors: -EBADMSG with the byte; -ERANGE an integer of more than 64 bits, which would lose digits;
 * -E2BIG nested deeper than 500; -ENOMEM.
 */
int sf_save_value_json(struct shardfuse_values *vs, const char *json, size_t len,
                       struct shardfuse_value **ret, struct sf_error *err);

/*
 * sf_save_key_bytes - bytes that are equal for keys that Python takes for equal: 1, True and 1.0; a
 * torch.Size and the tuple of its numbers.
 *
 * Errors: -EINVAL a list or dict, alone or in a tuple: no key; -E2BIG nested deeper than 1,000; -ENOMEM.
 */
struct sf_buf;
int sf_save_key_bytes(const struct sf_pv *key, struct sf_buf *out);

#endif
