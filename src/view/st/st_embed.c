#include "config.h"

#include <inttypes.h>
#include <stdatomic.h>
#include <string.h>

#include "base/log_limit.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "parse/value_walk.h"
#include "value/object.h"
#include "view/st/st_embed.h"

#define INSTANCE "an instance of a tensor subclass: the tensors inside are here"

struct embed {
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
	struct sf_value_walk walk; /* its name has the group's part in front … */
	size_t strip;              /* … of this many bytes */
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

/* The name of what the walk is at, as the file would have it. */
static const char *name_of(const struct embed *w, size_t *ret_len)
{
	*ret_len = w->walk.name.len - w->strip;
	return (const char *)w->walk.name.at + w->strip;
}

static void skip(struct embed *w, const char *why)
{
	size_t len;
	const char *name = name_of(w, &len);

	sf_st_skip(w->skipped, name, len, why);
}

/* Says it of the whole object. */
static void stop(struct embed *w, const char *why)
{
	sf_st_skip_at(w->skipped, w->c, w->sel, w->at, why);
	w->walk.stop = true;
}

static int same_name(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct embed *w = arg;
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
static const char *place(const struct embed *w, const struct sf_torch_tensor *t,
                         struct sf_st_inner *in)
{
	const unsigned bytes = sf_dtype_info((enum sf_dtype)t->dtype)->bytes;
	const struct sf_torch_record *s;
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

/* The walk's tensor is noted, or skipped with why. */
static int take_tensor(struct embed *w)
{
	const struct sf_torch_tensor *t = &w->walk.t;
	size_t name_len;
	const char *name = name_of(w, &name_len), *why;
	struct sf_st_inner in = { .object = w->object,
		                  .name = (uint32_t)w->em->text.len,
		                  .name_len = (uint32_t)name_len };
	int failed = 0;

	/* PyTorch's flattening keeps a tuple whole: its tensors have no names there */
	why = w->walk.tuples ? "in a tuple" : NULL;
	if (!why)
		why = sf_st_refuses_as(w->c, (enum sf_dtype)t->dtype, t->ndim);
	if (!why)
		why = sf_st_refuses_name(name, name_len);
	if (!why)
		why = place(w, t, &in);
	if (why) {
		skip(w, why);
		return 0;
	}
	if (w->em->inner.n >= SF_ST_INNER_MAX || w->em->text.len + name_len > SF_ST_INNER_TEXT) {
		stop(w, "more tensors in values than one file takes: the rest is left out");
		return 0;
	}
	if (sf_map_add(&w->names, name, name_len, w->nkept + (uint32_t)w->em->inner.n, same_name, w,
	               &failed) != SF_MAP_NONE) {
		skip(w, "another tensor has its name in this file");
		return 0;
	}
	in.dtype = t->dtype;
	in.ndim = t->ndim;
	in.shape = (uint32_t)w->em->shape.n;
	for (unsigned d = 0; d < t->ndim && !failed; d++)
		failed = sf_st_dims_push(&w->em->shape, t->shape[d]);
	sf_buf_add(&w->em->text, name, name_len);
	if (failed || sf_buf_check(&w->em->text) < 0 || sf_st_inners_push(&w->em->inner, in) < 0)
		return -ENOMEM;
	return 0;
}

static int tell(struct sf_value_walk *walk, enum sf_walk_what what, struct sf_pv *v)
{
	struct embed *w = walk->arg;

	switch (what) {
	case SF_WALK_TENSOR:
		return take_tensor(w);
	case SF_WALK_BAD_TENSOR:
		skip(w, "malformed: its shape, strides and storage contradict each other");
		break;
	case SF_WALK_ODD_TENSOR:
		skip(w, "not a dense tensor");
		break;
	case SF_WALK_ODD_KEY:
		skip(w, "not looked at: a dict's key that is neither text nor a number");
		break;
	case SF_WALK_MANY:
		stop(w, "too many values in it: the rest is left out");
		break;
	case SF_WALK_DEEP:
		stop(w, "nested too deep: the rest is left out");
		break;
	case SF_WALK_LONG:
		stop(w, "a name in it is too long: the rest is left out");
		break;
	default: /* of walks over all leaves */
		break;
	}
	return 0;
}

/* The position of an object's key becomes the current one. */
static const struct sf_entry *entry_of(struct embed *w, uint32_t object)
{
	while (w->at < w->sel->n && w->c->entry[w->sel->entry[w->at]].object != object)
		w->at++;
	return w->at < w->sel->n ? &w->c->entry[w->sel->entry[w->at]] : NULL;
}

static int take_object(void *arg, uint32_t object, struct sf_object_value *v, struct sf_error *err)
{
	struct embed *w = arg;
	const struct sf_entry *e = entry_of(w, object);
	size_t stripped, found = w->em->inner.n;
	int r;

	if (!e)
		return sf_fail(err, -EINVAL, "object %" PRIu32 " was not asked for", object);
	sf_st_name(w->c, w->sel, w->at,
	           &stripped); /* names are stripped in front: an end of the whole one */
	sf_buf_reset(&w->walk.name);
	sf_buf_add(&w->walk.name, e->name, e->len);
	w->strip = e->len - stripped;
	w->v = v;
	w->object = object;
	w->walk.nodes = 0;
	w->walk.stop = false;
	r = sf_buf_check(&w->walk.name);
	if (r >= 0 && w->nodes_all > SF_ST_INNER_NODES_ALL)
		stop(w, "too many values in this file's objects: it was not looked at");
	else if (r >= 0)
		r = sf_value_walk(&w->walk, v->root);
	w->nodes_all += w->walk.nodes;
	if (r < 0)
		return sf_fail(err, r, "no memory for the tensors in '%.300s'", e->name);
	bool whole = w->em->inner.n == found + 1 && w->em->inner.at[found].name_len == stripped;
	if (!whole)
		sf_st_skip_at(w->skipped, w->c, w->sel, w->at,
		              w->c->ckpt->object[object].subclass ? INSTANCE : "not a tensor");
	w->at++;
	return 0;
}

/* As in a .pt file: the file is there without it. */
static void cannot_read(void *arg, uint32_t object, int code, const struct sf_error *why)
{
	struct embed *w = arg;
	const struct sf_entry *e = entry_of(w, object);
	struct sf_io *io = sf_reader_io(w->r);

	if (!e)
		return;
	sf_st_skip_at(w->skipped, w->c, w->sel, w->at,
	              "its value cannot be read: missing or malformed");
	atomic_fetch_add_explicit(&io->counters.errors, 1, memory_order_relaxed);
	sf_log_limited(io->failures, io->log, SF_LOG_WARN, ~sf_hash(e->name, e->len),
	               "left out of a safetensors view: key '%.200s': %s", e->name, why->msg);
	w->at++;
}

int sf_st_embed(struct sf_st_embed *em, const struct sf_catalog *c, struct sf_reader *r,
                const struct sf_selection *sel, const uint32_t *kept, uint32_t nkept,
                struct sf_st_skipped *skipped, struct sf_error *err)
{
	struct embed w = { .em = em,
		           .c = c,
		           .r = r,
		           .sel = sel,
		           .kept = kept,
		           .nkept = nkept,
		           .skipped = skipped,
		           .walk = { .tell = tell,
		                     .arg = &w,
		                     .depth_max = SF_ST_INNER_DEPTH,
		                     .nodes_max = SF_ST_INNER_NODES,
		                     .name_max = SF_ST_INNER_NAME } };
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
	sf_value_walk_release(&w.walk);
	sf_map_release(&w.names);
	return res;
}
