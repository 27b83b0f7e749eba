#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "parse/torch_archive_priv.h"
#include "parse/torch_tensor.h"

/*
 * A plain tar. Storages and tensors have numbers (addresses they had), and the pickle's persistent
 * ids are those, as text. Integers are little-endian.
 *   storages  a pickled count; for each a pickle (number, location, class), its count of elements
 * in 8 bytes, and they; a pickled list of views (number, of which, elements in front, count)
 *   tensors   a pickled count; for each a pickle (number, storage's, class), dimensions in 8 bytes
 *             (the upper half means nothing), sizes, strides, storage offset, 8 bytes each
 *   pickle    the value
 * Source: pytorch/pytorch torch/serialization.py (2.13), legacy_load inside _legacy_load.
 */

#define BLOCK 512
#define MEMBERS_MAX 64

struct member {
	const char *name;
	uint64_t off, end; /* end 0: not there */
};
enum { PICKLE, TENSORS, STORAGES, NMEMBERS };

struct thing { /* storage or tensor */
	char key[24];
	struct sf_pv *value;        /* tensor: the call that makes it; storage: its id */
	struct sf_pv *cls;          /* storage */
	uint64_t off, bytes, count; /* storage */
};
SF_VEC(things, struct thing);

struct tar {
	struct sf_torch_open_op *o;
	struct member m[NMEMBERS];
	struct things thing;
	struct sf_map map; /* key -> thing */
	struct sf_torch_records storage;
};

/* ---- members ---- */

/* Octal text, or a binary number behind 0x80 (GNU). */
static bool number(const uint8_t *p, size_t len, uint64_t *ret)
{
	uint64_t v = 0;
	size_t i = 0;

	if (p[0] == 0x80) {
		for (i = 1; i < len; i++) {
			if (v >> 56)
				return false;
			v = v << 8 | p[i];
		}
		*ret = v;
		return true;
	}
	while (i < len && p[i] == ' ')
		i++;
	for (; i < len && p[i] >= '0' && p[i] <= '7'; i++) {
		if (v >> 60)
			return false;
		v = v * 8 + (uint64_t)(p[i] - '0');
	}
	*ret = v;
	return i == len || p[i] == ' ' || p[i] == '\0';
}

static int find_members(struct tar *t)
{
	const struct sf_torch_input *in = t->o->in;
	uint64_t at = 0, size;
	unsigned found = 0;

	for (unsigned i = 0; i < MEMBERS_MAX && found < NMEMBERS; i++) {
		const uint8_t *p;
		if (in->len - at < BLOCK)
			break;
		int r = sf_torch_get(in, at, BLOCK, BLOCK, "a tar header", &t->o->scratch, &p,
		                     t->o->err);
		if (r < 0)
			return r;
		if (!p[0])
			break; /* the end */
		if (sf_torch_container(p, BLOCK) != SF_TORCH_TAR || !number(p + 124, 12, &size) ||
		    size > in->len - at - BLOCK)
			return sf_fail(t->o->err, -EBADMSG,
			               "tar: no member's header at %" PRIu64 " of %" PRIu64, at,
			               in->len);
		for (unsigned k = 0; k < NMEMBERS; k++) {
			size_t n = strlen(t->m[k].name);
			if ((p[156] == '0' || p[156] == '\0') && !t->m[k].end &&
			    memcmp(p, t->m[k].name, n + 1) == 0) {
				t->m[k].off = at + BLOCK;
				t->m[k].end = at + BLOCK + size;
				found++;
			}
		}
		size += -size & (BLOCK - 1);
		if (size > in->len - at - BLOCK)
			break; /* the last member, not filled up */
		at += BLOCK + size;
	}
	for (unsigned k = 0; k < NMEMBERS; k++)
		if (!t->m[k].end)
			return sf_fail(t->o->err, -ENOTSUP,
			               "a tar without a member '%s': not one of torch.save",
			               t->m[k].name);
	return 0;
}

/* ---- things ---- */

static int same_key(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct tar *t = arg;
	const char *own = t->thing.at[value].key;

	return strlen(own) == len && memcmp(own, key, len) == 0;
}

