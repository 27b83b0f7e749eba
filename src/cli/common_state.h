/* get --common: what a checkpoint keeps beside its tensors, as one JSON document. */
#ifndef SF_CLI_COMMON_STATE_H
#define SF_CLI_COMMON_STATE_H

#include <stdio.h>
#include "lib/session.h"

/*
 * sf_common_state - the keys of the container `common`, nested as they were saved, to @out; their values
 * as value.json has them, tensors by dtype and shape.
 * Errors: -ENOENT there is none; those of reading a value.
 */
int sf_common_state(struct sf_session *s, FILE *out, struct sf_error *err);

#endif
