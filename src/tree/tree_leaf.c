#include "config.h"

#include "tree/tree_priv.h"
#include "view/entry_json_part.h"

/* Files of one key: what state/ shows in the key's own directory. Those that flat directories show
 * too are in tree_flat.c. */

uint32_t sf_leaf_entry(const struct sf_tree *t, sf_node n)
{
	(void)t;
	return sf_node_index(n);
}

bool sf_leaf_of_tensor(const struct sf_tree *t, sf_node n)
{
	uint32_t i = sf_node_index(n);

	return i < t->c->n && t->c->entry[i].tensor != SF_NONE;
}

static bool of_object(const struct sf_tree *t, sf_node n)
{
	uint32_t i = sf_node_index(n);

	return i < t->c->n && t->c->entry[i].object != SF_NONE;
}

struct sf_selection sf_leaf_selection(const struct sf_tree *t, uint32_t entry)
{
	return (struct sf_selection){ .entry = t->all + entry, .n = 1, .cast = true };
}

/* A key has one of info.json and value.json, and one .pt. */
static _Atomic uint64_t *json_size(struct sf_tree *t, sf_node n)
{
	return &t->entry_size[2 * (size_t)sf_node_index(n)];
}

_Atomic uint64_t *sf_leaf_pt_size(struct sf_tree *t, sf_node n)
{
	return &t->entry_size[2 * (size_t)sf_node_index(n) + 1];
}

int sf_leaf_make_pt(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	struct sf_selection sel = sf_leaf_selection(t, sf_node_index(n));

	sel.bare = true;
	return sf_view_pt(t->c, t->r, &sel, ret, err);
}

static int make_raw(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	return sf_view_raw(t->c, t->r, sf_node_index(n), ret, err);
}

static int size_of_raw(const struct sf_tree *t, sf_node n, uint64_t *ret)
{
	*ret = t->c->ckpt->tensor[t->c->entry[sf_node_index(n)].tensor].bytes;
	return 0;
}

static int make_info(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	return sf_view_entry_json(t->c, t->r, sf_node_index(n), ret, err);
}

static int make_value(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	return sf_view_value_json(t->c, t->r, sf_node_index(n), ret, err);
}

const struct sf_kind sf_kind_raw = {
	.valid = sf_leaf_of_tensor,
	.entry = sf_leaf_entry,
	.make = make_raw,
	.size = size_of_raw,
	.stored = true,
};
const struct sf_kind sf_kind_info = {
	.valid = sf_leaf_of_tensor,
	.entry = sf_leaf_entry,
	.make = make_info,
	.kept_size = json_size,
};
const struct sf_kind sf_kind_value_json = {
	.valid = of_object,
	.entry = sf_leaf_entry,
	.make = make_value,
	.kept_size = json_size,
	.in_memory = true,
};
const struct sf_kind sf_kind_value_pt = {
	.valid = of_object,
	.entry = sf_leaf_entry,
	.make = sf_leaf_make_pt,
	.kept_size = sf_leaf_pt_size,
	.in_memory = true,
};
