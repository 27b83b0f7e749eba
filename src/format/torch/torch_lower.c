#include "config.h"

#include <errno.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "format/torch/torch_lower.h"

#define LEAVES_MAX (UINT64_C(1) << 24)
#define DEPTH_MAX 100
#define KEY_MAX (64u << 10) /* the builder's */

/* ---- tensors ---- */

/* What makes two tensors one: the same view of the same storage. Compared as bytes, with shape and
 * strides behind. */
struct view {
	uint64_t storage, off; /* of the part, in bytes; elements */
	uint32_t dtype, ndim;
	uint32_t conj, neg;
	uint64_t num[2 * SF_DIMS_MAX]; /* shape, strides */
};
struct sf_torch_seen {
	const void *view;
	uint32_t len, tensor;
};

static size_t view_of(const struct sf_torch_record *s, const struct sf_torch_tensor *t,
                      struct view *ret)
{
	memset(ret, 0, offsetof(struct view, num));
	ret->storage = s->off;
	ret->off = t->storage_off;
	ret->dtype = t->dtype;
	ret->ndim = t->ndim;
	ret->conj = t->conj;
	ret->neg = t->neg;
	for (unsigned d = 0; d < t->ndim; d++) {
		ret->num[d] = t->shape[d];
		ret->num[t->ndim + d] = (uint64_t)t->stride[d];
	}
	return offsetof(struct view, num) + 2 * t->ndim * sizeof(uint64_t);
}

static int same_view(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct sf_torch_seen *s = &((struct sf_torch_ties *)arg)->seen.at[value];

	return s->len == len && memcmp(s->view, key, len) == 0;
}

/* The first tensor of that view is remembered, a later one tied to it. */
static int tie(struct sf_ckpt_builder *b, struct sf_torch_ties *ties, uint32_t tensor,
               const struct sf_torch_record *s, const struct sf_torch_tensor *t,
               struct sf_error *err)
{
	struct view view;
	size_t len = view_of(s, t, &view);
	uint32_t has;
	int r;

	if (s->len == 0) /* all empty storages lie in one place */
		return 0;
	if (ties->seen.n == ties->seen.cap) {
		size_t cap = SF_MAX(ties->seen.cap * 2, 64u);
		void *at = reallocarray(ties->seen.at, cap, sizeof(*ties->seen.at));
		if (!at)
			return -ENOMEM;
		ties->seen.at = at;
		ties->seen.cap = cap;
	}
	has = sf_map_add(&ties->map, (const char *)&view, len, (uint32_t)ties->seen.n, same_view,
	                 ties, &r);
	if (has != SF_MAP_NONE)
		return sf_ckpt_builder_tie(b, tensor, ties->seen.at[has].tensor, err);
	if (r < 0)
		return r;
	void *copy = sf_arena_alloc(&ties->arena, len);
	/* the map has the number already: it must lead somewhere */
	ties->seen.at[ties->seen.n++] =
		(struct sf_torch_seen){ copy, copy ? (uint32_t)len : 0, tensor };
	if (!copy)
		return -ENOMEM;
	memcpy(copy, &view, len);
	return 0;
}

void sf_torch_ties_release(struct sf_torch_ties *ties)
{
	free(ties->seen.at);
	sf_map_release(&ties->map);
	sf_arena_release(&ties->arena);
	*ties = (struct sf_torch_ties){ 0 };
}

static bool is_dense(const struct sf_torch_tensor *t)
{
	uint64_t step = 1;

	for (unsigned d = t->ndim; d-- > 0; step *= t->shape[d])
		if (t->shape[d] != 1 && (uint64_t)t->stride[d] != step)
			return false;
	return true;
}

/* Elements from the first to behind the last. They are inside the storage: sf_torch_tensor_from_pv
 * looked. */
static uint64_t span_of(const struct sf_torch_tensor *t)
{
	uint64_t last = 0;

	for (unsigned d = 0; d < t->ndim; d++) {
		if (t->shape[d] == 0)
			return 0;
		last += (t->shape[d] - 1) * (uint64_t)t->stride[d];
	}
	return last + 1;
}

