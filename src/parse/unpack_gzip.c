#include "config.h"

#include <limits.h>
#include <stdlib.h>
#include <zlib.h>

#include "base/mem.h"
#include "parse/unpack_priv.h"

static int make(void **ret, struct sf_error *err)
{
	z_stream *z = calloc(1, sizeof(*z));

	if (!z || inflateInit2(z, 15 + 16) != Z_OK) { /* 16: with gzip's head and sum */
		free(z);
		return sf_fail(err, -ENOMEM, "gzip: no memory for a decoder");
	}
	*ret = z;
	return 0;
}

static int step(void *own, struct sf_unpack_io *io, struct sf_error *err)
{
	const uInt in = (uInt)SF_MIN(io->in_len, (size_t)UINT_MAX),
		   out = (uInt)SF_MIN(io->out_len, (size_t)UINT_MAX);
	z_stream *z = own;
	int r;

	z->next_in = (Bytef *)(uintptr_t)io->in; /* it is not written to */
	z->avail_in = in;
	z->next_out = io->out;
	z->avail_out = out;
	r = inflate(z, Z_NO_FLUSH);
	io->in += in - z->avail_in;
	io->in_len -= in - z->avail_in;
	io->out += out - z->avail_out;
	io->out_len -= out - z->avail_out;
	if (r == Z_STREAM_END)
		return 1;
	if (r == Z_OK || r == Z_BUF_ERROR)
		return 0;
	return sf_fail(err, r == Z_MEM_ERROR ? -ENOMEM : -EBADMSG, "gzip: %s",
	               z->msg ? z->msg : "damaged");
}

static int again(void *own, struct sf_error *err)
{
	return inflateReset(own) == Z_OK ? 0 : sf_fail(err, -EBADMSG, "gzip: damaged");
}

static void gzip_free(void *own)
{
	inflateEnd(own);
	free(own);
}

const struct sf_unpack_ops sf_unpack_gzip = { .name = "gzip",
	                                      .make = make,
	                                      .step = step,
	                                      .again = again,
	                                      .free = gzip_free,
	                                      .padded = true };
