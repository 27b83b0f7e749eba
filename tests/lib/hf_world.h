/* A checkpoint whose hf/ is asked for. */
#ifndef SF_TESTS_LIB_HF_WORLD_H
#define SF_TESTS_LIB_HF_WORLD_H

#include <errno.h>
#include <fcntl.h>
#include <stdatomic.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/uio.h>
#include <unistd.h>
#include "base/json.h"
#include "view/hf/hf_companions.h"
#include "view/hf/hf_config.h"
#include "view/hf/hf_names.h"
#include "view_world.h"

static const uint64_t two[2] = { 2, 3 };

static inline struct sf_hf *hf_of(struct vw *w)
{
	struct sf_hf *hf = NULL;

	vw_open(w);
	vw_ok(sf_hf_new(w->cat, &hf, &err));
	return hf;
}

#endif
