#include "config.h"

#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/clock.h"
#include "base/mem.h"
#include "store/cache_dir.h"
#include "store/cache_priv.h"
#include "store/cache_tie.h"

#define TOUCH_MS 30000 /* between two notes of when a file was used last */

/* @name begins with two hex digits. */
static struct sf_cache_object **bucket_of(struct sf_cache *c, const char *name)
{
	const char two[3] = { name[0], name[1], '\0' };

	return &c->locked.bucket[strtoul(two, NULL, 16) % SF_CACHE_BUCKETS];
}

void sf_cache_forget(struct sf_cache *c, const char *name)
{
	struct sf_blocks *out = NULL;

	pthread_mutex_lock(&c->locked.m);
	for (struct sf_cache_object *o = *bucket_of(c, name); o; o = o->next) {
		if (strcmp(o->name, name) != 0)
			continue;
		pthread_mutex_lock(&o->m);
		out = SF_STEAL(o->now);
		pthread_mutex_unlock(&o->m);
	}
	pthread_mutex_unlock(&c->locked.m);
	if (out)
		sf_blocks_unref(out);
}

struct sf_io *sf_cache_io(struct sf_cache *c)
{
	return c->io;
}

void sf_cache_count(struct sf_cache *c, bool hit, uint64_t bytes, uint64_t missed)
{
	struct sf_counters *n = &c->io->counters;

	atomic_fetch_add_explicit(hit ? &n->cache_hits : &n->cache_misses, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&n->cache_asked_bytes, bytes, memory_order_relaxed);
	atomic_fetch_add_explicit(&n->cache_hit_bytes, bytes - missed, memory_order_relaxed);
}

void sf_cache_count_fetched(struct sf_cache *c, enum sf_fetch_kind kind, uint64_t bytes)
{
	struct sf_counters *n = &c->io->counters;

	atomic_fetch_add_explicit(&n->cache_fetched_requests, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&n->cache_fetched_bytes, bytes, memory_order_relaxed);
	sf_count_fetched(c->io, kind, bytes);
}

/* A sum and a copy to the kernel: a few gigabytes a second of a core. */
static unsigned writers(void)
{
	return (unsigned)SF_MIN(SF_MAX(sysconf(_SC_NPROCESSORS_ONLN) / 2, 2L), 8L);
}

int sf_cache_new(struct sf_io *io, const char *dir, uint64_t size, struct sf_cache **ret,
                 struct sf_error *err)
{
	SF_FREE char *path = NULL;
	struct sf_cache *c;
	int fd, r = 0;

	if (!dir)
		r = sf_cache_dir_default(&path, err);
	else if (!(path = strdup(dir)))
		r = sf_fail(err, -ENOMEM, "cache directory: no memory");
	if (r >= 0)
		r = sf_cache_dir_open(path, &fd, err);
	if (r < 0)
		return r;
	if (!io->tie)
		io->tie = sf_cache_tie_new(io);
	c = io->tie && (io->keep || sf_thread_pool_new(writers(), &io->keep, err) >= 0)
	            ? calloc(1, sizeof(*c))
	            : NULL;
	if (!c) {
		close(fd);
		return sf_fail(err, -ENOMEM, "cache directory: no memory");
	}
	c->refs = 1;
	c->io = io;
	c->tie = sf_cache_tie_ref(io->tie);
	c->forget = sf_cache_forget;
	c->dir = fd;
	c->path = SF_STEAL(path);
	c->room.limit = size;
	pthread_mutex_init(&c->locked.m, NULL);
	atomic_store(&io->counters.cached, true);
	sf_cache_keep_begin(c);
	*ret = c;
	return 0;
}

/* ---- objects ---- */

static struct sf_cache_object *object_new(struct sf_cache *c, const struct sf_cache_id *id,
                                          const char *name)
{
	size_t url = strlen(id->url) + 1, version = strlen(id->version) + 1;
	struct sf_cache_object *o = calloc(1, sizeof(*o) + url + version);

	if (!o)
		return NULL;
	memcpy(o->text, id->url, url);
	memcpy(o->text + url, id->version, version);
	memcpy(o->name, name, sizeof(o->name));
	o->id = (struct sf_cache_id){ o->text, o->text + url, id->size };
	o->cache = sf_cache_ref(c);
	pthread_mutex_init(&o->m, NULL);
	return o;
}

struct sf_cache_object *sf_cache_object_get(struct sf_cache *c, const struct sf_cache_id *id)
{
	char name[SF_CACHE_NAME + 1];
	struct sf_cache_object *o, **bucket;

	if (sf_cache_name(id, name) < 0)
		return NULL;
	bucket = bucket_of(c, name);
	pthread_mutex_lock(&c->locked.m);
	for (o = *bucket; o && strcmp(o->name, name) != 0; o = o->next)
		;
	if (!o && (o = object_new(c, id, name))) {
		o->next = *bucket;
		*bucket = o;
	}
	if (o)
		atomic_fetch_add_explicit(&o->refs, 1, memory_order_relaxed);
	pthread_mutex_unlock(&c->locked.m);
	return o;
}

