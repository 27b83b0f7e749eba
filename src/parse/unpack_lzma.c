#include "config.h"

#include <inttypes.h>
#include <lzma.h>
#include <stdlib.h>

#include "parse/unpack_priv.h"

struct unlzma {
	lzma_stream z;
	bool alone;
};

static int begin(struct unlzma *u, struct sf_error *err)
{
	lzma_ret r = u->alone ? lzma_alone_decoder(&u->z, SF_UNPACK_MEMORY)
	                      : lzma_stream_decoder(&u->z, SF_UNPACK_MEMORY, 0);

	return r == LZMA_OK ? 0
	                    : sf_fail(err, -ENOMEM, "%s: no memory for a decoder",
	                              u->alone ? "lzma" : "xz");
}

static int make(bool alone, void **ret, struct sf_error *err)
{
	static const lzma_stream none = LZMA_STREAM_INIT;
	struct unlzma *u = calloc(1, sizeof(*u));
	int r;

	if (!u)
		return sf_fail(err, -ENOMEM, "xz: no memory for a decoder");
	u->z = none;
	u->alone = alone;
	r = begin(u, err);
	if (r < 0)
		free(u);
	else
		*ret = u;
	return r;
}

static int make_xz(void **ret, struct sf_error *err)
{
	return make(false, ret, err);
}

static int make_alone(void **ret, struct sf_error *err)
{
	return make(true, ret, err);
}

static int step(void *own, struct sf_unpack_io *io, struct sf_error *err)
{
	struct unlzma *u = own;
	const char *name = u->alone ? "lzma" : "xz";
	lzma_ret r;

	u->z.next_in = io->in;
	u->z.avail_in = io->in_len;
	u->z.next_out = io->out;
	u->z.avail_out = io->out_len;
	r = lzma_code(&u->z, LZMA_RUN);
	io->in = u->z.next_in;
	io->in_len = u->z.avail_in;
	io->out = u->z.next_out;
	io->out_len = u->z.avail_out;
	switch (r) {
	case LZMA_OK:
	case LZMA_BUF_ERROR:
		return 0;
	case LZMA_STREAM_END:
		return 1;
	case LZMA_MEM_ERROR:
		return sf_fail(err, -ENOMEM, "%s: no memory for a decoder", name);
	case LZMA_MEMLIMIT_ERROR:
		return sf_fail(err, -ENOBUFS,
		               "%s: it needs %" PRIu64
		               " bytes of memory to be unpacked, the most are "
		               "%" PRIu64,
		               name, lzma_memusage(&u->z), SF_UNPACK_MEMORY);
	case LZMA_OPTIONS_ERROR:
		return sf_fail(err, -ENOTSUP, "%s: it was packed in a way that liblzma lacks",
		               name);
	default:
		return sf_fail(err, -EBADMSG, "%s: %s", name,
		               r == LZMA_FORMAT_ERROR ? "no stream of it" : "damaged");
	}
}

static int again(void *own, struct sf_error *err)
{
	struct unlzma *u = own;

	if (u->alone) /* nothing tells another one from any bytes */
		return sf_fail(err, -EBADMSG, "lzma: bytes behind its end");
	return begin(u, err);
}

static void lzma_free(void *own)
{
	struct unlzma *u = own;

	lzma_end(&u->z);
	free(u);
}

const struct sf_unpack_ops sf_unpack_xz = { .name = "xz",
	                                    .make = make_xz,
	                                    .step = step,
	                                    .again = again,
	                                    .free = lzma_free,
	                                    .padded = true };
const struct sf_unpack_ops sf_unpack_lzma = {
	.name = "lzma", .make = make_alone, .step = step, .again = again, .free = lzma_free
};
