/* One metadata file, by whichever of the two readers understands it. */
#ifndef SF_FORMAT_DCP_DCP_READ_H
#define SF_FORMAT_DCP_DCP_READ_H

#include "format/dcp/dcp_meta.h"

/*
 * dcp_meta_read - one metadata file into an empty @m.
 *
 * Streams it through the scanner (dcp_scan.h); a pickle that is well formed but unlike what
 * it knows goes through the value reader (dcp_values.h). @name: the object; it stays open
 * only during the call. @want: the version that was listed, NULL any. Errors: -ESTALE it is
 * another, -EBADMSG with the byte offset and the opcode, -E2BIG a limit, those of the store. @m is
 * then unusable (release it).
 */
enum dcp_reader {
	DCP_READER_AUTO,
	DCP_READER_SCAN,
	DCP_READER_VALUES
}; /* the latter two are for tests */
int dcp_meta_read(struct dcp_meta *m, struct sf_store *store, const char *name,
                  const struct sf_objinfo *want, enum dcp_reader reader, struct sf_error *err);

/* The same of one that is open. */
int dcp_meta_read_source(struct dcp_meta *m, struct sf_source *src, const char *name,
                         enum dcp_reader reader, struct sf_error *err);

#endif
