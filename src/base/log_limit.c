#include "config.h"

#include <pthread.h>
#include <signal.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <time.h>

#include "base/clock.h"
#include "base/log_limit.h"
#include "base/lru.h"
#include "base/mem.h"

#define LINE_MAX_BYTES 2048
#define TEXT 240 /* bytes of a first line that are kept, to be told again with a count */
#define NIL UINT32_MAX

/* A key whose window is open, in the order in which the windows began: so they end. */
struct seen {
	uint64_t key;
	uint64_t ends_ms;
	uint32_t more;  /* lines since the window began that are not told yet */
	uint32_t chain; /* next of the same bucket, or of the free list */
	struct sf_lru_link order;
	enum sf_log_level level;
	char text[TEXT];
};

struct sf_log_limit {
	const struct sf_log *log;
	unsigned window_ms, mask;
	pthread_t thread;
	struct {
		pthread_mutex_t m;
		pthread_cond_t wake;
		bool runs, ending;
		uint32_t pending; /* keys with lines that are not told yet */
		struct sf_lru order;
		uint32_t free;
	} locked;
	uint32_t *bucket; /* under the lock, like seen[] */
	struct seen seen[];
};

/* A count that is written when the lock is not held. */
struct told {
	uint32_t more;
	enum sf_log_level level;
	char text[TEXT];
};

int sf_log_limit_new(const struct sf_log *log, unsigned window_ms, unsigned nkeys,
                     struct sf_log_limit **ret, struct sf_error *err)
{
	struct sf_log_limit *l;
	unsigned buckets = 8;

	nkeys = SF_MAX(nkeys, 1u);
	while (buckets < nkeys && buckets < 1u << 30)
		buckets *= 2;
	l = calloc(1, sizeof(*l) + (size_t)nkeys * sizeof(l->seen[0]));
	if (l)
		l->bucket = malloc(buckets * sizeof(*l->bucket));
	if (!l || !l->bucket) {
		free(l);
		return sf_fail(err, -ENOMEM, "no memory to count log lines of %u kinds", nkeys);
	}
	l->log = log;
	l->window_ms = window_ms;
	l->mask = buckets - 1;
	for (unsigned i = 0; i < buckets; i++)
		l->bucket[i] = NIL;
	for (unsigned i = 0; i < nkeys; i++)
		l->seen[i].chain = i + 1 < nkeys ? i + 1 : NIL;
	pthread_mutex_init(&l->locked.m, NULL);
	sf_cond_init(&l->locked.wake);
	*ret = l;
	return 0;
}

static uint32_t *bucket_of(struct sf_log_limit *l, uint64_t key)
{
	return &l->bucket[key * UINT64_C(0x9e3779b97f4a7c15) >> 32 & l->mask];
}

static uint32_t find_locked(struct sf_log_limit *l, uint64_t key)
{
	uint32_t i = *bucket_of(l, key);

	while (i != NIL && l->seen[i].key != key)
		i = l->seen[i].chain;
	return i;
}

/* A window begins: behind all others. */
static void begin_locked(struct sf_log_limit *l, uint32_t i, uint64_t now)
{
	struct seen *s = &l->seen[i];

	s->ends_ms = now + l->window_ms;
	s->more = 0;
	sf_lru_add(&l->locked.order, &s->order);
}

/* The window that ends next; NIL: there is none. */
static uint32_t first_locked(struct sf_log_limit *l)
{
	struct sf_lru_link *first = l->locked.order.oldest;

	return first ? (uint32_t)(sf_container_of(first, struct seen, order) - l->seen) : NIL;
}

/* Ends a window: what is to be told goes to @ret. */
static void end_locked(struct sf_log_limit *l, uint32_t i, struct told *ret)
{
	struct seen *s = &l->seen[i];

	sf_lru_remove(&l->locked.order, &s->order);
	l->locked.pending -= s->more > 0;
	ret->more = s->more;
	ret->level = s->level;
	memcpy(ret->text, s->text, sizeof(ret->text));
}

static void forget_first_locked(struct sf_log_limit *l, struct told *ret)
{
	uint32_t i = first_locked(l), *p = bucket_of(l, l->seen[i].key);

	end_locked(l, i, ret);
	while (*p != i)
		p = &l->seen[*p].chain;
	*p = l->seen[i].chain;
	l->seen[i].chain = l->locked.free;
	l->locked.free = i;
}

static void tell(struct sf_log_limit *l, const struct told *t)
{
	if (t->more)
		sf_log(l->log, t->level, "%s (and %u more like this in %u s)", t->text, t->more,
		       (l->window_ms + 999) / 1000);
}

