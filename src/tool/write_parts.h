/* One virtual file into a descriptor, by several threads, in bounded memory. */
#ifndef SF_TOOL_WRITE_PARTS_H
#define SF_TOOL_WRITE_PARTS_H

#include "lib/session.h"
#include "tool/progress.h"

/*
 * sf_write_parts - all of @file, which is prepared, to @fd, a regular file that is still empty.
 *
 * @crc: it is a .pt; CRCs of its tensors are computed on the way and put into headers and
 * directory. @path names it in messages.
 * Memory: 512 KiB a thread, 28 bytes a record of a .pt; none for the size it claims to have.
 */
int sf_write_parts(struct sf_session *s, struct sf_vfile *file, bool crc, int fd, const char *path,
                   unsigned threads, struct sf_progress *progress, struct sf_error *err);

#endif
