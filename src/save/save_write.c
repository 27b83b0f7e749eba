#include "config.h"

#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/thread_pool.h"
#include "save/save_write_priv.h"

/* A slab: large enough that a call costs nothing beside its bytes, small enough that what was copied is still
 * in the second cache when the kernel reads it. What is kept for long is larger: huge pages. */
#define SLAB ((size_t)1 << 20)
#define SLAB_SNAPSHOT ((size_t)4 << 20)
#define SLAB_MIN ((size_t)64 << 10) /* room for any head */

int sf_shard_check(struct sf_write_file *f, struct sf_error *err)
{
	if (f->w->o.cancel && atomic_load_explicit(f->w->o.cancel, memory_order_relaxed))
		return sf_fail(err, -ECANCELED, "the save was cancelled");
	if (atomic_load_explicit(&f->w->failed, memory_order_relaxed))
		return sf_fail(err, -ECANCELED, "'%s': another file failed", f->name);
	return 0;
}

void sf_write_tell_staged(struct sf_write_file *f)
{
	pthread_mutex_lock(&f->w->locked.m);
	f->w->locked.staging--;
	pthread_cond_broadcast(&f->w->locked.changed);
	pthread_mutex_unlock(&f->w->locked.m);
}

static void put_slab(struct sf_write_file *f, struct sf_write_slab *slab)
{
	(void)sf_stage_fill_wait(&slab->copies, NULL); /* nobody writes to it any more */
	sf_stage_copies_release(&slab->copies);
	sf_stage_put(f->w->o.pool, SF_STEAL(slab->buf));
}

/* A buffer for what comes next: not more than is left. */
static int get_slab(struct sf_write_file *f, bool wait, struct sf_write_slab *slab,
                    struct sf_error *err)
{
	uint64_t left = SF_MAX(f->size - f->staged.pos, SLAB_MIN);
	size_t len = SF_MIN(f->slab, left);

	*slab = (struct sf_write_slab){ 0 };
	return wait ? sf_stage_get(f->w->o.pool, f->device, len, &slab->buf, err)
	            : sf_stage_try(f->w->o.pool, f->device, len, &slab->buf, err);
}

/* One after another. Of a device the next is under way while one is written: if there is room for it. */
static int write_through(struct sf_write_file *f, struct sf_error *err)
{
	struct sf_write_slab slab[2] = { { 0 }, { 0 } };
	const bool ahead = f->device != sf_device_host();
	bool more = !sf_write_walk_ended(f, &f->staged);
	unsigned i = 0;
	int r = 0;

	if (more)
		r = get_slab(f, true, &slab[0], err);
	if (more && r >= 0)
		r = sf_write_stage(f, &slab[0], err);
	while (r >= 0 && more) {
		struct sf_write_slab *now = &slab[i], *next = &slab[i ^ 1];
		more = !sf_write_walk_ended(f, &f->staged);
		bool got = more && ahead && get_slab(f, false, next, NULL) >= 0;
		if (got)
			r = sf_write_stage(f, next, err);
		if (r >= 0)
			r = sf_write_slab(f, now, err);
		if (r >= 0 && more && !got) {
			next->buf = SF_STEAL(now->buf);
			r = sf_write_stage(f, next, err);
		}
		put_slab(f, now);
		i ^= 1;
	}
	put_slab(f, &slab[0]);
	put_slab(f, &slab[1]);
	return r;
}

/* The oldest of those that were staged, to its file. */
static int write_first(struct sf_write_file *f, struct sf_write_slabs *slabs, size_t *first,
                       struct sf_error *err)
{
	struct sf_write_slab *slab = &slabs->at[(*first)++];
	int r = sf_write_slab(f, slab, err);

	put_slab(f, slab);
	return r;
}

/* The next part of the file's image, into a buffer of its own; where there is no room for it, room is made by
 * writing. Only who has none waits for others. */
static int stage_one(struct sf_write_file *f, struct sf_write_slabs *slabs, size_t *first,
                     struct sf_error *err)
{
	struct sf_write_slab slab;
	int r;

	while ((r = get_slab(f, *first == slabs->n, &slab, err)) == -EAGAIN) {
		r = write_first(f, slabs, first, err);
		if (r < 0)
			return r;
	}
	if (r < 0)
		return r;
	r = sf_write_stage(f, &slab, err);
	if (r >= 0 && sf_write_slabs_push(slabs, slab) < 0)
		r = sf_fail(err, -ENOMEM, "'%s': what is staged of it", f->name);
	if (r < 0)
		put_slab(f, &slab);
	return r;
}

