/* What a tensor's pickle says, checked once for all who read it. Only torch_*.c include it. */
#ifndef SF_PARSE_TORCH_TENSOR_H
#define SF_PARSE_TORCH_TENSOR_H

#include "parse/torch_item.h"

/*
 * The storage class, named by the pickle: its dtype, and *ret_bytes per counted element.
 * SF_DTYPE_NONE: none we know. An untyped storage counts bytes and reads as uint8, as torch has it.
 */
enum sf_dtype sf_torch_storage_class(const char *module, size_t module_len, const char *name,
                                     size_t name_len);

/*
 * Storage count (in elements of @storage) to elements of t->dtype, and does the tensor stay inside?
 * Fills storage_numel. -EBADMSG when not.
 */
int sf_torch_tensor_check(struct sf_torch_tensor *t, enum sf_dtype storage, uint64_t count,
                          struct sf_error *err);

/* torch_match.c: the ordinary pickle of one tensor, matched byte by byte. 1 filled (key too), 0 it
 * is of another shape. */
int sf_torch_match(const uint8_t *pkl, size_t len, struct sf_torch_tensor *ret, char key[64],
                   int *ret_code, struct sf_error *err);

#endif
