#include "config.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stddef.h>
#include <time.h>

#include "base/mem.h"
#include "parse/zstd.h"
#include "read/item_cache.h"

#define SLICE (UINT64_C(1) << 20)      /* bytes of a compressed item fetched at once */
#define BLOB_HEAD (UINT64_C(64) << 10) /* first guess at a blob's header */
#define BUCKETS 1024

enum state { QUEUED, LOADING, READY };

struct entry {
	struct sf_cached pub; /* first */
	struct sf_item_cache *cache;
	_Atomic uint32_t refs; /* one is the table's */
	uint32_t file;
	uint64_t off;
	uint8_t kind;

	/* under the lock */
	uint8_t state;
	struct entry *chain;         /* bucket */
	struct entry *newer, *older; /* READY: the LRU */
	struct entry *next;          /* QUEUED: in order; LOADING: all of them */
	uint64_t bytes;              /* READY: held; before: set aside */
	struct sf_cache_wait *waits, **last_wait;

	/* the load's alone */
	struct sf_cache_want want; /* src referenced */
	struct sf_io_req req;
	struct iovec iov;
	uint8_t *in;
	uint64_t pos; /* bytes taken from the item */
	struct sf_unzstd *zstd;
	struct sf_buf out;
	struct sf_arena arena;
};

struct sf_item_cache {
	uint64_t limit, memory;
	struct {
		pthread_mutex_t m;
		pthread_cond_t idle; /* no load is left */
		struct entry *bucket[BUCKETS];
		struct entry *newest, *oldest;
		struct entry *queued, **last_queued, *loading;
		uint64_t held, set_aside;
		unsigned nloads; /* queued and loading */
		bool starting;   /* somebody is in run_queue() */
		bool ending;
	} locked;
};

int sf_item_cache_new(uint64_t limit, uint64_t memory, struct sf_item_cache **ret,
                      struct sf_error *err)
{
	struct sf_item_cache *c = calloc(1, sizeof(*c));

	if (!c)
		return sf_fail(err, -ENOMEM, "item cache: no memory");
	c->limit = limit;
	c->memory = memory;
	pthread_mutex_init(&c->locked.m, NULL);
	pthread_cond_init(&c->locked.idle, NULL);
	c->locked.last_queued = &c->locked.queued;
	*ret = c;
	return 0;
}

static struct entry **bucket_of(struct sf_item_cache *c, const struct sf_cache_want *w)
{
	uint64_t h =
		(w->off * UINT64_C(0x9e3779b97f4a7c15) + w->file) * UINT64_C(0x9e3779b97f4a7c15);

	return &c->locked.bucket[h >> 32 & (BUCKETS - 1)];
}

static struct entry *find_locked(struct sf_item_cache *c, const struct sf_cache_want *w)
{
	struct entry *e = *bucket_of(c, w);

	while (e && (e->file != w->file || e->off != w->off || e->kind != w->kind))
		e = e->chain;
	return e;
}

static void entry_release_load(struct entry *e)
{
	sf_source_unref(e->want.src);
	e->want.src = NULL;
	free(e->in);
	e->in = NULL;
	sf_unzstd_free(e->zstd);
	e->zstd = NULL;
}

static void entry_unref(struct entry *e)
{
	if (atomic_fetch_sub_explicit(&e->refs, 1, memory_order_acq_rel) != 1)
		return;
	entry_release_load(e);
	sf_buf_release(&e->out);
	sf_map_release(&e->pub.names);
	sf_arena_release(&e->arena);
	free(e);
}

void sf_cached_unref(struct sf_item_cache *c, const struct sf_cached *item)
{
	if (item)
		entry_unref((struct entry *)item);
}

static void lru_unlink_locked(struct sf_item_cache *c, struct entry *e)
{
	*(e->newer ? &e->newer->older : &c->locked.newest) = e->older;
	*(e->older ? &e->older->newer : &c->locked.oldest) = e->newer;
}

static void lru_newest_locked(struct sf_item_cache *c, struct entry *e)
{
	e->newer = NULL;
	e->older = c->locked.newest;
	*(e->older ? &e->older->newer : &c->locked.oldest) = e;
	c->locked.newest = e;
}

static void table_remove_locked(struct sf_item_cache *c, struct entry *e)
{
	struct entry **p = bucket_of(c, &e->want);

	while (*p != e)
		p = &(*p)->chain;
	*p = e->chain;
}

/* Makes room; what falls out is chained through next, for entry_unref after the lock. */
static struct entry *evict_locked(struct sf_item_cache *c)
{
	struct entry *out = NULL;

