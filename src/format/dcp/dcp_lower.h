/* From what a metadata file says to a checkpoint. */
#ifndef SF_FORMAT_DCP_DCP_LOWER_H
#define SF_FORMAT_DCP_DCP_LOWER_H

#include "ckpt/ckpt_builder.h"
#include "format/dcp/dcp_meta.h"
#include "format/format_dir.h"

/*
 * dcp_lower - @m (finished) into @b: tensors with chunks and items, objects, paths, warnings.
 *
 * Where items look like DCP's SAFETENSORS mode it reads 9 bytes of each data file, and behind zstd 9
 * for each tensor in it; of all files side by side. Cost: one pass over chunks, two where it looks.
 * Warnings: "unsafe-name", "transform", "stray-item", "overwritten".
 */
int dcp_lower(const struct dcp_meta *m, const struct sf_format_dir *src, struct sf_ckpt_builder *b,
              struct sf_error *err);

#endif
