/* The mount's side of the control ioctl. */
#ifndef SF_FUSE_CONTROL_H
#define SF_FUSE_CONTROL_H

#include "fuse/fs_ops.h"
#include "tool/control.h"

/* Answers @c, which asks something: op is looked at, all else is set. Waits for the cache's disk. */
void sf_control_answer(const struct sf_session *s, struct sf_control *c);

/* The filesystem operation: a request of the right number and size, on the root directory, from root or
 * who mounted it, is answered by one of fs->sizers, so that no thread that receives requests waits. */
void sf_fs_ioctl(fuse_req_t req, fuse_ino_t ino, unsigned cmd, void *arg, struct fuse_file_info *fi,
                 unsigned flags, const void *in, size_t in_size, size_t out_size);

#endif
