#include "config.h"

#include "parse/unpack_priv.h"

static int no_bzip2(void **ret, struct sf_error *err)
{
	(void)ret;
	return sf_fail(err, -ENOTSUP, "bzip2: this shardfuse was built without libbz2");
}

const struct sf_unpack_ops sf_unpack_bzip2 = { .name = "bzip2", .make = no_bzip2 };
