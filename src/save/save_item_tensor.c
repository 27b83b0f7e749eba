#include "config.h"

#include <string.h>

#include "base/growing.h"
#include "base/mem.h"
#include "save/device_caller.h"
#include "save/save_item_bytes.h"
#include "save/save_item_priv.h"

static int no_memory(const struct sf_save_item *item, struct sf_error *err)
{
	return sf_fail(err, -ENOMEM, "no memory for tensor '%s'",
	               sf_save_shown(item->key, item->key_len).at);
}

static uint64_t *copy_dims(struct sf_save_items *s, const uint64_t *v, unsigned n)
{
	uint64_t *at = sf_arena_alloc(&s->arena, n * sizeof(*at));

	if (at && n)
		memcpy(at, v, n * sizeof(*at));
	return at;
}

/* ---- what a box has in common with the others of its tensor ---- */

static int set_dtype(const struct shardfuse_save_tensor *t, struct sf_save_item *item,
                     struct sf_error *err)
{
	enum sf_dtype dtype =
		t->dtype ? sf_dtype_by_torch(t->dtype, strlen(t->dtype)) : SF_DTYPE_NONE;

	if (dtype == SF_DTYPE_NONE)
		return sf_fail(err, -EINVAL,
		               "tensor '%s': dtype '%s' is not known: torch's words are float32, "
		               "bfloat16, float16, int64 …",
		               sf_save_shown(item->key, item->key_len).at,
		               t->dtype ? sf_save_shown(t->dtype, strlen(t->dtype)).at : "");
	if (dtype >= SF_QINT8 && dtype <= SF_QUINT2X4)
		return sf_fail(err, -EINVAL, "tensor '%s': quantized tensors (%s) are not saved",
		               sf_save_shown(item->key, item->key_len).at,
		               sf_dtype_info(dtype)->torch);
	item->dtype = (uint8_t)dtype;
	return 0;
}

static int set_shape(struct sf_save_items *s, const struct shardfuse_save_tensor *t,
                     struct sf_save_item *item, struct sf_error *err)
{
	uint64_t bytes = sf_dtype_info(item->dtype)->bytes;

	if (t->ndim > SHARDFUSE_DIMS_MAX)
		return sf_fail(err, -EINVAL, "tensor '%s': %u dimensions, the limit is %d",
		               sf_save_shown(item->key, item->key_len).at, t->ndim,
		               SHARDFUSE_DIMS_MAX);
	if (t->ndim && !t->shape)
		return sf_fail(err, -EINVAL, "tensor '%s': no shape",
		               sf_save_shown(item->key, item->key_len).at);
	for (unsigned d = 0; d < t->ndim; d++)
		if (t->shape[d] >> 63 ||
		    (t->shape[d] && (!sf_mul(bytes, t->shape[d], &bytes) || bytes >> 63)))
			return sf_fail(err, -EINVAL, "tensor '%s': more than 2^63 bytes",
			               sf_save_shown(item->key, item->key_len).at);
	item->ndim = (uint8_t)t->ndim;
	item->shape = copy_dims(s, t->shape, t->ndim);
	return item->shape ? 0 : no_memory(item, err);
}

/* *ret_own: of the caller's staging hooks; each of them is one device, however many tensors have it. */
static int set_device(struct sf_save_items *s, const struct shardfuse_save_tensor *t,
                      const struct sf_device **ret_own, struct sf_error *err)
{
	unsigned i = 0;
	int r;

	*ret_own = NULL;
	if (t->device == SHARDFUSE_HOST || t->device == SHARDFUSE_CUDA)
		return t->staging
		               ? sf_fail(err, -EINVAL,
		                         "staging hooks are of SHARDFUSE_CALLER, not of device %d",
		                         t->device)
		               : 0;
	if (t->device != SHARDFUSE_CALLER)
		return sf_fail(err, -EINVAL, "device %d is not known", t->device);
	if (!t->staging)
		return sf_fail(err, -EINVAL, "SHARDFUSE_CALLER without staging hooks");
	while (i < s->ncallers && s->callers[i].hooks != t->staging)
		i++;
	if (i == SF_ARRAY_LEN(s->callers))
		return sf_fail(err, -E2BIG, "more than %zu kinds of staging hooks",
		               SF_ARRAY_LEN(s->callers));
	if (i == s->ncallers) {
		r = sf_device_caller_new(t->staging, &s->arena, &s->callers[i].device, err);
		if (r < 0)
			return r;
		s->callers[i].hooks = t->staging;
		s->ncallers++;
	}
	*ret_own = s->callers[i].device;
	return 0;
}

static int set_tensor(struct sf_save_items *s, const struct shardfuse_save_tensor *t,
                      struct sf_save_item *item, struct sf_error *err)
{
	const struct sf_item_name name = { t->key, t->key_len, t->path, t->npath };
	const struct sf_device *own;
	int r;

