/* What the stages of the DCP format share. */
#ifndef SF_FORMAT_FORMAT_DCP_H
#define SF_FORMAT_FORMAT_DCP_H

#include "format/format_dcp_meta.h"

/* @dir is "" or ends in '/'. */
int64_t dcp_rank_metadata(const char *name, const char *dir); /* R of DIR__R.metadata, or -1 */
bool dcp_has_metadata(const struct sf_objinfo *files, size_t n,
                      const char *dir); /* a global one, or rank-local ones */
/* All metadata of one directory, finished. *ret_mtime: of the newest (ns). -ENOENT: a rank's is
 * missing. */
int dcp_read_dir(struct dcp_meta *m, struct sf_store *store, const struct sf_objinfo *files,
                 size_t n, const char *dir, int64_t *ret_mtime, struct sf_error *err);
uint32_t
dcp_count_ranks(const struct dcp_meta *m); /* from the names of the files in use; 0 unknown */
int64_t
dcp_step_of(const char *source); /* from a name like step-100 in the last two components, or -1 */

#endif
