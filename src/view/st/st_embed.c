#include "config.h"

#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "base/log_limit.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "parse/torch_subclass.h"
#include "value/object.h"
#include "view/st/st_embed.h"

/* sf_pv.mark */
enum { OPEN = 1, BARREN }; /* being walked: it holds itself; walked, and nothing to tell in it */

#define INSTANCE "an instance of a tensor subclass: the tensors inside are here"

struct walk {
	struct sf_st_embed *em;
	const struct sf_catalog *c;
	struct sf_reader *r;
	const struct sf_selection *sel;
	const uint32_t *kept;
	uint32_t nkept;
	struct sf_st_skipped *skipped;
	struct sf_map names; /* in the file: kept[], then inner[] */
	uint64_t nodes_all;
	uint32_t at; /* position of the selection */
	/* the object being walked */
	const struct sf_object_value *v;
	uint32_t object;
	struct sf_buf name; /* of the value being looked at, the group's part in front too … */
	size_t strip;       /* … which has this many bytes */
	uint64_t nodes;
	unsigned tuples; /* open ones */
	uint64_t told;   /* skipped in all objects */
	bool whole;      /* the object itself is a tensor that the file has */
	bool stop;       /* a limit: the rest of it is left out */
};

bool sf_st_embeds(const struct sf_catalog *c, const struct sf_selection *sel)
{
	if (sel->names || c->opt->objects == SF_OBJECTS_NONE)
		return false;
	for (uint32_t pos = 0; pos < sel->n; pos++)
		if (c->entry[sel->entry[pos]].tensor == SF_NONE)
			return true;
	return false;
}

void sf_st_embed_release(struct sf_st_embed *em)
{
	sf_st_inners_release(&em->inner);
	sf_st_dims_release(&em->shape);
	sf_buf_release(&em->text);
}

static void skip(struct walk *w, const char *why)
{
	sf_st_skip(w->skipped, (const char *)w->name.at + w->strip, w->name.len - w->strip, why);
	w->told++;
}

/* Says it of the whole object. */
static int stop(struct walk *w, const char *why)
{
	sf_st_skip_at(w->skipped, w->c, w->sel, w->at, why);
	w->told++;
	w->stop = true;
	return 0;
}

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct walk *w = arg;
	const char *name;
	size_t name_len;

	if (value < w->nkept) {
		name = sf_st_name(w->c, w->sel, w->kept[value], &name_len);
	} else {
		name = sf_st_inner_name(w->em, value - w->nkept);
		name_len = w->em->inner.at[value - w->nkept].name_len;
	}
	return name_len == len && memcmp(name, key, len) == 0;
}

static bool contiguous(const struct sf_torch_tensor *t)
{
	uint64_t step = 1;

	for (unsigned d = 0; d < t->ndim; d++)
		if (t->shape[d] == 0) /* of no elements: however it strides */
			return true;
	for (unsigned d = t->ndim; d-- > 0;) {
		if (t->shape[d] == 1)
			continue;
		if ((uint64_t)t->stride[d] != step)
			return false;
		step *= t->shape[d]; /* the product of all is checked by whoever made @t */
	}
	return true;
}

/* The elements as readers count them, from the left: they refuse a file where that overflows, also
 * on the way to zero. */
static bool count(const struct sf_torch_tensor *t, uint64_t *ret)
{
	*ret = 1;
	for (unsigned d = 0; d < t->ndim; d++)
		if (!sf_mul(*ret, t->shape[d], ret) || *ret > UINT64_MAX / 2)
			return false;
	return true;
}

/* Where @t's bytes are in the item; NULL, or why they are not. */
static const char *place(const struct walk *w, const struct sf_torch_tensor *t,
                         struct sf_st_inner *in)
{
	const unsigned bytes = sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	const struct sf_object_storage *s;
	uint64_t numel, end;

	if (t->conj || t->neg)
		return "its bytes are not its values: conjugated or negated";
	if (!contiguous(t))
		return "not contiguous";
	if (!count(t, &numel) || !sf_mul(numel, bytes, &in->len))
		return "its size overflows";
	if (in->len == 0)
		return NULL;
	s = sf_object_storage_find(w->v, t->storage_key->str.at, t->storage_key->str.len);
	if (!s)
		return "its archive has no such storage";
	if (!sf_mul(t->storage_off, bytes, &in->off) || !sf_add(in->off, in->len, &end) ||
	    end > s->len)
		return "it reaches past its storage";
	in->off += s->off;
	return NULL;
}

/* Is @v a tensor? 1 and it is noted, or skipped with why; 0 it is none, or one that wraps others:
 * then *ret_below is the dict of those. */
