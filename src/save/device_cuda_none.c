#include "config.h"

#include "save/save_stage.h"

int sf_device_cuda(const struct sf_device **ret, struct sf_error *err)
{
	(void)ret;
	return sf_fail(err, -ENOTSUP, "CUDA memory: this build of shardfuse cannot copy it");
}