/* All is copied, then written. */
static int write_snapshot(struct sf_write_file *f, struct sf_error *err)
{
	struct sf_write_slabs slabs = { 0 };
	size_t first = 0;
	int r = 0;

	while (r >= 0 && !sf_write_walk_ended(f, &f->staged))
		r = stage_one(f, &slabs, &first, err);
	for (size_t i = first; i < slabs.n; i++) { /* after a failure too: nobody reads it then */
		int one = sf_stage_fill_wait(&slabs.at[i].copies, r < 0 ? NULL : err);
		r = r < 0 ? r : one;
	}
	sf_write_tell_staged(f);
	while (r >= 0 && first < slabs.n)
		r = write_first(f, &slabs, &first, err);
	while (first < slabs.n)
		put_slab(f, &slabs.at[first++]);
	sf_write_slabs_release(&slabs);
	return r;
}

static int write_file(struct sf_write_file *f, struct sf_error *err)
{
	int r = sf_write_open(f, err);

	if (r >= 0 && !f->w->o.zstd)
		r = sf_write_walk_begin(f, &f->staged, err);
	if (r < 0 && f->w->snapshot)
		sf_write_tell_staged(f);
	else if (f->w->o.zstd && r >= 0)
		r = sf_write_zstd(f, err);
	else if (f->w->snapshot)
		r = write_snapshot(f, err);
	else if (r >= 0)
		r = write_through(f, err);
	if (r >= 0)
		r = sf_write_close(f, err);
	sf_target_file_drop(SF_STEAL(f->out));
	sf_sha256_drop(SF_STEAL(f->sha));
	return r;
}

static void *run(void *arg)
{
	struct sf_write_file *f = arg;

	f->r = write_file(f, &f->err);
	if (f->r < 0)
		atomic_store(&f->w->failed, true);
	atomic_fetch_sub(&f->w->running, 1);
	return NULL;
}

static int by_place(const void *a, const void *b)
{
	const struct sf_write_at *x = a, *y = b;

	if (x->file != y->file)
		return x->file < y->file ? -1 : 1;
	if (x->off != y->off)
		return x->off < y->off ? -1 : 1;
	return x->place < y->place ? -1 : x->place > y->place;
}

/* What a file's buffers are, and how large. */
static int file_init(struct sf_write_file *f, struct sf_error *err)
{
	struct sf_shard_write *w = f->w;
	const struct sf_write_at *last = &f->at[f->n - 1];
	uint64_t share = sf_stage_pool_budget(w->o.pool) / (2 * (uint64_t)w->o.nfiles);
	char name[SF_SHARD_NAME_MAX];

	sf_shard_name(name, w->o.rank, f->number, w->target->tag);
	int n = snprintf(f->name, sizeof(f->name), "%s%s", w->o.dir ? w->o.dir : "", name);
	if (n < 0 || (size_t)n >= sizeof(f->name))
		return sf_fail(err, -ENAMETOOLONG, "a shard in '%s'", w->o.dir);
	if (!sf_add(last->off, w->items->item.at[last->item].stored, &f->size) ||
	    f->size > INT64_MAX)
		return sf_fail(err, -EFBIG, "'%s': %llu bytes and more", f->name,
		               (unsigned long long)last->off);
	if (w->o.zstd)
		f->size = 0;
	f->slab = w->snapshot ? SLAB_SNAPSHOT : SLAB;
	f->slab = SF_MAX(SLAB_MIN, SF_MIN(f->slab, share & ~(uint64_t)4095));
	f->device = sf_device_host();
	for (uint64_t i = 0; i < f->n && f->device == sf_device_host(); i++) {
		int r = sf_stage_device(&w->items->item.at[f->at[i].item], &f->device, err);
		if (r < 0)
			return sf_fail_ctx(err, r, "tensor '%s'",
			                   w->items->item.at[f->at[i].item].key);
	}
	return 0;
}

static void write_free(struct sf_shard_write *w)
{
	if (!w)
		return;
	pthread_cond_destroy(&w->locked.changed);
	pthread_mutex_destroy(&w->locked.m);
	free(w->file);
	free(w->at);
	free(w);
}

static int write_new(const struct sf_save_items *items, const struct sf_write_place *place,
                     uint64_t n, const struct sf_shard_writer_options *o,
                     struct sf_shard_write **ret, struct sf_error *err)
{
	struct sf_shard_write *w = calloc(1, sizeof(*w));

	if (!w)
		return sf_fail(err, -ENOMEM, "the writers of %llu items", (unsigned long long)n);
	w->items = items;
	w->o = *o;
	w->n = n;
	pthread_mutex_init(&w->locked.m, NULL);
	pthread_cond_init(&w->locked.changed, NULL);
	w->at = sf_alloc_array(n, sizeof(*w->at));
	w->file = calloc(o->nfiles ? o->nfiles : 1, sizeof(*w->file));
	if (!w->at || !w->file) {
		write_free(w);
		return sf_fail(err, -ENOMEM, "the writers of %llu items", (unsigned long long)n);
	}
	for (uint64_t i = 0; i < n; i++) {
		if (place[i].file >= o->nfiles || place[i].item >= items->item.n) {
			write_free(w);
			return sf_fail(err, -EINVAL, "item %llu of %zu in file %u of %u",
			               (unsigned long long)place[i].item, items->item.n,
			               place[i].file, o->nfiles);
		}
		w->at[i] =
			(struct sf_write_at){ place[i].off, place[i].item, i,
			                      items->item.at[place[i].item].stored, place[i].file };
	}
	qsort(w->at, n, sizeof(*w->at), by_place);
	*ret = w;
	return 0;
}

