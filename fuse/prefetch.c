#include "config.h"
#include <errno.h>
#include <inttypes.h>
#include <stdatomic.h>
#include "base/clock.h"
#include "base/mem.h"
#include "base/thread_pool.h"
#include "fuse/prefetch.h"

/* What somebody waits for has most of the connections, and of the memory, for itself. */
#define AT_ONCE 2
#define LOOK_MS 1000 /* between two looks at how much was read: a wake-up of one thread */

static void complain(void *arg, const struct sf_file *file, const struct sf_error *err)
{
	struct sf_store *store = arg;

	(void)file; /* the message names it */
	if (atomic_load(&store->io->stop))
		return; /* the mount ends */
	sf_log(store->io->log, SF_LOG_WARN, "prefetch: %s", err->msg);
}

static void fetch(struct sf_prefetch *p)
{
	struct sf_error err = SF_ERROR_INIT;
	int64_t begun = sf_now_ms();
	int r;

	atomic_store(&p->s->io->counters.prefetch_total, sf_warm_bytes(p->v.at, p->v.n));
	r = sf_warm_read(&p->w, p->v.at, p->v.n, &err);
	if (r >= 0)
		sf_log(p->s->io->log, SF_LOG_INFO,
		       "prefetch: %" PRIu64 " bytes read in %" PRId64 " ms, %u files could not be",
		       p->w.bytes, sf_now_ms() - begun, p->w.nfailed);
	else if (r != -ECANCELED)
		sf_log(p->s->io->log, SF_LOG_WARN, "prefetch: %s", err.msg);
}

bool sf_prefetch_is_wide(uint64_t fetched, uint64_t total)
{
	return total && fetched >= total / 8;
}

bool sf_prefetch_fits(const struct sf_cache_state *s, uint64_t bytes)
{
	uint64_t room = s->space.free - SF_MIN(s->space.free, s->space.floor);

	if (*s->why || bytes > s->limit)
		return false;
	/* what is kept of it already, and what others kept, is room too */
	return !s->counted || bytes <= s->kept || bytes - s->kept <= room;
}

/* What is fetched and not kept is fetched for nothing. */
static bool has_room(const struct sf_session *s, uint64_t bytes)
{
	struct sf_cache *c = atomic_load(&s->io->cache);
	struct sf_cache_state state;

	if (!s->store->far)
		return true;
	if (!c) {
		sf_log(s->io->log, SF_LOG_WARN, "prefetch: nothing that is fetched is kept");
		return false;
	}
	sf_cache_state(c, &state);
	if (sf_prefetch_fits(&state, bytes))
		return true;
	if (*state.why)
		sf_log(s->io->log, SF_LOG_WARN, "prefetch: nothing more is kept in '%s': %s",
		       state.dir, state.why);
	else
		sf_log(s->io->log, SF_LOG_WARN,
		       "prefetch: %" PRIu64 " bytes are stored, the cache keeps %" PRIu64
		       ", its disk has %" PRIu64 " free: nothing is fetched before it is asked for",
		       bytes, state.limit, state.space.free);
	return false;
}

/* Until the next look; false: the mount ends. */
static bool nap(struct sf_prefetch *p)
{
	const struct timespec until = sf_until_ms(CLOCK_MONOTONIC, LOOK_MS);
	bool stop;

	pthread_mutex_lock(&p->locked.m);
	while (!p->locked.stop &&
	       pthread_cond_timedwait(&p->locked.c, &p->locked.m, &until) != ETIMEDOUT)
		;
	stop = p->locked.stop;
	pthread_mutex_unlock(&p->locked.m);
	return !stop;
}

static bool wait_until_wide(struct sf_prefetch *p, uint64_t total)
{
	const struct sf_counters *n = &p->s->io->counters;

	while (!sf_prefetch_is_wide(atomic_load(&n->cache_fetched_bytes) - p->before, total))
		if (!nap(p))
			return false;
	return true;
}

static void *run(void *arg)
{
	struct sf_prefetch *p = arg;
	uint64_t bytes = sf_warm_bytes(p->v.at, p->v.n);

	if (p->mode == SF_PREFETCH_FILES || (wait_until_wide(p, bytes) && has_room(p->s, bytes)))
		fetch(p);
	return NULL;
}

void sf_prefetch_start(struct sf_prefetch *p, struct sf_session *s, enum sf_prefetch_mode mode)
{
	struct sf_error err = SF_ERROR_INIT;

	if (mode == SF_PREFETCH_NONE || (mode == SF_PREFETCH_AUTO && !s->store->far))
		return;
	if (sf_warm_ranges_of(s->catalog, &p->v, &err) < 0) {
		sf_log(s->io->log, SF_LOG_WARN, "prefetch: %s", err.msg);
		return;
	}
	if (mode == SF_PREFETCH_AUTO || has_room(s, sf_warm_bytes(p->v.at, p->v.n))) {
		p->s = s;
		p->mode = mode;
		p->before = atomic_load(&s->io->counters.cache_fetched_bytes);
		pthread_mutex_init(&p->locked.m, NULL);
		sf_cond_init(&p->locked.c);
		sf_warm_init(&p->w, s->store, AT_ONCE);
		p->w.failed = complain;
		p->w.count = &s->io->counters.prefetched;
		p->running = sf_thread_start(&p->thread, run, p) == 0;
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
	pthread_mutex_lock(&p->locked.m);
	p->locked.stop = true;
	pthread_cond_signal(&p->locked.c);
	pthread_mutex_unlock(&p->locked.m);
	sf_warm_stop(&p->w);
	pthread_join(p->thread, NULL);
	sf_warm_release(&p->w);
	sf_warm_ranges_release(&p->v);
	pthread_cond_destroy(&p->locked.c);
	pthread_mutex_destroy(&p->locked.m);
	p->running = false;
}
