#include "config.h"

#include "parse/zstd.h"

int sf_unzstd_new(struct sf_unzstd **ret, struct sf_error *err)
{
	(void)ret;
	return sf_fail(err, -ENOTSUP, "zstd: this shardfuse was built without libzstd");
}

int sf_unzstd_chain(unsigned streams, struct sf_unzstd **ret, struct sf_error *err)
{
	(void)streams;
	return sf_unzstd_new(ret, err);
}

void sf_unzstd_window(struct sf_unzstd *z, uint64_t bytes)
{
	(void)z, (void)bytes;
}

void sf_unzstd_free(struct sf_unzstd *z)
{
	(void)z;
}

int sf_unzstd_feed(struct sf_unzstd *z, const uint8_t *p, size_t len, struct sf_buf *out,
                   struct sf_error *err)
{
	(void)z, (void)p, (void)len, (void)out;
	return sf_fail(err, -ENOTSUP, "zstd: not built in");
}

int sf_unzstd_step(struct sf_unzstd *z, const uint8_t **in, size_t *in_len, uint8_t *out,
                   size_t out_len, size_t *ret_out, struct sf_error *err)
{
	(void)z, (void)in, (void)in_len, (void)out, (void)out_len, (void)ret_out;
	return sf_fail(err, -ENOTSUP, "zstd: not built in");
}

int sf_unzstd_end(struct sf_unzstd *z, struct sf_error *err)
{
	(void)z;
	return sf_fail(err, -ENOTSUP, "zstd: not built in");
}

int sf_zstd_new(int level, struct sf_zstd **ret, struct sf_error *err)
{
	(void)level, (void)ret;
	return sf_fail(err, -ENOTSUP, "zstd: this shardfuse was built without libzstd");
}

void sf_zstd_free(struct sf_zstd *z)
{
	(void)z;
}

int sf_zstd_begin(struct sf_zstd *z, uint64_t len, struct sf_error *err)
{
	(void)z, (void)len;
	return sf_fail(err, -ENOTSUP, "zstd: not built in");
}

int sf_zstd_feed(struct sf_zstd *z, const void *p, size_t len, bool last, struct sf_buf *out,
                 struct sf_error *err)
{
	(void)z, (void)p, (void)len, (void)last, (void)out;
	return sf_fail(err, -ENOTSUP, "zstd: not built in");
}
