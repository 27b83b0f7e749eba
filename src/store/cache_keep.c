#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/cache_priv.h"
#include "store/cache_space.h"
#include "store/cache_sweep.h"
#include "store/cache_tie.h"

#define YOUNG_S 60         /* files used since are not evicted: longer than that */
#define SWEEP_MS 1000      /* between two sweeps */
#define SWEEP_VAIN_MS 5000 /* after one that freed nothing */

enum { TOLD_OFF = 1, TOLD_FULL = 2, TOLD_FLOOR = 4 };

struct sf_cache *sf_cache_ref(struct sf_cache *c)
{
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	return c;
}

void sf_cache_unref(struct sf_cache *c)
{
	if (!c || atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	pthread_mutex_destroy(&c->locked.m);
	sf_cache_tie_unref(c->tie);
	close(c->dir);
	free(c->path);
	free(c);
}

static void tell_once(struct sf_cache *c, unsigned what, const char *why, const char *then)
{
	if (!(atomic_fetch_or(&c->told, what) & what))
		sf_log(c->io->log, SF_LOG_WARN, "cache directory '%s': %s: %s", c->path, why, then);
}

/* What the disk was like when it was looked at last. */
static void saw(struct sf_cache *c, const struct sf_cache_space *space)
{
	pthread_mutex_lock(&c->locked.m);
	c->locked.seen = *space;
	pthread_mutex_unlock(&c->locked.m);
}

static void removed(void *arg, const char *name)
{
	struct sf_cache *c = arg;

	c->forget(c, name);
}

static void sweep(struct sf_cache *c)
{
	struct sf_cache_space space = { .floor = 0 };
	struct sf_cache_sweep s = {
		.limit = c->room.limit, .young_s = YOUNG_S, .removed = removed, .arg = c
	};
	struct sf_error err = SF_ERROR_INIT;
	uint64_t begun = sf_cache_room_sweep(&c->room);
	char why[SF_CACHE_WHY_MAX];

	(void)sf_cache_space(c->dir, &space); /* a disk that does not say has room */
	s.floor = space.floor;
	if (sf_cache_sweep(c->dir, &s, &err) >= 0) {
		sf_cache_room_swept(&c->room, begun, s.kept);
		atomic_store(&c->swept, true);
		atomic_store(&c->lacks, s.full ? SF_CACHE_LACKS_FLOOR : SF_CACHE_LACKS_NOTHING);
		if (sf_cache_space(c->dir, &space) >= 0)
			saw(c, &space);
		if (s.full && sf_cache_space_lack(&space, why, sizeof(why)))
			tell_once(c, TOLD_FLOOR, why, "nothing more is kept until there is room");
	} else {
		sf_log(c->io->log, SF_LOG_DEBUG, "%s", err.msg);
	}
	atomic_store(&c->sweep_after_ms, sf_now_ms() + (s.freed ? SWEEP_MS : SWEEP_VAIN_MS));
}

static void sweep_task(struct sf_task *task)
{
	struct sf_cache *c = sf_container_of(task, struct sf_cache, sweep);

	sweep(c);
	atomic_store(&c->sweeping, false);
	sf_cache_unref(c);
}

static void want_sweep(struct sf_cache *c)
{
	if (sf_cache_tie_ending(c->tie) || sf_now_ms() < atomic_load(&c->sweep_after_ms) ||
	    atomic_exchange(&c->sweeping, true))
		return;
	c->sweep.run = sweep_task;
	sf_cache_ref(c);
	sf_thread_pool_submit(c->io->pool, &c->sweep);
}

void sf_cache_recount(struct sf_cache *c)
{
	atomic_store(&c->sweep_after_ms, 0);
	want_sweep(c);
}

void sf_cache_keep_begin(struct sf_cache *c)
{
	struct sf_cache_space space;
	bool known = sf_cache_space(c->dir, &space) >= 0;

	if (known)
		saw(c, &space);
	/* who begins with a disk like that is to hear of it before anything else happens */
	if (known && space.free < space.floor)
		sweep(c);
	else
		want_sweep(c);
}

bool sf_cache_promise(struct sf_cache *c, uint64_t bytes)
{
	if (atomic_load_explicit(&c->off, memory_order_relaxed))
		return false;
	if (atomic_load_explicit(&c->lacks, memory_order_relaxed) == SF_CACHE_LACKS_NOTHING &&
	    sf_cache_room_take(&c->room, bytes))
		return true;
	want_sweep(c);
	return false;
}

void sf_cache_kept(struct sf_cache *c, uint64_t bytes)
{
	atomic_fetch_add_explicit(&c->io->counters.cache_kept_bytes, bytes, memory_order_relaxed);
	/* others may have written as much */
	if (sf_cache_room_kept(&c->room, bytes) > c->room.limit / 16)
		want_sweep(c);
}

void sf_cache_not_kept(struct sf_cache *c, uint64_t bytes)
{
	sf_cache_room_give(&c->room, bytes);
}

void sf_cache_failed(struct sf_cache *c, int r)
{
	if (r == -ESTALE || r == -ENOMEM || r == -EMFILE || r == -ENFILE)
		return; /* not the disk's fault; -ESTALE: one file was cut */
	if (r == -ENOSPC || r == -EDQUOT) {
		atomic_store(&c->lacks, SF_CACHE_LACKS_SPACE);
		tell_once(c, TOLD_FULL, strerror(-r), "nothing more is kept until there is room");
		want_sweep(c);
		return;
	}
	atomic_store(&c->off, r);
	tell_once(c, TOLD_OFF, strerror(-r), "nothing more is kept");
}

void sf_cache_read_only(struct sf_cache *c)
{
	tell_once(c, TOLD_OFF, "read-only", "nothing more is kept");
}

uint64_t sf_cache_limit(const struct sf_cache *c)
{
	return c->room.limit;
}

void sf_cache_state(struct sf_cache *c, struct sf_cache_state *ret)
{
	struct sf_cache_state s = { .dir = c->path, .limit = c->room.limit };
	enum sf_cache_lacks lacks = atomic_load(&c->lacks);
	int off = atomic_load(&c->off);

	s.counted = atomic_load(&c->swept); /* before what it is about */
	s.kept = sf_cache_room_used(&c->room);
	s.behind = atomic_load(&c->behind);
	pthread_mutex_lock(&c->locked.m);
	s.space = c->locked.seen;
	pthread_mutex_unlock(&c->locked.m);
	if (off || lacks == SF_CACHE_LACKS_SPACE)
		snprintf(s.why, sizeof(s.why), "%s", strerror(off ? -off : ENOSPC));
	else if (lacks == SF_CACHE_LACKS_FLOOR || s.space.read_only)
		sf_cache_space_lack(&s.space, s.why, sizeof(s.why));
	*ret = s;
}