static struct thing *find(struct tar *t, const struct sf_pv *number)
{
	char key[24];
	uint32_t i = SF_MAP_NONE;

	if (number->kind == SF_PV_STR)
		i = sf_map_get(&t->map, number->str.at, number->str.len, same_key, t);
	else if (number->kind == SF_PV_INT)
		i = sf_map_get(&t->map, key,
		               (size_t)snprintf(key, sizeof(key), "%" PRId64, number->i), same_key,
		               t);
	return i == SF_MAP_NONE ? NULL : &t->thing.at[i];
}

/* @th->key is @number's text. -EBADMSG: it has that of another one. */
static int add(struct tar *t, struct thing *th, const struct sf_pv *number)
{
	int failed = 0;

	if (number->kind == SF_PV_INT)
		snprintf(th->key, sizeof(th->key), "%" PRId64, number->i);
	else if (number->kind == SF_PV_STR && number->str.len &&
	         number->str.len < sizeof(th->key) && strlen(number->str.at) == number->str.len)
		snprintf(th->key, sizeof(th->key), "%s", number->str.at);
	else
		return sf_fail(t->o->err, -EBADMSG, "tar: a storage or tensor without a number");
	if (t->thing.n >= SF_MAP_NONE - 1 || things_reserve(&t->thing, t->thing.n + 1) < 0)
		return sf_fail(t->o->err, -ENOMEM, "no memory for %zu tensors", t->thing.n);
	if (sf_map_add(&t->map, th->key, strlen(th->key), (uint32_t)t->thing.n, same_key, t,
	               &failed) != SF_MAP_NONE)
		return sf_fail(t->o->err, -EBADMSG, "tar: number %s occurs twice", th->key);
	if (failed)
		return sf_fail(t->o->err, failed, "no memory for %zu tensors", t->thing.n);
	t->thing.at[t->thing.n++] = *th;
	return 0;
}

static int add_storage(struct tar *t, struct thing *th, const struct sf_pv *number)
{
	int r = add(t, th, number);

	if (r < 0)
		return r;
	char *key = sf_arena_strdup(t->o->arena, th->key, strlen(th->key));
	struct sf_pv *id = key ? sf_torch_new_storage_id(t->o->arena, th->cls, key, th->count)
	                       : NULL,
		     *v = id ? sf_arena_calloc(t->o->arena, 1, sizeof(*v)) : NULL;
	if (!v || sf_torch_records_push(&t->storage,
	                                (struct sf_torch_record){ key, th->off, th->bytes }) < 0)
		return sf_fail(t->o->err, -ENOMEM, "no memory for %zu storages", t->thing.n);
	v->kind = SF_PV_PERSID;
	v->height = (uint16_t)(id->height + 1);
	v->persid = id;
	t->thing.at[t->thing.n - 1].value = v;
	return 0;
}

static int bad(struct tar *t, const char *what, uint64_t at)
{
	return sf_fail(t->o->err, -EBADMSG, "tar: %s at %" PRIu64, what, at);
}

/* @v's elements, when it is a tuple or a list of so many. */
static struct sf_pv *const *seq(const struct sf_pv *v, size_t n)
{
	return (v->kind == SF_PV_TUPLE || v->kind == SF_PV_LIST) && v->seq.n == n ? v->seq.at
	                                                                          : NULL;
}

static int elem_of(const struct sf_pv *cls, uint64_t *ret)
{
	enum sf_dtype dtype = cls->kind != SF_PV_GLOBAL
	                              ? SF_DTYPE_NONE
	                              : sf_torch_storage_class(cls->global.module->str.at,
	                                                       cls->global.module->str.len,
	                                                       cls->global.name->str.at,
	                                                       cls->global.name->str.len);

	*ret = sf_dtype_info(dtype)->bytes;
	return dtype ? 0 : -ENOTSUP;
}

