#include "config.h"

#include <stddef.h>

#include "base/mem.h"
#include "read/streams.h"

/*
 * A kernel that reads a file for a client asks for several pieces at once, which its threads hand
 * over in any order, and leaves out what it has. So a stream is where its furthest read ended, and
 * how much before that is missing: what came late fills that again. One whose holes add up to more
 * than order explains is somebody who jumps, and must show anew that he does not.
 */

/* What a kernel reads for who looks at a header; and for who takes 256 KiB somewhere: as much twice on
 * its way, and a page or two. */
#define RUN_HEAD (UINT64_C(512) << 10)
#define RUN_PIECE (UINT64_C(1280) << 10)

static uint64_t apart(uint64_t a, uint64_t b)
{
	return a > b ? a - b : b - a;
}

static bool is_near(const struct sf_stream *s, uint64_t off)
{
	return s->turn && off + SF_STREAM_NEAR >= s->next &&
	       off <= SF_MAX(s->end, s->next) + SF_STREAM_NEAR;
}

struct sf_stream *sf_streams_near(struct sf_streams *v, uint64_t off)
{
	struct sf_stream *best = NULL;

	for (unsigned i = 0; i < SF_STREAMS; i++) {
		struct sf_stream *s = &v->at[i];
		if (is_near(s, off) && (!best || apart(s->next, off) < apart(best->next, off)))
			best = s;
	}
	return best;
}

static struct sf_stream *begin(struct sf_streams *v, uint64_t off, uint64_t len)
{
	struct sf_stream *s = &v->at[0];

	for (unsigned i = 1; i < SF_STREAMS; i++)
		if (v->at[i].turn < s->turn)
			s = &v->at[i];
	*s = (struct sf_stream){
		.next = off + len, .end = off + len, .run = len, .whole = off == 0
	};
	return s;
}

static void distrust(struct sf_stream *s)
{
	s->steps = 0;
	s->run = 0;
	s->whole = false;
	s->holes = s->window = s->grown = 0;
}

struct sf_stream *sf_streams_note(struct sf_streams *v, uint64_t off, uint64_t len)
{
	struct sf_stream *s = sf_streams_near(v, off);

	if (!s) {
		s = begin(v, off, len);
	} else if (off + len > s->next) {
		if (off > s->next)
			s->holes += off - s->next;
		else
			s->steps++;
		s->run += SF_MIN(len, off + len - s->next);
		s->next = off + len;
	} else { /* late: it fills what was left out, if it is not read again */
		uint64_t filled = SF_MIN(s->holes, len);
		s->holes -= filled;
		s->run += filled;
	}
	if (s->holes > SF_STREAM_NEAR)
		distrust(s);
	s->turn = ++v->turn;
	return s;
}

bool sf_stream_forward(const struct sf_stream *s)
{
	return s->steps >= 2 && s->run >= (s->whole ? RUN_HEAD : RUN_PIECE) &&
	       s->holes < s->run / 2;
}

void sf_stream_stalled(struct sf_stream *s, uint64_t len, uint64_t most)
{
	if (!sf_stream_forward(s) || s->next < s->grown)
		return;
	s->window = SF_MAX(2 * s->window, SF_MAX(4 * len, SF_STREAM_BEGIN));
	s->window = SF_MIN(s->window, most);
	s->grown = s->next + s->window;
}

void sf_stream_refused(struct sf_stream *s, uint64_t part)
{
	s->window = SF_MAX(s->window / 2, part);
	if (s->window < SF_STREAM_LEAST)
		s->window = 0;
	s->grown = s->next + s->window;
}

void sf_stream_rest(struct sf_stream *s)
{
	s->window = s->grown = 0;
}

bool sf_stream_wants(const struct sf_stream *s, uint64_t off, uint64_t end)
{
	return s->turn && end + SF_STREAM_NEAR > s->next && off < s->end;
}
