#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "parse/torch_tensor.h"

#define WRAPS_MAX 8 /* parameters of subclasses of parameters */

static bool is(const char *s, size_t len, const char *name)
{
	return strlen(name) == len && memcmp(s, name, len) == 0;
}

enum sf_dtype sf_torch_storage_class(const char *module, size_t module_len, const char *name,
                                     size_t name_len)
{
	if (is(name, name_len, "UntypedStorage") || is(name, name_len, "_UntypedStorage"))
		return is(module, module_len, "torch.storage") || is(module, module_len, "torch")
		               ? SF_UINT8
		               : SF_DTYPE_NONE;
	if (!is(module, module_len, "torch") &&
	    !is(module, module_len, "torch.cuda")) /* the second: before 1.12 */
		return SF_DTYPE_NONE;
	return sf_dtype_by_storage(name, name_len);
}

int sf_torch_tensor_check(struct sf_torch_tensor *t, enum sf_dtype storage, uint64_t count,
                          struct sf_error *err)
{
	uint64_t bytes, last = t->storage_off, numel = 1, step;
	const struct sf_dtype_info *info = sf_dtype_info((enum sf_dtype)t->dtype);
	bool empty = false;

	if (!sf_mul(count, sf_dtype_info(storage)->bytes, &bytes) || bytes > INT64_MAX)
		return sf_fail(err, -EBADMSG, "tensor: a storage of %" PRIu64 " elements", count);
	if (bytes % info->bytes)
		return sf_fail(err, -EBADMSG, "tensor: a storage of %" PRIu64 " bytes for %s of %u",
		               bytes, info->torch, info->bytes);
	t->storage_numel = bytes / info->bytes;
	for (unsigned d = 0; d < t->ndim; d++)
		empty |= t->shape[d] == 0;
	if (empty)
		return 0;
	for (unsigned d = 0; d < t->ndim; d++) {
		if (t->stride[d] < 0)
			return sf_fail(err, -EBADMSG, "tensor: stride %" PRId64 " in dimension %u",
			               t->stride[d], d);
		if (!sf_mul(numel, t->shape[d], &numel) || numel > INT64_MAX / 16 ||
		    !sf_mul(t->shape[d] - 1, (uint64_t)t->stride[d], &step) ||
		    !sf_add(last, step, &last))
			return sf_fail(err, -EBADMSG, "tensor: its size overflows in dimension %u",
			               d);
	}
	if (last >= t->storage_numel)
		return sf_fail(err, -EBADMSG,
		               "tensor: reaches element %" PRIu64 " of a storage of %" PRIu64, last,
		               t->storage_numel);
	return 0;
}

/* A tuple of ints, or torch.Size of one. */
static const struct sf_pv *int_tuple(const struct sf_pv *v)
{
	if (v->kind == SF_PV_CALL && sf_pv_is_global(v->call.callable, "torch", "Size") &&
	    v->call.args->seq.n == 1)
		v = v->call.args->seq.at[0];
	return v->kind == SF_PV_TUPLE || v->kind == SF_PV_LIST ? v : NULL;
}

static int shape_from_pv(const struct sf_pv *size, const struct sf_pv *stride,
                         struct sf_torch_tensor *t, struct sf_error *err)
{
	size = int_tuple(size);
	stride = int_tuple(stride);
	if (!size || !stride || size->seq.n != stride->seq.n)
		return sf_fail(err, -EBADMSG,
		               "tensor: size and stride are not tuples of one length");
	if (size->seq.n > SF_DIMS_MAX)
		return sf_fail(err, -EBADMSG, "tensor: %zu dimensions, limit %d", size->seq.n,
		               SF_DIMS_MAX);
	t->ndim = (uint8_t)size->seq.n;
	for (unsigned d = 0; d < t->ndim; d++) {
		if (!sf_pv_u64(size->seq.at[d], &t->shape[d]) ||
		    stride->seq.at[d]->kind != SF_PV_INT)
			return sf_fail(err, -EBADMSG, "tensor: no size or stride in dimension %u",
			               d);
		t->stride[d] = stride->seq.at[d]->i;
	}
	return 0;
}

/* ("storage", class, key, location, count), with a sixth for views in files before 1.6 */
static int storage_from_pv(const struct sf_pv *v, struct sf_torch_tensor *t,
                           enum sf_dtype *ret_class, uint64_t *ret_count, struct sf_error *err)
{
	const struct sf_pv *id, *cls;

	if (v->kind != SF_PV_PERSID || v->persid->kind != SF_PV_TUPLE || v->persid->seq.n < 5 ||
	    !sf_pv_is_str(v->persid->seq.at[0], "storage"))
		return sf_fail(err, -EBADMSG, "tensor: its storage is not a persistent id of one");
	id = v->persid;
	cls = id->seq.at[1];
	if (cls->kind != SF_PV_GLOBAL || id->seq.at[2]->kind != SF_PV_STR ||
	    !sf_pv_u64(id->seq.at[4], ret_count))
		return sf_fail(err, -EBADMSG, "tensor: storage id without class, key or count");
	*ret_class = sf_torch_storage_class(cls->global.module->str.at, cls->global.module->str.len,
	                                    cls->global.name->str.at, cls->global.name->str.len);
	if (!*ret_class)
		return sf_fail(err, -EBADMSG, "tensor: unknown storage class '%s.%s'",
		               cls->global.module->str.at, cls->global.name->str.at);
	if (id->seq.n > 5 && id->seq.at[5]->kind != SF_PV_NONE)
		return sf_fail(err, -EBADMSG,
		               "tensor: a view of another storage, as before torch 0.4");
	t->storage_key = id->seq.at[2];
	return 0;
}

