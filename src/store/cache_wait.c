#include "config.h"

#include <string.h>

#include "store/cache_priv.h"

void sf_cache_wait_locked(struct sf_blocks *c, struct sf_cache_wait *w)
{
	w->on = true;
	w->next = c->waiting;
	c->waiting = w;
}

void sf_cache_wait_end_locked(struct sf_blocks *c, struct sf_cache_wait *w)
{
	struct sf_cache_wait **at = &c->waiting;

	while (*at != w)
		at = &(*at)->next;
	*at = w->next;
	w->on = false;
}

void sf_cache_set_locked(struct sf_blocks *c, uint64_t first, unsigned n, enum sf_block_state state,
                         int r, const struct sf_error *why)
{
	struct sf_cache_wait **at = &c->waiting, *w;

	memset(c->state + first, state, n);
	while ((w = *at)) {
		if (w->end <= first || w->first >= first + n) {
			at = &w->next;
			continue;
		}
		*at = w->next;
		w->on = false;
		if (r < 0) {
			*w->r = r;
			*w->err = *why;
		}
		sf_thread_pool_submit(sf_cache_io(c->o->cache)->pool, w->task);
	}
}
