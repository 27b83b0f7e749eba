/* Staging hooks of the caller, as a device. */
#ifndef SF_SAVE_DEVICE_CALLER_H
#define SF_SAVE_DEVICE_CALLER_H

#include "base/arena.h"
#include "save/save_stage.h"

/* Lives in @arena; @given is copied. -EINVAL: stage is missing, or one of alloc and release; -ENOMEM. */
int sf_device_caller_new(const struct shardfuse_staging *given, struct sf_arena *arena,
                         const struct sf_device **ret, struct sf_error *err);

#endif
