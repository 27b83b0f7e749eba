/* Who reads a file forward: told from its reads alone, in whatever order they come. Pure. */
#ifndef SF_READ_STREAMS_H
#define SF_READ_STREAMS_H

#include <stdbool.h>
#include <stdint.h>

#define SF_STREAMS 8                        /* of one open file */
#define SF_STREAM_LEAST (UINT64_C(1) << 20) /* no window is smaller, but none */
#define SF_STREAM_NEAR (UINT64_C(4) << 20)  /* bytes by which reads of one stream get mixed up */
#define SF_STREAM_BEGIN (UINT64_C(8) << 20) /* the first window, bytes: one request's worth */

struct sf_stream {
	uint64_t next;   /* behind the furthest read */
	uint64_t end;    /* to where it was asked ahead; the file's owner moves it */
	uint64_t window; /* bytes behind next to be asked ahead; 0: it is not known to go forward */
	uint64_t holes;  /* bytes before next that were not read */
	uint64_t grown;  /* the window grows when next is past it */
	uint64_t run;    /* bytes read since it began, at most */
	uint64_t turn;   /* when it was used last; 0: never */
	bool whole;      /* it began at the file's first byte */
	unsigned steps;  /* reads that went on where the ones before ended */
};
/* All 0 but size at first. */
struct sf_streams {
	uint64_t size; /* the file's, bytes */
	uint64_t turn;
	struct sf_stream at[SF_STREAMS];
};

/* The stream of a read of @len bytes at @off, which goes on by it; the one that was used least
 * recently begins anew where it is near none. */
struct sf_stream *sf_streams_note(struct sf_streams *v, uint64_t off, uint64_t len);
/* The stream whose furthest read is nearest; NULL: none is near. */
struct sf_stream *sf_streams_near(struct sf_streams *v, uint64_t off);
/* Does it go forward? Two reads went on where others ended, and more was read than a kernel reads for
 * who looks at a header (from a file's first byte) or takes 256 KiB somewhere (from elsewhere), and twice what was left out. */
bool sf_stream_forward(const struct sf_stream *s);
/* Its reader, who reads @len bytes at once, had to wait: the window grows, once for each that was
 * read through, to @most bytes. Nothing, unless it goes forward. */
void sf_stream_stalled(struct sf_stream *s, uint64_t len, uint64_t most);
/* There was no room: it shrinks, to @part bytes at least; to nothing from SF_STREAM_LEAST on. */
void sf_stream_refused(struct sf_stream *s, uint64_t part);
/* What it comes to needs not be asked for: it lies on this machine. */
void sf_stream_rest(struct sf_stream *s);
/* Will it come to bytes [off, end) soon? */
bool sf_stream_wants(const struct sf_stream *s, uint64_t off, uint64_t end);

#endif
