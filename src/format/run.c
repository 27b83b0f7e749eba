#include "config.h"

#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/json.h"
#include "base/map.h"
#include "base/mem.h"
#include "format/format_dir.h"
#include "format/run.h"
#include "format/run_dir.h"
#include "format/run_look.h"
#include "store/fetch_many.h"

struct step {
	struct sf_run_step s;
	bool failed;  /* not what its names say, but what a load said */
	bool watched; /* loaded: looked at although it is complete */
	bool seen;    /* by the look under way */
	char *why;    /* it is incomplete; NULL: it is not, or there was no memory */
	char *marks;  /* the name of its .metadata.json; NULL: it has none */
};

struct sf_run {
	struct sf_store *store;
	const char *format;
	unsigned refresh_ms;
	struct {
		pthread_mutex_t m;
		struct step **at; /* never moved */
		size_t n, cap;
		struct sf_map names;
		char *tracked; /* a name, or the number in one */
		bool looking;
		int64_t looked_ms;
	} locked;
};

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct sf_run *run = arg;
	const char *name = run->locked.at[value]->s.name;

	return strlen(name) == len && memcmp(name, key, len) == 0;
}

static struct step *find_locked(struct sf_run *run, const char *name, size_t len, uint32_t *ret)
{
	uint32_t i = run->locked.n ? sf_map_get(&run->locked.names, name, len, same_name, run)
	                           : SF_MAP_NONE;

	if (ret)
		*ret = i;
	return i == SF_MAP_NONE ? NULL : run->locked.at[i];
}

static void step_free(struct step *s)
{
	if (!s)
		return;
	free((char *)(uintptr_t)s->s.name);
	free(s->why);
	free(s->marks);
	free(s);
}

/* A new one, not seen yet to be anything. */
static int add_locked(struct sf_run *run, const char *name)
{
	struct step *s = calloc(1, sizeof(*s));
	int failed = 0;

	if (s)
		s->s = (struct sf_run_step){ .name = strdup(name),
			                     .number = sf_run_dir_step(name, strlen(name)),
			                     .state = SF_RUN_INCOMPLETE };
	if (!s || !s->s.name ||
	    (run->locked.n == run->locked.cap &&
	     sf_vec_grow((void **)&run->locked.at, &run->locked.cap, run->locked.n + 1,
	                 sizeof(*run->locked.at)) < 0)) {
		step_free(s);
		return -ENOMEM;
	}
	run->locked.at[run->locked.n++] = s;
	sf_map_add(&run->locked.names, s->s.name, strlen(name), (uint32_t)(run->locked.n - 1),
	           same_name, run, &failed);
	if (failed) {
		run->locked.n--;
		step_free(s);
	}
	return failed;
}

/* ---- a look: run_look.c asks the store, this keeps what it finds ---- */

bool sf_run_look_wanted(struct sf_run *run, const char *name)
{
	const struct step *s;
	bool wanted;

	pthread_mutex_lock(&run->locked.m);
	s = find_locked(run, name, strlen(name), NULL);
	wanted = !s || s->s.state != SF_RUN_COMPLETE || (s->watched && !run->store->far);
	pthread_mutex_unlock(&run->locked.m);
	return wanted;
}

int sf_run_look_seen(struct sf_run *run, const char *name)
{
	struct step *s;
	int r = 0;

	pthread_mutex_lock(&run->locked.m);
	s = find_locked(run, name, strlen(name), NULL);
	if (!s) {
		r = add_locked(run, name);
		s = r < 0 ? NULL : run->locked.at[run->locked.n - 1];
	}
	if (s)
		s->seen = true;
	pthread_mutex_unlock(&run->locked.m);
	return r;
}

void sf_run_look_judged(struct sf_run *run, const char *name, const struct sf_run_judged *j)
{
	struct step *s;

	pthread_mutex_lock(&run->locked.m);
	s = find_locked(run, name, strlen(name), NULL);
	/* what a load said of these very files holds */
	if (s && !(s->failed && s->s.state == SF_RUN_INCOMPLETE && s->s.version == j->version)) {
		s->failed = false;
		s->s.state = j->code < 0 ? SF_RUN_INCOMPLETE : SF_RUN_COMPLETE;
		free(s->why);
		s->why = j->code < 0 ? strdup(j->why.msg) : NULL;
		s->s.version = j->version;
		s->s.mtime_ns = j->mtime_ns;
		free(s->marks);
		s->marks = j->marks ? strdup(j->marks) : NULL;
	}
	pthread_mutex_unlock(&run->locked.m);
}

