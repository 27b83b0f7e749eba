#include "config.h"
#include <errno.h>
#include <stdlib.h>
#include "base/vec.h"
#include "fuse/open_table.h"

void sf_open_table_init(struct sf_open_table *t)
{
	*t = (struct sf_open_table){ 0 };
	pthread_mutex_init(&t->locked.m, NULL);
}

void sf_open_table_release(struct sf_open_table *t)
{
	free(t->locked.at);
	pthread_mutex_destroy(&t->locked.m);
}

static struct sf_open_inode *find_locked(struct sf_open_table *t, uint64_t ino)
{
	for (size_t i = 0; i < t->locked.n; i++)
		if (t->locked.at[i].ino == ino)
			return &t->locked.at[i];
	return NULL;
}

int sf_open_table_enter(struct sf_open_table *t, uint64_t ino, int32_t want_backing,
                        int32_t *ret_backing)
{
	int r = 1;
	pthread_mutex_lock(&t->locked.m);
	struct sf_open_inode *e = find_locked(t, ino);
	if (e) {
		r = e->backing == want_backing;
		e->count++;
		*ret_backing = e->backing;
	} else if (t->locked.n == t->locked.cap &&
	           sf_vec_grow((void **)&t->locked.at, &t->locked.cap, t->locked.n + 1,
	                       sizeof(*t->locked.at)) < 0) {
		r = -ENOMEM;
	} else {
		t->locked.at[t->locked.n++] = (struct sf_open_inode){ ino, 1, want_backing };
		*ret_backing = want_backing;
	}
	pthread_mutex_unlock(&t->locked.m);
	return r;
}

int sf_open_table_find(struct sf_open_table *t, uint64_t ino, int32_t *ret_backing)
{
	pthread_mutex_lock(&t->locked.m);
	struct sf_open_inode *e = find_locked(t, ino);
	if (e)
		*ret_backing = e->backing;
	pthread_mutex_unlock(&t->locked.m);
	return e != NULL;
}

int32_t sf_open_table_leave(struct sf_open_table *t, uint64_t ino)
{
	int32_t backing = 0;
	pthread_mutex_lock(&t->locked.m);
	struct sf_open_inode *e = find_locked(t, ino);
	if (e && --e->count == 0) {
		backing = e->backing;
		*e = t->locked.at[--t->locked.n];
	}
	pthread_mutex_unlock(&t->locked.m);
	return backing;
}
