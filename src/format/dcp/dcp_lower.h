/* From what a metadata file says to a checkpoint. */
#ifndef SF_FORMAT_DCP_DCP_LOWER_H
#define SF_FORMAT_DCP_DCP_LOWER_H

#include "ckpt/ckpt_builder.h"
#include "format/dcp/dcp_meta.h"

struct dcp_source {
	struct sf_store *store;
	const struct sf_objinfo *files; /* sorted by name */
	size_t nfiles;
	const char *dir;    /* where the metadata's file names are relative to: "" or "model/" */
	const char *prefix; /* a container around all keys, NULL none */
};

/*
 * dcp_lower - @m (finished) into @b: tensors with chunks and items, objects, paths, warnings.
 *
 * Reads 9 bytes of a data file when its items look like DCP's SAFETENSORS mode (one small read a
 * file). Cost: one pass over chunks. Warnings: "unsafe-name", "transform", "stray-item",
 * "overwritten".
 */
int dcp_lower(const struct dcp_meta *m, const struct dcp_source *src, struct sf_ckpt_builder *b,
              struct sf_error *err);

/* The listed file of this name, or NULL. */
const struct sf_objinfo *dcp_listed(const struct sf_objinfo *files, size_t n, const char *name);

#endif
