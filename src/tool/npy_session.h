/* A .npy file as a session: a checkpoint of one tensor. */
#ifndef SF_TOOL_NPY_SESSION_H
#define SF_TOOL_NPY_SESSION_H

#include "lib/session.h"

bool sf_is_npy_name(const char *path);
/*
 * Its key is the file's name without .npy. It has no tree: what is shown of it is the catalog. As
 * sf_session_open, and sf_session_close ends it.
 * Errors: those of sf_npy_parse; -ENOTSUP more than SF_DIMS_MAX dimensions; -EBADMSG fewer bytes than its
 * shape has.
 */
int sf_npy_session_open(struct sf_session *s, const struct sf_session_options *opt,
                        const char *path, struct sf_error *err);

#endif
