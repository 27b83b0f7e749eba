#include "config.h"

#include <string.h>

#include "tree/tree_priv.h"

static struct sf_selection group_selection(const struct sf_tree *t, uint32_t group)
{
	const struct sf_cat_group *g = &t->c->group[group];

	return (struct sf_selection){ .entry = t->c->by_group + g->first,
		                      .n = g->n,
		                      .strip = g->of->strip,
		                      .cast = g->of->role == SF_ROLE_MODEL };
}

static struct sf_selection one(const struct sf_tree *t, uint32_t entry)
{
	return (struct sf_selection){ .entry = t->all + entry, .n = 1, .cast = true };
}

struct sf_selection sf_tree_root_selection(const struct sf_tree *t, const struct sf_root_entry *e)
{
	switch ((enum sf_root_what)e->what) {
	case SF_ROOT_CHECKPOINT_PT:
	case SF_ROOT_CHECKPOINT_ST:
		return (struct sf_selection){ .entry = t->all, .n = t->c->n };
	case SF_ROOT_GROUP_PT:
	case SF_ROOT_GROUP_ST:
		return group_selection(t, e->group);
	default:
		return (struct sf_selection){ .n = 0 };
	}
}

static int make_root(struct sf_tree *t, const struct sf_root_entry *e, struct sf_vfile **ret,
                     struct sf_error *err)
{
	const struct sf_selection sel = sf_tree_root_selection(t, e);

	switch ((enum sf_root_what)e->what) {
	case SF_ROOT_README:
		return sf_view_readme(t->c, t->r, ret, err);
	case SF_ROOT_INFO:
		return sf_view_info_json(t->c, t->r, ret, err);
	case SF_ROOT_TENSORS:
		return sf_view_tensors_json(t->c, t->r, ret, err);
	case SF_ROOT_CHECKPOINT_PT:
	case SF_ROOT_GROUP_PT:
		return sf_view_pt(t->c, t->r, &sel, ret, err);
	case SF_ROOT_CHECKPOINT_ST:
	case SF_ROOT_GROUP_ST:
		return sf_view_safetensors(t->c, t->r, &sel, ret, err);
	default:
		return sf_fail(err, -EISDIR, "'%s' is not a file", e->name);
	}
}

int sf_tree_make_file(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	uint32_t i = sf_node_index(n);
	struct sf_selection sel;

	switch (sf_node_kind(n)) {
	case SF_T_ROOT_FILE:
		return make_root(t, &t->root[i], ret, err);
	case SF_T_HF_FILE:
		return sf_view_safetensors(t->c, t->r, &t->hf->file[i].sel, ret, err);
	case SF_T_HF_INDEX:
		return sf_view_bytes(t->r, t->hf->index_json, t->hf->index_len, ret, err);
	case SF_T_HF_COMPANION:
		return sf_view_hf_companion(t->hf, t->r, i, ret, err);
	case SF_T_NPY_FILE:
		return sf_view_npy(t->c, t->r, i, ret, err);
	case SF_T_SAFETENSORS_FILE:
		sel = one(t, i);
		return sf_view_safetensors(t->c, t->r, &sel, ret, err);
	case SF_T_LEAF_VALUE_PT:
	case SF_T_PT_FILE:
		sel = one(t, i);
		sel.bare = true;
		return sf_view_pt(t->c, t->r, &sel, ret, err);
	case SF_T_LEAF_RAW:
		return sf_view_raw(t->c, t->r, i, ret, err);
	case SF_T_LEAF_INFO:
		return sf_view_entry_json(t->c, t->r, i, ret, err);
	case SF_T_LEAF_VALUE_JSON:
		return sf_view_value_json(t->c, t->r, i, ret, err);
	case SF_T_SHARDS_FILE:
		return sf_view_listed(t->c, t->r, i, ret, err);
	default:
		return sf_fail(err, -EISDIR, "a directory is not a file");
	}
}
