#include "config.h"

#include "base/mem.h"
#include "parse/torch_archive_priv.h"

#define DEPTH_MAX 4000 /* the pickle reader's own limit is lower */

struct walk {
	sf_torch_each_persid *each;
	void *arg;
	struct sf_error *err;
	unsigned depth;
	bool clear; /* the second time round: marks are taken off again */
};

static int visit(struct walk *w, struct sf_pv *v);

static int visit_all(struct walk *w, struct sf_pv *const *at, size_t n)
{
	int r = 0;

	for (size_t i = 0; i < n && r >= 0; i++)
		if (at[i] && at[i]->kind >= SF_PV_TUPLE)
			r = visit(w, at[i]);
	return r;
}

/* A value turned into another one is looked into no more. */
static int visit_parts(struct walk *w, struct sf_pv *v)
{
	switch (v->kind) {
	case SF_PV_CALL:
	case SF_PV_OBJECT: {
		struct sf_pv *const part[] = { v->call.callable, v->call.args,  v->call.kwargs,
			                       v->call.state,    v->call.items, v->call.appends };
		return visit_all(w, part, SF_ARRAY_LEN(part));
	}
	case SF_PV_PERSID:
		return w->clear ? 0 : w->each(w->arg, v, w->err);
	case SF_PV_GLOBAL:
		return 0;
	default:
		return visit_all(w, v->seq.at, v->seq.n);
	}
}

static int visit(struct walk *w, struct sf_pv *v)
{
	if (v->mark != w->clear)
		return 0;
	if (w->depth >= DEPTH_MAX)
		return sf_fail(w->err, -E2BIG, "values nested deeper than %d", DEPTH_MAX);
	v->mark = !w->clear;
	w->depth++;
	int r = visit_parts(w, v);
	w->depth--;
	return r;
}

int sf_torch_persids(struct sf_pv *root, sf_torch_each_persid *each, void *arg,
                     struct sf_error *err)
{
	struct walk w = { .each = each, .arg = arg, .err = err };
	int r = visit_all(&w, &root, 1);

	w.clear = true;
	visit_all(&w, &root, 1);
	return r;
}

struct sf_pv *sf_torch_new_str(struct sf_arena *a, const char *s, size_t len)
{
	struct sf_pv *v = sf_arena_calloc(a, 1, sizeof(*v));
	char *copy = v ? sf_arena_strdup(a, s, len) : NULL;

	if (!copy)
		return NULL;
	v->kind = SF_PV_STR;
	v->str.at = copy;
	v->str.len = len;
	return v;
}

struct sf_pv *sf_torch_new_int(struct sf_arena *a, int64_t i)
{
	struct sf_pv *v = sf_arena_calloc(a, 1, sizeof(*v));

	if (v) {
		v->kind = SF_PV_INT;
		v->i = i;
	}
	return v;
}

struct sf_pv *sf_torch_new_tuple(struct sf_arena *a, struct sf_pv *const *at, size_t n)
{
	struct sf_pv *v = sf_arena_calloc(a, 1, sizeof(*v));
	struct sf_pv **copy = sf_arena_calloc(a, n + 1, sizeof(*copy));

	if (!v || !copy)
		return NULL;
	v->kind = SF_PV_TUPLE;
	v->height = 1;
	v->seq.at = copy;
	v->seq.n = n;
	for (size_t i = 0; i < n; i++) {
		if (!at[i]) /* its maker had no memory */
			return NULL;
		copy[i] = at[i];
		v->height = SF_MAX(v->height, (uint16_t)(at[i]->height + 1));
	}
	return v;
}

struct sf_pv *sf_torch_new_storage_id(struct sf_arena *a, struct sf_pv *cls, const char *key,
                                      uint64_t count)
{
	struct sf_pv *part[] = { sf_torch_new_str(a, "storage", 7), cls,
		                 sf_torch_new_str(a, key, strlen(key)),
		                 sf_torch_new_str(a, "cpu", 3),
		                 sf_torch_new_int(a, (int64_t)count) };

	return sf_torch_new_tuple(a, part, SF_ARRAY_LEN(part));
}