int sf_run_refresh(struct sf_run *run, struct sf_error *err)
{
	char *tracked = NULL;
	bool other;
	int r;

	pthread_mutex_lock(&run->locked.m);
	other = run->locked.looking;
	run->locked.looking = true;
	for (size_t i = 0; i < run->locked.n && !other; i++)
		run->locked.at[i]->seen = false;
	pthread_mutex_unlock(&run->locked.m);
	if (other)
		return 0;
	r = sf_run_look(run, run->store, run->format, &tracked, err);
	pthread_mutex_lock(&run->locked.m);
	run->locked.looking = false;
	run->locked.looked_ms = sf_now_ms();
	for (size_t i = 0; i < run->locked.n && r >= 0; i++)
		if (!run->locked.at[i]->seen)
			run->locked.at[i]->s.state = SF_RUN_GONE;
	if (r >= 0) {
		free(run->locked.tracked);
		run->locked.tracked = SF_STEAL(tracked);
	}
	pthread_mutex_unlock(&run->locked.m);
	free(tracked);
	return r;
}

bool sf_run_is_due(struct sf_run *run)
{
	bool due;

	if (!run->refresh_ms)
		return false;
	pthread_mutex_lock(&run->locked.m);
	due = !run->locked.looking && sf_now_ms() - run->locked.looked_ms >= run->refresh_ms;
	pthread_mutex_unlock(&run->locked.m);
	return due;
}

int sf_run_new(struct sf_store *store, const char *source_format, unsigned refresh_ms,
               struct sf_run **ret, struct sf_error *err)
{
	struct sf_run *run = calloc(1, sizeof(*run));
	int r;

	if (!run)
		return sf_fail(err, -ENOMEM, "'%s': no memory for a run", store->source);
	run->store = store;
	run->format = source_format;
	run->refresh_ms = refresh_ms;
	pthread_mutex_init(&run->locked.m, NULL);
	r = sf_run_refresh(run, err);
	if (r < 0) {
		sf_run_free(run);
		return r;
	}
	*ret = run;
	return 0;
}

void sf_run_free(struct sf_run *run)
{
	if (!run)
		return;
	for (size_t i = 0; i < run->locked.n; i++)
		step_free(run->locked.at[i]);
	free(run->locked.at);
	free(run->locked.tracked);
	sf_map_release(&run->locked.names);
	pthread_mutex_destroy(&run->locked.m);
	free(run);
}

const struct sf_store *sf_run_store(const struct sf_run *run)
{
	return run->store;
}

/* ---- what is known ---- */

uint32_t sf_run_nsteps(struct sf_run *run)
{
	uint32_t n;

	pthread_mutex_lock(&run->locked.m);
	n = (uint32_t)run->locked.n;
	pthread_mutex_unlock(&run->locked.m);
	return n;
}

void sf_run_step(struct sf_run *run, uint32_t step, struct sf_run_step *ret)
{
	pthread_mutex_lock(&run->locked.m);
	*ret = run->locked.at[step]->s;
	pthread_mutex_unlock(&run->locked.m);
}

void sf_run_why(struct sf_run *run, uint32_t step, struct sf_error *ret)
{
	const char *why;

	pthread_mutex_lock(&run->locked.m);
	why = run->locked.at[step]->why;
	snprintf(ret->msg, sizeof(ret->msg), "%s", why ? why : "");
	pthread_mutex_unlock(&run->locked.m);
}

int sf_run_find(struct sf_run *run, const char *name, size_t len, uint32_t *ret)
{
	const struct step *s;
	uint32_t i;

	pthread_mutex_lock(&run->locked.m);
	s = find_locked(run, name, len, &i);
	if (s && s->s.state != SF_RUN_COMPLETE)
		s = NULL;
	pthread_mutex_unlock(&run->locked.m);
	if (s)
		*ret = i;
	return s ? 0 : -ENOENT;
}

const char *sf_run_next(struct sf_run *run, uint32_t from, uint32_t *ret)
{
	const char *name = NULL;

	pthread_mutex_lock(&run->locked.m);
	for (size_t i = from; i < run->locked.n && !name; i++)
		if (run->locked.at[i]->s.state == SF_RUN_COMPLETE) {
			name = run->locked.at[i]->s.name;
			*ret = (uint32_t)i;
		}
	pthread_mutex_unlock(&run->locked.m);
	return name;
}

/* Is it what the trainer's file says: its name, or the number in it? */
static bool is_tracked(const struct sf_run_step *s, const char *tracked)
{
	char *end;
	long long number;

	if (!tracked)
		return false;
	if (strcmp(s->name, tracked) == 0)
		return true;
	number = strtoll(tracked, &end, 10);
	return *tracked >= '0' && *tracked <= '9' && !*end && s->number == number;
}

/* By number, those without one first; then by name. */
static bool is_newer(const struct sf_run_step *a, const struct sf_run_step *b)
{
	return a->number != b->number ? a->number > b->number
	                              : sf_run_dir_compare(&a->name, &b->name) > 0;
}