	while (c->locked.oldest && c->locked.held + c->locked.set_aside > c->limit) {
		struct entry *e = c->locked.oldest;
		lru_unlink_locked(c, e);
		table_remove_locked(c, e);
		c->locked.held -= e->bytes;
		e->next = out;
		out = e;
	}
	return out;
}

static void unref_all(struct entry *e)
{
	for (struct entry *next; e; e = next) {
		next = e->next;
		entry_unref(e);
	}
}

static void start(struct entry *e);

/* The queued load that may run now: when it is the only one, or what it sets aside fits beside the
 * others. */
static struct entry *next_load_locked(struct sf_item_cache *c)
{
	struct entry *e = c->locked.queued;

	if (!e || (c->locked.loading && c->locked.set_aside + e->bytes > c->limit))
		return NULL;
	c->locked.queued = e->next;
	if (!e->next)
		c->locked.last_queued = &c->locked.queued;
	e->state = LOADING;
	e->next = c->locked.loading;
	c->locked.loading = e;
	c->locked.set_aside += e->bytes;
	return e;
}

/*
 * One thread at a time starts loads, and whoever comes meanwhile leaves it to that one: a load that
 * fails at once ends in here again, and thousands of them would go thousands of calls deep.
 */
static void run_queue(struct sf_item_cache *c)
{
	struct entry *e, *out;

	pthread_mutex_lock(&c->locked.m);
	if (c->locked.starting) {
		pthread_mutex_unlock(&c->locked.m);
		return;
	}
	c->locked.starting = true;
	while ((e = next_load_locked(c))) {
		out = evict_locked(c);
		pthread_mutex_unlock(&c->locked.m);
		unref_all(out);
		start(e);
		pthread_mutex_lock(&c->locked.m);
	}
	c->locked.starting = false;
	pthread_mutex_unlock(&c->locked.m);
}

/* The load is over: into the LRU or out of the table, then everybody who waits is told. */
static void finish(struct entry *e, int r)
{
	struct sf_item_cache *c = e->cache;
	struct sf_cache_wait *waits;
	struct entry *out = NULL, **p;
	char why[SF_ERROR_MAX];

	if (r < 0)
		memcpy(why, e->req.err.msg, sizeof(why));
	pthread_mutex_lock(&c->locked.m);
	for (p = &c->locked.loading; *p != e; p = &(*p)->next)
		;
	*p = e->next;
	e->next = NULL;
	c->locked.set_aside -= e->bytes;
	waits = e->waits;
	e->waits = NULL;
	if (r < 0) {
		table_remove_locked(c, e);
	} else {
		e->state = READY;
		e->bytes = e->out.cap + e->arena.used + e->pub.names.cap * 8 + sizeof(*e);
		c->locked.held += e->bytes;
		atomic_fetch_add_explicit(&e->refs, 1,
		                          memory_order_relaxed); /* ours, until all are told */
		lru_newest_locked(c, e);
		out = evict_locked(c);
	}
	pthread_mutex_unlock(&c->locked.m);
	entry_release_load(e); /* not before: sf_item_cache_end() looks at what is loading */
	unref_all(out);
	for (struct sf_cache_wait *w = waits, *next; w; w = next) {
		next = w->next;
		if (r < 0) {
			sf_fail(&w->err, r, "%s", why);
			w->done(w, r, NULL);
		} else {
			atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
			w->done(w, 0, &e->pub);
		}
	}
	entry_unref(e);
	run_queue(c);
	pthread_mutex_lock(&c->locked.m);
	if (--c->locked.nloads == 0)
		pthread_cond_broadcast(&c->locked.idle);
	pthread_mutex_unlock(&c->locked.m);
}

static void fetch(struct entry *e, void *to, uint64_t len)
{
	e->iov = (struct iovec){ to, len };
	e->req.off = e->want.off + e->pos;
	e->req.len = len;
	e->req.iov = &e->iov;
	e->req.niov = 1;
	sf_source_submit(e->want.src, &e->req);
}

static int too_big(struct entry *e)
{
	struct sf_item_cache *c = e->cache;
	const char *name = e->want.src->name;

	if (e->want.decoded_max <= c->limit)
		return sf_fail(&e->req.err, -E2BIG,
		               "'%s': the compressed item at %llu has more than %llu bytes inside",
		               name, (unsigned long long)e->want.off,
		               (unsigned long long)e->want.decoded_max);
	return sf_fail(&e->req.err, -E2BIG,
	               "'%s': the compressed item at %llu may have up to %llu bytes inside; only "
	               "%llu, half of --memory %llu, may be"
	               " decoded",
	               name, (unsigned long long)e->want.off,
	               (unsigned long long)e->want.decoded_max, (unsigned long long)c->limit,
	               (unsigned long long)c->memory);
}