static int read_storage(struct tar *t, uint64_t *at, uint64_t end)
{
	struct sf_pv *v, *const *a;
	struct thing th = { .value = NULL };
	const uint8_t *p;
	uint64_t elem;
	int r = sf_torch_pickle_at(t->o, *at, end, &v, at);

	if (r < 0)
		return r;
	a = seq(v, 3);
	if (!a)
		return bad(t, "no storage", *at);
	if (elem_of(a[2], &elem) < 0)
		return sf_fail(t->o->err, -ENOTSUP,
		               "tar: storage of a class nobody knows at %" PRIu64, *at);
	r = sf_torch_get(t->o->in, *at, 8, 8, "a storage", &t->o->scratch, &p, t->o->err);
	if (r < 0)
		return r;
	th.cls = a[2];
	th.count = sf_le64(p);
	th.off = *at + 8;
	if (th.off > end || th.count > INT64_MAX || !sf_mul(th.count, elem, &th.bytes) ||
	    th.bytes > end - th.off)
		return bad(t, "a storage that reaches past its member", *at);
	*at = th.off + th.bytes;
	return add_storage(t, &th, a[0]);
}

static int read_views(struct tar *t, uint64_t at, uint64_t end)
{
	struct sf_pv *list, *const *a;
	int r = sf_torch_pickle_at(t->o, at, end, &list, &at);

	if (r >= 0 && list->kind != SF_PV_LIST)
		return bad(t, "no list of views", at);
	for (size_t i = 0; r >= 0 && i < list->seq.n; i++) {
		uint64_t skip, count, elem;
		const struct thing *root;
		a = seq(list->seq.at[i], 4);
		root = a ? find(t, a[1]) : NULL;
		if (!root || !root->cls || elem_of(root->cls, &elem) < 0 ||
		    !sf_pv_u64(a[2], &skip) || !sf_pv_u64(a[3], &count) || skip > root->count ||
		    count > root->count - skip)
			return bad(t, "a view that is not inside its storage", at);
		struct thing th = { .cls = root->cls,
			            .off = root->off + skip * elem,
			            .bytes = count * elem,
			            .count = count };
		r = add_storage(t, &th, a[0]);
	}
	return r;
}

static int read_storages(struct tar *t)
{
	const struct member *m = &t->m[STORAGES];
	uint64_t at = m->off, n = 0;
	struct sf_pv *v;
	int r = sf_torch_pickle_at(t->o, at, m->end, &v, &at);

	if (r >= 0 && !sf_pv_u64(v, &n))
		return bad(t, "no count of storages", m->off);
	for (; r >= 0 && n; n--)
		r = read_storage(t, &at, m->end);
	return r < 0 ? r : read_views(t, at, m->end);
}

/* torch._utils._rebuild_tensor_v2(storage, offset, size, stride, False, OrderedDict()) */
static struct sf_pv *make_tensor(struct tar *t, struct sf_pv *storage, const uint8_t *p,
                                 unsigned ndim)
{
	struct sf_arena *a = t->o->arena;
	struct sf_pv *dim[2][SF_DIMS_MAX], *global = sf_arena_calloc(a, 1, sizeof(*global)),
					   *no = sf_arena_calloc(a, 1, sizeof(*no)),
					   *call = sf_arena_calloc(a, 1, sizeof(*call));

	for (unsigned d = 0; d < 2 * ndim; d++)
		dim[d / SF_MAX(ndim, 1u)][d % SF_MAX(ndim, 1u)] =
			sf_torch_new_int(a, (int64_t)sf_le64(p + (size_t)d * 8));
	struct sf_pv *hooks = sf_arena_calloc(a, 1, sizeof(*hooks)),
		     *ordered = sf_arena_calloc(a, 1, sizeof(*ordered));
	if (!global || !no || !call || !hooks || !ordered)
		return NULL;
	no->kind = SF_PV_BOOL;
	global->kind = ordered->kind = SF_PV_GLOBAL;
	global->global.module = sf_torch_new_str(a, "torch._utils", 12);
	global->global.name = sf_torch_new_str(a, "_rebuild_tensor_v2", 18);
	ordered->global.module = sf_torch_new_str(a, "collections", 11);
	ordered->global.name = sf_torch_new_str(a, "OrderedDict", 11);
	hooks->kind = call->kind = SF_PV_CALL;
	hooks->call.callable = ordered;
	hooks->call.args = sf_torch_new_tuple(a, NULL, 0);
	struct sf_pv *part[] = { storage,
		                 sf_torch_new_int(a, (int64_t)sf_le64(p + (size_t)ndim * 16)),
		                 sf_torch_new_tuple(a, dim[0], ndim),
		                 sf_torch_new_tuple(a, dim[1], ndim),
		                 no,
		                 hooks };
	if (!global->global.module || !global->global.name || !ordered->global.module ||
	    !ordered->global.name || !hooks->call.args)
		return NULL;
	hooks->height = 2;
	call->call.callable = global;
	call->call.args = sf_torch_new_tuple(a, part, SF_ARRAY_LEN(part));
	if (!call->call.args)
		return NULL;
	call->height = (uint16_t)(call->call.args->height + 1);
	return call;
}

