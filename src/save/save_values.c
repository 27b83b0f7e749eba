#include "config.h"

#include "base/arena.h"
#include "base/buf.h"
#include "base/growing.h"
#include "base/map.h"
#include "base/mem.h"
#include "base/path.h"
#include "base/vec.h"
#include "parse/dtype.h"
#include "parse/torch_item.h"
#include "save/save_values.h"

struct shardfuse_value {
	struct sf_pv pv; /* first: a child is found from its pv */
	struct shardfuse_values *vs;
	struct shardfuse_value *in; /* that it stands in */
	size_t cap;                 /* of pv.seq.at */
	bool is_key;                /* of @in: it may change no more */
};

struct dict_key {
	const char *bytes; /* the dict's address, then sf_save_key_bytes() */
	size_t len, place; /* of its value in the dict's seq */
};
SF_VEC(dict_keys, struct dict_key);

struct shardfuse_values {
	struct sf_arena arena;
	struct dict_keys key; /* of all dicts */
	struct sf_map map;
	struct sf_buf probe;
};

struct shardfuse_values *shardfuse_values_new(void)
{
	return calloc(1, sizeof(struct shardfuse_values));
}

void shardfuse_values_free(struct shardfuse_values *vs)
{
	if (!vs)
		return;
	sf_arena_release(&vs->arena);
	dict_keys_release(&vs->key);
	sf_map_release(&vs->map);
	sf_buf_release(&vs->probe);
	free(vs);
}

struct sf_pv *sf_save_value_tree(const struct shardfuse_value *v)
{
	return (struct sf_pv *)(uintptr_t)&v->pv;
}

/* ---- values of one piece ---- */

static struct shardfuse_value *make(struct shardfuse_values *vs, enum sf_pv_kind kind)
{
	struct shardfuse_value *v = vs ? sf_arena_calloc(&vs->arena, 1, sizeof(*v)) : NULL;

	if (!v)
		return NULL;
	v->pv.kind = (uint8_t)kind;
	v->vs = vs;
	return v;
}

struct shardfuse_value *shardfuse_value_none(struct shardfuse_values *vs)
{
	return make(vs, SF_PV_NONE);
}

struct shardfuse_value *shardfuse_value_bool(struct shardfuse_values *vs, int b)
{
	struct shardfuse_value *v = make(vs, SF_PV_BOOL);

	if (v)
		v->pv.b = b != 0;
	return v;
}

struct shardfuse_value *shardfuse_value_int(struct shardfuse_values *vs, int64_t i)
{
	struct shardfuse_value *v = make(vs, SF_PV_INT);

	if (v)
		v->pv.i = i;
	return v;
}

struct shardfuse_value *sf_save_value_uint(struct shardfuse_values *vs, uint64_t u)
{
	uint8_t bytes[9] = { 0 }; /* two's complement: the top bit stays clear */

	if (u <= INT64_MAX)
		return shardfuse_value_int(vs, (int64_t)u);
	sf_put_le64(bytes, u);
	return sf_save_value_text(vs, SF_PV_LONG, (const char *)bytes, sizeof(bytes));
}

struct shardfuse_value *shardfuse_value_float(struct shardfuse_values *vs, double f)
{
	struct shardfuse_value *v = make(vs, SF_PV_FLOAT);

	if (v)
		v->pv.f = f;
	return v;
}

struct shardfuse_value *sf_save_value_text(struct shardfuse_values *vs, enum sf_pv_kind kind,
                                           const char *at, size_t len)
{
	struct shardfuse_value *v = make(vs, kind);
	char *copy = v ? sf_arena_strdup(&vs->arena, len ? at : "", len) : NULL;

	if (!copy)
		return NULL;
	v->pv.str.at = copy;
	v->pv.str.len = len;
	return v;
}

struct shardfuse_value *shardfuse_value_str(struct shardfuse_values *vs, const char *s, size_t len)
{
	return sf_utf8_valid(s, len) ? sf_save_value_text(vs, SF_PV_STR, s, len) : NULL;
}

struct shardfuse_value *shardfuse_value_bytes(struct shardfuse_values *vs, const void *at,
                                              size_t len)
{
	return sf_save_value_text(vs, SF_PV_BYTES, at, len);
}

