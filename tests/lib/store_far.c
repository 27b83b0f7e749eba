#include "config.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "base/mem.h"
#include "tests/lib/store_far.h"

#define QUIET_MS 3    /* without a new request: all that depend on nothing have been made */
#define HELD_MS 20000 /* of a request that waits for others which never come */

struct far_store {
	struct sf_store s;
	const struct sf_mem_object *at;
	size_t n;
	struct sf_far *far;
};

struct far_source {
	struct sf_source s;
	const struct sf_mem_object *o;
	struct sf_far *far;
};

struct far_block {
	struct far_block *next;
	uint8_t at[];
};

/* ---- requests ---- */

static void end(struct sf_far *far, struct sf_io_req *req, int r)
{
	const uint8_t *from = ((struct far_source *)req->src)->o->at;

	from += req->off;
	for (int i = 0; i < req->niov && r >= 0; from += req->iov[i++].iov_len)
		memcpy(req->iov[i].iov_base, from, req->iov[i].iov_len);
	if (r < 0)
		sf_fail(&req->err, r, "'%s': canceled", req->src->name);
	atomic_fetch_sub(&far->flying, 1);
	req->here = far->here;
	sf_io_req_end(req, r);
}

static void note_stack(struct sf_far *far)
{
	static _Thread_local uintptr_t top;
	uintptr_t at = (uintptr_t)__builtin_frame_address(0);

	top = SF_MAX(top, at);
	for (uint64_t d = far->deepest;
	     top - at > d && !atomic_compare_exchange_weak(&far->deepest, &d, top - at);)
		;
}

static void far_submit(struct sf_source *src, struct sf_io_req *req)
{
	struct sf_far *far = ((struct far_source *)src)->far;
	uint64_t n = atomic_fetch_add(&far->requests, 1), flying;

	flying = atomic_fetch_add(&far->flying, 1) + 1;
	for (uint64_t most = far->most;
	     flying > most && !atomic_compare_exchange_weak(&far->most, &most, flying);)
		;
	far->bytes += req->len;
	far->own += pthread_equal(pthread_self(), far->thread) != 0;
	req->priv[0] = NULL;
	if (far->inline_of && n % far->inline_of == 0) {
		note_stack(far);
		end(far, req, 0);
		return;
	}
	pthread_mutex_lock(&far->locked.m);
	far->locked.changes++;
	req->next = NULL;
	if (far->hold_until && n == 0) {
		far->locked.held = req;
	} else if (far->hangs && !far->let_go && far->hangs(req)) {
		req->next = far->locked.hung;
		far->locked.hung = req;
		far->hung++;
	} else {
		*far->locked.last = req;
		far->locked.last = &req->next;
	}
	pthread_cond_signal(&far->locked.c);
	pthread_mutex_unlock(&far->locked.m);
}

static void far_cancel(struct sf_source *src, struct sf_io_req *req)
{
	struct sf_far *far = ((struct far_source *)src)->far;

	pthread_mutex_lock(&far->locked.m);
	for (struct sf_io_req *q = far->locked.first; q; q = q->next)
		if (q == req)
			req->priv[0] = far; /* ends like the others, but so */
	for (struct sf_io_req *q = far->locked.hung; q; q = q->next)
		if (q == req)
			req->priv[0] = far;
	pthread_mutex_unlock(&far->locked.m);
}

static struct timespec from_now(unsigned ms)
{
	struct timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	t.tv_nsec += (long)(ms % 1000) * 1000000;
	t.tv_sec += ms / 1000 + t.tv_nsec / 1000000000;
	t.tv_nsec %= 1000000000;
	return t;
}

/* All that was asked and depends on nothing: until no more comes for a while. */
static struct sf_io_req *a_round_locked(struct sf_far *far)
{
	struct sf_io_req *all, *turned = NULL;
	uint64_t changes;

	do {
		struct timespec until = from_now(QUIET_MS);
		changes = far->locked.changes;
		pthread_cond_timedwait(&far->locked.c, &far->locked.m, &until);
	} while (changes != far->locked.changes);
	all = far->locked.first;
	far->locked.first = NULL;
	far->locked.last = &far->locked.first;
	for (struct sf_io_req *next; far->reorder && all; all = next) {
		next = all->next;
		all->next = turned;
		turned = all;
	}
	return far->reorder ? turned : all;
}

