#include "config.h"

#include "parse/blosc.h"

int sf_unblosc_new(struct sf_unblosc **ret, struct sf_error *err)
{
	(void)ret;
	return sf_fail(err, -ENOTSUP, "blosc: this shardfuse was built without libblosc");
}

void sf_unblosc_free(struct sf_unblosc *b)
{
	(void)b;
}

int sf_unblosc_feed(struct sf_unblosc *b, const uint8_t *p, size_t len, struct sf_buf *out,
                    struct sf_error *err)
{
	(void)b, (void)p, (void)len, (void)out;
	return sf_fail(err, -ENOTSUP, "blosc: not built in");
}

int sf_unblosc_end(struct sf_unblosc *b, struct sf_error *err)
{
	(void)b;
	return sf_fail(err, -ENOTSUP, "blosc: not built in");
}