/* Each file's part of w->at. */
static int files_init(struct sf_shard_write *w, struct sf_error *err)
{
	int r = 0;

	for (uint64_t i = 0; i < w->n;) {
		struct sf_write_file *f = &w->file[w->at[i].file];
		f->at = &w->at[i];
		while (i < w->n && &w->file[w->at[i].file] == f)
			i++, f->n++;
	}
	for (unsigned i = 0; r >= 0 && i < w->o.nfiles; i++) {
		struct sf_write_file *f = &w->file[i];
		f->w = w;
		f->number = i;
		if (f->n > 0)
			r = file_init(f, err);
	}
	return r;
}

/* A pointer to a GPU's memory that is said to be the host's would end the process when it is read. */
static int check_memory(struct sf_shard_write *w, struct sf_error *err)
{
	if (!sf_device_cuda_in_use())
		return 0;
	for (uint64_t i = 0; i < w->n; i++) {
		const struct sf_save_item *item = &w->items->item.at[w->at[i].item];
		if (item->kind != SF_SAVE_TENSOR || !item->from.at || !item->bytes ||
		    item->from.own)
			continue;
		int r = sf_device_cuda_check(item->from.at, item->from.device == SHARDFUSE_CUDA,
		                             err);
		if (r < 0)
			return sf_fail_ctx(err, r, "tensor '%s'", item->key);
	}
	return 0;
}

static void join(struct sf_shard_write *w)
{
	for (unsigned i = 0; i < w->o.nfiles; i++)
		if (w->file[i].started)
			pthread_join(w->file[i].thread, NULL);
}

/* A thread for each file that has items. */
static int start(struct sf_shard_write *w, struct sf_error *err)
{
	for (unsigned i = 0; i < w->o.nfiles; i++) {
		struct sf_write_file *f = &w->file[i];
		if (f->n == 0)
			continue;
		atomic_fetch_add(&w->running, 1);
		pthread_mutex_lock(&w->locked.m);
		w->locked.staging += w->snapshot;
		pthread_mutex_unlock(&w->locked.m);
		int r = sf_thread_start(&f->thread, run, f);
		if (r < 0) {
			atomic_store(&w->failed, true);
			join(w);
			return sf_fail(err, r, "'%s': a thread: %s", f->name, strerror(-r));
		}
		f->started = true;
	}
	return 0;
}

int sf_shard_write_begin(struct sf_save_target *t, const struct sf_save_items *items,
                         const struct sf_write_place *place, uint64_t n,
                         const struct sf_shard_writer_options *o, bool snapshot,
                         struct sf_shard_write **ret, struct sf_error *err)
{
	struct sf_shard_write *w = NULL;
	int r = write_new(items, place, n, o, &w, err);

	if (r < 0)
		return r;
	w->target = t;
	w->snapshot = snapshot;
	r = files_init(w, err);
	if (r >= 0)
		r = check_memory(w, err);
	if (r >= 0)
		r = start(w, err);
	if (r < 0) {
		write_free(w);
		return r;
	}
	pthread_mutex_lock(&w->locked.m);
	while (w->locked.staging > 0)
		pthread_cond_wait(&w->locked.changed, &w->locked.m);
	pthread_mutex_unlock(&w->locked.m);
	*ret = w;
	return 0;
}

bool sf_shard_write_ended(const struct sf_shard_write *w)
{
	return atomic_load(&w->running) == 0;
}

/* The failure that made the others stop. */
static int first_failure(const struct sf_shard_write *w, struct sf_error *err)
{
	const struct sf_write_file *failed = NULL;

	for (unsigned i = 0; i < w->o.nfiles; i++) {
		const struct sf_write_file *f = &w->file[i];
		if (f->r < 0 && (!failed || (failed->r == -ECANCELED && f->r != -ECANCELED)))
			failed = f;
	}
	return failed ? sf_fail(err, failed->r, "%s", failed->err.msg) : 0;
}

int sf_shard_write_end(struct sf_shard_write *w, struct sf_shard_file *ret_file,
                       struct sf_shard_place *ret_place, struct sf_error *err)
{
	int r;

	join(w);
	r = first_failure(w, err);
	for (unsigned i = 0; r >= 0 && ret_file && i < w->o.nfiles; i++)
		ret_file[i] = w->file[i].done;
	for (uint64_t i = 0; r >= 0 && ret_place && i < w->n; i++)
		ret_place[w->at[i].place] =
			(struct sf_shard_place){ w->at[i].file, w->at[i].off, w->at[i].len };
	write_free(w);
	return r;
}