static void answer(struct sf_far *far, struct sf_io_req *all)
{
	for (struct sf_io_req *next; all; all = next) {
		next = all->next;
		end(far, all, all->priv[0] ? -ECANCELED : 0);
	}
}

static void *serve(void *arg)
{
	struct sf_far *far = arg;
	struct timespec held_until = from_now(HELD_MS);

	pthread_mutex_lock(&far->locked.m);
	while (!far->locked.ending || far->locked.first || far->locked.held || far->locked.hung) {
		struct sf_io_req *all = NULL;
		if (far->locked.held) {
			bool late = from_now(0).tv_sec > held_until.tv_sec;
			if (far->requests >= far->hold_until || late) {
				far->held_late += late;
				all = far->locked.held;
				far->locked.held = NULL;
			}
		}
		if (!all && far->locked.hung) {
			bool late = from_now(0).tv_sec > held_until.tv_sec;
			if (far->let_go || late) {
				far->held_late += late && !far->let_go;
				all = far->locked.hung;
				far->locked.hung = NULL;
			}
		}
		if (!all && far->locked.first)
			all = a_round_locked(far);
		if (!all) {
			struct timespec until =
				from_now(far->locked.held || far->locked.hung ? 20 : 1000);
			pthread_cond_timedwait(&far->locked.c, &far->locked.m, &until);
			continue;
		}
		far->rounds++;
		pthread_mutex_unlock(&far->locked.m);
		answer(far, all);
		pthread_mutex_lock(&far->locked.m);
	}
	pthread_mutex_unlock(&far->locked.m);
	return NULL;
}

/* ---- what it has at hand ---- */

static int far_try(struct sf_source *src, uint64_t off, const struct iovec *iov, int niov,
                   uint64_t len, struct sf_error *err)
{
	return -EAGAIN;
}

static int far_lend(struct sf_source *src, uint64_t off, uint64_t len, struct sf_lease *ret)
{
	struct far_source *f = (struct far_source *)src;
	struct sf_far *far = f->far;
	struct far_block *b;

	if (!far->lends || atomic_fetch_add(&far->asks, 1) % 2)
		return -EAGAIN;
	b = malloc(sizeof(*b) + len);
	if (!b)
		return -EAGAIN;
	memcpy(b->at, (const uint8_t *)f->o->at + off, len);
	pthread_mutex_lock(&far->locked.m);
	b->next = far->locked.blocks;
	far->locked.blocks = b;
	pthread_mutex_unlock(&far->locked.m);
	far->lent++;
	ret->at = b->at;
	ret->token = b;
	return 0;
}

static void far_unlend(struct sf_source *src, void *token)
{
	struct sf_far *far = ((struct far_source *)src)->far;
	struct far_block **p;

	pthread_mutex_lock(&far->locked.m);
	for (p = &far->locked.blocks; *p && *p != token; p = &(*p)->next)
		;
	if (!*p)
		abort(); /* given back twice, or never lent */
	*p = (*p)->next;
	pthread_mutex_unlock(&far->locked.m);
	far->back++;
	free(token);
}

static int far_check(struct sf_source *src, struct sf_error *err)
{
	return 0;
}

static void far_source_free(struct sf_source *src)
{
	free(src);
}

static const struct sf_source_ops source_ops = {
	.try_read = far_try,
	.lend = far_lend,
	.unlend = far_unlend,
	.submit = far_submit,
	.cancel = far_cancel,
	.check = far_check,
	.free = far_source_free,
};

/* ---- the store ---- */

