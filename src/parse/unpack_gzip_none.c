#include "config.h"

#include "parse/unpack_priv.h"

static int no_gzip(void **ret, struct sf_error *err)
{
	(void)ret;
	return sf_fail(err, -ENOTSUP, "gzip: this shardfuse was built without zlib");
}

const struct sf_unpack_ops sf_unpack_gzip = { .name = "gzip", .make = no_gzip };
