/* `.metadata` as a stream: a pickle machine with 8-byte values that never builds an object per
 * chunk. */
#ifndef SF_FORMAT_DCP_DCP_SCAN_H
#define SF_FORMAT_DCP_DCP_SCAN_H

#include "format/dcp/dcp_meta.h"

struct sf_source;

/*
 * dcp_scan - read @src into an empty @m (then dcp_meta_finish).
 *
 * 0 done; 1 the pickle may be fine but is not what the scanner knows (@m is then rubbish, @err
 * untouched); -EBADMSG with offset and opcode; -E2BIG a limit; -ENOMEM; the source's errors.
 * Memory: a window of 1 MiB; 24 bytes and the coordinates a chunk; about 130 bytes a record that
 * has an unusual shape. Cost: one pass; two when something points into records that were passed
 * over.
 */
int dcp_scan(struct dcp_meta *m, struct sf_source *src, const char *name, struct sf_error *err);

#endif
