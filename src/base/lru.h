/* Things in the order of their use: a list that runs through them, none of its own memory. */
#ifndef SF_BASE_LRU_H
#define SF_BASE_LRU_H

#include <stddef.h>

/* In each of them; sf_container_of() (mem.h) finds it again. */
struct sf_lru_link {
	struct sf_lru_link *newer, *older; /* NULL at the ends */
};
/* { 0 } is empty. Threads: under whose lock the things are. */
struct sf_lru {
	struct sf_lru_link *newest, *oldest;
};

/* Used now, for the first time. */
static inline void sf_lru_add(struct sf_lru *l, struct sf_lru_link *e)
{
	e->newer = NULL;
	e->older = l->newest;
	*(e->older ? &e->older->newer : &l->oldest) = e;
	l->newest = e;
}
/* @e is in @l, and then is not. */
static inline void sf_lru_remove(struct sf_lru *l, struct sf_lru_link *e)
{
	*(e->newer ? &e->newer->older : &l->newest) = e->older;
	*(e->older ? &e->older->newer : &l->oldest) = e->newer;
}
/* Used again. */
static inline void sf_lru_touch(struct sf_lru *l, struct sf_lru_link *e)
{
	if (l->newest == e)
		return;
	sf_lru_remove(l, e);
	sf_lru_add(l, e);
}

#endif
