#include "config.h"

#include <pthread.h>
#include <stdlib.h>

#include "base/lru.h"
#include "base/mem.h"
#include "store/open_files.h"

#define NIL UINT32_MAX

struct slot {
	struct sf_source *src; /* NULL: free */
	uint64_t key;
	uint32_t chain; /* next slot of the same bucket, or of the free list */
	struct sf_lru_link lru;
};

struct sf_open_files {
	unsigned limit, mask;
	struct {
		pthread_mutex_t m;
		struct sf_lru lru;
		uint32_t free;
		unsigned n;
	} locked;
	uint32_t *bucket; /* under the lock, like slot[] */
	struct slot slot[];
};

int sf_open_files_new(unsigned limit, struct sf_open_files **ret, struct sf_error *err)
{
	struct sf_open_files *f;
	unsigned buckets = 8;

	if (!limit)
		limit = 1;
	while (buckets < limit && buckets < 1u << 30)
		buckets *= 2;
	f = calloc(1, sizeof(*f) + (size_t)limit * sizeof(f->slot[0]));
	if (f)
		f->bucket = malloc(buckets * sizeof(*f->bucket));
	if (!f || !f->bucket) {
		free(f);
		return sf_fail(err, -ENOMEM, "no memory for %u open files", limit);
	}
	f->limit = limit;
	f->mask = buckets - 1;
	for (unsigned i = 0; i < buckets; i++)
		f->bucket[i] = NIL;
	for (unsigned i = 0; i < limit; i++)
		f->slot[i].chain = i + 1 < limit ? i + 1 : NIL;
	pthread_mutex_init(&f->locked.m, NULL);
	*ret = f;
	return 0;
}

void sf_open_files_free(struct sf_open_files *f)
{
	if (!f)
		return;
	for (unsigned i = 0; i < f->limit; i++)
		sf_source_unref(f->slot[i].src);
	pthread_mutex_destroy(&f->locked.m);
	free(f->bucket);
	free(f);
}

static uint32_t *bucket_of(struct sf_open_files *f, uint64_t key)
{
	return &f->bucket[(key * UINT64_C(0x9e3779b97f4a7c15) >> 32) & f->mask];
}

static uint32_t find_locked(struct sf_open_files *f, uint64_t key)
{
	uint32_t i = *bucket_of(f, key);

	while (i != NIL && f->slot[i].key != key)
		i = f->slot[i].chain;
	return i;
}

/* Out of everything; its source is the caller's to let go, after the lock. */
static struct sf_source *take_out_locked(struct sf_open_files *f, uint32_t i)
{
	struct sf_source *src = f->slot[i].src;
	uint32_t *p = bucket_of(f, f->slot[i].key);

	while (*p != i)
		p = &f->slot[*p].chain;
	*p = f->slot[i].chain;
	sf_lru_remove(&f->locked.lru, &f->slot[i].lru);
	f->slot[i].src = NULL;
	f->slot[i].chain = f->locked.free;
	f->locked.free = i;
	f->locked.n--;
	return src;
}

/* There is one: all slots are used. */
static uint32_t oldest_locked(struct sf_open_files *f)
{
	return (uint32_t)(sf_container_of(f->locked.lru.oldest, struct slot, lru) - f->slot);
}

struct sf_source *sf_open_files_get(struct sf_open_files *f, uint64_t key)
{
	struct sf_source *src = NULL;
	uint32_t i;

	pthread_mutex_lock(&f->locked.m);
	i = find_locked(f, key);
	if (i != NIL) {
		src = sf_source_ref(f->slot[i].src);
		sf_lru_touch(&f->locked.lru, &f->slot[i].lru);
	}
	pthread_mutex_unlock(&f->locked.m);
	return src;
}

struct sf_source *sf_open_files_put(struct sf_open_files *f, uint64_t key, struct sf_source *src)
{
	struct sf_source *out = NULL;
	uint32_t i, *b;

	pthread_mutex_lock(&f->locked.m);
	i = find_locked(f, key);
	if (i != NIL) {
		src = f->slot[i].src;
	} else {
		if (f->locked.free == NIL)
			out = take_out_locked(f, oldest_locked(f));
		i = f->locked.free;
		f->locked.free = f->slot[i].chain;
		b = bucket_of(f, key);
		f->slot[i].src = sf_source_ref(src);
		f->slot[i].key = key;
		f->slot[i].chain = *b;
		*b = i;
		sf_lru_add(&f->locked.lru, &f->slot[i].lru);
		f->locked.n++;
	}
	sf_source_ref(src);
	pthread_mutex_unlock(&f->locked.m);
	sf_source_unref(out); /* may close a file: not under the lock */
	return src;
}

void sf_open_files_drop(struct sf_open_files *f, uint64_t key, struct sf_source *src)
{
	struct sf_source *out = NULL;
	uint32_t i;

	pthread_mutex_lock(&f->locked.m);
	i = find_locked(f, key);
	if (i != NIL && f->slot[i].src == src)
		out = take_out_locked(f, i);
	pthread_mutex_unlock(&f->locked.m);
	sf_source_unref(out);
}

void sf_open_files_drop_owner(struct sf_open_files *f, uint32_t owner)
{
	for (uint32_t i = 0; i < f->limit; i++) {
		struct sf_source *out = NULL;

		pthread_mutex_lock(&f->locked.m);
		if (f->slot[i].src && f->slot[i].key >> 32 == owner)
			out = take_out_locked(f, i);
		pthread_mutex_unlock(&f->locked.m);
		sf_source_unref(out);
	}
}
