/* The parts of `info`: the checkpoint as a whole, and the keys that were asked for. */
#ifndef SF_CLI_INFO_H
#define SF_CLI_INFO_H

#include "base/buf.h"
#include "lib/session.h"

/* Both write to stdout; names are escaped, they stand in lines and tables. Errors: what reading
 * says, -ENOMEM. */
int sf_info_whole(struct sf_session *s, struct sf_error *err);
/*
 * sf_info_keys - what @key means (key_slice.h): dtype, shape, shards and first values of a tensor,
 * an object's value in a line; of a slice its values. With @json one document: {"schema": 1,
 * "keys": […]}, of a slice with "slice" and "values" in each. -ENOENT no key matches, -EINVAL a
 * slice that a tensor does not have.
 */
int sf_info_keys(struct sf_session *s, const char *key, bool json, struct sf_error *err);

#endif
