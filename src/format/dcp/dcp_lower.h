/* From what a metadata file says to a checkpoint. */
#ifndef SF_FORMAT_DCP_DCP_LOWER_H
#define SF_FORMAT_DCP_DCP_LOWER_H

#include "ckpt/ckpt_builder.h"
#include "format/dcp/dcp_meta.h"
#include "format/format_dir.h"

/*
 * dcp_lower - @m (finished) into @b: tensors with chunks and items, objects, paths, warnings.
 *
 * Reads 9 bytes of a data file when its items look like DCP's SAFETENSORS mode (one small read a
 * file). Cost: one pass over chunks. Warnings: "unsafe-name", "transform", "stray-item",
 * "overwritten".
 */
int dcp_lower(const struct dcp_meta *m, const struct sf_format_dir *src, struct sf_ckpt_builder *b,
              struct sf_error *err);

#endif
