#include "config.h"

#include "save/save_stage.h"

int sf_device_cuda(const struct sf_device **ret, struct sf_error *err)
{
	(void)ret;
	return sf_fail(err, -ENOTSUP, "CUDA memory: this build of shardfuse cannot copy it");
}

bool sf_device_cuda_in_use(void)
{
	return false;
}

int sf_device_cuda_check(const void *at, bool said_cuda, struct sf_error *err)
{
	(void)at, (void)said_cuda, (void)err;
	return 0;
}