/* One slice of a compressed item is there. 1: another one is on its way. */
static int zstd_slice(struct entry *e)
{
	struct sf_error *err = &e->req.err;
	int r = sf_unzstd_feed(e->zstd, e->in, e->req.len, &e->out, err);

	if (r == -E2BIG)
		return too_big(e);
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s': compressed item at %llu", e->want.src->name,
		                   (unsigned long long)e->want.off);
	e->pos += e->req.len;
	if (e->pos < e->want.len) {
		fetch(e, e->in, SF_MIN(SLICE, e->want.len - e->pos));
		return 1;
	}
	r = sf_unzstd_end(e->zstd, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s': compressed item at %llu", e->want.src->name,
		                   (unsigned long long)e->want.off);
	/* what the buffer has too much counts, and an item that fills the limit would not be kept
	 */
	uint8_t *fit = realloc(e->out.at, e->out.len ? e->out.len : 1);
	if (fit) {
		e->out.at = fit;
		e->out.cap = e->out.len;
	}
	e->pub.at = e->out.at;
	e->pub.len = e->out.len;
	return 0;
}

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct sf_st_tensor *t = &((struct sf_cached *)arg)->st.at[value];

	return t->name_len == len && memcmp(t->name, key, len) == 0;
}

const struct sf_st_tensor *sf_cached_find(const struct sf_cached *item, const char *name,
                                          size_t len)
{
	uint32_t i = sf_map_get(&item->names, name, len, same_name, (void *)item);

	return i == SF_MAP_NONE ? NULL : &item->st.at[i];
}

/* The beginning of a blob's header, or all of it, is there. 1: the rest is on its way. */
static int blob_head(struct entry *e)
{
	struct sf_error *err = &e->req.err;
	struct sf_source *src = e->want.src;
	uint64_t len = sf_le64(e->in), room = src->size - e->want.off - 8;
	int r, failed = 0;

	e->pos += e->req.len;
	if (len > room || len > SF_ST_HEADER_MAX)
		return sf_fail(err, len > room ? -EBADMSG : -E2BIG,
		               "'%s': safetensors header at %llu says %llu bytes, the file has "
		               "%llu there, the limit is %d",
		               src->name, (unsigned long long)e->want.off, (unsigned long long)len,
		               (unsigned long long)room, SF_ST_HEADER_MAX);
	if (e->pos < len + 8) {
		uint8_t *in = realloc(e->in, len + 8);
		if (!in)
			return sf_fail(err, -ENOMEM, "'%s': no memory for a header of %llu bytes",
			               src->name, (unsigned long long)len);
		e->in = in;
		fetch(e, in + e->pos, len + 8 - e->pos);
		return 1;
	}
	r = sf_st_parse(e->in + 8, len, &e->arena, &e->pub.st, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "'%s': safetensors header at %llu", src->name,
		                   (unsigned long long)e->want.off);
	if (sf_map_reserve(&e->pub.names, e->pub.st.n) < 0)
		failed = -ENOMEM;
	for (size_t i = 0; i < e->pub.st.n && !failed; i++)
		sf_map_add(&e->pub.names, e->pub.st.at[i].name, e->pub.st.at[i].name_len,
		           (uint32_t)i, same_name, &e->pub, &failed);
	return failed ? sf_fail(err, failed, "'%s': no memory for %zu names", src->name,
	                        e->pub.st.n)
	              : 0;
}

static void fetched(struct sf_io_req *req, int r)
{
	struct entry *e = (struct entry *)((char *)req - offsetof(struct entry, req));
	bool ending;

	pthread_mutex_lock(&e->cache->locked.m);
	ending = e->cache->locked.ending;
	pthread_mutex_unlock(&e->cache->locked.m);
	if (r >= 0 && ending)
		r = sf_fail(&e->req.err, -ECANCELED, "'%s': canceled", e->want.src->name);
	if (r >= 0)
		r = e->kind == SF_CACHED_ZSTD ? zstd_slice(e) : blob_head(e);
	if (r != 1)
		finish(e, r);
}

