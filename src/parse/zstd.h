/* zstd frames -> bytes, with a limit on the output; and back. */
#ifndef SF_PARSE_ZSTD_H
#define SF_PARSE_ZSTD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"

struct sf_unzstd;
int sf_unzstd_new(struct sf_unzstd **ret,
                  struct sf_error *err); /* -ENOTSUP when built without zstd */
/* For bytes that went through zstd @streams times, one stream inside the other. */
int sf_unzstd_chain(unsigned streams, struct sf_unzstd **ret, struct sf_error *err);
/* How many bytes of window each stream's frames may ask for: one that asks for more is -ENOBUFS.
 * Rounded down to a power of two; 128 MiB when this is not called. Before the first feed. */
void sf_unzstd_window(struct sf_unzstd *z, uint64_t bytes);
void sf_unzstd_free(struct sf_unzstd *z);
/* Feed input in order; what comes out is appended to @out (whose limit is the bomb limit: -E2BIG).
 * Concatenated frames are one stream. */
int sf_unzstd_feed(struct sf_unzstd *z, const uint8_t *p, size_t len, struct sf_buf *out,
                   struct sf_error *err);
/* The same for whoever has a place for a piece of what comes out, and takes it away: bytes that were
 * taken are gone from *in. 1: a frame has ended just here, and all of it is out. Of a decoder that is
 * no chain, and that is not fed. */
int sf_unzstd_step(struct sf_unzstd *z, const uint8_t **in, size_t *in_len, uint8_t *out,
                   size_t out_len, size_t *ret_out, struct sf_error *err);
/* After the last input: -EBADMSG when a frame was cut. */
int sf_unzstd_end(struct sf_unzstd *z, struct sf_error *err);

/* An encoder: one frame after another. */
struct sf_zstd;
#define SF_ZSTD_LEVEL_MAX 22
/* @level: 1 to SF_ZSTD_LEVEL_MAX, else -EINVAL. -ENOTSUP when built without zstd. */
int sf_zstd_new(int level, struct sf_zstd **ret, struct sf_error *err);
void sf_zstd_free(struct sf_zstd *z); /* NULL is fine */
/* A frame of @len bytes, which it says, and with a checksum. */
int sf_zstd_begin(struct sf_zstd *z, uint64_t len, struct sf_error *err);
/* What comes out, if anything, is appended to @out. @last: all of the frame has come, and its end goes out. */
int sf_zstd_feed(struct sf_zstd *z, const void *p, size_t len, bool last, struct sf_buf *out,
                 struct sf_error *err);

#endif
