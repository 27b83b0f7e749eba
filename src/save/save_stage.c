#include "config.h"

#include <pthread.h>

#include "base/mem.h"
#include "save/save_stage.h"

/* How many of the kept ones are looked at for one that fits: they are nearly always of one size. */
#define LOOKED_AT 16

struct sf_stage_pool {
	struct {
		pthread_mutex_t m;
		pthread_cond_t changed;
		uint64_t budget, out, kept; /* bytes: handed out, and free in @first */
		uint64_t next, turn;        /* tickets of those who wait: who comes, who is next */
		struct sf_stage_buf *first;
		bool stopped;
	} locked;
};

int sf_stage_pool_new(uint64_t budget, struct sf_stage_pool **ret, struct sf_error *err)
{
	struct sf_stage_pool *p = calloc(1, sizeof(*p));

	if (!p)
		return sf_fail(err, -ENOMEM, "the pool of staging buffers");
	pthread_mutex_init(&p->locked.m, NULL);
	pthread_cond_init(&p->locked.changed, NULL);
	p->locked.budget = budget;
	*ret = p;
	return 0;
}

/* Takes kept ones off, the oldest last, until what is out and kept and @more are within the budget. Returned
 * for the caller to free without the lock. */
static struct sf_stage_buf *trim_locked(struct sf_stage_pool *p, uint64_t more)
{
	struct sf_stage_buf *gone = NULL, *b;
	uint64_t need;

	while ((b = p->locked.first) &&
	       (!sf_add(p->locked.out + p->locked.kept, more, &need) || need > p->locked.budget)) {
		p->locked.first = b->next;
		p->locked.kept -= b->len;
		b->next = gone;
		gone = b;
	}
	return gone;
}

static void free_buf(struct sf_stage_buf *b)
{
	if (b)
		b->device->free(b->device, b->at, b->len);
	free(b);
}

static void free_all(struct sf_stage_buf *b)
{
	while (b) {
		struct sf_stage_buf *next = b->next;
		free_buf(b);
		b = next;
	}
}

void sf_stage_pool_free(struct sf_stage_pool *p)
{
	if (!p)
		return;
	free_all(p->locked.first);
	pthread_cond_destroy(&p->locked.changed);
	pthread_mutex_destroy(&p->locked.m);
	free(p);
}

void sf_stage_pool_set_budget(struct sf_stage_pool *p, uint64_t budget)
{
	pthread_mutex_lock(&p->locked.m);
	p->locked.budget = budget;
	struct sf_stage_buf *gone = trim_locked(p, 0);
	pthread_cond_broadcast(&p->locked.changed);
	pthread_mutex_unlock(&p->locked.m);
	free_all(gone);
}

uint64_t sf_stage_pool_budget(struct sf_stage_pool *p)
{
	pthread_mutex_lock(&p->locked.m);
	uint64_t budget = p->locked.budget;
	pthread_mutex_unlock(&p->locked.m);
	return budget;
}

void sf_stage_pool_stop(struct sf_stage_pool *p, bool stopped)
{
	pthread_mutex_lock(&p->locked.m);
	p->locked.stopped = stopped;
	pthread_cond_broadcast(&p->locked.changed);
	pthread_mutex_unlock(&p->locked.m);
}

/* One that was kept and is not much larger: no page of it need be cleared again. */
static struct sf_stage_buf *take_kept_locked(struct sf_stage_pool *p, const struct sf_device *d,
                                             size_t len)
{
	unsigned i = 0;

	for (struct sf_stage_buf **at = &p->locked.first; *at && i < LOOKED_AT;
	     at = &(*at)->next, i++) {
		struct sf_stage_buf *b = *at;
		if (b->device == d && b->len >= len && b->len - len <= len / 4) {
			*at = b->next;
			p->locked.kept -= b->len;
			return b;
		}
	}
	return NULL;
}

/* The bytes are counted already: gone again when there is no memory. */
static int make(struct sf_stage_pool *p, const struct sf_device *d, size_t len,
                struct sf_stage_buf **ret, struct sf_error *err)
{
	struct sf_stage_buf *b = malloc(sizeof(*b));

	if (b)
		*b = (struct sf_stage_buf){ d->alloc(d, len), len, d, NULL };
	if (b && b->at) {
		*ret = b;
		return 0;
	}
	free(b);
	pthread_mutex_lock(&p->locked.m);
	p->locked.out -= len;
	pthread_cond_broadcast(&p->locked.changed);
	pthread_mutex_unlock(&p->locked.m);
	return sf_fail(err, -ENOMEM, "a staging buffer of %zu bytes (%s)", len, d->name);
}

static bool fits_locked(const struct sf_stage_pool *p, size_t len)
{
	return p->locked.out == 0 ||
	       (len <= p->locked.budget && p->locked.out <= p->locked.budget - len);
}

/* Waits its turn, and then for room. The turn is passed on in any case. */
static int wait_locked(struct sf_stage_pool *p, size_t len)
{
	uint64_t mine = p->locked.next++;
	int r = 0;

	while (r == 0 && (p->locked.turn != mine || !fits_locked(p, len)))
		if (p->locked.stopped && p->locked.turn == mine)
			r = -ECANCELED;
		else
			pthread_cond_wait(&p->locked.changed, &p->locked.m);
	p->locked.turn++;
	pthread_cond_broadcast(&p->locked.changed);
	return r;
}

static int get(struct sf_stage_pool *p, const struct sf_device *d, size_t len, bool wait,
               struct sf_stage_buf **ret, struct sf_error *err)
{
	struct sf_stage_buf *b = NULL, *gone = NULL;
	int r = 0;

	len = (len + 4095) & ~(size_t)4095;
	pthread_mutex_lock(&p->locked.m);
	if (p->locked.stopped)
		r = -ECANCELED;
	else if (p->locked.turn != p->locked.next || !fits_locked(p, len))
		r = wait ? wait_locked(p, len) : -EAGAIN;
	if (r == 0) {
		b = take_kept_locked(p, d, len);
		p->locked.out += b ? b->len : len;
		gone = trim_locked(p, 0);
	}
	pthread_mutex_unlock(&p->locked.m);
	free_all(gone);
	if (r == -EAGAIN)
		return r;
	if (r < 0)
		return sf_fail(err, r, "staging was stopped");
	if (!b)
		return make(p, d, len, ret, err);
	*ret = b;
	return 0;
}

int sf_stage_get(struct sf_stage_pool *p, const struct sf_device *d, size_t len,
                 struct sf_stage_buf **ret, struct sf_error *err)
{
	return get(p, d, len, true, ret, err);
}

int sf_stage_try(struct sf_stage_pool *p, const struct sf_device *d, size_t len,
                 struct sf_stage_buf **ret, struct sf_error *err)
{
	int r = get(p, d, len, false, ret, err);

	return r == -EAGAIN ? sf_fail(err, r, "staging buffers are all in use") : r;
}

void sf_stage_put(struct sf_stage_pool *p, struct sf_stage_buf *b)
{
	struct sf_stage_buf *gone;

	if (!b)
		return;
	pthread_mutex_lock(&p->locked.m);
	p->locked.out -= b->len;
	if (b->device->passing) {
		b->next = NULL;
		gone = b;
	} else {
		p->locked.kept += b->len;
		b->next = p->locked.first;
		p->locked.first = b;
		gone = trim_locked(p, 0);
	}
	pthread_cond_broadcast(&p->locked.changed);
	pthread_mutex_unlock(&p->locked.m);
	free_all(gone);
}
