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
#include "store/source.h"

#define HEAD 4096           /* bytes of an item read at once: its pickle and more */
#define HEAD_MAX (1u << 20) /* then it is found by the archive's directory */
#define PICKLE_MAX (UINT64_C(64) << 20)
#define TRIES 8 /* items of one length that are tried until one can be read */
#define CLASS_MAX 200

struct candidate {
	uint64_t excess; /* bytes beside the elements, in steps */
	uint32_t tensor;
	const struct dcp_item *item;
};

struct finder {
	const struct dcp_meta *m;
	const struct sf_format_dir *src;
	struct sf_arena *arena;
	struct sf_error *err;
	struct sf_source *open; /* of place, the last one looked into */
	uint32_t place;
	uint8_t *head; /* HEAD_MAX bytes */
	const char **class;
};

const char dcp_unknown_dtype[] = "torch.Tensor of a dtype that is not known here",
	   dcp_lost_dtype[] = "";

enum form { UNREADABLE, DENSE, OTHER };

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

/* *ret is NULL where there is nothing to look at. */
static int open_place(struct finder *f, uint32_t place, struct sf_source **ret)
{
	const struct dcp_str *path = &f->m->str.at[f->m->place.at[place].path];
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { .limit = 65536 };
	struct sf_error why = SF_ERROR_INIT;
	const struct sf_objinfo *info;
	int r;

	*ret = f->open;
	if (f->open && f->place == place)
		return 0;
	sf_source_unref(f->open);
	*ret = f->open = NULL;
	if (sf_path_check(path->at, path->len, NULL) < 0 || sf_surrogates_any(path->at, path->len))
		return 0;
	sf_buf_str(&name, f->src->dir);
	sf_buf_add(&name, path->at, path->len);
	sf_buf_cstr(&name);
	if (sf_buf_check(&name) < 0)
		return sf_fail(f->err, sf_buf_check(&name), "dcp: a file name of %u bytes",
		               path->len);
	info = sf_format_listed(f->src->files, f->src->nfiles, (const char *)name.at);
	if (!info)
		return 0;
	r = f->src->store->ops->open(f->src->store, info->name, info, &f->open, &why);
	if (r == -ENOENT || r == -EBADMSG)
		return 0;
	if (r < 0)
		return sf_fail(f->err, r, "dcp: looking at an item: %s", why.msg);
	f->place = place;
	*ret = f->open;
	return 0;
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

/* What is the item? The head is read as far as it takes to find its pickle. */
static int look(struct finder *f, const struct candidate *c, enum form *ret, const char **ret_class)
{
	const struct dcp_item *item = c->item;
	uint64_t have = 0, want = SF_MIN(item->len, (uint64_t)HEAD);
	struct sf_torch_item torch;
	struct sf_error why;
	struct sf_source *src;
	int r = open_place(f, item->place, &src);

	*ret = UNREADABLE;
	if (r < 0 || !src || item->off > src->size || item->len > src->size - item->off)
		return r;
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
	if (r == 0) {
		*ret = DENSE;
		return 0;
	}
	return r == -ENOTSUP || r == -EAGAIN
	               ? look_at_value(f, src, item, (size_t)have, ret, ret_class)
	               : 0;
}

/* Candidates of one length: @at[0 … n). */
static int look_at_group(struct finder *f, const struct candidate *at, size_t n)
{
	enum form form = UNREADABLE;
	const char *class = NULL;
	int r = 0;

	for (size_t i = 0; i < n && i < TRIES && form == UNREADABLE && r >= 0; i++)
		r = look(f, &at[i], &form, &class);
	if (r < 0 || form != OTHER)
		return r;
	for (size_t i = 0; i < n && r >= 0; i++) {
		class = NULL;
		r = look(f, &at[i], &form, &class);
		if (r >= 0 && form == OTHER)
			f->class[at[i].tensor] = class;
	}
	return r;
}

/* A dtype that is not known has no elements to go by: what torch.save made of it is carried, what
 * is no archive is lost. */
static int look_at_unknown(struct finder *f, uint32_t tensor, const struct dcp_item *item)
{
	const struct candidate c = { .tensor = tensor, .item = item };
	const char *class = NULL;
	enum form form;
	int r;

	memset(f->head, 0, 4);
	r = item ? look(f, &c, &form, &class) : 0;
	f->class[tensor] = class                               ? class
	                   : memcmp(f->head, "PK\3\4", 4) == 0 ? dcp_unknown_dtype
	                                                       : dcp_lost_dtype;
	return r;
}

static int find(struct finder *f, struct candidate *c, bool *ret_any)
{
	size_t n = 0;
	int r = 0;

	for (size_t k = 0; k < f->m->key.n && r >= 0; k++) {
		uint32_t i = f->m->key.at[k].tensor;
		const struct dcp_item *item;
		uint64_t payload;
		if (i == DCP_NONE)
			continue;
		item = first_item(f->m, &f->m->tensor.at[i], &payload);
		if (f->m->tensor.at[i].dtype == SF_DTYPE_NONE)
			r = look_at_unknown(f, i, item);
		else if (item && n < f->m->tensor.n)
			c[n++] = (struct candidate){ item->len - (payload & ~UINT64_C(63)), i,
				                     item };
	}
	if (n)
		qsort(c, n, sizeof(*c), by_excess);
	for (size_t i = 0, k; i < n && r >= 0; i = k) {
		for (k = i; k < n && c[k].excess == c[i].excess; k++)
			;
		r = look_at_group(f, c + i, k - i);
	}
	for (uint32_t i = 0; i < f->m->tensor.n && !*ret_any; i++)
		*ret_any = f->class[i] != NULL;
	return r;
}

int dcp_find_subclasses(const struct dcp_meta *m, const struct sf_format_dir *src,
                        struct sf_arena *arena, const char ***ret, struct sf_error *err)
{
	SF_FREE struct candidate *c = sf_alloc_array(m->tensor.n, sizeof(*c));
	SF_FREE uint8_t *head = malloc(HEAD_MAX);
	struct finder f = { .m = m, .src = src, .arena = arena, .err = err, .head = head };
	bool any = false;
	int r;

	f.class = sf_arena_calloc(arena, m->tensor.n + 1, sizeof(*f.class));
	if (!c || !head || !f.class)
		return sf_fail(err, -ENOMEM, "dcp: no memory for a look at %zu tensors",
		               m->tensor.n);
	r = find(&f, c, &any);
	sf_source_unref(f.open);
	*ret = r >= 0 && any ? f.class : NULL;
	return r < 0 ? r : 0;
}

int dcp_classes_add(struct dcp_classes *c, const char *class, const char *key, bool sharded)
{
	unsigned i = 0;

	while (i < c->n && strcmp(c->at[i].name, class) != 0)
		i++;
	if (i == DCP_CLASSES_MAX)
		return 0;
	if (i == c->n) {
		c->at[i].name = class;
		c->at[i].first = strndup(key, 200);
		if (!c->at[i].first)
			return -ENOMEM;
		c->n++;
	}
	c->at[i].n++;
	c->at[i].sharded += sharded;
	return 0;
}

int dcp_classes_note(const struct dcp_classes *c, struct sf_ckpt_builder *b)
{
	int r = 0;

	for (unsigned i = 0; i < c->n && r >= 0; i++) {
		const char *some =
			c->at[i].n == 1 ? "1 tensor is an instance" : "tensors are instances";
		char sharded[64] = "", count[16] = "";
		if (c->at[i].n > 1)
			snprintf(count, sizeof(count), "%u ", c->at[i].n);
		if (c->at[i].sharded)
			snprintf(sharded, sizeof(sharded), "; %u in shards, shown as a list",
			         c->at[i].sharded);
		r = sf_ckpt_builder_warn(b, NULL, "tensor-subclass",
		                         "%s%s of %s (%s%s): in .pt as pickled, in .safetensors "
		                         "as KEY.ATTRIBUTE, not in npy/ and hf/%s",
		                         count, some, c->at[i].name, c->at[i].first,
		                         c->at[i].n > 1 ? ", …" : "", sharded);
	}
	return r;
}

void dcp_classes_release(struct dcp_classes *c)
{
	for (unsigned i = 0; i < c->n; i++)
		free(c->at[i].first);
	c->n = 0;
}
