#include "config.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/arena.h"
#include "base/buf.h"
#include "base/mem.h"
#include "base/path.h"
#include "format/dcp/dcp_subclass.h"
#include "format/torch_file.h"
#include "parse/torch_subclass.h"
#include "store/fetch_many.h"

#define HEAD 4096           /* bytes of an item read at once: its pickle and more */
#define HEAD_MAX (1u << 20) /* then it is found by the archive's directory */
#define PICKLE_MAX (UINT64_C(64) << 20)
#define TRIES 8 /* items of one length that are tried until one can be read */
#define CLASS_MAX 200
#define LOOKS_AT_ONCE 256u

enum form { UNREADABLE, DENSE, OTHER };

struct candidate {
	uint64_t excess; /* bytes beside the elements, in steps */
	uint32_t tensor;
	const struct dcp_item *item; /* NULL: there is none that could be looked at */
	/* what a look tells */
	bool looked, archive; /* it has the beginning of one */
	uint8_t form;         /* enum form */
	const char *class;    /* OTHER: not NULL */
};

struct finder {
	const struct dcp_meta *m;
	const struct sf_format_dir *src;
	struct sf_arena *arena;
	struct sf_error *err;
	uint8_t *head; /* HEAD_MAX bytes */
	const char **class;
	struct candidate *c;
	uint32_t *todo; /* c[] that are to be looked at next */
	size_t ntodo;
};

const char dcp_unknown_dtype[] = "torch.Tensor of a dtype that is not known here",
	   dcp_lost_dtype[] = "";

static int by_excess(const void *pa, const void *pb)
{
	const struct candidate *a = pa, *b = pb;

	if (a->excess != b->excess)
		return a->excess < b->excess ? -1 : 1;
	if (a->item->place != b->item->place)
		return a->item->place < b->item->place ? -1 : 1;
	return (a->item->off > b->item->off) - (a->item->off < b->item->off);
}

/* The item of the first chunk, NULL: there is none that could be looked at. */
static const struct dcp_item *first_item(const struct dcp_meta *m, const struct dcp_tensor *t,
                                         uint64_t *ret_payload)
{
	uint64_t bytes = sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	const struct dcp_item *item;
	const struct dcp_run *run;

	if (!t->nchunks)
		return NULL;
	run = &m->run.at[t->run0];
	item = &m->item.at[run->chunk0];
	if (item->place == DCP_NONE || m->place.at[item->place].transform != DCP_PLAIN)
		return NULL;
	for (unsigned d = 0; d < t->ndim; d++)
		if (!sf_mul(bytes, dcp_coord(m, run, 0, t->ndim + d), &bytes))
			return NULL;
	*ret_payload = bytes;
	/* as long as its elements: no archive (SAFETENSORS mode) */
	return t->dtype != SF_DTYPE_NONE && item->len == bytes ? NULL : item;
}

/* NULL: there is nothing to look at. */
static const struct sf_objinfo *find_file(const struct finder *f, uint32_t place)
{
	const struct dcp_str *path = &f->m->str.at[f->m->place.at[place].path];

	if (sf_path_check(path->at, path->len, NULL) < 0 || sf_surrogates_any(path->at, path->len))
		return NULL;
	return sf_format_file(f->src, path->at, path->len);
}

/*
 * What the value is an instance of: a tensor subclass, or whatever one of torch's own functions
 * makes (a sparse tensor). NULL: it is no tensor at all. torch refuses such an item where a tensor
 * is promised, and so does whoever reads it here.
 */
static const struct sf_pv *maker_of(const struct sf_pv *v)
{
	struct sf_torch_subclass sub;
	const struct sf_pv *f = v->kind == SF_PV_CALL ? v->call.callable : NULL;

	if (sf_torch_subclass_from_pv(v, &sub))
		return sub.cls;
	if (!f || f->kind != SF_PV_GLOBAL || strncmp(f->global.name->str.at, "_rebuild_", 9) != 0 ||
	    (!sf_pv_is_str(f->global.module, "torch._utils") &&
	     !sf_pv_is_str(f->global.module, "torch._tensor")))
		return NULL;
	return f;
}

static const char *class_name(struct finder *f, const struct sf_pv *g)
{
	char text[CLASS_MAX];
	int n = snprintf(text, sizeof(text), "%s.%s", g->global.module->str.at,
	                 g->global.name->str.at);

	return sf_arena_strdup(f->arena, text, SF_MIN((size_t)n, sizeof(text) - 1));
}