	*item = (struct sf_save_item){ .kind = SF_SAVE_TENSOR,
		                       .requires_grad = t->requires_grad != 0 };
	r = sf_item_set_name(s, &name, item, err);
	if (r >= 0)
		r = set_dtype(t, item, err);
	if (r >= 0)
		r = set_shape(s, t, item, err);
	if (r < 0)
		return r;
	r = set_device(s, t, &own, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "tensor '%s'",
		                   sf_save_shown(item->key, item->key_len).at);
	item->from = (struct sf_save_from){ .at = t->at,
		                            .device = t->device,
		                            .own = own,
		                            .stream = t->stream,
		                            .provide = t->at ? NULL : t->provide,
		                            .provide_arg = t->provide_arg };
	return 0;
}

/* ---- a box ---- */

static bool is_empty(const struct sf_save_item *item)
{
	for (unsigned d = 0; d < item->ndim; d++)
		if (!item->extent[d])
			return true;
	return false;
}

/* The item has origin and extent, which are inside of its shape. */
static int push_box(struct sf_save_items *s, struct sf_save_item *item, struct sf_error *err)
{
	struct sf_save_tensor_item stored = { .dtype = item->dtype,
		                              .ndim = item->ndim,
		                              .extent = item->extent };
	int r;

	item->bytes = sf_dtype_info(item->dtype)->bytes;
	for (unsigned d = 0; d < item->ndim; d++)
		item->bytes *= item->extent[d];
	if (item->bytes && !item->from.at && !item->from.provide)
		return sf_fail(err, -EINVAL,
		               "tensor '%s': %llu bytes, neither memory nor a provider",
		               sf_save_shown(item->key, item->key_len).at,
		               (unsigned long long)item->bytes);
	stored.bytes = item->bytes;
	r = sf_save_tensor_item_plan(&stored, err);
	if (r < 0)
		return sf_fail_ctx(err, r, "tensor '%s'",
		                   sf_save_shown(item->key, item->key_len).at);
	item->stored = stored.head_len + stored.bytes + stored.tail_len;
	/* a rank with nothing of a tensor says so with any empty box, as often as it likes */
	return sf_item_push(s, item, !is_empty(item), err);
}

static int set_box(struct sf_save_items *s, const struct shardfuse_save_tensor *t,
                   struct sf_save_item *item, struct sf_error *err)
{
	uint64_t origin[SHARDFUSE_DIMS_MAX], extent[SHARDFUSE_DIMS_MAX];

	for (unsigned d = 0; d < t->ndim; d++) {
		origin[d] = t->offset ? t->offset[d] : 0;
		if (origin[d] > item->shape[d] ||
		    (t->extent && t->extent[d] > item->shape[d] - origin[d]))
			return sf_fail(err, -EINVAL,
			               "tensor '%s': dimension %u: %llu elements from %llu on, "
			               "the shape has %llu",
			               sf_save_shown(item->key, item->key_len).at, d,
			               (unsigned long long)(t->extent ? t->extent[d] : 0),
			               (unsigned long long)origin[d],
			               (unsigned long long)item->shape[d]);
		extent[d] = t->extent ? t->extent[d] : item->shape[d] - origin[d];
	}
	item->origin = copy_dims(s, origin, t->ndim);
	item->extent = copy_dims(s, extent, t->ndim);
	return item->origin && item->extent ? 0 : no_memory(item, err);
}

/* Strides of what lies densely are none. */
static int set_stride(struct sf_save_items *s, const struct shardfuse_save_tensor *t,
                      struct sf_save_item *item, struct sf_error *err)
{
	uint64_t dense = 1, reach = sf_dtype_info(item->dtype)->bytes, step;
	bool is_dense = true;

	if (!t->stride || is_empty(item))
		return 0;
	for (unsigned d = t->ndim; d-- > 0;) {
		uint64_t extent = item->extent[d];

		if (extent == 1)
			continue;
		is_dense &= t->stride[d] == dense;
		dense *= extent;
		if (!sf_mul(t->stride[d], sf_dtype_info(item->dtype)->bytes, &step) ||
		    !sf_mul(step, extent - 1, &step) || !sf_add(reach, step, &reach) || reach >> 63)
			return sf_fail(err, -EINVAL,
			               "tensor '%s': stride %llu of dimension %u is no place in "
			               "memory",
			               sf_save_shown(item->key, item->key_len).at,
			               (unsigned long long)t->stride[d], d);
	}
	if (is_dense || !item->from.at)
		return 0;
	item->from.stride = copy_dims(s, t->stride, t->ndim);
	return item->from.stride ? 0 : no_memory(item, err);
}

int sf_save_items_tensor(struct sf_save_items *s, const struct shardfuse_save_tensor *given,
                         struct sf_error *err)
{
	struct shardfuse_save_tensor t;
	struct sf_save_item item;
	int r = sf_public_take(given, &t, sizeof(t), err);

