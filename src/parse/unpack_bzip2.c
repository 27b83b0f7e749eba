#include "config.h"

#include <bzlib.h>
#include <limits.h>
#include <stdlib.h>

#include "base/mem.h"
#include "parse/unpack_priv.h"

static int begin(bz_stream *z, struct sf_error *err)
{
	return BZ2_bzDecompressInit(z, 0, 0) == BZ_OK
	               ? 0
	               : sf_fail(err, -ENOMEM, "bzip2: no memory for a decoder");
}

static int make(void **ret, struct sf_error *err)
{
	bz_stream *z = calloc(1, sizeof(*z));
	int r = z ? begin(z, err) : sf_fail(err, -ENOMEM, "bzip2: no memory for a decoder");

	if (r < 0)
		free(z);
	else
		*ret = z;
	return r;
}

static int step(void *own, struct sf_unpack_io *io, struct sf_error *err)
{
	const unsigned in = (unsigned)SF_MIN(io->in_len, (size_t)UINT_MAX),
		       out = (unsigned)SF_MIN(io->out_len, (size_t)UINT_MAX);
	bz_stream *z = own;
	int r;

	z->next_in = (char *)(uintptr_t)io->in; /* it is not written to */
	z->avail_in = in;
	z->next_out = (char *)io->out;
	z->avail_out = out;
	r = BZ2_bzDecompress(z);
	io->in += in - z->avail_in;
	io->in_len -= in - z->avail_in;
	io->out += out - z->avail_out;
	io->out_len -= out - z->avail_out;
	if (r == BZ_STREAM_END)
		return 1;
	if (r == BZ_OK)
		return 0;
	return sf_fail(err, r == BZ_MEM_ERROR ? -ENOMEM : -EBADMSG, "bzip2: %s",
	               r == BZ_DATA_ERROR_MAGIC ? "no stream of it" : "damaged");
}

static int again(void *own, struct sf_error *err)
{
	bz_stream *z = own;

	BZ2_bzDecompressEnd(z);
	*z = (bz_stream){ 0 };
	return begin(z, err);
}

static void bzip2_free(void *own)
{
	BZ2_bzDecompressEnd(own);
	free(own);
}

const struct sf_unpack_ops sf_unpack_bzip2 = {
	.name = "bzip2", .make = make, .step = step, .again = again, .free = bzip2_free
};