static void start(struct entry *e)
{
	struct sf_error *err = &e->req.err;
	struct sf_source *src = e->want.src;
	uint64_t first;
	int r = 0;

	e->req.kind = e->want.fetch;
	e->req.done = fetched;
	if (e->kind == SF_CACHED_ZSTD) {
		first = SF_MIN(SLICE, e->want.len);
		e->out.limit = SF_MIN(e->want.decoded_max, e->cache->limit);
		r = sf_unzstd_chain(SF_MAX(e->want.streams, 1u), &e->zstd, err);
	} else {
		first = e->want.off < src->size ? SF_MIN(BLOB_HEAD, src->size - e->want.off) : 0;
		e->arena.limit = e->cache->limit;
		if (first < 8)
			r = sf_fail(err, -EBADMSG,
			            "'%s': a safetensors blob at %llu, but the file has %llu bytes",
			            src->name, (unsigned long long)e->want.off,
			            (unsigned long long)src->size);
	}
	if (r >= 0) {
		e->in = malloc(first ? first : 1);
		if (!e->in)
			r = sf_fail(err, -ENOMEM, "'%s': no memory for %llu bytes", src->name,
			            (unsigned long long)first);
	}
	if (r < 0)
		finish(e, r);
	else
		fetch(e, e->in, first);
}

const struct sf_cached *sf_item_cache_get(struct sf_item_cache *c, const struct sf_cache_want *want)
{
	struct entry *e;

	pthread_mutex_lock(&c->locked.m);
	e = find_locked(c, want);
	if (e && e->state == READY) {
		atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
		lru_unlink_locked(c, e);
		lru_newest_locked(c, e);
	} else {
		e = NULL;
	}
	pthread_mutex_unlock(&c->locked.m);
	return e ? &e->pub : NULL;
}

static struct entry *entry_new(struct sf_item_cache *c, const struct sf_cache_want *want)
{
	struct entry *e = calloc(1, sizeof(*e));
	uint64_t guess;

	if (!e)
		return NULL;
	e->cache = c;
	e->refs = 1;
	e->file = want->file;
	e->off = want->off;
	e->kind = (uint8_t)want->kind;
	e->want = *want;
	sf_source_ref(want->src);
	e->last_wait = &e->waits;
	/* what a load will hold is not known: for a compressed item four times its size is a fair
	 * guess, within its limit */
	if (want->kind == SF_CACHED_BLOB || !sf_mul(want->len, 4, &guess))
		guess = BLOB_HEAD * 4;
	e->bytes = SF_MIN(guess, c->limit);
	return e;
}

void sf_item_cache_load(struct sf_item_cache *c, const struct sf_cache_want *want,
                        struct sf_cache_wait *wait)
{
	struct entry *e, *made = entry_new(c, want), **b;
	int r = 0;

	wait->next = NULL;
	if (!made) {
		wait->done(wait, sf_fail(&wait->err, -ENOMEM, "'%s': no memory", want->src->name),
		           NULL);
		return;
	}
	pthread_mutex_lock(&c->locked.m);
	e = find_locked(c, want);
	if (!e && c->locked.ending) {
		r = -ECANCELED;
	} else if (!e) {
		b = bucket_of(c, want);
		made->chain = *b;
		*b = made;
		*made->last_wait = wait;
		made->last_wait = &wait->next;
		*c->locked.last_queued = made;
		c->locked.last_queued = &made->next;
		c->locked.nloads++;
		made = NULL;
	} else if (e->state == READY) {
		atomic_fetch_add_explicit(&e->refs, 1, memory_order_relaxed);
		r = 1;
	} else {
		*e->last_wait = wait;
		e->last_wait = &wait->next;
	}
	pthread_mutex_unlock(&c->locked.m);
	if (r < 0)
		wait->done(wait, sf_fail(&wait->err, r, "'%s': canceled", want->src->name), NULL);
	else if (r)
		wait->done(wait, 0, &e->pub);
	if (made)
		entry_unref(made);
	else
		run_queue(c);
}

void sf_item_cache_end(struct sf_item_cache *c)
{
	pthread_mutex_lock(&c->locked.m);
	c->locked.ending = true;
	while (c->locked.nloads) {
		struct timespec until;
		/* again and again: a load that is just about to submit its next request has nothing
		 * to cancel yet */
		for (struct entry *e = c->locked.loading; e; e = e->next)
			if (e->want.src && e->want.src->ops->cancel)
				e->want.src->ops->cancel(e->want.src, &e->req);
		clock_gettime(CLOCK_REALTIME, &until);
		until.tv_nsec += 5000000;
		if (until.tv_nsec >= 1000000000) {
			until.tv_nsec -= 1000000000;
			until.tv_sec++;
		}
		pthread_cond_timedwait(&c->locked.idle, &c->locked.m, &until);
	}
	pthread_mutex_unlock(&c->locked.m);
}

void sf_item_cache_free(struct sf_item_cache *c)
{
	if (!c)
		return;
	sf_item_cache_end(c);
	for (struct entry *e = c->locked.newest, *older; e; e = older) {
		older = e->older;
		entry_unref(e);
	}
	pthread_cond_destroy(&c->locked.idle);
	pthread_mutex_destroy(&c->locked.m);
	free(c);
}
