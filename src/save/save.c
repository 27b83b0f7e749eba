/* The handle of a save: begun, filled, committed. */
#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/clock.h"
#include "base/growing.h"
#include "base/map.h"
#include "base/mem.h"
#include "save/save_priv.h"

int shardfuse_save_keep_new(struct shardfuse_save_keep **ret, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse_save_keep *k = calloc(1, sizeof(*k));
	int r = k ? sf_stage_pool_new(SF_SAVE_STAGING, &k->pool, &e)
	          : sf_fail(&e, -ENOMEM, "no memory for what saves share");

	if (r < 0) {
		free(k);
		return sf_public_fail(err, &e, r);
	}
	pthread_mutex_init(&k->locked.m, NULL);
	pthread_cond_init(&k->locked.c, NULL);
	*ret = k;
	return 0;
}

void shardfuse_save_keep_free(struct shardfuse_save_keep *k)
{
	if (!k)
		return;
	sf_stage_pool_free(k->pool);
	sf_global_plan_release(&k->before.global);
	free(k->before.bits);
	pthread_mutex_destroy(&k->locked.m);
	pthread_cond_destroy(&k->locked.c);
	free(k);
}

int sf_save_keep_take(struct shardfuse_save *s, bool refuse, struct sf_error *err)
{
	struct shardfuse_save_keep *k = s->keep;
	int r = 0;

	pthread_mutex_lock(&k->locked.m);
	if (k->locked.busy && (refuse || k->locked.by_caller))
		r = -EBUSY;
	while (r == 0 && k->locked.busy)
		pthread_cond_wait(&k->locked.c, &k->locked.m);
	if (r == 0)
		k->locked.busy = true;
	pthread_mutex_unlock(&k->locked.m);
	s->holds_keep = r == 0;
	return r < 0 ? sf_fail(err, r,
	                       "another save through this keep is under way: wait for it first")
	             : 0;
}

void sf_save_keep_give(struct shardfuse_save *s)
{
	struct shardfuse_save_keep *k = s->keep;

	if (!s->holds_keep)
		return;
	if (k->before.valid) { /* rank 0's, for the next save of the same items */
		sf_global_plan_release(&k->before.global);
		k->before.global = s->global;
		s->global = (struct sf_global_plan){ .nranks = 0 };
	}
	s->holds_keep = false;
	pthread_mutex_lock(&k->locked.m);
	k->locked.busy = k->locked.by_caller = false;
	pthread_cond_signal(&k->locked.c);
	pthread_mutex_unlock(&k->locked.m);
}

/* The same on all ranks that save the same: what is left of another save in a communicator is not taken
 * for one's own. 15 bits, as MPI has them at least. */
static uint32_t first_tag(const char *target)
{
	uint64_t h = sf_fnv1a(0, target, strlen(target));

	return (uint32_t)(h ^ h >> 32) & 0x7ff0;
}

static int take_options(struct shardfuse_save *s, const struct shardfuse_save_options *given,
                        struct sf_error *err)
{
	int r = sf_public_take(given, &s->opt, sizeof(s->opt), err);

	if (r < 0)
		return r;
	if (s->opt.overwrite < SHARDFUSE_REFUSE || s->opt.overwrite > SHARDFUSE_REPLACE)
		return sf_fail(err, -EINVAL, "overwrite is %d: none of enum shardfuse_overwrite",
		               s->opt.overwrite);
	if (s->opt.dedup < SHARDFUSE_DEDUP_LOWEST || s->opt.dedup > SHARDFUSE_DEDUP_BALANCED)
		return sf_fail(err, -EINVAL, "dedup is %d: none of enum shardfuse_dedup",
		               s->opt.dedup);
	if (s->opt.files_per_rank > 1024)
		return sf_fail(err, -EINVAL, "files_per_rank is %u, 1,024 at most",
		               s->opt.files_per_rank);
	s->opt.files_per_rank = SF_MAX(s->opt.files_per_rank, 1u);
	if (!s->opt.timeout_ms)
		s->opt.timeout_ms = SF_SAVE_TIMEOUT_MS;
	if (!s->opt.write_timeout_ms)
		s->opt.write_timeout_ms = SF_SAVE_WRITE_TIMEOUT_MS;
	r = sf_save_format_find(s->opt.format, &s->format, err);
	if (r >= 0 && s->opt.zstd && strcmp(s->format->name, "dcp") != 0)
		r = sf_fail(err, -EINVAL, "zstd: items of format %s are not compressed",
		            s->format->name);
	if (r < 0 || !s->opt.format_metadata)
		return r;
	s->format_metadata = strdup(s->opt.format_metadata);
	return s->format_metadata ? 0 : sf_fail(err, -ENOMEM, "no memory for format_metadata");
}

static int take_comm(struct shardfuse_save *s, const struct shardfuse_comm *comm,
                     struct sf_error *err)
{
	if (comm) {
		int r = sf_public_take(comm, &s->comm, sizeof(s->comm), err);
		if (r < 0)
			return sf_fail_ctx(err, r, "communicator");
	} else {
		shardfuse_comm_self(&s->comm);
	}
	if (s->comm.rank >= s->comm.size || (s->comm.size > 1 && (!s->comm.send || !s->comm.recv)))
		return sf_fail(err, -EINVAL, "communicator: rank %u of %u%s", s->comm.rank,
		               s->comm.size,
		               s->comm.rank < s->comm.size ? ", send or recv is NULL" : "");
	s->comm.free = NULL; /* the caller's */
	return 0;
}

