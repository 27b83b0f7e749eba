/* Directories of safetensors files: what a composite shares with the format of its own. */
#ifndef SF_FORMAT_FORMAT_DCP_HF_H
#define SF_FORMAT_FORMAT_DCP_HF_H

#include "format/format_dcp_lower.h"

struct dcp_hf_facts {
	bool sharded;     /* DCP's writer made it */
	int64_t mtime_ns; /* of the newest file */
};

/* Are there safetensors files in @dir ("" or "model/") itself? */
bool dcp_hf_is(const struct sf_objinfo *files, size_t n, const char *dir);
/*
 * dcp_hf_load_dir - the safetensors files of src->dir into @b, keys below src->prefix when it has
 * one.
 *
 * Which files: those of the index, else the listing's. Warnings: "missing-file", "missing-item",
 * and "unreadable-file" for one whose header is malformed: its tensors are left out, unless the
 * files are shards of one another. Errors: -EBADMSG, also when no file can be read; the store's.
 */
int dcp_hf_load_dir(const struct dcp_source *src, struct sf_ckpt_builder *b,
                    struct dcp_hf_facts *ret, struct sf_error *err);
const char *dcp_hf_writer(const struct dcp_hf_facts *f); /* NULL: not known */

#endif
