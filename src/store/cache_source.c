#include "config.h"

#include <fcntl.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "store/cache_held.h"
#include "store/filter.h"

/* A source that keeps what it fetches. */
struct cache_source {
	struct sf_filter flt;
	struct sf_cache_object *o;
};

static struct sf_blocks *there(struct sf_source *src, uint64_t off, uint64_t len, bool *ret_held)
{
	const uint64_t end = sf_cache_nblocks(off + len);
	struct sf_blocks *c;

	if (!len)
		return NULL;
	c = sf_blocks_there(((struct cache_source *)src)->o, off / SF_CACHE_BLOCK, end, ret_held);
	if (c)
		sf_cache_check_on(c, end);
	return c;
}

static void count_hit(struct sf_source *src, uint64_t len)
{
	sf_cache_count(((struct cache_source *)src)->o->cache, true, len, 0);
}

static int cache_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                     uint64_t len, struct sf_error *err)
{
	bool held;
	struct sf_blocks *c = there(src, off, len, &held);
	int r;

	(void)err; /* it is never what fails */
	if (!c)
		return -EAGAIN;
	r = sf_cache_copy(c, off, iov, niov, len, false, NULL);
	if (r == 0)
		count_hit(src, len);
	else if (r != -EAGAIN && r != -ENOMEM)
		sf_blocks_retire(c); /* somebody cut it, or the disk fails */
	sf_blocks_unref(c);
	return r < 0 ? -EAGAIN : 0;
}

static int cache_lend(struct sf_source *src, uint64_t off, uint64_t len, struct sf_lease *ret)
{
	bool held;
	struct sf_blocks *c = there(src, off, len, &held);
	struct sf_source *local = c ? c->file->local : NULL;
	/* what is held is copied: it goes from memory as soon as it is written */
	int r = c && !held ? local->ops->lend(local, off, len, ret) : -EAGAIN;

	if (r < 0) {
		if (c)
			sf_blocks_unref(c);
		return r;
	}
	count_hit(src, len);
	ret->token = c; /* the mapping stays for as long */
	return 0;
}

static void cache_unlend(struct sf_source *src, void *token)
{
	(void)src;
	sf_blocks_unref(token);
}

static void cache_submit(struct sf_source *src, struct sf_io_req *req)
{
	sf_cache_submit(src, ((struct cache_source *)src)->o, req);
}

static void cache_cancel(struct sf_source *src, struct sf_io_req *req)
{
	sf_cache_cancel(src, ((struct cache_source *)src)->o, req);
}

static void cache_free(struct sf_source *src)
{
	struct cache_source *s = (struct cache_source *)src;

	sf_cache_object_unref(s->o);
	sf_filter_free(src);
}

static const struct sf_source_ops cache_ops = {
	.try_read = cache_try,
	.lend = cache_lend,
	.unlend = cache_unlend,
	.submit = cache_submit,
	.cancel = cache_cancel,
	.free = cache_free,
	.counts = true,
	.on_pool = true,
};

/* ---- stores ---- */

struct cached_store {
	struct sf_cache *cache;
	char *url; /* what its objects' names stand behind */
};

/* NULL: what it has cannot be kept, or no memory. */
static struct sf_cache_object *object_of(const struct cached_store *store, const char *name,
                                         uint64_t size, const struct sf_version *v)
{
	struct sf_cache_object *o = NULL;
	SF_FREE char *version = NULL, *url = NULL;

	if (sf_cache_version(size, v, time(NULL), &version) > 0 &&
	    asprintf(&url, "%s/%s", store->url, name) >= 0)
		o = sf_cache_object_get(store->cache, &(struct sf_cache_id){ url, version, size });
	return o;
}

/* Passthrough goes round the filter: only of what is here whole, with every sum checked. */
static int whole_fd(void *arg, const char *name, const struct sf_objinfo *want,
                    struct sf_error *err)
{
	const struct cached_store *store = arg;
	struct sf_cache_object *o = object_of(store, name, want->size, &want->version);
	struct sf_blocks *c = NULL;
	bool held = false;
	int fd = -1;

