#include "config.h"

#include <string.h>

#include "base/map.h"
#include "base/mem.h"
#include "parse/pickle_build.h"

#define ON_PATH UINT16_MAX /* height of a container whose children are being looked at */

struct frame {
	struct sf_pv *v;
	size_t next; /* child to look at */
	uint16_t below;
};

static bool is_container(const struct sf_pv *v)
{
	return v->kind >= SF_PV_TUPLE && v->kind != SF_PV_GLOBAL;
}

static bool is_object(const struct sf_pv *v)
{
	return v->kind == SF_PV_CALL || v->kind == SF_PV_OBJECT;
}

/* Child @i, NULL past the last; *skip where there is none at that place. */
static struct sf_pv *child(const struct sf_pv *v, size_t i, bool *skip)
{
	*skip = false;
	switch (v->kind) {
	case SF_PV_CALL:
	case SF_PV_OBJECT: {
		struct sf_pv *const c[] = { v->call.callable, v->call.args,  v->call.kwargs,
			                    v->call.state,    v->call.items, v->call.appends };
		if (i >= SF_ARRAY_LEN(c))
			return NULL;
		*skip = !c[i];
		return c[i];
	}
	case SF_PV_PERSID:
		return i ? NULL : v->persid;
	default:
		return i < v->seq.n ? v->seq.at[i] : NULL;
	}
}

/* The bytes that two equal keys of a kind share: a str's, or an int's. NULL: a key that is not
 * compared. */
static const char *key_bytes(const struct sf_pv *k, size_t *ret_len)
{
	if (k->kind == SF_PV_STR) {
		*ret_len = k->str.len;
		return k->str.at;
	}
	*ret_len = sizeof(k->i);
	return k->kind == SF_PV_INT ? (const char *)&k->i : NULL;
}

struct key_map {
	struct sf_pv **at; /* keys and values merged so far */
	uint8_t kind;      /* of the key that is asked for */
	struct sf_map map;
};

static int same_key(void *arg, uint32_t value, const char *key, size_t len)
{
	const struct key_map *km = arg;
	const struct sf_pv *k = km->at[(size_t)value * 2];
	size_t klen = 0;
	const char *bytes = key_bytes(k, &klen);

	return bytes && k->kind == km->kind && klen == len && memcmp(bytes, key, len) == 0;
}

#define FEW 8 /* pairs that are compared one by one */

/* Where an equal key stands among the first @n pairs, or SF_MAP_NONE and it is remembered as pair
 * @n. */
static uint32_t find_or_add(struct key_map *km, const char *key, size_t len, uint32_t n, bool few,
                            int *ret_failed)
{
	*ret_failed = 0;
	if (!few)
		return sf_map_add(&km->map, key, len, n, same_key, km, ret_failed);
	for (uint32_t i = 0; i < n; i++)
		if (same_key(km, i, key, len))
			return i;
	return SF_MAP_NONE;
}

/* Python's dict: the last of equal keys gives the value, the first the place. */
static int merge_equal_keys(struct sf_pm *m, struct sf_pv *dict)
{
	struct key_map km = { .at = dict->seq.at };
	uint32_t n = 0;
	int failed = 0;

	if (dict->seq.n / 2 >= SF_MAP_NONE)
		return sf_pm_fail(m, -E2BIG, "a dict of %zu items", dict->seq.n / 2);
	for (size_t i = 0; i < dict->seq.n && !failed; i += 2) {
		struct sf_pv *key = dict->seq.at[i], *value = dict->seq.at[i + 1];
		uint32_t there = SF_MAP_NONE;
		size_t len = 0;
		const char *bytes = key_bytes(key, &len);
		km.kind = key->kind;
		if (bytes)
			there = find_or_add(&km, bytes, len, n, dict->seq.n <= 2 * FEW, &failed);
		if (there == SF_MAP_NONE) {
			there = n++;
			km.at[(size_t)there * 2] = key;
		}
		km.at[(size_t)there * 2 + 1] = value;
	}
	sf_map_release(&km.map);
	if (failed)
		return sf_pm_fail(m, failed, "out of memory");
	dict->seq.n = (size_t)n * 2;
	return 0;
}

/* Items of a class we do not know may mean something else when set twice. */
static bool is_dict_class(const struct sf_pv *c)
{
	return sf_pv_is_global(c, "collections", "OrderedDict") ||
	       sf_pv_is_global(c, "collections", "defaultdict") ||
	       sf_pv_is_global(c, "collections", "Counter");
}

static int enter(struct sf_pm *m, struct sf_pv *v, bool merge)
{
	v->height = ON_PATH;
	return merge && v->kind == SF_PV_DICT ? merge_equal_keys(m, v) : 0;
}

/*
 * One walk over all that the root reaches, each container once, on a stack of our own that the
 * depth limit bounds. A height is known when all children's are; a child that is still on the path
 * closes a cycle and counts nothing.
 */
int sf_pm_check(struct sf_pm *m, struct sf_pv *root)
{
	uint32_t limit = m->limits.depth, depth = 0;
	SF_FREE struct frame *path = NULL;
	int r;

	if (!is_container(root))
		return 0;
	path = sf_alloc_array((size_t)limit + 1, sizeof(*path));
	if (!path)
		return sf_pm_no_memory(m);
	path[depth++] = (struct frame){ .v = root };
	r = enter(m, root, true);
	while (r == 0 && depth) {
		struct frame *f = &path[depth - 1];
		bool skip;
		struct sf_pv *c = child(f->v, f->next, &skip);
		if (!c && !skip) {
			f->v->height = (uint16_t)(f->below + 1);
			if (--depth)
				path[depth - 1].below = SF_MAX(path[depth - 1].below, f->v->height);
			continue;
		}
		f->next++;
		if (skip || !is_container(c) || c->height == ON_PATH)
			continue;
		if (depth + SF_MAX(c->height, 1) > limit)
			return sf_pm_fail(m, -E2BIG, "values nested deeper than %u", limit);
		if (c->height) {
			f->below = SF_MAX(f->below, c->height);
			continue;
		}
		r = enter(m, c,
		          !is_object(f->v) || c != f->v->call.items ||
		                  is_dict_class(f->v->call.callable));
		path[depth++] = (struct frame){ .v = c };
	}
	return r;
}