/* ---- torch's ---- */

static bool name_global(struct shardfuse_values *vs, struct sf_pv *v, const char *name)
{
	struct sf_pv *two = sf_arena_calloc(&vs->arena, 2, sizeof(*two));
	char *copy = two ? sf_arena_strdup(&vs->arena, name, strlen(name)) : NULL;

	if (!copy)
		return false;
	two[0] = (struct sf_pv){ .kind = SF_PV_STR, .str = { "torch", 5 } };
	two[1] = (struct sf_pv){ .kind = SF_PV_STR, .str = { copy, strlen(copy) } };
	v->kind = SF_PV_GLOBAL;
	v->global.module = &two[0];
	v->global.name = &two[1];
	return true;
}

struct shardfuse_value *shardfuse_value_dtype(struct shardfuse_values *vs, const char *dtype)
{
	const enum sf_dtype d = dtype ? sf_dtype_by_torch(dtype, strlen(dtype)) : SF_DTYPE_NONE;
	struct shardfuse_value *v = d != SF_DTYPE_NONE ? make(vs, SF_PV_GLOBAL) : NULL;

	return v && name_global(vs, &v->pv, sf_dtype_info(d)->torch) ? v : NULL;
}

/* torch.Size((dim, …)) */
struct shardfuse_value *shardfuse_value_size(struct shardfuse_values *vs, const uint64_t *dim,
                                             size_t ndim)
{
	struct shardfuse_value *v = ndim <= SF_DIMS_MAX ? make(vs, SF_PV_CALL) : NULL;
	/* the class, two tuples, and the numbers, each with its place in a tuple */
	struct sf_pv *pv = v ? sf_arena_calloc(&vs->arena, 3 + ndim, sizeof(*pv)) : NULL;
	struct sf_pv **at =
		pv ? sf_arena_calloc(&vs->arena, 1 + ndim, sizeof(struct sf_pv *)) : NULL;

	if (!at || !name_global(vs, &pv[0], "Size"))
		return NULL;
	at[0] = &pv[2];
	for (size_t k = 0; k < ndim; k++) {
		if (dim[k] > INT64_MAX)
			return NULL; /* no tensor of torch's */
		pv[3 + k] = (struct sf_pv){ .kind = SF_PV_INT, .i = (int64_t)dim[k] };
		at[1 + k] = &pv[3 + k];
	}
	pv[1] = (struct sf_pv){ .kind = SF_PV_TUPLE, .seq = { at, 1 } };
	pv[2] = (struct sf_pv){ .kind = SF_PV_TUPLE, .seq = { at + 1, ndim } };
	v->pv.call.callable = &pv[0];
	v->pv.call.args = &pv[1];
	return v;
}

/* ---- containers ---- */

struct shardfuse_value *shardfuse_value_list(struct shardfuse_values *vs)
{
	return make(vs, SF_PV_LIST);
}

struct shardfuse_value *shardfuse_value_tuple(struct shardfuse_values *vs)
{
	return make(vs, SF_PV_TUPLE);
}

struct shardfuse_value *shardfuse_value_dict(struct shardfuse_values *vs)
{
	return make(vs, SF_PV_DICT);
}

static bool is_container(const struct shardfuse_value *v)
{
	return v->pv.kind == SF_PV_LIST || v->pv.kind == SF_PV_TUPLE || v->pv.kind == SF_PV_DICT;
}

/* May @v go into @to? It stands nowhere yet, and @to is neither it, nor in it, nor in a key. */
static int may_go(const struct shardfuse_value *to, const struct shardfuse_value *v)
{
	if (v->in || v->vs != to->vs)
		return -EINVAL;
	for (const struct shardfuse_value *p = to; p; p = p->in)
		if (p == v || p->is_key)
			return -EINVAL;
	return 0;
}

