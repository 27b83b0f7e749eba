/* The .metadata of a save: torch's Metadata, pickled from columns. */
#ifndef SF_SAVE_DCP_META_WRITE_H
#define SF_SAVE_DCP_META_WRITE_H

#include "save/save_plan.h"

struct sf_dcp_meta_options {
	/* "torch.distributed.checkpoint.filesystem", or OLMo-core's: where _StorageInfo is from */
	const char *storage_info_module;
	const char *zstd; /* transform descriptor of all items, "stream.zstd/1"; NULL: none */
			  /* the file of a rank's nth file: "__%u_%u.distcp" */
};
/*
 * sf_dcp_meta_write - the pickle, into @sink in pieces of about 1 MiB.
 *
 * Protocol 4, what repeats is memoised: no larger than torch's own. torch 2.0 to 2.14 read it.
 * Cost: O(chunks), no allocation per chunk.
 */
int sf_dcp_meta_write(const struct sf_global_plan *g, const struct sf_dcp_meta_options *o,
                      int (*sink)(void *arg, const void *at, size_t len, struct sf_error *err),
                      void *arg, struct sf_error *err);

#endif