void sf_cache_object_unref(struct sf_cache_object *o)
{
	struct sf_cache *c = o->cache;
	bool last;

	pthread_mutex_lock(&c->locked.m);
	last = atomic_fetch_sub_explicit(&o->refs, 1, memory_order_acq_rel) == 1;
	if (last) {
		struct sf_cache_object **at = bucket_of(c, o->name);
		while (*at != o)
			at = &(*at)->next;
		*at = o->next;
	}
	pthread_mutex_unlock(&c->locked.m);
	if (!last)
		return;
	if (o->now)
		sf_blocks_unref(o->now);
	pthread_mutex_destroy(&o->m);
	free(o);
	sf_cache_unref(c);
}

/* ---- their files ---- */

void sf_blocks_unref(struct sf_blocks *c)
{
	if (atomic_fetch_sub_explicit(&c->refs, 1, memory_order_acq_rel) != 1)
		return;
	sf_cache_file_free(c->file);
	free(c);
}

void sf_blocks_retire(struct sf_blocks *c)
{
	struct sf_cache_object *o = c->o;
	bool ours;

	pthread_mutex_lock(&o->m);
	ours = o->now == c;
	if (ours)
		o->now = NULL;
	pthread_mutex_unlock(&o->m);
	if (ours)
		sf_blocks_unref(c);
}

static void touch_task(struct sf_task *task)
{
	struct sf_blocks *c = sf_container_of(task, struct sf_blocks, touch);
	struct sf_cache_object *o = c->o;

	if (!sf_cache_file_touch(c->file))
		sf_blocks_retire(c);
	pthread_mutex_lock(&o->m);
	c->touching = false;
	pthread_mutex_unlock(&o->m);
	sf_blocks_unref(c);
	sf_cache_object_unref(o);
}

static void use_locked(struct sf_blocks *c)
{
	int64_t now = sf_now_coarse_ms();

	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	if (now - c->touched_ms < TOUCH_MS || c->touching)
		return;
	c->touched_ms = now;
	c->touching = true;
	c->touch.run = touch_task;
	atomic_fetch_add_explicit(&c->refs, 1, memory_order_relaxed);
	atomic_fetch_add_explicit(&c->o->refs, 1, memory_order_relaxed);
	sf_thread_pool_submit(c->o->cache->io->pool, &c->touch);
}

struct sf_blocks *sf_blocks_there(struct sf_cache_object *o, uint64_t first, uint64_t end,
                                  bool *ret_held)
{
	struct sf_blocks *c;

	*ret_held = false;
	pthread_mutex_lock(&o->m);
	c = o->now;
	for (uint64_t i = first; c && i < end; i++) {
		*ret_held |= c->state[i] == SF_BLOCK_HELD;
		if (c->state[i] != SF_BLOCK_THERE && c->state[i] != SF_BLOCK_HELD)
			c = NULL;
	}
	if (c)
		use_locked(c);
	pthread_mutex_unlock(&o->m);
	return c;
}

static struct sf_blocks *open_files(struct sf_cache_object *o)
{
	struct sf_blocks *c = calloc(1, sizeof(*c) + sf_cache_nblocks(o->id.size));
	struct sf_error err = SF_ERROR_INIT;
	int r;

	if (!c)
		return NULL;
	r = sf_cache_file_open(o->cache->io, o->cache->dir, &o->id, o->name, &c->file, &err);
	if (r < 0) {
		free(c);
		if (r == -ENOENT || r == -EBADMSG || r == -EFBIG || r == -ELOOP || r == -EISDIR ||
		    r == -ENXIO) {
			pthread_mutex_lock(&o->m);
			o->never = true;
			pthread_mutex_unlock(&o->m);
		} else {
			sf_cache_failed(o->cache, r);
		}
		return NULL;
	}
	if (!c->file->writable)
		sf_cache_read_only(o->cache);
	c->refs = 1;
	c->o = o;
	c->touched_ms = sf_now_coarse_ms() - TOUCH_MS; /* opened is used */
	return c;
}

struct sf_blocks *sf_blocks_get(struct sf_cache_object *o)
{
	struct sf_blocks *c, *opened = NULL;
	bool wanted;

	pthread_mutex_lock(&o->m);
	wanted = !o->now && !o->never;
	pthread_mutex_unlock(&o->m);
	if (wanted)
		opened = open_files(o);
	pthread_mutex_lock(&o->m);
	if (opened && !o->now)
		o->now = SF_STEAL(opened);
	c = o->now;
	if (c)
		use_locked(c);
	pthread_mutex_unlock(&o->m);
	if (opened) /* another was first */
		sf_blocks_unref(opened);
	return c;
}
