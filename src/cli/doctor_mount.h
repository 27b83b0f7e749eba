/* Can this user mount? Tried. */
#ifndef SF_CLI_DOCTOR_MOUNT_H
#define SF_CLI_DOCTOR_MOUNT_H

#include "base/error.h"

#define SF_DOCTOR_MOUNT_MS 10000

/*
 * sf_doctor_mount - mounts a checkpoint of one tensor in a temporary directory, reads a file of it,
 * and takes all of it away again.
 *
 * As the calling user does it: through fusermount3 unless root. By this program itself
 * (/proc/self/exe), in a child that has @timeout_ms to answer and 3 s at most to end; signals wait
 * until all is clean. Errors: -EIO what the child said; -ETIMEDOUT it did not answer; of the
 * directory. Threads: as sf_ask.
 */
int sf_doctor_mount(unsigned timeout_ms, struct sf_error *err);

#endif