/* Room for @n more. What was there before stays in the arena, which is as much again at most. */
static int grow(struct shardfuse_value *to, size_t n)
{
	size_t need, cap;
	struct sf_pv **at;

	if (__builtin_add_overflow(to->pv.seq.n, n, &need))
		return -ENOMEM;
	if (need <= to->cap)
		return 0;
	cap = SF_MAX(need, 2 * to->cap);
	at = sf_arena_calloc(&to->vs->arena, cap, sizeof(struct sf_pv *));
	if (!at)
		return -ENOMEM;
	if (to->pv.seq.n)
		memcpy(at, to->pv.seq.at, to->pv.seq.n * sizeof(struct sf_pv *));
	to->pv.seq.at = at;
	to->cap = cap;
	return 0;
}

static void place(struct shardfuse_value *to, struct shardfuse_value *v)
{
	to->pv.seq.at[to->pv.seq.n++] = &v->pv;
	v->in = to;
}

int shardfuse_value_append(struct shardfuse_value *to, struct shardfuse_value *v)
{
	int r;

	if (!to || !v)
		return -ENOMEM;
	if (!is_container(to) || to->pv.kind == SF_PV_DICT)
		return -EINVAL;
	r = may_go(to, v);
	if (r == 0)
		r = grow(to, 1);
	if (r == 0)
		place(to, v);
	return r;
}

static int same_key(void *arg, uint32_t value, const char *bytes, size_t len)
{
	const struct dict_key *k = &((const struct shardfuse_values *)arg)->key.at[value];

	return k->len == len && memcmp(k->bytes, bytes, len) == 0;
}

/* The number of @dict's entry for @key: one that was there, or SF_MAP_NONE and a new one. */
static int find_key(struct shardfuse_value *dict, const struct shardfuse_value *key,
                    uint32_t *ret_there)
{
	struct shardfuse_values *vs = dict->vs;
	struct dict_key k = { .place = dict->pv.seq.n + 1 };
	int r;

	sf_buf_reset(&vs->probe);
	sf_buf_add(&vs->probe, &dict, sizeof(dict));
	r = sf_save_key_bytes(&key->pv, &vs->probe);
	if (r < 0)
		return r;
	*ret_there = sf_map_get(&vs->map, (const char *)vs->probe.at, vs->probe.len, same_key, vs);
	if (*ret_there != SF_MAP_NONE)
		return 0;
	k.len = vs->probe.len;
	k.bytes = sf_arena_strdup(&vs->arena, (const char *)vs->probe.at, k.len);
	if (!k.bytes || vs->key.n >= SF_MAP_NONE || dict_keys_push(&vs->key, k) < 0)
		return -ENOMEM;
	sf_map_add(&vs->map, k.bytes, k.len, (uint32_t)vs->key.n - 1, same_key, vs, &r);
	if (r < 0)
		vs->key.n--;
	return r;
}

int sf_save_value_set(struct shardfuse_value *dict, struct shardfuse_value *key,
                      struct shardfuse_value *v, bool replace)
{
	uint32_t there = SF_MAP_NONE;
	int r;

	if (!dict || !key || !v)
		return -ENOMEM;
	if (dict->pv.kind != SF_PV_DICT || key == v)
		return -EINVAL;
	r = may_go(dict, key);
	if (r == 0)
		r = may_go(dict, v);
	if (r == 0)
		r = grow(dict, 2);
	if (r == 0)
		r = find_key(dict, key, &there);
	if (r < 0)
		return r;
	if (there != SF_MAP_NONE && !replace)
		return -EEXIST;
	if (there != SF_MAP_NONE) {
		dict->pv.seq.at[dict->vs->key.at[there].place] = &v->pv;
		v->in = dict;
		return 0;
	}
	place(dict, key);
	place(dict, v);
	key->is_key = true;
	return 0;
}

int shardfuse_value_set(struct shardfuse_value *dict, struct shardfuse_value *key,
                        struct shardfuse_value *v)
{
	return sf_save_value_set(dict, key, v, false);
}

struct shardfuse_value *shardfuse_value_json(struct shardfuse_values *vs, const char *json,
                                             size_t len, struct shardfuse_error *err)
{
	struct sf_error e = SF_ERROR_INIT;
	struct shardfuse_value *v = NULL;
	int r = vs ? sf_save_value_json(vs, json, len, &v, &e)
	           : sf_fail(&e, -ENOMEM, "no memory for values");

	sf_public_fail(err, &e, r);
	return r < 0 ? NULL : v;
}
