#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/thread_pool.h"
#include "shardfuse_save.h"
#include "store/url.h"
#include "tool/apart.h"
#include "tool/disk_room.h"
#include "tool/interrupt.h"
#include "tool/reshard.h"
#include "tool/reshard_items.h"
#include "tool/reshard_plan.h"
#include "view/view.h"

enum {
	READS = 16,             /* at once: more would only share the reader's memory */
	STAGING_LEAST = 65536,  /* bytes of a rank's buffer */
	INDEX_MAX = 1 << 20,    /* of a list: torch makes all elements below it, too */
	COMM_MS = 86400 * 1000, /* ranks are threads: none goes away */
	OTHERS_MS =
		600 * 1000, /* ranks that open the sources by themselves, some later than others */
};

/* A rank's part of an item: what its provider is given. */
struct piece {
	struct reshard *x;
	const struct sf_reshard_item *item;
	uint64_t base; /* bytes */
};

struct rank {
	struct reshard *x;
	struct shardfuse_comm comm; /* of a thread */
	struct shardfuse_save *save;
	struct sf_arena pieces;
	pthread_t thread;
	int r;
	struct shardfuse_error err;
};

struct reshard {
	const struct sf_reshard_options *o;
	const char *target;
	struct sf_reshard_items items;
	struct rank *rank; /* those of this process: numbers first … first + nranks - 1 */
	uint32_t first, nranks;
	struct shardfuse_save_step *step; /* of one item */
	_Atomic bool stop;                /* a signal came */
	struct {
		pthread_mutex_t m;
		pthread_cond_t c;
		unsigned reads;
		int go; /* 1: all ranks' threads are there; -1: one is not */
	} locked;
};

static int check_room(const struct reshard *x, struct sf_error *err)
{
	SF_CLEANUP(sf_disk_room_release) struct sf_disk_room room = { 0 };
	int r = sf_disk_room_add(&room, x->target, x->items.bytes, err);

	return r < 0 ? r : sf_disk_room_check(&room, err);
}

/* ---- bytes ---- */

static int emit(void *arg, uint64_t off, uint64_t len, struct sf_parts *p, struct sf_error *err)
{
	const struct sf_reshard_item *it = arg;
	const struct sf_entry *e = sf_reshard_entry(it);
	int r = sf_parts_tensor(p, e->tensor, off, len, (enum sf_dtype)e->dtype);

	return r < 0 ? sf_fail(err, r, "bytes %llu + %llu of a tensor", (unsigned long long)off,
	                       (unsigned long long)len)
	             : 0;
}

static void turn_begin(struct reshard *x)
{
	pthread_mutex_lock(&x->locked.m);
	while (x->locked.reads == READS)
		pthread_cond_wait(&x->locked.c, &x->locked.m);
	x->locked.reads++;
	pthread_mutex_unlock(&x->locked.m);
}

static void turn_end(struct reshard *x)
{
	pthread_mutex_lock(&x->locked.m);
	x->locked.reads--;
	pthread_cond_signal(&x->locked.c);
	pthread_mutex_unlock(&x->locked.m);
}

static int provide(void *arg, uint64_t off, void *to, size_t len, struct shardfuse_error *err)
{
	const struct piece *p = arg;
	struct sf_read rd = {
		.emit = emit, .arg = (void *)(uintptr_t)p->item, .off = p->base + off, .len = len
	};
	int r;

	rd.buf = to;
	turn_begin(p->x);
	r = atomic_load(&p->x->stop) ? sf_fail(&rd.err, -ECANCELED, "interrupted")
	                             : sf_read_wait(p->item->s->reader, &rd);
	turn_end(p->x);
	if (r < 0)
		snprintf(err->msg, sizeof(err->msg), "%s", rd.err.msg);
	else
		sf_progress_add(p->x->o->progress, len);
	sf_read_release(&rd);
	return r;
}

