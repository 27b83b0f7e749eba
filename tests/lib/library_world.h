/* Checkpoints opened by the public interface alone: only shardfuse.h. */
#ifndef SF_TESTS_LIB_LIBRARY_WORLD_H
#define SF_TESTS_LIB_LIBRARY_WORLD_H

#include <dirent.h>
#include <errno.h>
#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include "shardfuse.h"
#include "tests/lib/sf_test.h"

static inline struct shardfuse *open_with(struct shardfuse_context *ctx, const char *which,
                                          const struct shardfuse_open_options *opt)
{
	struct shardfuse_error err = { { 0 } };
	struct shardfuse *h = NULL;
	char path[4096];
	int r = shardfuse_open(ctx, sf_test_data(path, which), opt, &h, &err);
	ck_assert_msg(r == 0, "%s", err.msg);
	return h;
}

static inline struct shardfuse *open_data(const char *which)
{
	return open_with(NULL, which, NULL);
}

static inline uint64_t count_of(struct shardfuse *h, int objects)
{
	struct shardfuse_info info = SHARDFUSE_INIT(info);

	ck_assert_int_eq(shardfuse_info(h, &info, NULL), 0);
	return objects ? info.objects : info.tensors;
}

#endif
