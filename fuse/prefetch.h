/* -o prefetch=files: a mount fetches what is stored under its keys before anybody asks for it. */
#ifndef SF_FUSE_PREFETCH_H
#define SF_FUSE_PREFETCH_H

#include "lib/session.h"
#include "tool/warm.h"

/* All 0 before sf_prefetch_start. */
struct sf_prefetch {
	struct sf_session *s;
	struct sf_warm w;
	struct sf_warm_ranges v;
	pthread_t thread;
	bool running;
};
/*
 * sf_prefetch_start - begins to fetch, two requests at a time, on a thread of its own.
 *
 * Of a server only where there is a cache that it all fits into: else the log says why not, once.
 * So it does of each file that cannot be read, and at the end. io->counters has how far it is. The
 * session lasts until sf_prefetch_end.
 */
void sf_prefetch_start(struct sf_prefetch *p, struct sf_session *s);
/* Ends it, as far as it is; soon. One that was not started is fine. */
void sf_prefetch_end(struct sf_prefetch *p);

#endif