/* The archive that value.pt in a mount is. */
static int read_object(const struct sf_reshard_item *it, void **ret, size_t *ret_len,
                       struct sf_error *err)
{
	const struct sf_selection sel = { .entry = &it->entry, .n = 1, .cast = true, .bare = true };
	struct sf_vfile *f;
	int r = sf_view_pt(it->s->catalog, it->s->reader, &sel, &f, err);

	if (r < 0)
		return r;
	r = sf_vfile_read_all(f, ret, ret_len, err);
	sf_vfile_unref(f);
	return r;
}

/* ---- what a rank adds ---- */

static int take_step(const struct sf_path_elem *e, struct sf_arena *a,
                     struct shardfuse_save_step *ret)
{
	char *text = sf_arena_strdup(a, e->s, e->len), *end = text;

	if (!text)
		return -ENOMEM;
	if (memchr(text, 0, e->len))
		return -EINVAL;
	*ret = (struct shardfuse_save_step){ text, 0 };
	if (e->kind == SF_PATH_TEXT || text[0] < '0' || text[0] > '9')
		return 0;
	unsigned long long index = strtoull(text, &end, 10);
	if (!*end && index < INDEX_MAX)
		*ret = (struct shardfuse_save_step){ NULL, index };
	return 0;
}

/* Where it stands in the nested state dict; texts live in @a. */
static int take_path(struct reshard *x, const struct sf_entry *e, struct sf_arena *a)
{
	int r = 0;

	for (uint32_t i = 0; i < e->npath && r >= 0; i++)
		r = take_step(&e->path[i], a, &x->step[i]);
	return r;
}

/* NULL: it is another process's. */
static struct rank *rank_here(const struct reshard *x, uint32_t rank)
{
	return rank >= x->first && rank - x->first < x->nranks ? &x->rank[rank - x->first] : NULL;
}

static int add_object(struct reshard *x, struct rank *rank, const struct sf_reshard_item *it,
                      struct sf_error *err)
{
	const struct sf_entry *e = sf_reshard_entry(it);
	struct shardfuse_save_object o = SHARDFUSE_INIT(o);
	struct shardfuse_error why = { "" };
	void *at;
	int r = read_object(it, &at, &o.len, err);

	if (r < 0)
		return r;
	o.key = e->name;
	o.key_len = e->len;
	o.path = x->step;
	o.npath = e->npath;
	o.at = at;
	r = shardfuse_save_add_object(rank->save, &o, &why);
	free(at);
	return r < 0 ? sf_fail(err, r, "%s", why.msg) : 0;
}

static int add_tensor(struct reshard *x, struct rank *rank, const struct sf_reshard_item *it,
                      uint64_t row, uint64_t rows, struct sf_error *err)
{
	const struct sf_entry *e = sf_reshard_entry(it);
	const struct sf_tensor *t = sf_reshard_tensor(it);
	const struct sf_reshard_cut *c = &x->items.cut[it - x->items.item];
	uint64_t offset[SF_DIMS_MAX] = { row }, extent[SF_DIMS_MAX];
	struct shardfuse_save_tensor out = SHARDFUSE_INIT(out);
	struct shardfuse_error why = { "" };
	struct piece *p = sf_arena_alloc(&rank->pieces, sizeof(*p));
	int r;

	if (!p)
		return sf_fail(err, -ENOMEM, "no memory for %zu keys", x->items.n);
	*p = (struct piece){ x, it, c->rows ? c->bytes / c->rows * row : 0 };
	for (unsigned d = 0; d < t->ndim; d++)
		extent[d] = d ? t->shape[d] : rows;
	out.key = e->name;
	out.key_len = e->len;
	out.path = x->step;
	out.npath = e->npath;
	out.dtype = sf_dtype_info((enum sf_dtype)e->dtype)->torch;
	out.ndim = t->ndim;
	out.shape = t->shape;
	out.offset = offset;
	out.extent = extent;
	out.provide = provide;
	out.provide_arg = p;
	r = shardfuse_save_add_tensor(rank->save, &out, &why);
	return r < 0 ? sf_fail(err, r, "%s", why.msg) : 0;
}

