/* The metadata of one directory, global or of its ranks, and what names and facts say. */
#ifndef SF_FORMAT_DCP_DCP_DIR_H
#define SF_FORMAT_DCP_DCP_DIR_H

#include "ckpt/ckpt_builder.h"
#include "format/dcp/dcp_meta.h"
#include "format/format_dir.h"

/* @dir is "" or ends in '/'. */
int64_t dcp_rank_metadata(const char *name, const char *dir); /* R of DIR__R.metadata, or -1 */
bool dcp_has_metadata(const struct sf_objinfo *files, size_t n,
                      const char *dir); /* a global one, or rank-local ones */
struct dcp_found {
	int64_t mtime_ns; /* of the newest metadata */
	struct sf_error
		unread; /* why `.metadata` could not be read, when the ranks' own stood in */
};
/*
 * All metadata of one directory, finished: the global one; where it is missing or unreadable, the
 * ranks' own. Errors: -ENOENT a rank's is missing; -ESTALE one is not what was listed.
 * Source: pytorch/pytorch torch/distributed/checkpoint/state_dict_loader.py, 2.14 (it tries them
 * in this order).
 */
int dcp_read_dir(struct dcp_meta *m, struct sf_store *store, const struct sf_objinfo *files,
                 size_t n, const char *dir, struct dcp_found *ret, struct sf_error *err);
/* A warning about what stood in, if anything did. */
int dcp_warn_unread(struct sf_ckpt_builder *b, const char *dir, const struct dcp_found *found);
/* The ranks' own metadata, looked for where it was not listed, from the first on until there is none
 * for a while. */
int dcp_find_ranks(struct sf_format_dir *src, struct sf_ckpt_builder *b,
                   struct sf_format_found *found, struct sf_error *err);
/* The files that it names, looked for where they were not listed: sf_format_find. */
int dcp_find_files(const struct dcp_meta *m, struct sf_format_dir *src, struct sf_ckpt_builder *b,
                   struct sf_format_found *found, struct sf_error *err);
uint32_t
dcp_count_ranks(const struct dcp_meta *m); /* from the names of the files in use; 0 unknown */
/* What the facts say about who wrote it, e.g. "torch 2.4 to 2.12"; constant text. */
const char *dcp_writer(const struct dcp_facts *f);
/* __P_N.distcp: P, or -1. */
int64_t dcp_file_rank(const char *name, size_t len);

#endif