	if (o) {
		c = sf_blocks_there(o, 0, sf_cache_nblocks(want->size), &held);
		if (c && !held)
			fd = fcntl(c->file->data, F_DUPFD_CLOEXEC, 0);
		if (c)
			sf_blocks_unref(c);
		sf_cache_object_unref(o);
	}
	return fd >= 0 ? fd : sf_fail(err, -EAGAIN, "'%s': not all of it is kept here", name);
}

/* Without memory for it a source goes through as it is. */
static int wrap(void *arg, struct sf_source *src, struct sf_source **ret, struct sf_error *err)
{
	struct cached_store *store = arg;
	struct sf_cache_object *o = object_of(store, src->name, src->size, &src->version);
	struct cache_source *s = o ? calloc(1, sizeof(*s)) : NULL;

	(void)err;
	if (!s) {
		if (o)
			sf_cache_object_unref(o);
		*ret = sf_source_ref(src);
		return 0;
	}
	s->o = o;
	sf_filter_init(&s->flt, &cache_ops, src);
	if (!src->ops->cancel)
		s->flt.ops.cancel = NULL; /* what cannot be ended inside cannot be ended here */
	*ret = &s->flt.s;
	return 0;
}

static void done(void *arg)
{
	struct cached_store *store = arg;

	sf_cache_unref(store->cache);
	free(store->url);
	free(store);
}

char *sf_cache_words(const struct sf_store *s)
{
	char *words;

	if (asprintf(&words, "%s%s%s", s->at ? s->at : "", s->at ? " " : "", s->source) < 0)
		return NULL;
	return words;
}

int sf_store_cached(struct sf_store *s, struct sf_cache *c, struct sf_store **ret,
                    struct sf_error *err)
{
	struct cached_store *store = calloc(1, sizeof(*store));

	if (!store || !(store->url = sf_cache_words(s))) {
		free(store);
		return sf_fail(err, -ENOMEM, "'%s': no memory for its cache", s->source);
	}
	store->cache = sf_cache_ref(c);
	int r = sf_store_filter(s, wrap, done, store, ret, err);
	if (r >= 0)
		sf_store_filter_fd(*ret, whole_fd);
	return r;
}

static int process_cache(struct sf_io *io, const struct sf_store_options *opt,
                         struct sf_cache **ret, struct sf_error *err)
{
	static pthread_mutex_t one = PTHREAD_MUTEX_INITIALIZER; /* makes them one at a time */
	uint64_t size = opt->cache_size_given ? opt->cache_size : SF_CACHE_SIZE_DEFAULT;
	struct sf_cache *c;
	int r = 0;

	pthread_mutex_lock(&one);
	c = atomic_load(&io->cache);
	if (!c)
		r = sf_cache_new(io, opt->cache_dir, size, &c, err);
	if (r >= 0)
		atomic_store(&io->cache, c);
	pthread_mutex_unlock(&one);
	if (r >= 0)
		*ret = c;
	return r;
}

int sf_store_keep(struct sf_store **s, const struct sf_store_options *opt, struct sf_error *err)
{
	struct sf_io *io = (*s)->io;
	struct sf_error why = SF_ERROR_INIT;
	struct sf_cache *c;
	int r;

	if (!opt || (opt->cache_size_given && !opt->cache_size))
		return 0;
	r = process_cache(io, opt, &c, &why);
	if (r >= 0)
		return sf_store_cached(*s, c, s, err);
	if (opt->cache_size_given || opt->cache_dir)
		return sf_fail(err, r, "%s", why.msg);
	/* nobody asked for it: what works without it goes on without it */
	if (!atomic_exchange(&io->cache_refused, true))
		sf_log(io->log, SF_LOG_WARN,
		       "%s: what is fetched is not kept (--cache-dir says where else, "
		       "--cache-size=0 that it need not be)",
		       why.msg);
	return 0;
}
