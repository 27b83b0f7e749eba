/* A part of a source as a source of its own: a member of a tar is one. */
#ifndef SF_STORE_SOURCE_SLICE_H
#define SF_STORE_SOURCE_SLICE_H

#include "store/source.h"

/*
 * sf_source_slice - the bytes [off, off + info->size) of @inner, called @info->name.
 *
 * Whatever @inner can do it can, in place: it lends, submits and is cancelled as that is. @inner is
 * referenced. @info: its name and etag are copied, the version is what it says.
 * Errors: -EBADMSG, with both numbers: it passes the end of @inner; -ENOMEM.
 */
int sf_source_slice(struct sf_source *inner, uint64_t off, const struct sf_objinfo *info,
                    struct sf_source **ret, struct sf_error *err);

#endif
