/* `.metadata` through generic pickle values: slower and larger, for whatever the scanner does not
 * know. */
#ifndef SF_FORMAT_DCP_DCP_VALUES_H
#define SF_FORMAT_DCP_DCP_VALUES_H

#include "format/dcp/dcp_meta.h"

struct sf_source;

/* Same result as dcp_scan, held against it by a test. Reads the file whole (≤ DCP_SLOW_MAX);
 * about 1.5 KB a chunk. */
int dcp_values_read(struct dcp_meta *m, struct sf_source *src, const char *name,
                    struct sf_error *err);

#endif