static const struct sf_torch_record *storage_of(const struct sf_torch_part *part,
                                                const struct sf_torch_tensor *t)
{
	return sf_torch_record_find(part->archive.storage, part->archive.nstorages,
	                            t->storage_key->str.at, t->storage_key->str.len);
}

int sf_torch_lower_item(struct sf_ckpt_builder *b, struct sf_torch_part *part, uint32_t tensor,
                        uint32_t chunk, const struct sf_torch_tensor *t, struct sf_error *err)
{
	const struct sf_torch_record *s = storage_of(part, t);
	const uint64_t elem = sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	uint64_t off, len, span = span_of(t);
	int r = sf_torch_part_place(part, b, err);

	if (r >= 0 && (!is_dense(t) || t->conj || t->neg))
		r = sf_ckpt_builder_layout(b, is_dense(t) ? NULL : t->stride, t->conj, t->neg, err);
	if (r < 0 || !s)
		return r;
	if (__builtin_mul_overflow(t->storage_off, elem, &off) ||
	    __builtin_mul_overflow(span, elem, &len) || off > s->len || len > s->len - off)
		return sf_fail(err, -EBADMSG,
		               "'%s': a tensor of %" PRIu64 " elements at %" PRIu64
		               " of storage %.60s, which has %" PRIu64 " bytes",
		               part->file->name, span, t->storage_off, s->key, s->len);
	sf_ckpt_builder_set_item(b, tensor, chunk, part->place, s->off + off, len);
	return 0;
}

int sf_torch_lower_tensor(struct sf_ckpt_builder *b, struct sf_torch_part *part, const char *key,
                          size_t len, const struct sf_torch_tensor *t, struct sf_torch_ties *ties,
                          uint32_t *ret_tensor, struct sf_error *err)
{
	static const uint64_t zero[SF_DIMS_MAX];
	const struct sf_torch_record *s = storage_of(part, t);
	uint32_t tensor;
	int r = sf_ckpt_builder_tensor(b, key, len, (enum sf_dtype)t->dtype, t->shape, t->ndim,
	                               &tensor, err);

	if (r >= 0)
		r = sf_ckpt_builder_chunk(b, zero, t->shape, err);
	if (r >= 0)
		r = sf_torch_lower_item(b, part, tensor, 0, t, err);
	if (r >= 0 && ties && s)
		r = tie(b, ties, tensor, s, t, err);
	if (r >= 0 && ret_tensor)
		*ret_tensor = tensor;
	return r < 0 ? r : 0;
}

/* ---- values ---- */

int sf_torch_lower_value(struct sf_ckpt_builder *b, struct sf_torch_part *part, const char *key,
                         size_t len, struct sf_pv *v, struct sf_error *err)
{
	uint32_t object;
	int r = sf_torch_part_place(part, b, err);

	if (r >= 0)
		r = sf_ckpt_builder_object(b, key, len, &object, err);
	if (r >= 0)
		r = sf_ckpt_builder_set_value(b, object, v, &part->archive, part->place, 0,
		                              part->len, err);
	return r < 0 ? r : 0;
}

struct lowering {
	const struct sf_torch_lower *l;
	struct sf_error *err;
	struct sf_walk_path path; /* prefix, and what the walk says */
};

static int set_path(struct lowering *o, struct sf_value_walk *w)
{
	const struct sf_torch_lower *l = o->l;
	size_t n;
	const struct sf_path_elem *path = sf_value_walk_path(w, &n);

	if (!path)
		return -ENOMEM;
	if (l->nprefix) {
		if (sf_walk_path_reserve(&o->path, l->nprefix + n) < 0)
			return -ENOMEM;
		memcpy(o->path.at, l->prefix, l->nprefix * sizeof(*path));
		memcpy(o->path.at + l->nprefix, path, n * sizeof(*path));
		path = o->path.at;
	}
	if (l->nprefix + n == 0) /* the value as a whole: its key is "" */
		return 0;
	return sf_ckpt_builder_path(l->b, (const char *)w->name.at, w->name.len, path,
	                            l->nprefix + n, o->err);
}