/* The pickle of an item that the quick way calls no dense tensor. */
static int look_at_value(struct finder *f, struct sf_source *src, const struct dcp_item *item,
                         size_t len, enum form *ret, const char **ret_class)
{
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { .limit = PICKLE_MAX };
	const struct sf_pickle_limits limits = { .memory = PICKLE_MAX };
	struct sf_error why = SF_ERROR_INIT;
	const struct sf_pv *maker;
	struct sf_torch_tensor t;
	struct sf_pv *v;
	uint64_t off, n, need;
	int r = sf_torch_item_pickle(f->head, len, item->len, &off, &n, &need, &why);

	if (r == 0)
		r = sf_pickle_parse(f->head + off, (size_t)n, &limits, &arena, &v, NULL, &why);
	else if (r == -ENOTSUP || r == -EAGAIN)
		r = sf_torch_value(src, item->off, item->len, PICKLE_MAX, &arena, &v, &why);
	if (r == -EBADMSG || r == -ENOTSUP || r == -E2BIG)
		return 0; /* unreadable for good: whoever reads it says why */
	if (r < 0)
		return sf_fail(f->err, r, "dcp: looking at an item: %s", why.msg);
	r = sf_torch_tensor_from_pv(v, &t, NULL);
	if (r < 0)
		return 0;
	if (r > 0) {
		*ret = DENSE;
		return 0;
	}
	maker = maker_of(v);
	if (!maker)
		return 0;
	*ret = OTHER;
	*ret_class = class_name(f, maker);
	return *ret_class ? 0 : sf_fail(f->err, -ENOMEM, "dcp: no memory for a name");
}

/* What is the item in @src? The head is read as far as it takes to find its pickle. */
static int look_into(struct finder *f, struct candidate *c, struct sf_source *src)
{
	const struct dcp_item *item = c->item;
	uint64_t have = 0, want = SF_MIN(item->len, (uint64_t)HEAD);
	struct sf_torch_item torch;
	struct sf_error why;
	enum form form = UNREADABLE;
	int r;

	if (item->off > src->size || item->len > src->size - item->off)
		return 0;
	for (;;) {
		why = (struct sf_error)SF_ERROR_INIT;
		r = sf_source_read(src, item->off + have, f->head + have, want - have,
		                   SF_FETCH_HEADER, &why);
		if (r == -ENOENT || r == -EBADMSG)
			return 0;
		if (r < 0)
			return sf_fail(f->err, r, "dcp: looking at an item: %s", why.msg);
		have = want;
		r = sf_torch_item_head(f->head, (size_t)have, item->len, &torch, &want, NULL);
		if (r != -EAGAIN || want > HEAD_MAX || want <= have)
			break;
	}
	c->archive = have >= 4 && memcmp(f->head, "PK\3\4", 4) == 0;
	if (r == 0)
		form = DENSE;
	r = r == -ENOTSUP || r == -EAGAIN
	            ? look_at_value(f, src, item, (size_t)have, &form, &c->class)
	            : 0;
	c->form = (uint8_t)form;
	return r;
}

/* Looks at f->c[@todo[0 … n)], the heads of their items fetched side by side. */
static int look_at_some(struct finder *f, const uint32_t *todo, size_t n)
{
	SF_FREE struct sf_fetch_one *o = sf_alloc_array(n, sizeof(*o));
	SF_FREE uint32_t *of = sf_alloc_array(n, sizeof(*of));
	size_t asked = 0;
	int r = 0;

	if (!o || !of)
		return sf_fail(f->err, -ENOMEM, "dcp: no memory to look at %zu items", n);
	for (size_t i = 0; i < n; i++) {
		struct candidate *c = &f->c[todo[i]];
		const struct sf_objinfo *info = find_file(f, c->item->place);
		c->looked = true;
		if (!info)
			continue;
		of[asked] = todo[i];
		o[asked++] = (struct sf_fetch_one){ .name = info->name,
			                            .want = info,
			                            .off = c->item->off,
			                            .len = SF_MIN(c->item->len, (uint64_t)HEAD) };
	}
	sf_fetch_many(f->src->store, o, asked, SF_FETCH_HEADER);
	for (size_t i = 0; i < asked && r >= 0; i++) {
		if (o[i].r == -ENOENT || o[i].r == -EBADMSG)
			continue;
		r = o[i].r < 0
		            ? sf_fail(f->err, o[i].r, "dcp: looking at an item: %s", o[i].err.msg)
		            : look_into(f, &f->c[of[i]], o[i].src);
	}
	sf_fetch_many_release(o, asked);
	return r;
}

/* Looks at all of f->todo. */
static int look_at_all(struct finder *f)
{
	int r = 0;

	for (size_t i = 0, n; i < f->ntodo && r >= 0; i += n) {
		n = SF_MIN(LOOKS_AT_ONCE, SF_MAX(f->src->store->io->max_open, 1u));
		n = SF_MIN(n, f->ntodo - i);
		r = look_at_some(f, f->todo + i, n);
	}
	f->ntodo = 0;
	return r;
}