static int take_tensor(struct walk *w, const struct sf_pv *v, const struct sf_pv **ret_below)
{
	const char *name = (const char *)w->name.at + w->strip, *why;
	size_t name_len = w->name.len - w->strip;
	struct sf_st_inner in = { .object = w->object,
		                  .name = (uint32_t)w->em->text.len,
		                  .name_len = (uint32_t)name_len };
	struct sf_torch_subclass sub;
	struct sf_torch_tensor t;
	int r = sf_torch_tensor_from_pv(v, &t, NULL), failed = 0;

	if (r == 0 && sf_torch_subclass_from_pv(v, &sub)) {
		/* the tensors that it is made of, by its attributes; those of an attribute that is
		   such a tensor itself below it */
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
		skip(w, "not a dense tensor");
		return 1;
	}
	if (r < 0) {
		skip(w, "malformed: its shape, strides and storage contradict each other");
		return 1;
	}
	/* PyTorch's flattening keeps a tuple whole: its tensors have no names there */
	why = w->tuples ? "in a tuple" : NULL;
	if (!why)
		why = sf_st_refuses_as(w->c, (enum sf_dtype)t.dtype, t.ndim);
	if (!why)
		why = sf_st_refuses_name(name, name_len);
	if (!why)
		why = place(w, &t, &in);
	if (why) {
		skip(w, why);
		return 1;
	}
	if (w->em->inner.n >= SF_ST_INNER_MAX || w->em->text.len + name_len > SF_ST_INNER_TEXT) {
		stop(w, "more tensors in values than one file takes: the rest is left out");
		return 1;
	}
	if (sf_map_add(&w->names, name, name_len, w->nkept + (uint32_t)w->em->inner.n, same_name, w,
	               &failed) != SF_MAP_NONE) {
		skip(w, "another tensor has its name in this file");
		return 1;
	}
	in.dtype = t.dtype;
	in.ndim = t.ndim;
	in.shape = (uint32_t)w->em->shape.n;
	for (unsigned d = 0; d < t.ndim && !failed; d++)
		failed = sf_st_dims_push(&w->em->shape, t.shape[d]);
	sf_buf_add(&w->em->text, name, name_len);
	if (failed || sf_buf_check(&w->em->text) < 0 || sf_st_inners_push(&w->em->inner, in) < 0)
		return -ENOMEM;
	return 1;
}

/* repr() of a float: the fewest digits that read back as it, an exponent from 1e16 and below 1e-4.
 */
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

static int visit(struct walk *w, struct sf_pv *v, unsigned depth);

/* One component down. */
static int below(struct walk *w, struct sf_pv *v, const char *part, size_t len, unsigned depth)
{
	size_t was = w->name.len;
	int r = 0;

	if (v->kind < SF_PV_TUPLE) { /* a plain value: most of what is in lists */
		if (++w->nodes > SF_ST_INNER_NODES)
			return stop(w, "too many values in it: the rest is left out");
		return 0;
	}
	if (len >= SF_ST_INNER_NAME || was + 1 + len > SF_ST_INNER_NAME)
		return stop(w, "a name in it is too long: the rest is left out");
	sf_buf_byte(&w->name, '.');
	char *to = sf_buf_extend(&w->name, len);
	if (to) /* a str of the pickle, a name of ours */
		w->name.len -= len - sf_surrogates_to_bytes(part, len, to);
	r = sf_buf_check(&w->name);
	if (r >= 0)
		r = visit(w, v, depth);
	w->name.len = was;
	return r;
}

static int visit_list(struct walk *w, const struct sf_pv *v, unsigned depth)
{
	char text[24];
	int r = 0;

	for (size_t i = 0; i < v->seq.n && r >= 0 && !w->stop; i++) {
		int len = v->seq.at[i]->kind < SF_PV_TUPLE ? 0
		                                           : snprintf(text, sizeof(text), "%zu", i);
		r = below(w, v->seq.at[i], text, (size_t)len, depth);
	}
	return r;
}

static int visit_dict(struct walk *w, const struct sf_pv *v, unsigned depth)
{
	char small[48];
	int r = 0;

	for (size_t i = 0; i + 1 < v->seq.n && r >= 0 && !w->stop; i += 2) {
		struct sf_pv *value = v->seq.at[i + 1];
		size_t len = 0, was = w->name.len;
		/* plain values need no name */
		const char *part =
			value->kind < SF_PV_TUPLE ? "" : key_text(v->seq.at[i], small, &len);
		if (part) {
			r = below(w, value, part, len, depth);
			continue;
		}
		sf_buf_str(&w->name, ".?");
		r = sf_buf_check(&w->name);
		if (r >= 0)
			skip(w, "not looked at: a dict's key that is neither text nor a number");
		w->name.len = was;
	}
	return r;
}

static int visit_parts(struct walk *w, struct sf_pv *v, unsigned depth)
{
	const struct sf_pv *parts = NULL;
	int r;

	switch (v->kind) {
	case SF_PV_TUPLE:
		w->tuples++;
		r = visit_list(w, v, depth + 1);
		w->tuples--;
		return r;
	case SF_PV_LIST:
		return visit_list(w, v, depth + 1);
	case SF_PV_DICT:
		return visit_dict(w, v, depth + 1);
	case SF_PV_CALL:
	case SF_PV_OBJECT: /* OrderedDict, defaultdict, deque, and classes made from dict and list
	                    */
		r = take_tensor(w, v, &parts);
		if (r == 0 && parts)
			return visit_dict(w, parts, depth + 1);
		if (r == 0 && v->call.items)
			r = visit_dict(w, v->call.items, depth + 1);
		if (r == 0 && v->call.appends)
			r = visit_list(w, v->call.appends, depth + 1);
		return r < 0 ? r : 0;
	default:
		return 0;
	}
}