static int name_of_failure(const struct sf_reshard_item *it, int r, struct sf_error *err)
{
	struct sf_buf name = { .limit = 300 };

	sf_escape_text(&name, sf_reshard_entry(it)->name, SF_MIN(sf_reshard_entry(it)->len, 250u));
	sf_fail(err, r, "key '%s': %s", sf_buf_cstr(&name),
	        r == -EINVAL ? "a name with a NUL" : strerror(-r));
	sf_buf_release(&name);
	return r;
}

/* To each rank that has some of it. */
static int add_item(struct reshard *x, size_t i, struct sf_arena *scratch, struct sf_error *err)
{
	const struct sf_reshard_item *it = &x->items.item[i];
	const struct sf_reshard_cut *c = &x->items.cut[i];
	const uint32_t ranks = x->o->ranks;
	uint64_t at, rows;
	int r = take_path(x, sf_reshard_entry(it), scratch);

	if (r < 0)
		return name_of_failure(it, r, err);
	if (!sf_reshard_tensor(it))
		return rank_here(x, c->first) ? add_object(x, rank_here(x, c->first), it, err) : 0;
	for (uint32_t k = 0; k < (c->step ? ranks : 1) && r >= 0; k++) {
		uint32_t rank = (uint32_t)(((uint64_t)c->first + k) % ranks);
		if (!sf_reshard_rows(c, rank, ranks, &at, &rows))
			break;
		if (rank_here(x, rank))
			r = add_tensor(x, rank_here(x, rank), it, at, rows, err);
	}
	return r;
}

/* ---- the ranks ---- */

static void log_line(void *arg, const char *line)
{
	sf_log(arg, SF_LOG_DEBUG, "%s", line);
}

/* As the sources' stores are opened. */
static struct shardfuse_context_options store_options(const struct sf_reshard_options *o)
{
	struct shardfuse_context_options c = SHARDFUSE_INIT(c);

	c.memory = o->memory / 2;
	if (!o->store)
		return c;
	c.ca_bundle = o->store->ca_bundle;
	c.endpoint_url = o->store->endpoint_url;
	c.region = o->store->region;
	c.profile = o->store->profile;
	c.addressing = o->store->addressing;
	c.no_sign_request = o->store->no_sign_request;
	c.request_payer = o->store->request_payer;
	c.user_project = o->store->user_project;
	return c;
}

/* @store: of the call alone. */
static struct shardfuse_save_options save_options(const char *target,
                                                  const struct sf_reshard_options *o,
                                                  const struct shardfuse_context_options *store)
{
	/* what is staged for a bucket is copied into parts, which take as much again */
	const uint64_t staging = sf_url_scheme(target) ? o->memory - o->memory / 2 : o->memory;
	struct shardfuse_save_options opt = SHARDFUSE_INIT(opt);

	opt.format = o->format;
	opt.overwrite = o->force ? SHARDFUSE_REPLACE : SHARDFUSE_REFUSE;
	opt.staging = staging / (o->comm ? 1 : o->ranks);
	opt.store = store;
	opt.timeout_ms = o->comm ? OTHERS_MS : COMM_MS;
	opt.write_timeout_ms = COMM_MS;
	if (o->log) {
		opt.log = log_line;
		opt.log_arg = (void *)(uintptr_t)o->log;
	}
	return opt;
}