/* Tells counts when their windows end. What goes on failing is then a line every window. */
static void *tell_in_time(void *arg)
{
	struct sf_log_limit *l = arg;

	pthread_mutex_lock(&l->locked.m);
	while (!l->locked.ending) {
		uint32_t i = first_locked(l);
		uint64_t now = (uint64_t)sf_now_ms();
		struct told t;
		if (!l->locked.pending) {
			pthread_cond_wait(&l->locked.wake, &l->locked.m);
		} else if (l->seen[i].ends_ms > now) {
			const struct timespec until = sf_timespec(l->seen[i].ends_ms * 1000000);
			pthread_cond_timedwait(&l->locked.wake, &l->locked.m, &until);
		} else if (!l->seen[i].more) {
			forget_first_locked(l, &t);
		} else {
			end_locked(l, i, &t);
			begin_locked(l, i, now);
			pthread_mutex_unlock(&l->locked.m);
			tell(l, &t);
			pthread_mutex_lock(&l->locked.m);
		}
	}
	pthread_mutex_unlock(&l->locked.m);
	return NULL;
}

void sf_log_limit_free(struct sf_log_limit *l)
{
	struct told t;
	bool runs;

	if (!l)
		return;
	pthread_mutex_lock(&l->locked.m);
	l->locked.ending = true;
	runs = l->locked.runs;
	pthread_cond_signal(&l->locked.wake);
	pthread_mutex_unlock(&l->locked.m);
	if (runs)
		pthread_join(l->thread, NULL);
	while (first_locked(l) != NIL) {
		forget_first_locked(l, &t);
		tell(l, &t);
	}
	pthread_cond_destroy(&l->locked.wake);
	pthread_mutex_destroy(&l->locked.m);
	free(l->bucket);
	free(l);
}

static void keep_text(struct seen *s, const char *line)
{
	size_t n = strnlen(line, TEXT - 1);

	while (n && line[n] && ((uint8_t)line[n] & 0xc0) == 0x80) /* not inside a character */
		n--;
	memcpy(s->text, line, n);
	s->text[n] = '\0';
}

/* One line more of a key whose window is open. Without a thread its count is told when the key is
 * forgotten, or at the end. */
static void count_locked(struct sf_log_limit *l, struct seen *s)
{
	sigset_t all, old;

	if (s->more < UINT32_MAX)
		s->more++;
	if (s->more > 1)
		return;
	l->locked.pending++;
	if (l->locked.runs) {
		pthread_cond_signal(&l->locked.wake);
		return;
	}
	sigfillset(&all);
	pthread_sigmask(SIG_SETMASK, &all, &old);
	l->locked.runs = pthread_create(&l->thread, NULL, tell_in_time, l) == 0;
	pthread_sigmask(SIG_SETMASK, &old, NULL);
}

/* Is it to be written? @forgotten: what another key that made place for this one had to tell. */
static bool is_first(struct sf_log_limit *l, enum sf_log_level level, uint64_t key,
                     const char *line, struct told *forgotten)
{
	uint64_t now = (uint64_t)sf_now_ms();
	uint32_t i;
	bool first;

	pthread_mutex_lock(&l->locked.m);
	i = find_locked(l, key);
	first = i == NIL || (l->seen[i].ends_ms <= now && !l->seen[i].more);
	if (!first) {
		count_locked(l, &l->seen[i]);
	} else if (i != NIL) {
		sf_lru_remove(&l->locked.order, &l->seen[i].order);
		begin_locked(l, i, now);
	} else {
		uint32_t *b = bucket_of(l, key);
		if (l->locked.free == NIL)
			forget_first_locked(l, forgotten);
		i = l->locked.free;
		l->locked.free = l->seen[i].chain;
		l->seen[i].key = key;
		l->seen[i].chain = *b;
		*b = i;
		begin_locked(l, i, now);
	}
	if (first) {
		l->seen[i].level = level;
		keep_text(&l->seen[i], line);
	}
	pthread_mutex_unlock(&l->locked.m);
	return first;
}

void sf_log_limited(struct sf_log_limit *l, const struct sf_log *log, enum sf_log_level level,
                    uint64_t key, const char *fmt, ...)
{
	struct told forgotten = { 0 };
	char line[LINE_MAX_BYTES];
	va_list ap;

	if (!log || !log->write || level > log->level)
		return;
	va_start(ap, fmt);
	if (vsnprintf(line, sizeof(line), fmt, ap) < 0)
		line[0] = '\0';
	va_end(ap);
	if (!l || is_first(l, level, key, line, &forgotten))
		sf_log(log, level, "%s", line);
	if (forgotten.more)
		tell(l, &forgotten);
}
