/* -o prefetch=: a mount fetches what is stored under its keys before anybody asks for it. */
#ifndef SF_FUSE_PREFETCH_H
#define SF_FUSE_PREFETCH_H

#include "lib/session.h"
#include "store/cache.h"
#include "tool/warm.h"

enum sf_prefetch_mode {
	SF_PREFETCH_NONE,
	SF_PREFETCH_FILES, /* all of it, from the beginning */
	/* Of a server, all of it, once reading has begun to be wide: who loads the checkpoint will
	 * come to the rest; who looks at a tensor or two will not, and pays for no more. */
	SF_PREFETCH_AUTO,
};
/* What "wide" is: of @total bytes that are stored under the keys, an eighth was fetched for readers. Each
 * block is fetched once: it is a measure of how much of it they have been to, not of how often. */
bool sf_prefetch_is_wide(uint64_t fetched, uint64_t total);
/* Can @bytes be kept, if what was used longer ago goes for them? How much that is need not be known yet. */
bool sf_prefetch_fits(const struct sf_cache_state *s, uint64_t bytes);

/* All 0 before sf_prefetch_start. */
struct sf_prefetch {
	struct sf_session *s;
	enum sf_prefetch_mode mode;
	uint64_t before; /* bytes fetched before there was a reader */
	struct sf_warm w;
	struct sf_warm_ranges v;
	pthread_t thread;
	bool running;
	struct {
		pthread_mutex_t m;
		pthread_cond_t c;
		bool stop;
	} locked;
};
/*
 * sf_prefetch_start - begins to fetch, or to look whether to, two requests at a time, on a thread of its
 * own.
 *
 * Of a server only where there is a cache that it all fits into: else the log says why not, once.
 * So it does of each file that cannot be read, and at the end. io->counters has how far it is. The
 * session lasts until sf_prefetch_end. SF_PREFETCH_AUTO of a local SOURCE is SF_PREFETCH_NONE: the
 * kernel reads ahead there.
 */
void sf_prefetch_start(struct sf_prefetch *p, struct sf_session *s, enum sf_prefetch_mode mode);
/* Ends it, as far as it is; soon. One that was not started is fine. */
void sf_prefetch_end(struct sf_prefetch *p);

#endif
