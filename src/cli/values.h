/* The values of a tensor, or of a part of one, as text. */
#ifndef SF_CLI_VALUES_H
#define SF_CLI_VALUES_H

#include "base/buf.h"
#include "cli/key_slice.h"
#include "read/reader.h"

#define SF_VALUES_MAX (4u << 20) /* elements that sf_values_json writes: more is -E2BIG */
#define SF_VALUES_SHOWN 1000     /* elements that sf_values_text writes out; of more the edges */

/*
 * sf_values_json - @box of a tensor's values as nested lists, row-major, as sf_dtype_json spells
 * each.
 *
 * @tensor is ckpt->tensor[]; @dtype what it is shown as (the catalog entry's). A row of the last
 * dimension is a line. A tensor without dimensions, or a box of indices alone, is one value without
 * brackets. No newline at the end.
 * Errors: -E2BIG more than SF_VALUES_MAX elements or brackets, or @out's limit; what reading says.
 *         The message does not name the tensor.
 * Cost: reads what lies under the box, in pieces of 1 MiB.
 */
int sf_values_json(struct sf_buf *out, struct sf_reader *r, uint32_t tensor, enum sf_dtype dtype,
                   const struct sf_value_box *box, struct sf_error *err);
/*
 * sf_values_text - the same for people, as numpy prints it: columns aligned, of a box of more than
 * SF_VALUES_SHOWN elements the first and last three of each dimension. @indent blanks before each
 * line. Reads only what it shows.
 */
int sf_values_text(struct sf_buf *out, struct sf_reader *r, uint32_t tensor, enum sf_dtype dtype,
                   const struct sf_value_box *box, unsigned indent, struct sf_error *err);
/* The first @n values of the whole tensor in one line, "0.5, 1, …". */
int sf_values_line(struct sf_buf *out, struct sf_reader *r, uint32_t tensor, enum sf_dtype dtype,
                   unsigned n, struct sf_error *err);

#endif