static bool flag(const struct sf_pv *dict, const char *name)
{
	const struct sf_pv *v = sf_pv_get(dict, name);

	return v && v->kind == SF_PV_BOOL && v->b;
}

/* Takes off what only adds Python around a tensor; *f and *a are then the function that makes it
 * and its arguments. */
static int unwrap(const struct sf_pv *v, const struct sf_pv **f, const struct sf_pv **a)
{
	for (int i = 0; i < WRAPS_MAX; i++) {
		if (v) {
			if (v->kind != SF_PV_CALL || v->call.callable->kind != SF_PV_GLOBAL)
				return 0;
			*f = v->call.callable;
			*a = v->call.args;
			v = NULL;
		}
		if (sf_pv_is_str((*f)->global.module, "torch._tensor") && (*a)->seq.n >= 3 &&
		    (sf_pv_is_str((*f)->global.name, "_rebuild_from_type_v2") ||
		     sf_pv_is_str((*f)->global.name, "_rebuild_from_type"))) {
			const struct sf_pv *inner = (*a)->seq.at[0], *args = (*a)->seq.at[2];
			if (inner->kind != SF_PV_GLOBAL || args->kind != SF_PV_TUPLE)
				return 0;
			*f = inner;
			*a = args;
		} else if (sf_pv_is_str((*f)->global.module, "torch._utils") && (*a)->seq.n >= 2 &&
		           (sf_pv_is_str((*f)->global.name, "_rebuild_parameter") ||
		            sf_pv_is_str((*f)->global.name, "_rebuild_parameter_with_state"))) {
			v = (*a)->seq.at[0];
		} else {
			return 1;
		}
	}
	return 0;
}

int sf_torch_tensor_from_pv(const struct sf_pv *v, struct sf_torch_tensor *ret,
                            struct sf_error *err)
{
	struct sf_torch_tensor t = { 0 };
	const struct sf_pv *f = NULL, *a = NULL, *meta = NULL, *dtype;
	enum sf_dtype storage = SF_DTYPE_NONE;
	uint64_t count = 0;
	bool v3, quantized;
	int r;

	if (!unwrap(v, &f, &a) || !sf_pv_is_str(f->global.module, "torch._utils"))
		return 0;
	v3 = sf_pv_is_str(f->global.name, "_rebuild_tensor_v3");
	/* storage, offset, size and stride stand where they do for the others; scale and zero point
	 * behind them are not ours to apply: the values are the integers */
	quantized = sf_pv_is_str(f->global.name, "_rebuild_qtensor");
	if (!v3 && !quantized && !sf_pv_is_str(f->global.name, "_rebuild_tensor_v2") &&
	    !sf_pv_is_str(f->global.name, "_rebuild_tensor"))
		return 0;
	if (a->seq.n < (v3 ? 7 : 4))
		return sf_fail(err, -EBADMSG, "tensor: %s with %zu arguments",
		               f->global.name->str.at, a->seq.n);
	r = storage_from_pv(a->seq.at[0], &t, &storage, &count, err);
	if (r < 0)
		return r;
	t.dtype = (uint8_t)storage;
	if (v3) {
		dtype = a->seq.at[6];
		t.dtype = SF_DTYPE_NONE;
		if (dtype->kind == SF_PV_GLOBAL && sf_pv_is_str(dtype->global.module, "torch"))
			t.dtype = (uint8_t)sf_dtype_by_torch(dtype->global.name->str.at,
			                                     dtype->global.name->str.len);
		if (!t.dtype)
			return sf_fail(err, -EBADMSG, "tensor: unknown dtype '%s'",
			               dtype->kind == SF_PV_GLOBAL ? dtype->global.name->str.at
			                                           : "(no global)");
		meta = a->seq.n > 7 ? a->seq.at[7] : NULL;
	} else if (!quantized && a->seq.n > 6) {
		meta = a->seq.at[6];
	}
	if (meta && meta->kind == SF_PV_DICT) {
		t.conj = flag(meta, "conj");
		t.neg = flag(meta, "neg");
	}
	if (!sf_pv_u64(a->seq.at[1], &t.storage_off))
		return sf_fail(err, -EBADMSG, "tensor: no storage offset");
	r = shape_from_pv(a->seq.at[2], a->seq.at[3], &t, err);
	if (r == 0)
		r = sf_torch_tensor_check(&t, storage, count, err);
	if (r < 0)
		return r;
	*ret = t;
	return 1;
}