static int too_much(struct lowering *o, enum sf_walk_what what)
{
	const char *file = o->l->part->file->name;

	if (what == SF_WALK_MANY)
		return sf_fail(o->err, -E2BIG, "'%s': over %" PRIu64 " values", file, LEAVES_MAX);
	if (what == SF_WALK_DEEP)
		return sf_fail(o->err, -E2BIG, "'%s': values more than %d deep", file, DEPTH_MAX);
	return sf_fail(o->err, -E2BIG, "'%s': a key of over %u bytes", file, KEY_MAX);
}

static int warn(struct lowering *o, const struct sf_value_walk *w, const char *code,
                const char *what)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf name = { .limit = KEY_MAX };

	sf_escape_text(&name, (const char *)w->name.at, SF_MIN(w->name.len, 120u));
	return sf_ckpt_builder_warn(o->l->b, NULL, code, "'%s': '%s' %s", o->l->part->file->name,
	                            sf_buf_cstr(&name), what);
}

static int lower_leaf(struct lowering *o, struct sf_value_walk *w, enum sf_walk_what what,
                      struct sf_pv *v)
{
	const struct sf_torch_lower *l = o->l;
	const char *key = (const char *)w->name.at;
	int r;

	if (what == SF_WALK_TENSOR)
		r = sf_torch_lower_tensor(l->b, l->part, key, w->name.len, &w->t, l->ties, NULL,
		                          o->err);
	else
		r = sf_torch_lower_value(l->b, l->part, key, w->name.len, v, o->err);
	return r < 0 ? r : set_path(o, w);
}

static int on_leaf(struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	struct lowering *o = w->arg;
	bool is_tensor;
	int r = 0;

	if (what == SF_WALK_MANY || what == SF_WALK_DEEP || what == SF_WALK_LONG)
		return too_much(o, what);
	sf_buf_cstr(&w->name); /* so that at is not NULL */
	r = sf_buf_check(&w->name);
	if (r >= 0 && o->l->leaf)
		r = o->l->leaf(o->l->arg, w, what, v);
	if (r)
		return SF_MIN(r, 0);
	if (what == SF_WALK_ODD_KEY)
		return warn(o, w, "unread-value", "is under a key that is no text: not shown");
	if (what == SF_WALK_CYCLE)
		return warn(o, w, "unread-value", "holds itself: not shown");
	if (sf_ckpt_builder_find(o->l->b, (const char *)w->name.at, w->name.len, &is_tensor) !=
	    SF_NONE)
		return warn(o, w, "same-name", "is there twice: the first is shown");
	if (what == SF_WALK_BAD_TENSOR)
		r = warn(o, w, "bad-tensor",
		         "has a shape, strides and a storage that contradict each other");
	return r < 0 ? r : lower_leaf(o, w, what, v);
}

int sf_torch_lower(const struct sf_torch_lower *l, struct sf_pv *v, struct sf_error *err)
{
	struct lowering o = { .l = l, .err = err };
	struct sf_value_walk w = { .tell = on_leaf,
		                   .arg = &o,
		                   .leaves = true,
		                   .whole = l->whole,
		                   .depth_max = DEPTH_MAX,
		                   .nodes_max = LEAVES_MAX,
		                   .name_max = KEY_MAX };
	int r;

	for (size_t i = 0; i < l->nprefix; i++) {
		sf_buf_str(&w.name, i ? "." : "");
		sf_buf_add(&w.name, l->prefix[i].s, l->prefix[i].len);
	}
	r = sf_buf_check(&w.name);
	if (r >= 0)
		r = sf_value_walk(&w, v);
	if (r == -ENOMEM)
		sf_fail(err, r, "'%s': no memory for its keys", l->part->file->name);
	sf_value_walk_release(&w);
	sf_walk_path_release(&o.path);
	return r < 0 ? r : 0;
}
