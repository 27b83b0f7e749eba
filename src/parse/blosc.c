#include "config.h"

#include <blosc.h>
#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "parse/blosc.h"

struct sf_unblosc {
	struct sf_buf in; /* what came, until all is there */
	bool done;
	int failed;
};

int sf_unblosc_new(struct sf_unblosc **ret, struct sf_error *err)
{
	struct sf_unblosc *b = calloc(1, sizeof(*b));

	if (!b)
		return sf_fail(err, -ENOMEM, "blosc: no memory for a decoder");
	*ret = b;
	return 0;
}

void sf_unblosc_free(struct sf_unblosc *b)
{
	if (b)
		sf_buf_release(&b->in);
	free(b);
}

static int fail(struct sf_unblosc *b, struct sf_error *err, int code, const char *what)
{
	b->failed = code;
	return sf_fail(err, code, "blosc: %s", what);
}

/* @p has all of the chunk: @size bytes are in it. */
static int decode(struct sf_unblosc *b, const uint8_t *p, size_t len, struct sf_buf *out,
                  struct sf_error *err)
{
	const uint32_t size = sf_le32(p + 4);
	size_t inside;
	char *to;

	if (blosc_cbuffer_validate(p, len, &inside) < 0 || inside != size)
		return fail(b, err, -EBADMSG, "its header contradicts itself");
	b->done = true;
	if (!size)
		return 0;
	to = sf_buf_extend(out, size);
	if (!to)
		return fail(b, err, sf_buf_check(out), "it has more inside than there is room for");
	/* on this thread alone */
	if (blosc_decompress_ctx(p, to, size, 1) != (int64_t)size)
		return fail(b, err, -EBADMSG, "it cannot be decoded");
	return 0;
}

/* Bytes of the chunk, by its header; 0: not all of that is there. */
static uint64_t chunk_bytes(const uint8_t *p, size_t len)
{
	return len < BLOSC_MIN_HEADER_LENGTH ? 0 : sf_le32(p + 12);
}

int sf_unblosc_feed(struct sf_unblosc *b, const uint8_t *p, size_t len, struct sf_buf *out,
                    struct sf_error *err)
{
	uint64_t all;

	if (b->failed)
		return sf_fail(err, b->failed, "blosc: it failed before");
	if (b->done)
		return len ? fail(b, err, -EBADMSG, "there is something behind its end") : 0;
	if (!b->in.len && chunk_bytes(p, len) == len && len)
		return decode(b, p, len, out, err);
	b->in.limit = BLOSC_MAX_BUFFERSIZE;
	sf_buf_add(&b->in, p, len);
	if (sf_buf_check(&b->in) < 0)
		return fail(b, err, sf_buf_check(&b->in), "no memory for all of it");
	all = chunk_bytes(b->in.at, b->in.len);
	if (b->in.len < BLOSC_MIN_HEADER_LENGTH || b->in.len < all)
		return 0;
	if (b->in.len > all)
		return fail(b, err, -EBADMSG, "it is longer than its header says");
	return decode(b, b->in.at, b->in.len, out, err);
}

int sf_unblosc_end(struct sf_unblosc *b, struct sf_error *err)
{
	return b->done && !b->failed ? 0 : fail(b, err, -EBADMSG, "it was cut");
}
