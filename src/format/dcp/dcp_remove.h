/* A .metadata without some of its keys. */
#ifndef SF_FORMAT_DCP_REMOVE_H
#define SF_FORMAT_DCP_REMOVE_H

#include <stdbool.h>
#include "base/arena.h"
#include "base/buf.h"
#include "base/error.h"

struct dcp_removed {
	size_t keys, items; /* keys and stored items that are gone */
	size_t left;        /* keys that stay */
	/* Files that only those items named, @arena's: nothing names them any more. */
	const char **file;
	size_t nfiles;
};

/*
 * dcp_remove - the pickle of the same Metadata without the keys that @is says.
 *
 * They leave state_dict_metadata, planner_data, storage_data and Megatron's mcore_data; plans of the
 * ranks that saved it (all_local_plans), which would still name them, leave as a whole: nothing is
 * read by them. All else stays as it is.
 * Errors: -EBADMSG it is no torch Metadata; -E2BIG one of over 1 GiB of values, or more than @out's
 *         limit; -ENOMEM.
 * Memory: the value is @arena's, some 20 times the file.
 * Source: megatron/core/dist_checkpointing/strategies/torch.py remove_sharded_tensors, 0.19.
 */
int dcp_remove(const uint8_t *p, size_t len, bool (*is)(void *arg, const char *key, size_t len),
               void *arg, struct sf_arena *arena, struct sf_buf *out, struct dcp_removed *ret,
               struct sf_error *err);

#endif
