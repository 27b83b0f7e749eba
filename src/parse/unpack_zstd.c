#include "config.h"

#include "parse/unpack_priv.h"
#include "parse/zstd.h"

static int make(void **ret, struct sf_error *err)
{
	struct sf_unzstd *z;
	int r = sf_unzstd_new(&z, err);

	if (r >= 0)
		*ret = z;
	return r;
}

static int step(void *own, struct sf_unpack_io *io, struct sf_error *err)
{
	size_t n;
	int r = sf_unzstd_step(own, &io->in, &io->in_len, io->out, io->out_len, &n, err);

	if (r >= 0) {
		io->out += n;
		io->out_len -= n;
	}
	return r;
}

/* It begins the next frame by itself. */
static int again(void *own, struct sf_error *err)
{
	(void)own, (void)err;
	return 0;
}

static void zstd_free(void *own)
{
	sf_unzstd_free(own);
}

const struct sf_unpack_ops sf_unpack_zstd = {
	.name = "zstd", .make = make, .step = step, .again = again, .free = zstd_free
};