int sf_reshard_check(const char *target, const struct sf_reshard_options *o, struct sf_error *err)
{
	const struct shardfuse_context_options store = store_options(o);
	const struct shardfuse_save_options opt = save_options(target, o, &store);
	const uint32_t here = o->comm ? 1 : o->ranks;
	struct shardfuse_error why = { "" };
	struct shardfuse_save *s;
	int r;

	if (!o->ranks || o->ranks > SF_RESHARD_RANKS_MAX)
		return sf_fail(err, -EINVAL, "%u ranks: 1 to %u", o->ranks, SF_RESHARD_RANKS_MAX);
	if (opt.staging < STAGING_LEAST)
		return sf_fail(err, -EINVAL,
		               "%u ranks need a --memory of %u KiB at least: %u KiB for each", here,
		               here * 2 * (STAGING_LEAST / 1024), 2 * (STAGING_LEAST / 1024));
	r = shardfuse_save_begin(target, &opt, NULL, &s, &why);
	if (r < 0)
		return sf_fail(err, r, "%s", why.msg);
	shardfuse_save_free(s);
	return 0;
}

/* Communicators of all ranks here. */
static int connect(struct reshard *x, struct sf_error *err)
{
	const struct shardfuse_comm *outer = x->o->comm;
	const uint32_t n = outer ? 1 : x->o->ranks;
	SF_FREE struct shardfuse_comm *comm = sf_alloc_array(n, sizeof(*comm));
	struct shardfuse_error why = { "" };
	int r = 0;

	x->rank = calloc(n, sizeof(*x->rank));
	if (!comm || !x->rank)
		return sf_fail(err, -ENOMEM, "no memory for %u ranks", n);
	if (!outer)
		r = shardfuse_comm_threads(n, comm, &why);
	if (r < 0)
		return sf_fail(err, r, "%u ranks: %s", n, why.msg);
	x->nranks = n;
	x->first = outer ? outer->rank : 0;
	for (uint32_t i = 0; i < n; i++) {
		x->rank[i].x = x;
		if (!outer)
			x->rank[i].comm = comm[i];
	}
	return 0;
}

static int begin_ranks(struct reshard *x, struct sf_error *err)
{
	const struct shardfuse_context_options store = store_options(x->o);
	const struct shardfuse_save_options opt = save_options(x->target, x->o, &store);
	struct shardfuse_error why = { "" };
	int r = connect(x, err);

	if (r < 0)
		return r;
	for (uint32_t i = 0; i < x->nranks && r >= 0; i++)
		r = shardfuse_save_begin(x->target, &opt,
		                         x->o->comm ? x->o->comm : &x->rank[i].comm,
		                         &x->rank[i].save, &why);
	return r < 0 ? sf_fail(err, r, "%s", why.msg) : 0;
}

static int add_all(struct reshard *x, struct sf_error *err)
{
	int r = 0;

	x->step = sf_alloc_array(x->items.nsteps, sizeof(*x->step));
	if (!x->step)
		return sf_fail(err, -ENOMEM, "no memory for %zu keys", x->items.n);
	for (size_t i = 0; i < x->items.n && r >= 0; i++) {
		SF_CLEANUP(sf_arena_release) struct sf_arena scratch = { 0 };
		r = atomic_load(&x->stop) ? sf_fail(err, -ECANCELED, "interrupted")
		                          : add_item(x, i, &scratch, err);
	}
	return r;
}

static void *run(void *arg)
{
	struct rank *rank = arg;
	struct reshard *x = rank->x;
	int go;

	pthread_mutex_lock(&x->locked.m);
	while (!(go = x->locked.go))
		pthread_cond_wait(&x->locked.c, &x->locked.m);
	pthread_mutex_unlock(&x->locked.m);
	rank->r = go > 0 ? shardfuse_save_commit(rank->save, &rank->err) : -ECANCELED;
	return NULL;
}