int sf_run_latest(struct sf_run *run, uint32_t *ret)
{
	const struct sf_run_step *best = NULL;
	bool tracked = false;

	pthread_mutex_lock(&run->locked.m);
	for (size_t i = 0; i < run->locked.n && !tracked; i++) {
		const struct sf_run_step *s = &run->locked.at[i]->s;
		if (s->state != SF_RUN_COMPLETE)
			continue;
		tracked = is_tracked(s, run->locked.tracked);
		if (!best || tracked || is_newer(s, best)) {
			best = s;
			*ret = (uint32_t)i;
		}
	}
	/* those that make up a step came together */
	if (best && sf_run_dir_is_part(best->name))
		best = NULL;
	pthread_mutex_unlock(&run->locked.m);
	return best ? 0 : -ENOENT;
}

int64_t sf_run_mtime(struct sf_run *run)
{
	int64_t newest = 0;

	pthread_mutex_lock(&run->locked.m);
	for (size_t i = 0; i < run->locked.n; i++)
		if (run->locked.at[i]->s.state == SF_RUN_COMPLETE)
			newest = SF_MAX(newest, run->locked.at[i]->s.mtime_ns);
	pthread_mutex_unlock(&run->locked.m);
	return newest;
}

void sf_run_fail(struct sf_run *run, uint32_t step, const struct sf_error *why)
{
	struct step *s;

	pthread_mutex_lock(&run->locked.m);
	s = run->locked.at[step];
	if (s->s.state == SF_RUN_COMPLETE) {
		s->s.state = SF_RUN_INCOMPLETE;
		s->failed = true;
		free(s->why);
		s->why = strdup(why->msg);
	}
	pthread_mutex_unlock(&run->locked.m);
}

void sf_run_watch(struct sf_run *run, uint32_t step, bool watch)
{
	pthread_mutex_lock(&run->locked.m);
	run->locked.at[step]->watched = watch;
	pthread_mutex_unlock(&run->locked.m);
}

/* ---- marks ---- */

#define MARKS_MAX 65536 /* bytes of a .metadata.json: OLMo-core's has 40 */
#define MARKS_AT_ONCE 256

/* Source: allenai/OLMo-core train/checkpoint.py (CheckpointMetadata), 2.0 to 3.0: "ephemeral" may be
 * missing or null. */
static enum sf_run_mark parse_mark(const char *text, size_t len)
{
	enum sf_run_mark mark = SF_RUN_UNMARKED;
	struct sf_json *json = NULL;
	bool ephemeral = false;

	if (sf_json_parse(text, len, &json, NULL) < 0)
		return mark;
	sf_json_is_bool(sf_json_get(sf_json_root(json), "ephemeral"), &ephemeral);
	mark = ephemeral ? SF_RUN_EPHEMERAL : SF_RUN_PERMANENT;
	sf_json_free(json);
	return mark;
}

static void take_marks(struct sf_run *run, struct sf_fetch_one *at, size_t n, const uint32_t *step)
{
	for (size_t i = 0; i < n; i++) {
		SF_FREE uint8_t *text = NULL;
		enum sf_run_mark mark = SF_RUN_UNMARKED;
		uint64_t len;
		if (at[i].r >= 0 && sf_source_read_all(at[i].src, MARKS_MAX, SF_FETCH_METADATA,
		                                       &text, &len, NULL) >= 0)
			mark = parse_mark((const char *)text, (size_t)len);
		pthread_mutex_lock(&run->locked.m);
		run->locked.at[step[i]]->s.mark = mark;
		pthread_mutex_unlock(&run->locked.m);
	}
}

int sf_run_read_marks(struct sf_run *run, struct sf_error *err)
{
	uint32_t n = sf_run_nsteps(run), k = 0, step[MARKS_AT_ONCE];
	SF_FREE struct sf_fetch_one *at = calloc(MARKS_AT_ONCE, sizeof(*at));
	SF_FREE char **names = calloc(MARKS_AT_ONCE, sizeof(*names));

	if (!at || !names)
		return sf_fail(err, -ENOMEM, "no memory for the marks of %u steps", n);
	for (uint32_t i = 0; i < n || k; i++) {
		if (i < n) {
			pthread_mutex_lock(&run->locked.m);
			const struct step *s = run->locked.at[i];
			if (s->marks && s->s.state != SF_RUN_GONE && (names[k] = strdup(s->marks)))
				step[k++] = i;
			pthread_mutex_unlock(&run->locked.m);
		}
		if (!k || (k < MARKS_AT_ONCE && i + 1 < n))
			continue;
		for (uint32_t j = 0; j < k; j++)
			at[j] = (struct sf_fetch_one){ .name = names[j], .len = MARKS_MAX };
		sf_fetch_many(run->store, at, k, SF_FETCH_METADATA);
		take_marks(run, at, k, step);
		sf_fetch_many_release(at, k);
		while (k)
			free(names[--k]);
	}
	return 0;
}
