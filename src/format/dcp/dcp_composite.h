/* A directory without metadata whose children are checkpoints: DCP, or safetensors files. */
#ifndef SF_FORMAT_DCP_DCP_COMPOSITE_H
#define SF_FORMAT_DCP_DCP_COMPOSITE_H

#include "ckpt/ckpt_builder.h"
#include "store/store.h"

/* 0 no; 1 it has children of safetensors files; 2 some are DCP. -ENOMEM. */
int dcp_is_composite(const struct sf_objinfo *files, size_t n);
/*
 * Children by name: pytorch_model_fsdp_K and model become the container `model`, optimizer* and
 * optim `optim`, weights and model_and_optim keep their keys. A child whose keys all lie in a
 * container of their own already (accelerate's `model` and `optimizer`) keeps them: no second
 * prefix; safetensors always get it. A second child of one name is kept apart by its directory's
 * name. Safetensors files at the top are the model where DCP children are optimizers only.
 */
int dcp_load_composite(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                       struct sf_ckpt_builder *b, struct sf_error *err);

#endif
