#include "config.h"
#include <inttypes.h>
#include <stdatomic.h>
#include "base/clock.h"
#include "base/thread_pool.h"
#include "fuse/prefetch.h"
#include "store/cache.h"

/* What somebody waits for has most of the connections, and of the memory, for itself. */
#define AT_ONCE 2

static void complain(void *arg, const struct sf_file *file, const struct sf_error *err)
{
	struct sf_store *store = arg;

	(void)file; /* the message names it */
	sf_log(store->io->log, SF_LOG_WARN, "prefetch: %s", err->msg);
}

static void *fetch(void *arg)
{
	struct sf_prefetch *p = arg;
	struct sf_error err = SF_ERROR_INIT;
	int64_t begun = sf_now_ms();
	int r = sf_warm_read(&p->w, p->v.at, p->v.n, &err);

	if (r >= 0)
		sf_log(p->s->io->log, SF_LOG_INFO,
		       "prefetch: %" PRIu64 " bytes read in %" PRId64 " ms, %u files could not be",
		       p->w.bytes, sf_now_ms() - begun, p->w.nfailed);
	else if (r != -ECANCELED)
		sf_log(p->s->io->log, SF_LOG_WARN, "prefetch: %s", err.msg);
	return NULL;
}

/* What is fetched and not kept is fetched for nothing. */
static bool has_room(const struct sf_session *s, uint64_t bytes)
{
	struct sf_cache *c = atomic_load(&s->io->cache);

	if (!s->store->far || (c && bytes <= sf_cache_limit(c)))
		return true;
	if (!c)
		sf_log(s->io->log, SF_LOG_WARN, "prefetch: nothing that is fetched is kept");
	else
		sf_log(s->io->log, SF_LOG_WARN,
		       "prefetch: %" PRIu64 " bytes are stored, the cache keeps %" PRIu64
		       ": nothing is fetched before it is asked for",
		       bytes, sf_cache_limit(c));
	return false;
}

void sf_prefetch_start(struct sf_prefetch *p, struct sf_session *s)
{
	struct sf_error err = SF_ERROR_INIT;
	uint64_t bytes;

	if (sf_warm_ranges_of(s->catalog, &p->v, &err) < 0) {
		sf_log(s->io->log, SF_LOG_WARN, "prefetch: %s", err.msg);
		return;
	}
	bytes = sf_warm_bytes(p->v.at, p->v.n);
	if (has_room(s, bytes)) {
		p->s = s;
		sf_warm_init(&p->w, s->store, AT_ONCE);
		p->w.failed = complain;
		p->w.count = &s->io->counters.prefetched;
		atomic_store(&s->io->counters.prefetch_total, bytes);
		p->running = sf_thread_start(&p->thread, fetch, p) == 0;
		if (p->running)
			return;
		sf_log(s->io->log, SF_LOG_WARN, "prefetch: no thread");
		sf_warm_release(&p->w);
	}
	sf_warm_ranges_release(&p->v);
}

void sf_prefetch_end(struct sf_prefetch *p)
{
	if (!p->running)
		return;
	sf_warm_stop(&p->w);
	pthread_join(p->thread, NULL);
	sf_warm_release(&p->w);
	sf_warm_ranges_release(&p->v);
	p->running = false;
}
