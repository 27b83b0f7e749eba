#include "config.h"

#include <errno.h>
#include <string.h>

#include "base/mem.h"
#include "format/rankfiles/rankfiles_join.h"

#define LEAVES_MAX (UINT64_C(1) << 24)
#define DEPTH_MAX 100
#define KEY_MAX (60u << 10) /* the builder's, less what is put in front */

void rankfiles_join_release(struct rankfiles_join *j)
{
	rankfiles_keys_release(&j->keys);
	rankfiles_leaves_release(&j->leaves);
	sf_map_release(&j->map);
	sf_arena_release(&j->arena);
	*j = (struct rankfiles_join){ 0 };
}

static bool is_key(const struct rankfiles_key *k, const char *name, size_t len)
{
	return k->len == len && memcmp(k->name, name, len) == 0;
}

static int same_key(void *arg, uint32_t value, const char *name, size_t len)
{
	return is_key(&((const struct rankfiles_join *)arg)->keys.at[value], name, len);
}

/* A key that no rank had before. */
static int add_key(struct rankfiles_join *j, struct sf_value_walk *w)
{
	size_t n;
	const struct sf_path_elem *path = sf_value_walk_path(w, &n);
	struct sf_path_elem *kept = sf_arena_calloc(&j->arena, n + 1, sizeof(*kept));
	char *name = sf_arena_strdup(&j->arena, (const char *)w->name.at, w->name.len);

	if (!path || !kept || !name)
		return -ENOMEM;
	for (size_t i = 0; i < n; i++) { /* the elements are parts of the name */
		kept[i] = path[i];
		kept[i].s = name + (path[i].s - (const char *)w->name.at);
	}
	return rankfiles_keys_push(&j->keys, (struct rankfiles_key){ .name = name,
	                                                             .len = (uint32_t)w->name.len,
	                                                             .path = kept,
	                                                             .npath = (uint32_t)n,
	                                                             .first = SF_NONE,
	                                                             .last = SF_NONE });
}

static int find_key(struct rankfiles_join *j, struct sf_value_walk *w, size_t *ret)
{
	const char *name = (const char *)w->name.at;
	const size_t len = w->name.len, next = j->keys.n;
	uint32_t at;
	int r;

	*ret = j->expect;
	if (j->expect < next && is_key(&j->keys.at[j->expect], name, len))
		return 0;
	at = sf_map_get(&j->map, name, len, same_key, j);
	*ret = at;
	if (at != SF_MAP_NONE)
		return 0;
	r = add_key(j, w);
	if (r < 0)
		return r;
	*ret = next;
	sf_map_add(&j->map, name, len, (uint32_t)next, same_key, j, &r);
	return r;
}

static int take_leaf(struct sf_value_walk *w, enum sf_walk_what what, struct sf_pv *v)
{
	struct rankfiles_join *j = w->arg;
	struct rankfiles_key *k;
	const uint32_t leaf = (uint32_t)j->leaves.n;
	size_t at;
	int r;

	if (what == SF_WALK_MANY || what == SF_WALK_DEEP || what == SF_WALK_LONG)
		return -E2BIG;
	sf_buf_cstr(&w->name); /* so that at is not NULL */
	if (sf_buf_check(&w->name) < 0)
		return sf_buf_check(&w->name);
	if (what == SF_WALK_ODD_KEY || what == SF_WALK_CYCLE || w->step.n == 0) {
		j->odd++;
		return 0;
	}
	r = find_key(j, w, &at);
	if (r < 0)
		return r;
	k = &j->keys.at[at];
	j->expect = at + 1;
	if (k->last != SF_NONE && j->leaves.at[k->last].rank == j->rank) {
		j->twice++;
		return 0;
	}
	if (j->leaves.n == SF_NONE ||
	    rankfiles_leaves_push(
		    &j->leaves, (struct rankfiles_leaf){ v, j->rank, SF_NONE, (uint8_t)what }) < 0)
		return -ENOMEM;
	if (k->last == SF_NONE)
		k->first = leaf;
	else
		j->leaves.at[k->last].next = leaf;
	k->last = leaf;
	k->nleaves++;
	return 0;
}

