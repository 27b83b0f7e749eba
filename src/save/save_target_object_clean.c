/* What lies below a target in a bucket: looked at before a save, removed after it. */
#include "config.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "save/save_target_object_priv.h"
#include "store/source.h"

int sf_object_names_add(struct sf_object_names *names, const char *name)
{
	char *copy = strdup(name);

	if (!copy || sf_object_names_push(names, copy) < 0) {
		free(copy);
		return -ENOMEM;
	}
	return 0;
}

void sf_object_names_free(struct sf_object_names *names)
{
	for (size_t i = 0; i < names->n; i++)
		free(names->at[i]);
	sf_object_names_release(names);
}

int sf_object_remove(struct sf_target_object *t, const struct sf_object_names *names, size_t first,
                     struct sf_error *err)
{
	const char *const *at = (const char *const *)names->at;
	int r = first ? sf_upload_remove(t->up, at, first, err) : 0;

	return r >= 0 && first < names->n
	               ? sf_upload_remove(t->up, at + first, names->n - first, err)
	               : r;
}

/* Of a prefix with nothing below it some servers say that it is not there. */
static int list(struct sf_target_object *t, int (*each)(void *arg, const struct sf_objinfo *info),
                void *arg, struct sf_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	int r = t->up->store->ops->list(t->up->store, "", UINT_MAX, each, arg, &e);

	return r == -ENOENT ? 0 : r < 0 ? sf_fail(err, r, "%s", e.msg) : 0;
}

/* ---- before ---- */

struct looked {
	struct sf_target_object *t;
	const struct sf_object_marker *m;
	struct sf_object_names *left;
	size_t first;    /* of left: what tells */
	bool meta, last; /* are there */
	struct sf_error *err;
};

static int refuse(const struct looked *l, const char *name)
{
	struct sf_buf b = { .limit = 300 };
	int r;

	sf_escape_text(&b, name, strnlen(name, 250));
	r = sf_fail(l->err, -EEXIST, "'%s' is there and not empty: '%s' is in it", l->t->shown,
	            sf_buf_cstr(&b));
	sf_buf_release(&b);
	return r;
}

static int note_left(struct looked *l, const char *name, bool tells)
{
	struct sf_object_names *v = l->left;
	char *other;

	if (sf_object_names_add(v, name) < 0)
		return sf_fail(l->err, -ENOMEM, "no memory for what is there");
	if (tells) {
		other = v->at[l->first];
		v->at[l->first++] = v->at[v->n - 1];
		v->at[v->n - 1] = other;
	}
	return 0;
}

static int look_at(void *arg, const struct sf_objinfo *info)
{
	struct looked *l = arg;
	char tag[SF_SHARD_TAG_MAX];
	enum sf_object_kind kind = sf_object_kind(l->m, info->name, tag);

	if (info->size == UINT64_MAX) /* a directory: what is in it comes too */
		return 0;
	l->meta |= kind == SF_OBJECT_META;
	l->last |= kind == SF_OBJECT_LAST;
	switch (kind) {
	case SF_OBJECT_SHARD: /* without a marker nobody knows whose; another save may have begun since */
		return l->m->ours || l->t->mine.ours ? 0 : refuse(l, info->name);
	case SF_OBJECT_MARK:
		return l->m->ours || l->t->mine.ours ? 0 : refuse(l, info->name);
	case SF_OBJECT_OTHER:
		return refuse(l, info->name);
	default:
		return note_left(l, info->name, kind != SF_OBJECT_LEFT);
	}
}

int sf_object_look(struct sf_target_object *t, const struct sf_object_marker *m,
                   struct sf_object_names *ret_left, size_t *ret_first, struct sf_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct looked l = { .t = t, .m = m, .left = ret_left, .err = &e };
	int r = t->up->store->ops->list(t->up->store, "", UINT_MAX, look_at, &l, &e);

	*ret_first = l.first;
	if (r == -ENOENT) /* nothing below it: some servers say so */
		return 0;
	if (r < 0)
		return sf_fail(err, r, "%s", e.msg);
	return l.last && (l.meta || sf_object_is_alone(m))
	               ? sf_fail(err, -EEXIST, "'%s' is there: a checkpoint", t->shown)
	               : 0;
}

/* ---- after ---- */

struct cleaned {
	const struct sf_target_object *t;
	bool own;          /* this save's shards; else those of all others */
	bool named;        /* what has no tag, too */
	bool others_below; /* somebody saves to BELOW, or has: what is there is not of this target */
	struct sf_object_names names;
};
#define BELOW "model_and_optim/" /* where one of the formats has its shards */

