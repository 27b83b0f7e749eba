/* Directories of safetensors files: what a composite shares with the format of its own. */
#ifndef SF_FORMAT_SAFETENSORS_FORMAT_SAFETENSORS_H
#define SF_FORMAT_SAFETENSORS_FORMAT_SAFETENSORS_H

#include "ckpt/ckpt_builder.h"
#include "format/format_dir.h"

struct safetensors_facts {
	bool sharded;     /* DCP's writer made it */
	int64_t mtime_ns; /* of the newest file */
};

/* Are there safetensors files in @dir ("" or "model/") itself? */
bool safetensors_is_dir(const struct sf_objinfo *files, size_t n, const char *dir);
/*
 * safetensors_load_dir - the safetensors files of src->dir into @b, keys below src->prefix when it
 * has one.
 *
 * Which files: those of the index, else the listing's. Warnings: "missing-file", "missing-item",
 * "malformed-tensor", and "unreadable-file" for one whose header is malformed: its tensors are left
 * out. Of a sharded save that is safe only where the names of its tensors are known, that is where
 * DCP_SHARDING_INFO alone is malformed: any other header may have had the end of every tensor. A
 * file is a shard by the exact name that DCP gives it; one that is merely called alike is not.
 *
 * Errors: -EBADMSG, a shard's header, or no file or tensor is left; the store's. Those fail the
 * load even where one file alone has them: -EIO and -ETIMEDOUT may be over the next time, and a
 * mount would leave out for good what they hid; -ENOENT and -ESTALE say that somebody is changing
 * the directory.
 */
int safetensors_load_dir(const struct sf_format_dir *src, struct sf_ckpt_builder *b,
                         struct safetensors_facts *ret, struct sf_error *err);
const char *safetensors_writer(const struct safetensors_facts *f); /* NULL: not known */

#endif
