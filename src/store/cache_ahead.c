#include "config.h"

#include <stdatomic.h>

#include "base/mem.h"
#include "store/cache_priv.h"

/*
 * What lies on disk is checked against its sum before a process first uses it. A reader who did that
 * for each of its reads would wait for a thread of the pool, and be given a copy; one who finds the
 * blocks checked is lent them, as those of a local file. So the pool goes ahead of it.
 */

#define AHEAD 256 /* blocks: 16 MiB */
#define STEP 16   /* of them are busy at once: a reader who comes by waits for no more */

/* Nobody has looked for them yet: they are ours, up to STEP. 0: there are none in [*at, end). */
static unsigned claim_locked(struct sf_blocks *c, uint64_t *at, uint64_t end)
{
	unsigned n = 0;

	while (*at < end && c->state[*at] != SF_BLOCK_UNKNOWN)
		++*at;
	for (; n < STEP && *at + n < end && c->state[*at + n] == SF_BLOCK_UNKNOWN; n++)
		c->state[*at + n] = SF_BLOCK_BUSY;
	return n;
}

/* Ends at the first one that is not there: the reader fetches it, and those behind it. */
static void check_task(struct sf_task *task)
{
	struct sf_blocks *c = sf_container_of(task, struct sf_blocks, check);
	struct sf_cache_object *o = c->o;
	uint64_t at = c->check_from, end = SF_MIN(at + AHEAD, sf_cache_nblocks(o->id.size));
	bool there[STEP], all = true;
	unsigned n;

	while (all) {
		pthread_mutex_lock(&o->m);
		n = claim_locked(c, &at, end);
		pthread_mutex_unlock(&o->m);
		if (!n)
			break;
		sf_cache_file_verify(c->file, at, n, there);
		pthread_mutex_lock(&o->m);
		for (unsigned i = 0; i < n; i++) {
			sf_cache_set_locked(c, at + i, 1,
			                    there[i] ? SF_BLOCK_THERE : SF_BLOCK_UNKNOWN, 0, NULL);
			all &= there[i];
		}
		pthread_mutex_unlock(&o->m);
		at += n;
	}
	pthread_mutex_lock(&o->m);
	c->checking = false;
	c->checked_to = all && end < sf_cache_nblocks(o->id.size) ? end : 0;
	pthread_mutex_unlock(&o->m);
	sf_blocks_unref(c);
	sf_cache_object_unref(o);
}

static void begin_locked(struct sf_blocks *c, uint64_t from)
{
	c->checking = true;
	c->check_from = from;
	c->check.run = check_task;
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->o->refs, 1, memory_order_relaxed);
	sf_thread_pool_submit(sf_cache_io(c->o->cache)->pool, &c->check);
}

void sf_cache_check_ahead(struct sf_blocks *c, uint64_t first, uint64_t end)
{
	pthread_mutex_lock(&c->o->m);
	/* a read from the beginning, or where another one ended, is likely read on */
	if (!c->checking && end < sf_cache_nblocks(c->o->id.size) &&
	    (!first || c->state[first - 1] == SF_BLOCK_THERE))
		begin_locked(c, end);
	pthread_mutex_unlock(&c->o->m);
}

void sf_cache_check_on(struct sf_blocks *c, uint64_t end)
{
	pthread_mutex_lock(&c->o->m);
	if (c->checked_to && !c->checking && end <= c->checked_to &&
	    end + AHEAD / 2 >= c->checked_to)
		begin_locked(c, c->checked_to);
	pthread_mutex_unlock(&c->o->m);
}
