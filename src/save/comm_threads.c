/* Ranks that are threads of one process: a box of messages for each. */
#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "shardfuse_save.h"

struct message {
	struct message *next;
	uint32_t from, tag;
	size_t len;
	void *at; /* malloc'ed of its own: the receiver gets it */
};

struct world;
struct rank {
	struct world *world;
	uint32_t rank;
	uint32_t tag; /* of the next save: that rank's thread alone */
	pthread_cond_t came;
	struct {
		pthread_mutex_t m;
		struct message *first, **end; /* as they came */
	} locked;
};

struct world {
	uint32_t n;
	atomic_uint left; /* ranks that are not freed */
	struct rank rank[];
};

static int say(struct shardfuse_error *err, int code, const char *fmt, ...)
	__attribute__((format(printf, 3, 4)));
static int say(struct shardfuse_error *err, int code, const char *fmt, ...)
{
	va_list ap;

	if (!err)
		return code;
	va_start(ap, fmt);
	vsnprintf(err->msg, sizeof(err->msg), fmt, ap);
	va_end(ap);
	return code;
}

static int send_to(void *arg, uint32_t to, uint32_t tag, const void *at, size_t len,
                   struct shardfuse_error *err)
{
	struct rank *me = arg, *it;
	struct message *m;

	if (to >= me->world->n)
		return say(err, -EINVAL, "there is no rank %u", to);
	m = calloc(1, sizeof(*m));
	if (m)
		m->at = malloc(len ? len : 1);
	if (!m || !m->at) {
		free(m);
		return say(err, -ENOMEM, "no memory for a message to rank %u", to);
	}
	if (len)
		memcpy(m->at, at, len);
	m->from = me->rank;
	m->tag = tag;
	m->len = len;
	it = &me->world->rank[to];
	pthread_mutex_lock(&it->locked.m);
	*it->locked.end = m;
	it->locked.end = &m->next;
	pthread_cond_broadcast(&it->came);
	pthread_mutex_unlock(&it->locked.m);
	return 0;
}

static struct message *take_locked(struct rank *me, uint32_t from, uint32_t tag)
{
	for (struct message **p = &me->locked.first, *m; (m = *p) != NULL; p = &m->next) {
		if (m->from != from || m->tag != tag)
			continue;
		*p = m->next;
		if (!m->next)
			me->locked.end = p;
		return m;
	}
	return NULL;
}

static int recv_from(void *arg, uint32_t from, uint32_t tag, void **ret, size_t *ret_len,
                     unsigned timeout_ms, struct shardfuse_error *err)
{
	struct rank *me = arg;
	struct timespec until = sf_until_ms(CLOCK_MONOTONIC, timeout_ms);
	struct message *m;
	int late = !timeout_ms;

	if (from >= me->world->n)
		return say(err, -EINVAL, "there is no rank %u", from);
	pthread_mutex_lock(&me->locked.m);
	while (!(m = take_locked(me, from, tag)) && !late)
		late = pthread_cond_timedwait(&me->came, &me->locked.m, &until) != 0;
	pthread_mutex_unlock(&me->locked.m);
	if (!m)
		return say(err, -EAGAIN, "nothing from rank %u", from);
	*ret = m->at;
	*ret_len = m->len;
	free(m);
	return 0;
}

static void world_free(struct world *w)
{
	for (uint32_t i = 0; i < w->n; i++) {
		struct rank *r = &w->rank[i];

		while (r->locked.first) {
			struct message *m = r->locked.first;

			r->locked.first = m->next;
			free(m->at);
			free(m);
		}
		pthread_mutex_destroy(&r->locked.m);
		pthread_cond_destroy(&r->came);
	}
	free(w);
}

/* The last one: others may still send to a rank whose thread is gone. */
static void rank_free(void *arg)
{
	struct world *w = ((struct rank *)arg)->world;

	if (atomic_fetch_sub(&w->left, 1) == 1)
		world_free(w);
}

int shardfuse_comm_threads(uint32_t n, struct shardfuse_comm *ret, struct shardfuse_error *err)
{
	struct world *w;

	if (!n)
		return say(err, -EINVAL, "a communicator of %u ranks", n);
	w = calloc(1, sizeof(*w) + n * sizeof(w->rank[0]));
	if (!w)
		return say(err, -ENOMEM, "no memory for %u ranks", n);
	w->n = n;
	atomic_init(&w->left, n);
	for (uint32_t i = 0; i < n; i++) {
		struct rank *r = &w->rank[i];

		r->world = w;
		r->rank = i;
		r->locked.end = &r->locked.first;
		pthread_mutex_init(&r->locked.m, NULL);
		sf_cond_init(&r->came);
		ret[i] = (struct shardfuse_comm){
			.struct_size = sizeof(ret[i]),
			.arg = r,
			.rank = i,
			.size = n,
			.send = send_to,
			.recv = recv_from,
			.threads = 1,
			.free = rank_free,
			.tag = &r->tag,
		};
	}
	return 0;
}
