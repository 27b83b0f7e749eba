/* Lightning's meta.pt beside a DCP checkpoint: step, epoch, hyper-parameters, loops. */
#ifndef SF_FORMAT_DCP_DCP_LIGHTNING_H
#define SF_FORMAT_DCP_DCP_LIGHTNING_H

#include "ckpt/ckpt_builder.h"
#include "store/store.h"

struct dcp_lightning {
	int64_t step;     /* "global_step", -1 without */
	char version[32]; /* "pytorch-lightning_version", "" without */
};

/*
 * dcp_lightning - the dict that meta.pt holds, a key meta.NAME for each of its members, beside the
 * checkpoint's own keys (sf_ckpt_builder_beside).
 *
 * Call after the checkpoint's keys are there. Without such a file, and with one that is no dict of
 * named values, nothing is added: it is then among the files that are not read. A malformed one is
 * a warning "unreadable-file". Cost: reads its directory and its pickle. Errors: -ENOMEM, those of
 * the store.
 * Source: Lightning-AI/pytorch-lightning, fabric/strategies/fsdp.py (_METADATA_FILENAME) and
 * pytorch/strategies/{fsdp,model_parallel}.py, 2.6.
 */
int dcp_lightning(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                  struct sf_ckpt_builder *b, struct dcp_lightning *ret, struct sf_error *err);

#endif