static int begin(struct shardfuse_save *s, const char *target,
                 const struct shardfuse_save_options *opt, const struct shardfuse_comm *comm,
                 struct sf_error *err)
{
	int r = take_comm(s, comm, err);

	if (r >= 0) { /* first: ranks count their saves alike, whatever else fails here */
		sf_save_tree_init(&s->tree, &s->comm, 0);
		r = take_options(s, opt, err);
	}
	if (r >= 0)
		r = sf_save_template(target, &s->opt, s->comm.rank, s->comm.size, &s->target, err);
	if (r >= 0)
		r = sf_save_target_new(s->target,
		                       &(struct sf_target_options){
					       .replace = s->opt.overwrite == SHARDFUSE_REPLACE,
					       .manifest = s->opt.manifest != 0,
					       .store = s->opt.store,
				       },
		                       &s->at, err);
	if (r >= 0)
		r = sf_save_items_init(&s->items, err);
	if (r < 0)
		return r;
	s->tree.timeout_ms = s->opt.timeout_ms;
	if (!s->comm.tag)
		s->tree.tag = first_tag(s->target);
	s->keep = s->opt.keep;
	if (!s->keep) {
		struct shardfuse_error e;
		r = shardfuse_save_keep_new(&s->keep, &e);
		s->own_keep = r >= 0;
		if (r < 0)
			return sf_fail(err, r, "%s", e.msg);
	}
	s->opt.format = NULL; /* strings of the caller's: what is needed of them was taken */
	s->opt.variable = NULL;
	s->opt.store = NULL;
	s->opt.format_metadata = s->format_metadata;
	return 0;
}

int shardfuse_save_begin(const char *target, const struct shardfuse_save_options *opt,
                         const struct shardfuse_comm *comm, struct shardfuse_save **ret,
                         struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse_save *s = calloc(1, sizeof(*s));
	int r = s ? begin(s, target, opt, comm, &e) : sf_fail(&e, -ENOMEM, "no memory for a save");

	if (r < 0) {
		shardfuse_save_free(s);
		return sf_public_fail(err, &e, r);
	}
	*ret = s;
	return 0;
}

void shardfuse_save_free(struct shardfuse_save *s)
{
	if (!s)
		return;
	if (s->request) /* its threads have all of this */
		shardfuse_save_wait(s->request, NULL);
	sf_save_forget_plan(s);
	sf_save_items_release(&s->items);
	sf_save_target_free(s->at);
	if (s->own_keep)
		shardfuse_save_keep_free(s->keep);
	free(s->format_metadata);
	free(s->target);
	free(s);
}

static int may_add(const struct shardfuse_save *s, struct sf_error *err)
{
	return s->ended ? sf_fail(err, -EINVAL, "this save was committed or aborted") : 0;
}

/* An add's end. The first that failed stays: what is committed without it would be no checkpoint of what the
 * caller has. */
static int added(struct shardfuse_save *s, int r, const struct sf_error *e,
                 struct shardfuse_error *err)
{
	if (r < 0 && !s->ended && s->failed.code >= 0)
		s->failed = (struct sf_verdict){ .code = r, .err = *e };
	return sf_public_fail(err, e, r);
}

int shardfuse_save_add_tensor(struct shardfuse_save *s, const struct shardfuse_save_tensor *t,
                              struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	int r = may_add(s, &e);

	if (r >= 0)
		r = sf_save_items_tensor(&s->items, t, &e);
	return added(s, r, &e, err);
}

int shardfuse_save_add_flat_range(struct shardfuse_save *s, const struct shardfuse_save_tensor *t,
                                  uint64_t start, uint64_t stop, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	int r = may_add(s, &e);

	if (r >= 0)
		r = sf_save_items_flat(&s->items, t, start, stop, &e);
	return added(s, r, &e, err);
}

int shardfuse_save_add_object(struct shardfuse_save *s, const struct shardfuse_save_object *given,
                              struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse_save_object o;
	int r = sf_public_take(given, &o, sizeof(o), &e);

	if (r >= 0)
		r = may_add(s, &e);
	if (r >= 0)
		r = s->format->object ? s->format->object(s, &o, &e)
		                      : sf_save_items_object(&s->items, &o, &e);
	return added(s, r, &e, err);
}

int shardfuse_save_add_json(struct shardfuse_save *s, const char *key, const char *json,
                            struct shardfuse_error *err)
{
	struct shardfuse_save_object o = SHARDFUSE_INIT(o);

	o.key = key;
	o.json = json;
	return shardfuse_save_add_object(s, &o, err);
}

int shardfuse_save_add_file(struct shardfuse_save *s, const char *name, const void *at, size_t len,
                            struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	int r = may_add(s, &e);

	if (r >= 0)
		r = sf_save_items_file(&s->items, name, at, len, &e);
	return added(s, r, &e, err);
}
