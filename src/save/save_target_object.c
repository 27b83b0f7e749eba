#include "config.h"

#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "save/save_target_object_priv.h"
#include "store/url.h"

static struct sf_target_object *object_of(struct sf_save_target *t)
{
	return (struct sf_target_object *)t;
}

static int open_store(struct sf_target_object *t, struct sf_error *err)
{
	struct sf_target_store *shared;
	int r;

	if (t->up)
		return 0;
	r = sf_target_store_get(t->url, &t->o, &shared, err);
	if (r < 0)
		return r;
	t->up = sf_target_store_uploads(shared);
	atomic_store(&t->shared, shared);
	return 0;
}

static void object_cancel(struct sf_save_target *base)
{
	struct sf_target_store *shared = atomic_load(&object_of(base)->shared);

	if (shared)
		sf_target_store_stop(shared, true);
}

static void take_token(struct sf_target_object *t, const char *token)
{
	memcpy(t->token, token, sizeof(t->token));
	sf_shard_tag(t->base.tag, token);
}

/*
 * What is below the prefix goes, if a killed save left it. Looked at before the marker is put, which tells others
 * of it; and after: a save that was thought dead may have ended meanwhile, and one that has not yet sees the
 * marker before it does.
 */
static int take_over(struct sf_target_object *t, const struct sf_target_files *files,
                     const char *token, bool *ret_left, struct sf_error *err)
{
	struct sf_object_names left = { 0 };
	struct sf_object_marker was = { 0 };
	size_t first = 0;
	int r = sf_object_marker_read(t, &was, err);

	if (r >= 0)
		r = sf_object_look(t, &was, &left, &first, err);
	if (r >= 0)
		r = sf_object_marker_make(&t->mine, token, files, &left, err);
	if (r >= 0)
		r = sf_object_marker_put(t, err);
	*ret_left = left.n > 0;
	if (r >= 0) {
		sf_object_names_free(&left);
		left = (struct sf_object_names){ 0 };
		r = sf_object_look(t, &was, &left, &first, err);
		*ret_left = *ret_left || r < 0;
	}
	if (r >= 0)
		r = sf_object_remove(t, &left, first, err);
	sf_object_names_free(&left);
	sf_object_marker_release(&was);
	return r;
}

static int object_claim(struct sf_save_target *base, const struct sf_target_files *files,
                        bool replace, char token[33], struct sf_error *err)
{
	struct sf_target_object *t = object_of(base);
	bool left = false;
	char mine[33];
	int r;

	(void)replace; /* refused when it was made */
	sf_save_target_token(mine);
	take_token(t, mine);
	r = open_store(t, err);
	if (r >= 0 && t->shared)
		sf_target_store_stop(t->shared, false); /* a save before was cancelled, maybe */
	if (r >= 0)
		r = take_over(t, files, mine, &left, err);
	t->base.owns = r >= 0;
	/* as long as there is anything of a killed save, a marker says so */
	if (r < 0 && t->mine.ours && !left)
		sf_object_drop(t);
	if (r >= 0)
		memcpy(token, mine, sizeof(mine));
	return r;
}

static int object_join(struct sf_save_target *base, const char *token, bool replace,
                       bool lowest_of_host, unsigned visible_ms, struct sf_error *err)
{
	struct sf_target_object *t = object_of(base);

	(void)replace, (void)lowest_of_host, (void)visible_ms;
	if (strlen(token) != sizeof(t->token) - 1)
		return sf_fail(err, -EBADMSG, "'%s': a token of %zu digits", t->shown,
		               strlen(token));
	take_token(t, token);
	return open_store(t, err);
}

/* Another that took this save for dead just then has undone .metadata, where that is not the last. */
static int object_publish(struct sf_save_target *base, bool sync, struct sf_error *err)
{
	struct sf_target_object *t = object_of(base);
	int r;

	(void)sync;
	if (!base->owns || sf_object_is_alone(&t->mine))
		return 0;
	r = sf_object_marker_is_mine(t, err);
	return r ? SF_MIN(r, 0)
	         : sf_fail(err, -ESTALE, "'%s': another save of it has begun: this one ends",
	                   t->shown);
}

static void object_settle(struct sf_save_target *base)
{
	struct sf_target_object *t = object_of(base);

	if (base->owns)
		sf_object_settle(t);
	base->owns = false;
}

static void object_drop(struct sf_save_target *base)
{
	struct sf_target_object *t = object_of(base);

	if (base->owns && t->shared)
		sf_target_store_stop(t->shared, false); /* what goes is asked for */
	if (base->owns)
		sf_object_drop(t);
	base->owns = false;
}

static void object_free(struct sf_save_target *base)
{
	struct sf_target_object *t = object_of(base);

	sf_target_store_put(t->shared);
	sf_object_marker_release(&t->mine);
	sf_target_store_options_release(&t->o);
	free(t->meta);
	free(t->shown);
	free(t->url);
	free(t);
}

static const struct sf_save_target_ops ops = {
	.claim = object_claim,
	.join = object_join,
	.open = sf_object_open,
	.put = sf_object_put,
	.publish = object_publish,
	.settle = object_settle,
	.drop = object_drop,
	.cancel = object_cancel,
	.free = object_free,
};

static int check_url(const char *url, const struct sf_target_options *o, char **ret_shown,
                     struct sf_error *err)
{
	struct sf_url u = { 0 };
	int r = sf_url_parse(url, &u, err);

	if (r < 0)
		return r;
	if (strcmp(u.scheme, "s3") != 0 && strcmp(u.scheme, "gs") != 0)
		r = sf_fail(err, -ENOTSUP, "'%s': a save goes to a directory, s3:// or gs://",
		            u.shown);
	else if (o->replace)
		r = sf_fail(err, -ENOTSUP,
		            "'%s': what is in a bucket is not replaced: there it cannot be done in "
		            "one step. Remove it, or save under another name",
		            u.shown);
	else if (o->manifest)
		r = sf_fail(err, -ENOTSUP,
		            "'%s': a manifest is of files that can be read back while they are "
		            "written: not in a bucket",
		            u.shown);
	if (r >= 0)
		*ret_shown = SF_STEAL(u.shown);
	sf_url_release(&u);
	return r;
}

int sf_save_target_object(const char *url, const struct sf_target_options *o,
                          struct sf_save_target **ret, struct sf_error *err)
{
	struct sf_target_object *t = calloc(1, sizeof(*t));
	int r = t ? check_url(url, o, &t->shown, err) : sf_fail(err, -ENOMEM, "the target");

	if (r >= 0)
		r = sf_target_store_options_take(o->store, &t->o, err);
	if (r >= 0 && !(t->url = strdup(url)))
		r = sf_fail(err, -ENOMEM, "the target '%s'", t->shown);
	if (r < 0) {
		if (t)
			object_free(&t->base);
		return r;
	}
	t->base.ops = &ops;
	*ret = &t->base;
	return 0;
}

int sf_save_target_object_in(struct sf_uploads *up, struct sf_save_target **ret,
                             struct sf_error *err)
{
	struct sf_target_object *t = calloc(1, sizeof(*t));

	if (!t || !(t->shown = strdup(up->store->source))) {
		free(t);
		return sf_fail(err, -ENOMEM, "the target '%s'", up->store->source);
	}
	t->base.ops = &ops;
	t->up = up;
	*ret = &t->base;
	return 0;
}