	if (r >= 0)
		r = set_tensor(s, &t, &item, err);
	if (r >= 0)
		r = set_box(s, &t, &item, err);
	if (r >= 0)
		r = set_stride(s, &t, &item, err);
	return r < 0 ? r : push_box(s, &item, err);
}

/* ---- a range of elements ---- */

/* The range's own provider, asked by a box that begins at byte @base of the range. */
struct part {
	int (*provide)(void *arg, uint64_t off, void *to, size_t len, struct shardfuse_error *err);
	void *arg;
	uint64_t base;
};

static int provide_part(void *arg, uint64_t off, void *to, size_t len, struct shardfuse_error *err)
{
	const struct part *p = arg;

	return p->provide(p->arg, p->base + off, to, len, err);
}

struct flat {
	struct sf_save_items *s;
	const struct sf_save_item *item;           /* of the range */
	uint64_t start, below[SHARDFUSE_DIMS_MAX]; /* elements of one step of each dimension */
	struct sf_error *err;
};

/* @n steps of dimension @d from element @at on, which begins one. */
static int push_steps(const struct flat *f, unsigned d, uint64_t at, uint64_t n)
{
	struct sf_save_item item = *f->item;
	uint64_t origin[SHARDFUSE_DIMS_MAX], extent[SHARDFUSE_DIMS_MAX];
	uint64_t elem = sf_dtype_info(item.dtype)->bytes, base = (at - f->start) * elem;

	for (unsigned k = 0; k < item.ndim; k++) {
		origin[k] = at / f->below[k];
		at %= f->below[k];
		extent[k] = k < d ? 1 : k == d ? n : item.shape[k];
	}
	item.origin = copy_dims(f->s, origin, item.ndim);
	item.extent = copy_dims(f->s, extent, item.ndim);
	if (!item.origin || !item.extent)
		return no_memory(&item, f->err);
	if (item.from.at) {
		item.from.at = (const char *)item.from.at + base;
	} else if (item.from.provide) {
		struct part *p = sf_arena_alloc(&f->s->arena, sizeof(*p));
		if (!p)
			return no_memory(&item, f->err);
		*p = (struct part){ item.from.provide, item.from.provide_arg, base };
		item.from.provide = provide_part;
		item.from.provide_arg = p;
	}
	return push_box(f->s, &item, f->err);
}

/*
 * From the least dimension to the first: what is left of a started step of the dimension above, and
 * then the other way down. 2 ndim - 1 boxes at the most.
 */
static int push_range(const struct flat *f, uint64_t at, uint64_t stop)
{
	unsigned d = f->item->ndim;
	int r = 0;

	while (d-- > 1 && r >= 0) { /* up: to where a step of the dimension above begins */
		uint64_t above = f->below[d - 1], end = at - at % above + above;
		if (at % above == 0)
			continue;
		if (end > stop)
			break;
		r = push_steps(f, d, at, (end - at) / f->below[d]);
		at = end;
	}
	for (d = 0; d < f->item->ndim && at < stop && r >= 0; d++) { /* down: whole steps */
		uint64_t n = (stop - at) / f->below[d];
		if (!n)
			continue;
		r = push_steps(f, d, at, n);
		at += n * f->below[d];
	}
	return r;
}

int sf_save_items_flat(struct sf_save_items *s, const struct shardfuse_save_tensor *given,
                       uint64_t start, uint64_t stop, struct sf_error *err)
{
	struct shardfuse_save_tensor t;
	struct sf_save_item item;
	struct flat f = { .s = s, .item = &item, .start = start, .err = err };
	size_t before = s->item.n;
	uint64_t volume = 1;
	int r = sf_public_take(given, &t, sizeof(t), err);

	if (r >= 0)
		r = set_tensor(s, &t, &item, err);
	if (r < 0)
		return r;
	if (t.offset || t.extent || t.stride)
		return sf_fail(err, -EINVAL,
		               "tensor '%s': a range of elements has no offset, extent or stride",
		               sf_save_shown(item.key, item.key_len).at);
	for (unsigned d = item.ndim; d-- > 0;) {
		f.below[d] = volume;
		volume *= item.shape[d];
	}
	if (start > stop || stop > volume)
		return sf_fail(err, -EINVAL, "tensor '%s': elements %llu to %llu, it has %llu",
		               sf_save_shown(item.key, item.key_len).at, (unsigned long long)start,
		               (unsigned long long)stop, (unsigned long long)volume);
	if (start == stop && volume && !item.ndim)
		return 0;                  /* no box of it is empty */
	if (start == stop || !item.ndim) { /* nothing of it: it is known all the same */
		const uint64_t zero[SHARDFUSE_DIMS_MAX] = { 0 };
		item.origin = copy_dims(s, zero, item.ndim);
		item.extent = volume ? item.origin : item.shape;
		return item.origin ? push_box(s, &item, err) : no_memory(&item, err);
	}
	r = push_range(&f, start, stop);
	if (r < 0)
		s->item.n = before; /* all of it or nothing */
	return r;
}
