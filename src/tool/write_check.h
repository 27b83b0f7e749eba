/* What can be known to go wrong before anything is written. */
#ifndef SF_TOOL_WRITE_CHECK_H
#define SF_TOOL_WRITE_CHECK_H

#include "tool/write_file.h"

/*
 * -EEXIST something is there (without force); -EINVAL a file of the checkpoint itself would go;
 * -ENOENT the root and its parent are not there; -ENOSPC the file system has less room than the
 * tensors take.
 */
int sf_write_check(const struct sf_session *s, const struct sf_out_file *files, size_t n,
                   const struct sf_write_options *o, struct sf_error *err);

#endif
