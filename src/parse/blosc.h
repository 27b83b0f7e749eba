/* One chunk of blosc -> bytes. */
#ifndef SF_PARSE_BLOSC_H
#define SF_PARSE_BLOSC_H

#include <stddef.h>
#include <stdint.h>
#include "base/buf.h"
#include "base/error.h"

/*
 * A chunk says in its first 16 bytes how long it is and how many bytes it has inside, and is decoded when
 * all of it is there: what came in pieces is kept until then. It is one stream, with nothing behind it.
 * Source: Blosc/c-blosc README_CHUNK_FORMAT.rst, 1.21.
 */
struct sf_unblosc;
int sf_unblosc_new(struct sf_unblosc **ret,
                   struct sf_error *err); /* -ENOTSUP: built without blosc */
void sf_unblosc_free(struct sf_unblosc *b);
/* -E2BIG: more inside than @out may take. */
int sf_unblosc_feed(struct sf_unblosc *b, const uint8_t *p, size_t len, struct sf_buf *out,
                    struct sf_error *err);
int sf_unblosc_end(struct sf_unblosc *b, struct sf_error *err); /* -EBADMSG: it was cut */

#endif