static int read_tensors(struct tar *t)
{
	const struct member *m = &t->m[TENSORS];
	uint64_t at = m->off, n = 0;
	struct sf_pv *v, *const *a;
	const uint8_t *p;
	int r = sf_torch_pickle_at(t->o, at, m->end, &v, &at);

	if (r >= 0 && !sf_pv_u64(v, &n))
		return bad(t, "no count of tensors", m->off);
	for (; r >= 0 && n; n--) {
		struct thing *storage, th = { .value = NULL };
		uint32_t ndim;
		r = sf_torch_pickle_at(t->o, at, m->end, &v, &at);
		if (r < 0)
			return r;
		a = seq(v, 3);
		storage = a ? find(t, a[1]) : NULL;
		if (!storage || !storage->cls)
			return bad(t, "a tensor without a storage", at);
		r = sf_torch_get(t->o->in, at, 8, 8, "a tensor", &t->o->scratch, &p, t->o->err);
		if (r < 0)
			return r;
		ndim = sf_le32(p);
		if (ndim > SF_DIMS_MAX || at > m->end || m->end - at < 16 + (uint64_t)ndim * 16)
			return bad(t, "a tensor of too many dimensions", at);
		r = sf_torch_get(t->o->in, at + 8, 8 + (uint64_t)ndim * 16, UINT64_MAX, "a tensor",
		                 &t->o->scratch, &p, t->o->err);
		if (r < 0)
			return r;
		at += 16 + (uint64_t)ndim * 16;
		th.value = make_tensor(t, storage->value, p, ndim);
		if (!th.value)
			return sf_fail(t->o->err, -ENOMEM, "no memory for %zu tensors", t->thing.n);
		r = add(t, &th, a[0]);
	}
	return r;
}

/* A persistent id becomes what it stands for. */
static int take_persid(void *arg, struct sf_pv *v, struct sf_error *err)
{
	struct tar *t = arg;
	const struct sf_pv *id = v->persid;
	uint32_t mark = v->mark;
	bool shared = v->shared;

	if (id->kind == SF_PV_TUPLE && id->seq.n && id->seq.at[0]->kind == SF_PV_GLOBAL) {
		*v = *id->seq.at[0]; /* a module's class, with its source text */
	} else {
		const struct thing *th = find(t, id);
		if (!th)
			return sf_fail(err, -EBADMSG,
			               "tar: a persistent id that is no storage's nor a tensor's");
		*v = *th->value;
	}
	v->mark = mark;
	v->shared = shared;
	return 0;
}

int sf_torch_open_tar(struct sf_torch_open_op *o)
{
	struct tar t = { .o = o,
		         .m = { [PICKLE] = { "pickle", 0, 0 },
		                [TENSORS] = { "tensors", 0, 0 },
		                [STORAGES] = { "storages", 0, 0 } } };
	uint64_t end;
	int r = find_members(&t);

	if (r >= 0)
		r = read_storages(&t);
	if (r >= 0)
		r = read_tensors(&t);
	if (r >= 0)
		r = sf_torch_pickle_at(o, t.m[PICKLE].off, t.m[PICKLE].end, &o->a.root, &end);
	if (r >= 0)
		r = sf_torch_persids(o->a.root, take_persid, &t, o->err);
	if (r >= 0)
		r = sf_torch_keep_storages(o, &t.storage);
	sf_map_release(&t.map);
	things_release(&t.thing);
	sf_torch_records_release(&t.storage);
	return r;
}
