#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "parse/torch_subclass.h"
#include "parse/value_walk.h"

/* sf_pv.mark */
enum { OPEN = 1, BARREN }; /* being walked: it holds itself; walked, and nothing to tell in it */

static int visit(struct sf_value_walk *w, struct sf_pv *v, unsigned depth);

static int tell(struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	w->told++;
	return w->tell(w, what, v);
}

static int stop(struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	w->stop = true;
	return tell(w, what, v);
}

/* repr() of a float: the fewest digits that read back as it, an exponent from 1e16 and below 1e-4. */
static void put_float(char text[48], double f)
{
	int digits = 0, exponent;

	if (!isfinite(f)) {
		snprintf(text, 48, "%s", isnan(f) ? "nan" : f > 0 ? "inf" : "-inf");
		return;
	}
	do
		snprintf(text, 48, "%.*e", digits, f);
	while (strtod(text, NULL) != f && ++digits < 17);
	exponent = atoi(strchr(text, 'e') + 1);
	if (exponent >= -4 && exponent < 16)
		snprintf(text, 48, "%.*f", SF_MAX(digits - exponent, 1), f);
}

/* str() of a dict's key; NULL: of a kind whose text nobody would look for. */
static const char *key_text(const struct sf_pv *k, char small[48], size_t *ret_len)
{
	switch (k->kind) {
	case SF_PV_STR:
		*ret_len = k->str.len;
		return k->str.at;
	case SF_PV_NONE:
		strcpy(small, "None");
		break;
	case SF_PV_BOOL:
		strcpy(small, k->b ? "True" : "False");
		break;
	case SF_PV_INT:
		snprintf(small, 48, "%" PRId64, k->i);
		break;
	case SF_PV_FLOAT:
		put_float(small, k->f);
		break;
	default:
		return NULL;
	}
	*ret_len = strlen(small);
	return small;
}

static bool is_plain(const struct sf_value_walk *w, const struct sf_pv *v)
{
	return !w->leaves && v->kind < SF_PV_TUPLE;
}

/* One component down. */
static int below(struct sf_value_walk *w, struct sf_pv *v, enum sf_path_kind kind, const char *part,
                 size_t len, unsigned depth)
{
	size_t was = w->name.len;

	if (is_plain(w, v)) { /* most of what is in lists */
		if (++w->nodes > w->nodes_max)
			return stop(w, SF_WALK_MANY, v);
		return 0;
	}
	if (len >= w->name_max || was + 1 + len > w->name_max)
		return stop(w, SF_WALK_LONG, v);
	if (was || w->step.n)
		sf_buf_byte(&w->name, '.');
	char *to = sf_buf_extend(&w->name, len);
	if (to) /* a str of the pickle, a name of ours */
		len = sf_surrogates_to_bytes(part, len, to);
	int r = sf_buf_check(&w->name);
	if (r >= 0) {
		w->name.len = was + (was || w->step.n) + len;
		r = sf_walk_steps_push(&w->step,
		                       (struct sf_walk_step){ w->name.len, (uint32_t)len, kind });
	}
	if (r >= 0) {
		r = visit(w, v, depth);
		w->step.n--;
	}
	w->name.len = was;
	return r;
}

static int visit_list(struct sf_value_walk *w, const struct sf_pv *v, enum sf_path_kind kind,
                      unsigned depth)
{
	char text[24];
	int r = 0;

	for (size_t i = 0; i < v->seq.n && r >= 0 && !w->stop; i++) {
		int len = is_plain(w, v->seq.at[i]) ? 0 : snprintf(text, sizeof(text), "%zu", i);
		r = below(w, v->seq.at[i], kind, text, (size_t)len, depth);
	}
	return r;
}

static int visit_dict(struct sf_value_walk *w, const struct sf_pv *v, unsigned depth)
{
	char small[48];
	int r = 0;

	for (size_t i = 0; i + 1 < v->seq.n && r >= 0 && !w->stop; i += 2) {
		struct sf_pv *key = v->seq.at[i], *value = v->seq.at[i + 1];
		size_t len = 0, was = w->name.len;
		/* plain values need no name */
		const char *part = is_plain(w, value) ? "" : key_text(key, small, &len);
		if (part) {
			r = below(w, value, key->kind == SF_PV_INT ? SF_PATH_INT : SF_PATH_TEXT,
			          part, len, depth);
			continue;
		}
		sf_buf_str(&w->name, ".?");
		r = sf_buf_check(&w->name);
		if (r >= 0)
			r = tell(w, SF_WALK_ODD_KEY, value);
		w->name.len = was;
	}
	return r;
}