/* A dtype that is not known has no elements to go by: what torch.save made of it is carried, what
 * is no archive is lost. */
static int find_unknown(struct finder *f, size_t n)
{
	int r;

	for (size_t i = 0; i < n; i++)
		if (f->c[i].item)
			f->todo[f->ntodo++] = (uint32_t)i;
	r = look_at_all(f);
	for (size_t i = 0; i < n; i++) {
		const struct candidate *c = &f->c[i];
		f->class[c->tensor] = c->class     ? c->class
		                      : c->archive ? dcp_unknown_dtype
		                                   : dcp_lost_dtype;
	}
	return r;
}

/* Where the candidates of one length end that begin at @from. */
static size_t group_end(const struct finder *f, size_t from, size_t end)
{
	size_t k = from + 1;

	while (k < end && f->c[k].excess == f->c[from].excess)
		k++;
	return k;
}

static bool in_vain(const struct candidate *c)
{
	return c->looked && c->form == UNREADABLE;
}

/* Candidates [from, end), sorted: of each length one that can be read, of all lengths side by side;
 * then all of those lengths where that one is no dense tensor. */
static int find_others(struct finder *f, size_t from, size_t end)
{
	int r = 0;

	for (size_t try = 0; try < TRIES && r >= 0; try++) {
		for (size_t i = from, k; i < end; i = k) {
			k = group_end(f, i, end);
			if (try < k - i && (!try || in_vain(&f->c[i + try - 1])))
				f->todo[f->ntodo++] = (uint32_t)(i + try);
		}
		if (!f->ntodo)
			break;
		r = look_at_all(f);
	}
	for (size_t i = from, k; i < end && r >= 0; i = k) {
		bool other = false;
		k = group_end(f, i, end);
		for (size_t t = i; t < k && t < i + TRIES; t++)
			other |= f->c[t].form == OTHER;
		for (size_t t = i; other && t < k; t++)
			if (!f->c[t].looked)
				f->todo[f->ntodo++] = (uint32_t)t;
	}
	if (r >= 0)
		r = look_at_all(f);
	for (size_t i = from; i < end; i++)
		if (f->c[i].form == OTHER)
			f->class[f->c[i].tensor] = f->c[i].class;
	return r;
}

/* The keys' tensors: those of no known dtype, then the others that have an item to look at. */
static size_t candidates(struct finder *f, bool known, size_t n)
{
	for (size_t k = 0; k < f->m->key.n && n < f->m->tensor.n; k++) {
		uint32_t i = f->m->key.at[k].tensor;
		const struct dcp_item *item;
		uint64_t payload = 0;
		if (i == DCP_NONE || (f->m->tensor.at[i].dtype != SF_DTYPE_NONE) != known)
			continue;
		item = first_item(f->m, &f->m->tensor.at[i], &payload);
		if (item || !known)
			f->c[n++] = (struct candidate){
				.excess = item ? item->len - (payload & ~UINT64_C(63)) : 0,
				.tensor = i,
				.item = item
			};
	}
	return n;
}

static int find(struct finder *f, bool *ret_any)
{
	size_t unknown = candidates(f, false, 0), n = candidates(f, true, unknown);
	int r = find_unknown(f, unknown);

	if (n > unknown)
		qsort(f->c + unknown, n - unknown, sizeof(*f->c), by_excess);
	if (r >= 0)
		r = find_others(f, unknown, n);
	for (uint32_t i = 0; i < f->m->tensor.n && !*ret_any; i++)
		*ret_any = f->class[i] != NULL;
	return r;
}

int dcp_find_subclasses(const struct dcp_meta *m, const struct sf_format_dir *src,
                        struct sf_arena *arena, const char ***ret, struct sf_error *err)
{
	SF_FREE struct candidate *c = sf_alloc_array(m->tensor.n, sizeof(*c));
	SF_FREE uint32_t *todo = sf_alloc_array(m->tensor.n, sizeof(*todo));
	SF_FREE uint8_t *head = malloc(HEAD_MAX);
	struct finder f = {
		.m = m, .src = src, .arena = arena, .err = err, .head = head, .c = c, .todo = todo
	};
	bool any = false;
	int r;

	f.class = sf_arena_calloc(arena, m->tensor.n + 1, sizeof(*f.class));
	if (!c || !todo || !head || !f.class)
		return sf_fail(err, -ENOMEM, "dcp: no memory for a look at %zu tensors",
		               m->tensor.n);
	r = find(&f, &any);
	*ret = r >= 0 && any ? f.class : NULL;
	return r < 0 ? r : 0;
}
