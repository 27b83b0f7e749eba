#include "config.h"

#include <assert.h>
#include <stdlib.h>

#include "parse/blosc.h"
#include "parse/codec.h"
#include "parse/zstd.h"

/* A decoder is the codec's own: the table casts it. */
struct codec {
	struct sf_codec_info info;
	int (*make)(unsigned streams, void **ret, struct sf_error *err);
	void (*free)(void *d);
	void (*window)(void *d, uint64_t bytes); /* NULL: its streams ask for none */
	int (*feed)(void *d, const uint8_t *p, size_t len, struct sf_buf *out,
	            struct sf_error *err);
	int (*end)(void *d, struct sf_error *err);
};

struct sf_decoder {
	const struct codec *codec;
	void *own;
};

static int zstd_make(unsigned streams, void **ret, struct sf_error *err)
{
	struct sf_unzstd *z;
	int r = sf_unzstd_chain(streams, &z, err);

	if (r >= 0)
		*ret = z;
	return r;
}

static void zstd_free(void *d)
{
	sf_unzstd_free(d);
}

static void zstd_window(void *d, uint64_t bytes)
{
	sf_unzstd_window(d, bytes);
}

static int zstd_feed(void *d, const uint8_t *p, size_t len, struct sf_buf *out,
                     struct sf_error *err)
{
	return sf_unzstd_feed(d, p, len, out, err);
}

static int zstd_end(void *d, struct sf_error *err)
{
	return sf_unzstd_end(d, err);
}

static int blosc_make(unsigned streams, void **ret, struct sf_error *err)
{
	struct sf_unblosc *b;
	int r;

	if (streams != 1)
		return sf_fail(err, -ENOTSUP, "blosc: %u chunks one inside the other", streams);
	r = sf_unblosc_new(&b, err);
	if (r >= 0)
		*ret = b;
	return r;
}

static void blosc_free(void *d)
{
	sf_unblosc_free(d);
}

static int blosc_feed(void *d, const uint8_t *p, size_t len, struct sf_buf *out,
                      struct sf_error *err)
{
	return sf_unblosc_feed(d, p, len, out, err);
}

static int blosc_end(void *d, struct sf_error *err)
{
	return sf_unblosc_end(d, err);
}

static const struct codec codecs[SF_NCODECS] = {
	[SF_CODEC_BLOSC] = { .info = { .name = "blosc", .state = UINT64_C(1) << 20 },
	                     .make = blosc_make,
	                     .free = blosc_free,
	                     .feed = blosc_feed,
	                     .end = blosc_end },
	[SF_CODEC_ZSTD] = { .info = { .name = "zstd",
	                              /* the densest block: 3 bytes of header and one that is
	                               * repeated 128 KiB long */
	                              .ratio = 32768,
	                              .state = UINT64_C(640) << 10,
	                              .window = UINT64_C(2) << 20,
	                              .window_least = UINT64_C(8) << 20,
	                              .window_most = UINT64_C(128) << 20 },
	                    .make = zstd_make,
	                    .free = zstd_free,
	                    .window = zstd_window,
	                    .feed = zstd_feed,
	                    .end = zstd_end },
};

const struct sf_codec_info *sf_codec_info(enum sf_codec codec)
{
	assert(codec > SF_CODEC_NONE && codec < SF_NCODECS);
	return &codecs[codec].info;
}

int sf_decoder_new(enum sf_codec codec, unsigned streams, struct sf_decoder **ret,
                   struct sf_error *err)
{
	struct sf_decoder *d;
	int r;

	if (codec <= SF_CODEC_NONE || codec >= SF_NCODECS || !streams ||
	    streams > SF_CODEC_STREAMS_MAX)
		return sf_fail(err, -ENOTSUP, "codec %d, %u streams of it, the most are %d",
		               (int)codec, streams, SF_CODEC_STREAMS_MAX);
	d = calloc(1, sizeof(*d));
	if (!d)
		return sf_fail(err, -ENOMEM, "%s: no memory for a decoder",
		               codecs[codec].info.name);
	d->codec = &codecs[codec];
	r = d->codec->make(streams, &d->own, err);
	if (r < 0)
		free(d);
	else
		*ret = d;
	return r;
}

void sf_decoder_free(struct sf_decoder *d)
{
	if (!d)
		return;
	d->codec->free(d->own);
	free(d);
}

void sf_decoder_window(struct sf_decoder *d, uint64_t bytes)
{
	if (d->codec->window)
		d->codec->window(d->own, bytes);
}

int sf_decoder_feed(struct sf_decoder *d, const uint8_t *p, size_t len, struct sf_buf *out,
                    struct sf_error *err)
{
	return d->codec->feed(d->own, p, len, out, err);
}

int sf_decoder_end(struct sf_decoder *d, struct sf_error *err)
{
	return d->codec->end(d->own, err);
}