static int far_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                    struct sf_source **ret, struct sf_error *err)
{
	struct far_store *f = (struct far_store *)s;
	struct sf_version version = { .etag = f->far->etag };
	struct far_source *src;
	size_t i = 0;
	int r = 0;

	f->far->opens++;
	f->far->blind_opens += !want;
	while (i < f->n && strcmp(f->at[i].name, name) != 0)
		i++;
	if (i == f->n)
		return sf_fail(err, -ENOENT, "'%s': no such object", name);
	if (want)
		r = sf_version_check(name, want->size, &want->version, f->at[i].len, &version, err);
	if (r < 0)
		return r;
	src = calloc(1, sizeof(*src));
	if (!src)
		return sf_fail(err, -ENOMEM, "'%s': no memory", name);
	src->o = &f->at[i];
	src->far = f->far;
	src->s = (struct sf_source){ .ops = &source_ops,
		                     .hints = &f->far->hints,
		                     .refs = 1,
		                     .io = s->io,
		                     .name = f->at[i].name,
		                     .size = f->at[i].len,
		                     .version = version };
	*ret = &src->s;
	return 0;
}

static int far_list(struct sf_store *s, const char *dir, unsigned depth,
                    int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                    struct sf_error *err)
{
	struct far_store *f = (struct far_store *)s;
	size_t n = strlen(dir);
	bool skip = false;
	int r = 0;

	f->far->lists++;
	for (size_t i = 0; i < f->n && r >= 0; i++) {
		const char *below = f->at[i].name + (n ? n + 1 : 0), *end;
		unsigned level = 0;
		if (n && (strncmp(f->at[i].name, dir, n) != 0 || f->at[i].name[n] != '/'))
			continue;
		end = strchr(below, '/');
		if (end && (!i || strncmp(f->at[i - 1].name, f->at[i].name,
		                          (size_t)(end + 1 - f->at[i].name)) != 0)) {
			/* its first object: objects are in order of their directories */
			char top[256];
			snprintf(top, sizeof(top), "%.*s", (int)(end - f->at[i].name),
			         f->at[i].name);
			r = each(arg, &(struct sf_objinfo){ .name = top, .size = UINT64_MAX });
			skip = r == SF_LIST_SKIP || !depth;
			f->far->lists += r >= 0 && !skip;
		}
		for (const char *c = below; *c; c++)
			level += *c == '/';
		if (r >= 0 && level <= depth && !(end && skip))
			r = each(arg, &(struct sf_objinfo){ .name = f->at[i].name,
			                                    .size = f->at[i].len });
	}
	return SF_MIN(r, 0);
}

static void far_free(struct sf_store *s)
{
	struct sf_far *far = ((struct far_store *)s)->far;

	pthread_mutex_lock(&far->locked.m);
	far->locked.ending = true;
	pthread_cond_signal(&far->locked.c);
	pthread_mutex_unlock(&far->locked.m);
	pthread_join(far->thread, NULL);
	free(s->source);
	free(s);
}

static const struct sf_store_ops store_ops = { .open = far_open,
	                                       .list = far_list,
	                                       .free = far_free };

void sf_far_forget(struct sf_far *far)
{
	far->requests = far->bytes = far->rounds = far->most = far->opens = far->blind_opens = 0;
	far->lists = far->asks = far->lent = far->back = far->own = far->deepest = 0;
}

int sf_store_far(struct sf_io *io, const struct sf_mem_object *objects, size_t n,
                 struct sf_far *far, struct sf_store **ret, struct sf_error *err)
{
	struct far_store *f = calloc(1, sizeof(*f));
	pthread_condattr_t attr;

	if (f)
		f->s.source = strdup("far");
	if (!f || !f->s.source) {
		free(f);
		return sf_fail(err, -ENOMEM, "far store: no memory");
	}
	f->s.ops = &store_ops;
	f->s.io = io;
	f->s.far = true;
	f->at = objects;
	f->n = n;
	f->far = far;
	if (!far->hints.range_max)
		far->hints = sf_hints_local;
	pthread_mutex_init(&far->locked.m, NULL);
	pthread_condattr_init(&attr);
	pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
	pthread_cond_init(&far->locked.c, &attr);
	pthread_condattr_destroy(&attr);
	far->locked.last = &far->locked.first;
	int r = sf_thread_start(&far->thread, serve, far);
	if (r < 0) {
		free(f->s.source);
		free(f);
		return sf_fail(err, r, "far store: no thread");
	}
	*ret = &f->s;
	return 0;
}
