/* Codecs: what stored bytes went through, and how that is undone, with a limit on what comes out. */
#ifndef SF_PARSE_CODEC_H
#define SF_PARSE_CODEC_H

#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"

/* The table's index. A further codec: a number here, its line in codec.c, its functions in a file
 * of its own. */
enum sf_codec { SF_CODEC_NONE, SF_CODEC_ZSTD, SF_CODEC_BLOSC, SF_NCODECS };

#define SF_CODEC_STREAMS_MAX 8 /* streams one inside the other */

/* What the reader has to know of one, all in bytes. */
struct sf_codec_info {
	const char *name; /* "zstd", for messages */
	uint64_t ratio;   /* what one stored byte stands for at most; 0: not known */
	/* memory of a decoder … */
	uint64_t state;
	/* … and beside it a window that the stream asks for: as a rule, the most it may ask for
	 * whatever the budget is, and the most if that is half of it. window 0: there is none */
	uint64_t window, window_least, window_most;
};
const struct sf_codec_info *sf_codec_info(enum sf_codec codec); /* not of SF_CODEC_NONE */

struct sf_decoder;
/* For bytes that went through it @streams times, one stream inside the other. -ENOTSUP, with its
 * name: it is not built in; -ENOMEM. */
int sf_decoder_new(enum sf_codec codec, unsigned streams, struct sf_decoder **ret,
                   struct sf_error *err);
void sf_decoder_free(struct sf_decoder *d); /* NULL is fine */
/* How much window a stream may ask for: one that asks for more is -ENOBUFS. Before the first
 * feed. */
void sf_decoder_window(struct sf_decoder *d, uint64_t bytes);
/* Feed input in order; what comes out is appended to @out, whose limit is the bomb limit: -E2BIG.
 * -EBADMSG. After a failure all further calls fail. */
int sf_decoder_feed(struct sf_decoder *d, const uint8_t *p, size_t len, struct sf_buf *out,
                    struct sf_error *err);
/* After the last input: -EBADMSG when it was cut. */
int sf_decoder_end(struct sf_decoder *d, struct sf_error *err);

#endif
