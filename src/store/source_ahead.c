#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/source_ahead.h"

int sf_source_ahead_read(struct sf_source_ahead *a, uint64_t off, void *buf, uint64_t len,
                         enum sf_fetch_kind kind, struct sf_error *err)
{
	/* nothing costs a round trip where no header is guessed at */
	bool far = sf_source_hints(a->src)->head_guess != 0;
	uint64_t end;
	int r;

	if (!far || len > SF_AHEAD_BYTES / 2 || off < a->begin || !sf_add(off, len, &end) ||
	    end > a->end || a->end > a->src->size)
		return sf_source_read(a->src, off, buf, len, kind, err);
	if (!a->buf)
		a->buf = malloc(SF_AHEAD_BYTES);
	if (!a->buf)
		return sf_source_read(a->src, off, buf, len, kind, err);
	if (off < a->off || end > a->off + a->len) {
		/* what fits is fetched whole: archives are read from their end */
		a->off = a->end - a->begin <= SF_AHEAD_BYTES ? a->begin : off;
		a->len = 0;
		end = SF_MIN(a->end - a->off, SF_AHEAD_BYTES);
		r = sf_source_read(a->src, a->off, a->buf, end, kind, err);
		if (r < 0)
			return r;
		a->len = end;
	}
	memcpy(buf, a->buf + (off - a->off), len);
	return 0;
}

void sf_source_ahead_release(struct sf_source_ahead *a)
{
	free(a->buf);
	a->buf = NULL;
	a->len = 0;
}
