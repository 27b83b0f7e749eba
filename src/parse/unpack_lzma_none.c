#include "config.h"

#include "parse/unpack_priv.h"

static int no_xz(void **ret, struct sf_error *err)
{
	(void)ret;
	return sf_fail(err, -ENOTSUP, "xz: this shardfuse was built without liblzma");
}

const struct sf_unpack_ops sf_unpack_xz = { .name = "xz", .make = no_xz };

static int no_lzma(void **ret, struct sf_error *err)
{
	(void)ret;
	return sf_fail(err, -ENOTSUP, "lzma: this shardfuse was built without liblzma");
}

const struct sf_unpack_ops sf_unpack_lzma = { .name = "lzma", .make = no_lzma };