/* What torch's own functions make. 1: it was told; 0: no tensor, or one that wraps others: then
 * *ret_below is the dict of those. */
static int take_tensor(struct sf_value_walk *w, struct sf_pv *v, const struct sf_pv **ret_below)
{
	struct sf_torch_subclass sub;
	int r = sf_torch_tensor_from_pv(v, &w->t, NULL);

	if (r == 0 && sf_torch_subclass_from_pv(v, &sub)) {
		/* the tensors that it is made of, by its attributes; those of an attribute that is
		 * such a tensor itself below it */
		*ret_below = sub.state;
		return 0;
	}
	if (r == 0) {
		const struct sf_pv *f = v->kind == SF_PV_CALL ? v->call.callable : NULL;
		if (!f || f->kind != SF_PV_GLOBAL ||
		    strncmp(f->global.name->str.at, "_rebuild_", 9) != 0 ||
		    (!sf_pv_is_str(f->global.module, "torch._utils") &&
		     !sf_pv_is_str(f->global.module, "torch._tensor")))
			return 0;
	}
	r = tell(w, r > 0 ? SF_WALK_TENSOR : r < 0 ? SF_WALK_BAD_TENSOR : SF_WALK_ODD_TENSOR, v);
	return r < 0 ? r : 1;
}

static int visit_tuple(struct sf_value_walk *w, const struct sf_pv *v, unsigned depth)
{
	w->tuples++;
	int r = visit_list(w, v, SF_PATH_TUPLE, depth);
	w->tuples--;
	return r;
}

static int visit_tensors(struct sf_value_walk *w, struct sf_pv *v, unsigned depth)
{
	const struct sf_pv *parts = NULL;
	int r;

	switch (v->kind) {
	case SF_PV_TUPLE:
		return visit_tuple(w, v, depth + 1);
	case SF_PV_LIST:
		return visit_list(w, v, SF_PATH_LIST, depth + 1);
	case SF_PV_DICT:
		return visit_dict(w, v, depth + 1);
	case SF_PV_CALL:
	case SF_PV_OBJECT: /* OrderedDict, defaultdict, deque, and classes made from dict and list */
		r = take_tensor(w, v, &parts);
		if (r == 0 && parts)
			return visit_dict(w, parts, depth + 1);
		if (r == 0 && v->call.items)
			r = visit_dict(w, v->call.items, depth + 1);
		if (r == 0 && v->call.appends)
			r = visit_list(w, v->call.appends, SF_PATH_LIST, depth + 1);
		return SF_MIN(r, 0);
	default:
		return 0;
	}
}

/* The dict that @v is, when a path can say where its items are; NULL. */
static const struct sf_pv *dict_of(const struct sf_pv *v)
{
	if (v->kind == SF_PV_CALL &&
	    sf_pv_is_global(v->call.callable, "collections", "OrderedDict") &&
	    v->call.args->kind == SF_PV_TUPLE && v->call.args->seq.n == 0 && !v->call.appends &&
	    v->call.items)
		v = v->call.items;
	if (v->kind != SF_PV_DICT || v->seq.n == 0)
		return NULL;
	for (size_t i = 0; i < v->seq.n; i += 2)
		if (v->seq.at[i]->kind != SF_PV_STR && v->seq.at[i]->kind != SF_PV_INT)
			return NULL;
	return v;
}

static bool makes_tensor(const struct sf_pv *v)
{
	const struct sf_pv *f = v->kind == SF_PV_CALL ? v->call.callable : NULL;

	return f && f->kind == SF_PV_GLOBAL &&
	       strncmp(f->global.name->str.at, "_rebuild_", 9) == 0 &&
	       (sf_pv_is_str(f->global.module, "torch._utils") ||
	        sf_pv_is_str(f->global.module, "torch._tensor"));
}