static bool goes(const struct cleaned *c, const char *name)
{
	char tag[SF_SHARD_TAG_MAX];

	switch (sf_object_kind(&c->t->mine, name, tag)) {
	case SF_OBJECT_SHARD:
		return (strcmp(tag, c->t->base.tag) == 0) == c->own &&
		       (c->own || !c->others_below || strncmp(name, BELOW, strlen(BELOW)) != 0);
	case SF_OBJECT_LEFT:
		return c->named;
	default: /* also what tells: it may be another save's */
		return false;
	}
}

static int take_name(void *arg, const struct sf_objinfo *info)
{
	struct cleaned *c = arg;

	c->others_below |= strcmp(info->name, BELOW SF_OBJECT_MARKER) == 0 ||
	                   (!*c->t->mine.dir && strcmp(info->name, BELOW ".metadata") == 0);
	return info->size != UINT64_MAX && goes(c, info->name)
	               ? sf_object_names_add(&c->names, info->name)
	               : 0;
}

/* Now that all of the listing was seen. */
static void keep_if(struct sf_object_names *names, const struct cleaned *c)
{
	size_t n = 0;

	for (size_t i = 0; i < names->n; i++)
		if (goes(c, names->at[i]))
			names->at[n++] = names->at[i];
		else
			free(names->at[i]);
	names->n = n;
}

static bool is_unfinished(void *arg, const char *name)
{
	const struct cleaned *c = arg;

	/* when the save is whole nobody's are wanted any more */
	return goes(c, name) || ((c->named || !c->own) && sf_object_is_formats(name));
}

/* Nothing depends on it: what stays, the next save removes. */
static int clean(struct sf_target_object *t, bool own, bool named)
{
	struct cleaned c = { .t = t, .own = own, .named = named };
	int r = list(t, take_name, &c, NULL), unfinished;

	keep_if(&c.names, &c);
	if (r >= 0)
		r = sf_object_remove(t, &c.names, 0, NULL);
	unfinished = sf_upload_sweep(t->up, "", is_unfinished, &c, NULL);
	sf_object_names_free(&c.names);
	return r < 0 ? r : unfinished;
}

static void remove_marker(struct sf_target_object *t)
{
	static const char *const marker[] = { SF_OBJECT_MARKER };

	(void)sf_upload_remove(t->up, marker, 1, NULL);
}

void sf_object_settle(struct sf_target_object *t)
{
	/* else there is a save that has begun since, and may have won where conditions are ignored */
	if (sf_object_marker_is_mine(t, NULL) == 1 && clean(t, false, false) >= 0)
		remove_marker(t);
}

int sf_object_is_my_metadata(struct sf_target_object *t)
{
	struct sf_source *src;
	uint8_t *at = NULL;
	uint64_t len = 0;
	int r = t->up->store->ops->open(t->up->store, t->meta, NULL, &src, NULL);

	if (r < 0)
		return r == -ENOENT ? 0 : r;
	if (src->size == t->meta_size)
		r = sf_source_read_all(src, t->meta_size, SF_FETCH_METADATA, &at, &len, NULL);
	sf_source_unref(src);
	if (r >= 0)
		r = at && memmem(at, len, t->base.tag, strlen(t->base.tag)) != NULL;
	free(at);
	return r;
}

/* What tells goes first. -ENOTSUP: it may be there, and so all stays. */
static int remove_what_tells(struct sf_target_object *t)
{
	const char *tells[] = { t->mine.last, t->meta };
	bool two = !sf_object_is_alone(&t->mine);
	int r = t->committed ? 1 : t->maybe ? sf_object_is_my_metadata(t) : 0;

	if (r == 0 && t->maybe)
		return -EAGAIN; /* the server may still come to it */
	if (r > 0 && two)
		r = sf_upload_remove(t->up, &tells[0], 1, NULL);
	else if (r == 0)
		return 0;
	return r < 0 ? r : sf_upload_remove(t->up, &tells[1], 1, NULL);
}

void sf_object_drop(struct sf_target_object *t)
{
	int mine = sf_object_marker_is_mine(t, NULL);

	/* another's: what is there under names without a tag is that one's */
	if (mine < 0 || (mine == 0 && (t->committed || t->maybe)) ||
	    (mine > 0 && remove_what_tells(t) < 0))
		return;
	if (clean(t, true, mine > 0) >= 0 && mine > 0)
		remove_marker(t);
}
