#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/deadline.h"
#include "base/log.h"
#include "lib/session_watch.h"

struct sf_session_watch {
	struct sf_deadline late; /* first */
	_Atomic unsigned refs;   /* the beginner's, and that of who says it */
	struct sf_io *io;
	const char *doing;
	char source[]; /* a copy */
};

static void unref(struct sf_session_watch *w)
{
	if (atomic_fetch_sub(&w->refs, 1) == 1)
		free(w);
}

static bool due(struct sf_deadline *d)
{
	atomic_fetch_add(&((struct sf_session_watch *)d)->refs, 1);
	return true;
}

static void fire(struct sf_deadline *d)
{
	struct sf_session_watch *w = (struct sf_session_watch *)d;

	sf_log(w->io->log, SF_LOG_WARN,
	       "'%s': still %s after %u s: is its storage slow, or does it not answer?", w->source,
	       w->doing, w->io->timeout_ms / 1000);
	unref(w);
}

struct sf_session_watch *sf_session_watch_begin(struct sf_io *io, const char *doing,
                                                const char *source)
{
	size_t len = strlen(source) + 1;
	struct sf_session_watch *w = io->timeout_ms ? calloc(1, sizeof(*w) + len) : NULL;

	if (!w)
		return NULL;
	w->late.due = due;
	w->late.fire = fire;
	w->refs = 1;
	w->io = io;
	w->doing = doing;
	memcpy(w->source, source, len);
	if (sf_deadlines_add(io->deadlines, &w->late, NULL, io->timeout_ms) < 0) {
		free(w);
		return NULL;
	}
	return w;
}

void sf_session_watch_end(struct sf_session_watch *w)
{
	if (!w)
		return;
	sf_deadlines_remove(w->io->deadlines, &w->late);
	unref(w);
}