int rankfiles_join(struct rankfiles_join *j, struct sf_torch_part *part, uint32_t n,
                   struct sf_error *err)
{
	int r = 0;

	j->part = part;
	j->nparts = n;
	for (uint32_t i = 0; i < n && r >= 0; i++) {
		struct sf_value_walk w = { .tell = take_leaf,
			                   .arg = j,
			                   .leaves = true,
			                   .depth_max = DEPTH_MAX,
			                   .nodes_max = LEAVES_MAX,
			                   .name_max = KEY_MAX };
		if (part[i].r < 0)
			continue;
		j->rank = i;
		j->expect = 0;
		r = sf_value_walk(&w, part[i].archive.root);
		sf_value_walk_release(&w);
		if (r == -E2BIG)
			sf_fail(err, r,
			        "'%s': more than %llu values, more than %d deep, or a key of over "
			        "%u bytes",
			        part[i].file->name, (unsigned long long)LEAVES_MAX, DEPTH_MAX,
			        KEY_MAX);
		else if (r < 0)
			sf_fail(err, r, "'%s': no memory for its keys", part[i].file->name);
	}
	return r < 0 ? r : 0;
}

/* ---- are two values one? ---- */

struct comparing {
	uint32_t left; /* values that are still looked at */
	uint32_t depth;
};

static bool same(struct comparing *c, const struct sf_pv *a, const struct sf_pv *b);

static bool same_seq(struct comparing *c, const struct sf_pv *a, const struct sf_pv *b)
{
	if (a->seq.n != b->seq.n)
		return false;
	for (size_t i = 0; i < a->seq.n; i++)
		if (!same(c, a->seq.at[i], b->seq.at[i]))
			return false;
	return true;
}

static bool same_or_none(struct comparing *c, const struct sf_pv *a, const struct sf_pv *b)
{
	return a && b ? same(c, a, b) : a == b;
}

static bool same_inside(struct comparing *c, const struct sf_pv *a, const struct sf_pv *b)
{
	switch ((enum sf_pv_kind)a->kind) {
	case SF_PV_NONE:
		return true;
	case SF_PV_BOOL:
		return a->b == b->b;
	case SF_PV_INT:
		return a->i == b->i;
	case SF_PV_FLOAT: /* as bits: NaN is what it is */
		return memcmp(&a->f, &b->f, sizeof(a->f)) == 0;
	case SF_PV_LONG:
	case SF_PV_STR:
	case SF_PV_BYTES:
	case SF_PV_BYTEARRAY:
		return a->str.len == b->str.len && memcmp(a->str.at, b->str.at, a->str.len) == 0;
	case SF_PV_TUPLE:
	case SF_PV_LIST:
	case SF_PV_DICT:
	case SF_PV_SET:
	case SF_PV_FROZENSET:
		return same_seq(c, a, b);
	case SF_PV_GLOBAL:
		return same(c, a->global.module, b->global.module) &&
		       same(c, a->global.name, b->global.name);
	case SF_PV_PERSID:
		return same(c, a->persid, b->persid);
	case SF_PV_CALL:
	case SF_PV_OBJECT:
		break;
	}
	return same(c, a->call.callable, b->call.callable) &&
	       same_or_none(c, a->call.args, b->call.args) &&
	       same_or_none(c, a->call.kwargs, b->call.kwargs) &&
	       same_or_none(c, a->call.state, b->call.state) &&
	       same_or_none(c, a->call.items, b->call.items) &&
	       same_or_none(c, a->call.appends, b->call.appends);
}

static bool same(struct comparing *c, const struct sf_pv *a, const struct sf_pv *b)
{
	bool is;

	if (a == b)
		return true;
	if (a->kind != b->kind || !c->left || c->depth > DEPTH_MAX)
		return false;
	c->left--;
	c->depth++;
	is = same_inside(c, a, b);
	c->depth--;
	return is;
}

bool rankfiles_same_value(const struct sf_pv *a, const struct sf_pv *b)
{
	struct comparing c = { .left = 1u << 20 };

	return same(&c, a, b);
}
