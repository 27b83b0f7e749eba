/* The .metadata of a save: torch's Metadata, pickled from columns. */
#ifndef SF_SAVE_DCP_META_WRITE_H
#define SF_SAVE_DCP_META_WRITE_H

#include "save/save_plan.h"
#include "save/save_shard_name.h"

struct sf_dcp_meta_options {
	/* where _StorageInfo is from: "torch.distributed.checkpoint.filesystem", or OLMo-core's */
	const char *storage_info_module;
	const char *tag;  /* of the files' names (save_shard_name.h); NULL: "" */
	const char *zstd; /* transform descriptor of all items, "stream.zstd/1"; NULL: none */
};
/*
 * sf_dcp_meta_write - the pickle, into @sink in pieces of about 1 MiB.
 *
 * A rank's nth file is called as sf_shard_name says. Keys, chunks and items in the plan's order.
 *
 * Protocol 4, what repeats is memoised: no larger than torch's own of the same. torch 2.0 to 2.14 read
 * it: TensorProperties is spelt as a call of the class by torch.distributed.checkpoint.metadata, where
 * 2.0 to 2.2 import it and newer ones define it (torch pickles its state, with an enum that moved in
 * 2.3); Metadata.version, "1.0.0", is an attribute that old ones do not look at; storage_meta (2.4) is
 * left out, as its reader allows.
 * Errors: what @sink said; -ENOMEM; -E2BIG past 2^30 keys or 2^32 chunks.
 * Memory: 4 bytes a file and 12 a rank, distinct steps of paths, 1 MiB. Cost: O(chunks), no allocation
 * per chunk.
 */
int sf_dcp_meta_write(const struct sf_global_plan *g, const struct sf_dcp_meta_options *o,
                      int (*sink)(void *arg, const void *at, size_t len, struct sf_error *err),
                      void *arg, struct sf_error *err);

#endif
