/* A whole virtual file into a descriptor: in order, several reads ahead, bounded memory. */
#ifndef SF_TOOL_COPY_OUT_H
#define SF_TOOL_COPY_OUT_H

#include "lib/session.h"

/* @file is prepared. Works on pipes. */
int sf_copy_out(struct sf_session *s, struct sf_vfile *file, int fd, struct sf_error *err);
/* Its first @len bytes, at most its size. */
int sf_copy_out_some(struct sf_session *s, struct sf_vfile *file, uint64_t len, int fd,
                     struct sf_error *err);

#endif