/* A tensor in it, or below it? What is looked at is counted; where that is over, nothing is found. */
static bool has_tensor(struct sf_value_walk *w, const struct sf_pv *v, unsigned depth)
{
	const struct sf_pv *dict = dict_of(v);

	if (depth > w->depth_max || ++w->nodes > w->nodes_max)
		return false;
	if (dict)
		v = dict;
	if (v->kind != SF_PV_DICT && v->kind != SF_PV_LIST && v->kind != SF_PV_TUPLE)
		return makes_tensor(v);
	for (size_t i = 0; i < v->seq.n; i++)
		if (v->seq.at[i]->kind >= SF_PV_TUPLE && has_tensor(w, v->seq.at[i], depth + 1))
			return true;
	return false;
}

/* Is a list or tuple walked, not told? */
static bool is_walked(struct sf_value_walk *w, const struct sf_pv *v, unsigned depth)
{
	if (!w->whole || v->kind == SF_PV_TUPLE)
		return !w->whole || has_tensor(w, v, depth);
	if (depth > w->depth_max || ++w->nodes > w->nodes_max)
		return false;
	for (size_t i = 0; i < v->seq.n; i++) {
		const struct sf_pv *e = v->seq.at[i];
		if (e->kind < SF_PV_TUPLE)
			continue;
		if (e->kind == SF_PV_LIST || e->kind == SF_PV_TUPLE ? is_walked(w, e, depth + 1)
		                                                    : dict_of(e) || makes_tensor(e))
			return true;
	}
	return false;
}

static int visit_leaves(struct sf_value_walk *w, struct sf_pv *v, unsigned depth)
{
	const struct sf_pv *dict = dict_of(v), *parts = NULL;
	int r;

	if (dict)
		return visit_dict(w, dict, depth + 1);
	if (v->kind == SF_PV_LIST && v->seq.n && is_walked(w, v, depth))
		return visit_list(w, v, SF_PATH_LIST, depth + 1);
	if (v->kind == SF_PV_TUPLE && v->seq.n && is_walked(w, v, depth))
		return visit_tuple(w, v, depth + 1);
	v->mark = 0; /* it is told, and may be written: marks are the writer's, too */
	r = take_tensor(w, v, &parts);
	if (r == 0)
		r = tell(w, SF_WALK_VALUE, v);
	return SF_MIN(r, 0);
}

static int visit(struct sf_value_walk *w, struct sf_pv *v, unsigned depth)
{
	uint64_t before = w->told;
	int r;

	if (++w->nodes > w->nodes_max)
		return stop(w, SF_WALK_MANY, v);
	if (depth > w->depth_max)
		return stop(w, SF_WALK_DEEP, v);
	if (v->kind < SF_PV_TUPLE) /* atoms may be shared: no mark */
		return w->leaves ? tell(w, SF_WALK_VALUE, v) : 0;
	if (v->mark == OPEN && w->leaves)
		return tell(w, SF_WALK_CYCLE, v);
	if (v->mark)
		return 0; /* what holds itself has its tensors under the shorter names */
	v->mark = OPEN;
	r = w->leaves ? visit_leaves(w, v, depth) : visit_tensors(w, v, depth);
	v->mark = before == w->told && !w->leaves ? BARREN : 0;
	return r;
}

int sf_value_walk(struct sf_value_walk *w, struct sf_pv *root)
{
	w->step.n = 0;
	w->tuples = 0;
	return visit(w, root, 0);
}

void sf_value_walk_release(struct sf_value_walk *w)
{
	sf_buf_release(&w->name);
	sf_walk_steps_release(&w->step);
	sf_walk_path_release(&w->path);
}

const struct sf_path_elem *sf_value_walk_path(struct sf_value_walk *w, size_t *ret_n)
{
	if (sf_walk_path_reserve(&w->path, w->step.n + 1) < 0)
		return NULL;
	for (size_t i = 0; i < w->step.n; i++) {
		const struct sf_walk_step *s = &w->step.at[i];
		w->path.at[i] =
			(struct sf_path_elem){ .s = (const char *)w->name.at + s->name - s->len,
			                       .len = s->len,
			                       .kind = s->kind };
	}
	*ret_n = w->step.n;
	return w->path.at;
}
