/* torch.distributed.checkpoint's format, which others are built on. */
#ifndef SF_SAVE_SAVE_DCP_H
#define SF_SAVE_SAVE_DCP_H

#include "save/save_format.h"

extern const struct sf_save_format sf_save_dcp, sf_save_megatron, sf_save_olmo;

/* DIR.metadata of the plan: whole or not there. */
int sf_save_dcp_metadata(struct shardfuse_save *s, struct sf_save_target *t, const char *dir,
                         const struct sf_global_plan *g, struct sf_error *err);

#endif
