/* What lies beside a checkpoint and says that it is none yet. */
#ifndef SF_FORMAT_FORMAT_BESIDE_H
#define SF_FORMAT_FORMAT_BESIDE_H

#include "store/store.h"

/*
 * sf_format_beside - NeMo writes NAME-unfinished beside the directory NAME while a save runs.
 *
 * Looked for only where @files has weights/, as NeMo's checkpoints do. -ENOENT: it is there, by name; 0:
 * it is not, or that cannot be told. Waits: opens the directory above, and asks for one file.
 * Source: NVIDIA/NeMo 2.5 nemo/lightning/pytorch/callbacks/model_checkpoint.py.
 */
int sf_format_beside(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                     struct sf_error *err);

#endif
