#include "config.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/growing.h"
#include "base/mem.h"
#include "save/save_target_store.h"

#define MEMORY_DEFAULT (UINT64_C(256) << 20) /* of parts on their way, of all ranks */

struct sf_target_store {
	unsigned refs;
	char *url;
	struct shardfuse_context_options o;
	struct sf_log log;
	struct sf_io io;
	bool has_io;
	struct sf_store_options opt;
	struct sf_store *store;
	struct sf_uploads up;
	bool has_up;
	_Atomic bool stop;
	struct sf_target_store *next;
};

/* Those that are open. The lock is held while one is opened, which asks no server: ranks that begin
 * together would make one each. */
static struct {
	pthread_mutex_t m;
	struct sf_target_store *first;
} locked = { .m = PTHREAD_MUTEX_INITIALIZER };

/* Its strings, one after another. */
enum { STRINGS = 6 };
static const char **string(struct shardfuse_context_options *o, unsigned i)
{
	const char **at[STRINGS] = { &o->ca_bundle, &o->endpoint_url, &o->region,
		                     &o->profile,   &o->addressing,   &o->user_project };

	return at[i];
}

int sf_target_store_options_take(const struct shardfuse_context_options *from,
                                 struct shardfuse_context_options *ret, struct sf_error *err)
{
	struct shardfuse_context_options o;
	int r = sf_public_take(from, &o, sizeof(o), err);

	if (r < 0)
		return sf_fail_ctx(err, r, "store");
	o.struct_size = sizeof(o);
	o.cache_dir = NULL;
	o.cache_size = 0;
	for (unsigned i = 0; i < STRINGS; i++) {
		const char *given = *string(&o, i);
		*string(&o, i) = given && r >= 0 ? strdup(given) : NULL;
		if (given && !*string(&o, i))
			r = -ENOMEM;
	}
	if (r < 0) {
		sf_target_store_options_release(&o);
		return sf_fail(err, r, "no memory for the store's options");
	}
	*ret = o;
	return 0;
}

void sf_target_store_options_release(struct shardfuse_context_options *o)
{
	for (unsigned i = 0; i < STRINGS; i++) {
		free((char *)(uintptr_t)*string(o, i));
		*string(o, i) = NULL;
	}
}

static bool same_text(const char *a, const char *b)
{
	return a == b || (a && b && strcmp(a, b) == 0);
}

static bool is_same(struct sf_target_store *s, const char *url, struct shardfuse_context_options *o)
{
	bool same = strcmp(s->url, url) == 0 && s->o.memory == o->memory &&
	            s->o.threads == o->threads && s->o.timeout_ms == o->timeout_ms &&
	            s->o.log == o->log && s->o.log_arg == o->log_arg &&
	            s->o.log_level == o->log_level && s->o.no_sign_request == o->no_sign_request &&
	            s->o.request_payer == o->request_payer;

	for (unsigned i = 0; i < STRINGS && same; i++)
		same = same_text(*string(&s->o, i), *string(o, i));
	return same;
}

static void write_line(void *arg, enum sf_log_level level, const char *line)
{
	const struct sf_target_store *s = arg;

	s->o.log(s->o.log_arg, (int)level, line);
}

static void store_free(struct sf_target_store *s)
{
	if (!s)
		return;
	if (s->has_up)
		sf_uploads_release(&s->up);
	sf_store_free(s->store);
	if (s->has_io)
		sf_io_release(&s->io);
	sf_target_store_options_release(&s->o);
	free(s->url);
	free(s);
}

static int open_it(struct sf_target_store *s, struct sf_error *err)
{
	const struct shardfuse_context_options *o = &s->o;
	int r = sf_io_init(&s->io, o->threads, err);

	s->has_io = r >= 0;
	if (r < 0)
		return r;
	sf_budget_set_limit(s->io.budget, o->memory ? o->memory : MEMORY_DEFAULT);
	if (o->timeout_ms)
		s->io.timeout_ms = o->timeout_ms;
	if (o->log) {
		int level = SF_MIN(SF_MAX(o->log_level, 0), (int)SF_LOG_DEBUG);
		s->log = (struct sf_log){ write_line, s, (enum sf_log_level)level };
		s->io.log = &s->log;
	}
	s->opt = (struct sf_store_options){
		.ca_bundle = o->ca_bundle,
		.endpoint_url = o->endpoint_url,
		.region = o->region,
		.profile = o->profile,
		.addressing = o->addressing,
		.no_sign_request = o->no_sign_request != 0,
		.request_payer = o->request_payer != 0,
		.user_project = o->user_project,
		.cache_size_given = true, /* 0: what is read here is read once */
	};
	r = sf_store_open(&s->io, s->url, &s->opt, &s->store, err);
	if (r < 0)
		return r;
	s->up = (struct sf_uploads){ .store = s->store,
		                     .budget = s->io.budget,
		                     .cancel = &s->stop };
	r = sf_uploads_init(&s->up, err);
	s->has_up = r >= 0;
	return r;
}

static int make(const char *url, const struct shardfuse_context_options *o,
                struct sf_target_store **ret, struct sf_error *err)
{
	struct sf_target_store *s = calloc(1, sizeof(*s));
	int r = s && (s->url = strdup(url)) ? 0 : sf_fail(err, -ENOMEM, "no memory for a store");

	if (r >= 0)
		r = sf_target_store_options_take(o, &s->o, err);
	if (r >= 0)
		r = open_it(s, err);
	if (r < 0) {
		store_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

static struct sf_target_store *find_locked(const char *url, struct shardfuse_context_options *o)
{
	struct sf_target_store *s = locked.first;

	while (s && !is_same(s, url, o))
		s = s->next;
	return s;
}

int sf_target_store_get(const char *url, const struct shardfuse_context_options *o,
                        struct sf_target_store **ret, struct sf_error *err)
{
	struct shardfuse_context_options want = *o;
	struct sf_target_store *s;
	int r = 0;

	pthread_mutex_lock(&locked.m);
	s = find_locked(url, &want);
	if (!s)
		r = make(url, o, &s, err);
	if (r >= 0 && s->refs++ == 0) {
		s->next = locked.first;
		locked.first = s;
	}
	pthread_mutex_unlock(&locked.m);
	if (r >= 0)
		*ret = s;
	return r;
}

struct sf_uploads *sf_target_store_uploads(struct sf_target_store *s)
{
	return &s->up;
}

void sf_target_store_stop(struct sf_target_store *s, bool stop)
{
	atomic_store(&s->stop, stop);
}

void sf_target_store_put(struct sf_target_store *s)
{
	struct sf_target_store **at;

	if (!s)
		return;
	pthread_mutex_lock(&locked.m);
	if (--s->refs > 0) {
		pthread_mutex_unlock(&locked.m);
		return;
	}
	for (at = &locked.first; *at != s; at = &(*at)->next)
		;
	*at = s->next;
	pthread_mutex_unlock(&locked.m);
	store_free(s);
}