static int visit(struct walk *w, struct sf_pv *v, unsigned depth)
{
	uint64_t before = w->em->inner.n + w->told;
	int r;

	if (++w->nodes > SF_ST_INNER_NODES)
		return stop(w, "too many values in it: the rest is left out");
	if (depth > SF_ST_INNER_DEPTH)
		return stop(w, "nested too deep: the rest is left out");
	if (v->mark)
		return 0; /* what holds itself has its tensors under the shorter names */
	v->mark = OPEN;
	r = visit_parts(w, v, depth);
	v->mark = before == w->em->inner.n + w->told ? BARREN : 0;
	return r;
}

/* The position of an object's key becomes the current one. */
static const struct sf_entry *entry_of(struct walk *w, uint32_t object)
{
	while (w->at < w->sel->n && w->c->entry[w->sel->entry[w->at]].object != object)
		w->at++;
	return w->at < w->sel->n ? &w->c->entry[w->sel->entry[w->at]] : NULL;
}

static int take_object(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	struct walk *w = arg;
	const struct sf_entry *e = entry_of(w, object);
	size_t stripped, found = w->em->inner.n;
	int r;

	if (!e)
		return sf_fail(err, -EINVAL, "object %" PRIu32 " was not asked for", object);
	sf_st_name(w->c, w->sel, w->at,
	           &stripped); /* names are stripped in front: an end of the whole one */
	sf_buf_reset(&w->name);
	sf_buf_add(&w->name, e->name, e->len);
	w->strip = e->len - stripped;
	w->v = v;
	w->object = object;
	w->nodes = 0;
	w->tuples = 0;
	w->stop = false;
	r = sf_buf_check(&w->name);
	if (r >= 0 && w->nodes_all > SF_ST_INNER_NODES_ALL)
		stop(w, "too many values in this file's objects: it was not looked at");
	else if (r >= 0)
		r = visit(w, v->root, 0);
	w->nodes_all += w->nodes;
	if (r < 0)
		return sf_fail(err, r, "no memory for the tensors in '%.300s'", e->name);
	w->whole = w->em->inner.n == found + 1 && w->em->inner.at[found].name_len == stripped;
	if (!w->whole)
		sf_st_skip_at(w->skipped, w->c, w->sel, w->at,
		           w->c->ckpt->object[object].subclass ? INSTANCE : "not a tensor");
	w->at++;
	return 0;
}

/* As in a .pt file: the file is there without it. */
static void cannot_read(void *arg, uint32_t object, int code, const struct sf_error *why)
{
	struct walk *w = arg;
	const struct sf_entry *e = entry_of(w, object);
	struct sf_io *io = sf_reader_io(w->r);

	if (!e)
		return;
	sf_st_skip_at(w->skipped, w->c, w->sel, w->at, "its value cannot be read: missing or malformed");
	atomic_fetch_add_explicit(&io->counters.errors, 1, memory_order_relaxed);
	sf_log_limited(io->failures, io->log, SF_LOG_WARN, ~sf_hash(e->name, e->len),
	               "left out of a safetensors view: key '%.200s': %s", e->name, why->msg);
	w->at++;
}

int sf_st_embed(struct sf_st_embed *em, const struct sf_catalog *c, struct sf_reader *r,
                const struct sf_selection *sel, const uint32_t *kept, uint32_t nkept,
                struct sf_st_skipped *skipped, struct sf_error *err)
{
	struct walk w = { .em = em,
		          .c = c,
		          .r = r,
		          .sel = sel,
		          .kept = kept,
		          .nkept = nkept,
		          .skipped = skipped };
	SF_FREE uint32_t *objects = sf_alloc_array(sel->n, sizeof(*objects));
	uint32_t n = 0;
	int res = objects ? sf_map_reserve(&w.names, nkept) : -ENOMEM, failed = 0;

	for (uint32_t i = 0; i < nkept && res >= 0; i++) {
		size_t len;
		const char *name = sf_st_name(c, sel, kept[i], &len);
		sf_map_add(&w.names, name, len, i, same_name, &w, &failed);
		res = failed;
	}
	for (uint32_t pos = 0; pos < sel->n && res >= 0; pos++)
		if (c->entry[sel->entry[pos]].tensor == SF_NONE)
			objects[n++] = c->entry[sel->entry[pos]].object;
	if (res < 0)
		sf_fail(err, res, "no memory for %" PRIu32 " names", sel->n);
	else
		res = sf_objects_load_whole(r, objects, n, take_object, cannot_read, &w, err);
	sf_buf_release(&w.name);
	sf_map_release(&w.names);
	return res;
}