/* All or none commit: a rank whose thread cannot be had would be waited for. */
static int commit_all(struct reshard *x, struct sf_error *err)
{
	uint32_t n = 0;
	int r = 0;

	if (x->o->comm) { /* this thread may be the only one that may communicate */
		x->locked.go = 1;
		run(&x->rank[0]);
		return x->rank[0].r < 0 ? sf_fail(err, x->rank[0].r, "%s", x->rank[0].err.msg) : 0;
	}
	while (n < x->o->ranks && r >= 0) {
		r = sf_thread_start(&x->rank[n].thread, run, &x->rank[n]);
		n += r >= 0;
	}
	pthread_mutex_lock(&x->locked.m);
	x->locked.go = r < 0 ? -1 : 1;
	pthread_cond_broadcast(&x->locked.c);
	pthread_mutex_unlock(&x->locked.m);
	for (uint32_t i = 0; i < n; i++)
		pthread_join(x->rank[i].thread, NULL);
	if (r < 0)
		return sf_fail(err, r, "a thread for rank %u of %u: %s", n, x->o->ranks,
		               strerror(-r));
	for (uint32_t i = 0; i < n && r >= 0; i++)
		if (x->rank[i].r < 0)
			r = sf_fail(err, x->rank[i].r, "%s", x->rank[i].err.msg);
	return r;
}

static void end_ranks(struct reshard *x)
{
	for (uint32_t i = 0; i < x->nranks; i++) {
		shardfuse_save_free(x->rank[i].save);
		if (!x->o->comm)
			shardfuse_comm_free(&x->rank[i].comm);
		sf_arena_release(&x->rank[i].pieces);
	}
	free(x->rank);
}

/* All that this process has to do before it commits. */
static int prepare(struct reshard *x, struct sf_session *const *source, size_t nsources,
                   struct sf_error *err)
{
	int r = 0;

	for (size_t i = 0; i < nsources && r >= 0; i++)
		r = sf_apart_check(source[i], x->target, err);
	if (r >= 0)
		r = sf_reshard_items_take(&x->items, source, nsources, x->o->no_optim, err);
	if (r >= 0 && sf_reshard_plan(x->items.cut, x->items.n, x->o->ranks) < 0)
		r = sf_fail(err, -ENOMEM, "no memory for %u ranks", x->o->ranks);
	if (r >= 0 && !sf_url_scheme(x->target))
		r = check_room(x, err);
	return r;
}

void sf_reshard_give_up(const char *target, const struct sf_reshard_options *o, const char *why)
{
	const struct shardfuse_context_options store = store_options(o);
	const struct shardfuse_save_options opt = save_options(target, o, &store);
	struct shardfuse_error err = { "" };
	struct shardfuse_save *s;

	/* cannot begin, nor can they: the options are the same */
	if (shardfuse_save_begin(target, &opt, o->comm, &s, &err) < 0)
		return;
	(void)shardfuse_save_abort(s, why, &err);
	shardfuse_save_free(s);
}

/* That this process failed before it could commit. */
static void tell_others(struct reshard *x, const char *why)
{
	struct shardfuse_error err = { "" };

	if (!x->o->comm)
		return;
	if (x->nranks && x->rank[0].save)
		(void)shardfuse_save_abort(x->rank[0].save, why, &err);
	else
		sf_reshard_give_up(x->target, x->o, why);
}

static int write_all(struct reshard *x, struct sf_error *err)
{
	int r;

	sf_interrupt_hold(&x->stop);
	atomic_store(&x->o->progress->total, x->items.bytes);
	sf_progress_start(x->o->progress);
	r = begin_ranks(x, err);
	if (r >= 0)
		r = add_all(x, err);
	if (r >= 0)
		r = commit_all(x, err);
	else
		tell_others(x, err->msg);
	sf_progress_end(x->o->progress);
	end_ranks(x);
	sf_interrupt_release();
	return r;
}

int sf_reshard(struct sf_session *const *source, size_t nsources, const char *target,
               const struct sf_reshard_options *o, struct sf_error *err)
{
	struct reshard x = { .o = o,
		             .target = target,
		             .locked = { .m = PTHREAD_MUTEX_INITIALIZER,
		                         .c = PTHREAD_COND_INITIALIZER } };
	int r = sf_reshard_check(target, o, err);

	if (r >= 0) {
		r = prepare(&x, source, nsources, err);
		if (r >= 0)
			r = write_all(&x, err);
		else
			tell_others(&x, err->msg);
	}
	free(x.step);
	sf_reshard_items_release(&x.items);
	return r;
}
