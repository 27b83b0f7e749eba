/* Small reads that are each waited for: of a source that is far, out of few large ones. */
#ifndef SF_STORE_SOURCE_AHEAD_H
#define SF_STORE_SOURCE_AHEAD_H

#include "store/source.h"

/* One reader's, on one thread. { .src = …, .begin = …, .end = … } at first. */
struct sf_source_ahead {
	struct sf_source *src; /* borrowed */
	uint64_t begin, end;   /* bytes that are going to be read: nothing else is fetched ahead */
	uint8_t *buf;          /* its own, of SF_AHEAD_BYTES; NULL: none yet */
	uint64_t off, len;     /* what the buffer has */
};
#define SF_AHEAD_BYTES (UINT64_C(1) << 20)
/* As sf_source_read, which it is where the source is near, or the range is large or outside. */
int sf_source_ahead_read(struct sf_source_ahead *a, uint64_t off, void *buf, uint64_t len,
                         enum sf_fetch_kind kind, struct sf_error *err);
void sf_source_ahead_release(struct sf_source_ahead *a);

#endif
