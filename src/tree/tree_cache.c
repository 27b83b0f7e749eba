#include "config.h"

#include <inttypes.h>
#include <stdlib.h>

#include "base/mem.h"
#include "tree/tree_priv.h"

/*
 * Files made, by node. Those that somebody holds stay, so that all who open a node get the same
 * one; of the others KEPT are kept, and of large texts (values, which are in memory as a whole)
 * none.
 */
#define BUCKETS 1024
#define KEPT 64
/* how many of the oldest are looked at: more than are kept, unless very many are open */
#define TRIES 128
#define LARGE (UINT64_C(1) << 20)

struct sf_cached {
	sf_node node;
	struct sf_vfile *f; /* our reference */
	struct sf_cached *chain;
	struct sf_lru_link lru;
};

int sf_tree_cache_make(struct sf_tree *t, struct sf_error *err)
{
	pthread_mutex_init(&t->locked.m, NULL);
	t->locked.bucket = calloc(BUCKETS, sizeof(*t->locked.bucket));
	return t->locked.bucket ? 0
	                        : sf_fail(err, -ENOMEM, "no memory for the table of open files");
}

void sf_tree_cache_free(struct sf_tree *t)
{
	for (struct sf_lru_link *l = t->locked.lru.newest, *older; l; l = older) {
		struct sf_cached *e = sf_container_of(l, struct sf_cached, lru);
		older = l->older;
		sf_vfile_unref(e->f);
		free(e);
	}
	free(t->locked.bucket);
	pthread_mutex_destroy(&t->locked.m);
}

static struct sf_cached **bucket_locked(struct sf_tree *t, sf_node n)
{
	return &t->locked.bucket[(n * UINT64_C(0x9e3779b97f4a7c15) >> 32) % BUCKETS];
}

static struct sf_cached *find_locked(struct sf_tree *t, sf_node n)
{
	struct sf_cached *e = *bucket_locked(t, n);

	while (e && e->node != n)
		e = e->chain;
	return e;
}

static bool is_large(struct sf_vfile *f, sf_node n)
{
	uint64_t size;

	return sf_kind_of(n)->in_memory && sf_vfile_size(f, &size) == 0 && size > LARGE;
}

/* Takes out what is too much; the caller lets go of the list (linked by chain) without the lock. */
static struct sf_cached *evict_locked(struct sf_tree *t, const struct sf_cached *but)
{
	struct sf_lru_link *l = t->locked.lru.oldest, *newer;
	struct sf_cached *out = NULL;

	for (unsigned tries = 0; l && tries < TRIES; tries++, l = newer) {
		struct sf_cached *e = sf_container_of(l, struct sf_cached, lru);
		newer = l->newer;
		/* every reference but ours comes from a lookup under this lock or from one who has
		 * one: at 1 nobody can take another */
		bool free =
			e != but && atomic_load_explicit(&e->f->refs, memory_order_acquire) == 1;
		if (free && (t->locked.n > KEPT || is_large(e->f, e->node))) {
			struct sf_cached **at = bucket_locked(t, e->node);
			while (*at != e)
				at = &(*at)->chain;
			*at = e->chain;
			sf_lru_remove(&t->locked.lru, l);
			t->locked.n--;
			e->chain = out;
			out = e;
		} else if (t->locked.n > KEPT) {
			/* held: out of the way, so that the next ones are looked at */
			sf_lru_touch(&t->locked.lru, l);
		}
	}
	return out;
}

static void let_go(struct sf_cached *e)
{
	for (struct sf_cached *next; e; e = next) {
		next = e->chain;
		sf_vfile_unref(e->f);
		free(e);
	}
}

struct sf_vfile *sf_tree_cache_get(struct sf_tree *t, sf_node n)
{
	struct sf_vfile *f = NULL;
	struct sf_cached *e;

	pthread_mutex_lock(&t->locked.m);
	e = find_locked(t, n);
	if (e) {
		f = sf_vfile_ref(e->f);
		sf_lru_touch(&t->locked.lru, &e->lru);
	}
	pthread_mutex_unlock(&t->locked.m);
	return f;
}

/* Puts @f there unless another thread was faster: the one that is there then, with a reference for
 * the caller. */
static struct sf_vfile *put(struct sf_tree *t, sf_node n, struct sf_vfile *f)
{
	struct sf_cached *mine = calloc(1, sizeof(*mine)), *e, *out;

	if (!mine)
		return f; /* works, it only is not shared */
	pthread_mutex_lock(&t->locked.m);
	e = find_locked(t, n);
	if (e) {
		struct sf_vfile *theirs = sf_vfile_ref(e->f);
		pthread_mutex_unlock(&t->locked.m);
		free(mine);
		sf_vfile_unref(f);
		return theirs;
	}
	mine->node = n;
	mine->f = sf_vfile_ref(f);
	mine->chain = *bucket_locked(t, n);
	*bucket_locked(t, n) = mine;
	sf_lru_add(&t->locked.lru, &mine->lru);
	t->locked.n++;
	out = evict_locked(t, mine);
	pthread_mutex_unlock(&t->locked.m);
	let_go(out);
	return f;
}

int sf_tree_open(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	struct sf_vfile *f;
	int r;

	if (!sf_kind_of(n)->valid(t, n))
		return sf_fail(err, -ENOENT, "there is no node %" PRIu64, n);
	f = sf_tree_cache_get(t, n);
	if (!f) {
		const struct sf_kind *kind = sf_kind_of(n);
		r = kind->make ? kind->make(t, n, &f, err)
		               : sf_fail(err, -EISDIR, "a directory is not a file");
		if (r < 0)
			return r;
		f = put(t, n, f);
	}
	*ret = f;
	return 0;
}
