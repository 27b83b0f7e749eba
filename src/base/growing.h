/* Public structs that grow: callers may be older or newer than the library. */
#ifndef SF_BASE_GROWING_H
#define SF_BASE_GROWING_H

#include <stddef.h>
#include "base/error.h"

struct shardfuse_error;

/* The public error has the layout of ours; a copy keeps the two types apart. Returns @code. */
int sf_public_fail(struct shardfuse_error *ret, const struct sf_error *err, int code);
/* @ours, of @ours_size bytes, into a struct whose first member is its size; what it has beyond ours is
 * left alone. -EINVAL a size that is none. */
int sf_public_give(void *theirs, const void *ours, size_t ours_size, struct sf_error *err);
/* The other way: members that it does not have become 0. @theirs may be NULL. */
int sf_public_take(const void *theirs, void *ours, size_t ours_size, struct sf_error *err);

#endif
