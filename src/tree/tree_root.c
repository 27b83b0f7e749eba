#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/mem.h"
#include "catalog/view_wanted.h"
#include "tree/tree_priv.h"

static int add(struct sf_tree *t, enum sf_root_what what, uint32_t group, const char *stem,
               const char *suffix, const char *target, sf_node dir)
{
	struct sf_buf b = { 0 };
	struct sf_root_entry *e = &t->root[t->nroot];
	int r;

	sf_buf_str(&b, stem);
	sf_buf_str(&b, suffix);
	r = sf_buf_check(&b);
	if (r >= 0)
		e->name = sf_arena_strdup(&t->arena, (const char *)b.at, b.len);
	if (r >= 0 && target) {
		sf_buf_reset(&b);
		sf_buf_str(&b, target);
		sf_buf_str(&b, suffix);
		r = sf_buf_check(&b);
		if (r >= 0)
			e->target = sf_arena_strdup(&t->arena, (const char *)b.at, b.len);
	}
	sf_buf_release(&b);
	if (r < 0 || !e->name || (target && !e->target))
		return -ENOMEM;
	e->what = (uint8_t)what;
	e->group = group;
	e->dir = dir;
	t->nroot++;
	return 0;
}

static int add_dir(struct sf_tree *t, const char *name, enum sf_tree_kind kind)
{
	return add(t, SF_ROOT_DIR, 0, name, "", NULL, sf_node_make(kind, 0, 0));
}

static bool has_tensors(const struct sf_catalog *c, const struct sf_cat_group *g)
{
	for (uint32_t i = g->first; i < g->first + g->n; i++)
		if (c->entry[c->by_group[i]].tensor != SF_NONE)
			return true;
	return false;
}

static int add_groups(struct sf_tree *t)
{
	const struct sf_catalog *c = t->c;
	int r = 0;

	for (uint32_t g = 0; g < c->ngroups && r >= 0; g++) {
		const struct sf_cat_group *group = &c->group[g];
		const char *file = group->link ? group->link : group->stem;
		bool tensors = has_tensors(c, group);
		if (!file)
			continue;
		r = add(t, SF_ROOT_GROUP_PT, g, file, ".pt", NULL, 0);
		if (r >= 0 && tensors)
			r = add(t, SF_ROOT_GROUP_ST, g, file, ".safetensors", NULL, 0);
		if (r >= 0 && group->link)
			r = add(t, SF_ROOT_LINK, g, group->stem, ".pt", group->link, 0);
		if (r >= 0 && group->link && tensors)
			r = add(t, SF_ROOT_LINK, g, group->stem, ".safetensors", group->link, 0);
	}
	return r;
}

int sf_root_make(struct sf_tree *t, struct sf_error *err)
{
	static const struct {
		const char *view, *name;
		enum sf_tree_kind kind;
	} dirs[] = {
		{ "hf", "hf", SF_T_HF },
		{ "state", "state", SF_T_STATE },
		{ "npy", "npy", SF_T_NPY },
		{ "pt", "pt", SF_T_PT },
		{ "safetensors", "safetensors", SF_T_SAFETENSORS },
		{ "shards", "shards", SF_T_SHARDS },
		{ "slices", "slices", SF_T_SLICES },
	};
	const struct sf_view_options *o = t->c->opt;
	int r;

	t->root = sf_arena_calloc(&t->arena, 5 + 4 * (size_t)t->c->ngroups + SF_ARRAY_LEN(dirs) + 1,
	                          sizeof(*t->root));
	r = t->root ? add(t, SF_ROOT_README, 0, "README", "", NULL, 0) : -ENOMEM;
	if (r >= 0)
		r = add(t, SF_ROOT_INFO, 0, "info.json", "", NULL, 0);
	if (r >= 0)
		r = add(t, SF_ROOT_TENSORS, 0, "tensors.json", "", NULL, 0);
	if (r >= 0 && sf_view_wanted(o, "checkpoint")) {
		r = add(t, SF_ROOT_CHECKPOINT_PT, 0, "checkpoint", ".pt", NULL, 0);
		if (r >= 0 && t->c->ntensors)
			r = add(t, SF_ROOT_CHECKPOINT_ST, 0, "checkpoint", ".safetensors", NULL, 0);
	}
	if (r >= 0 && sf_view_wanted(o, "groups"))
		r = add_groups(t);
	for (size_t i = 0; i < SF_ARRAY_LEN(dirs) && r >= 0; i++)
		if (sf_view_wanted(o, dirs[i].view) && (dirs[i].kind != SF_T_HF || t->hf) &&
		    (dirs[i].kind != SF_T_SLICES || t->c->slices))
			r = add_dir(t, dirs[i].name, dirs[i].kind);
	if (r >= 0)
		r = add_dir(t, ".shardfuse", SF_T_CONTROL);
	return r < 0 ? sf_fail(err, r, "no memory for the names of %" PRIu32 " groups",
	                       t->c->ngroups)
	             : 0;
}

static enum sf_node_type type_of(const struct sf_root_entry *e)
{
	return e->what == SF_ROOT_DIR    ? SF_NODE_DIR
	       : e->what == SF_ROOT_LINK ? SF_NODE_LINK
	                                 : SF_NODE_FILE;
}

static sf_node node_of(const struct sf_tree *t, uint32_t i)
{
	return t->root[i].what == SF_ROOT_DIR ? t->root[i].dir
	                                      : sf_node_make(SF_T_ROOT_FILE, 0, t->root[i].same);
}

static bool is_root(const struct sf_tree *t, sf_node n)
{
	(void)t;
	return n == SF_NODE_ROOT;
}

static int lookup(const struct sf_tree *t, sf_node dir, const char *name, size_t len, sf_node *ret)
{
	(void)dir;
	if (t->run)
		return sf_tree_run_lookup(t, name, len, ret);
	/* a few hundred names at most, and the kernel remembers what it found */
	for (uint32_t i = 0; i < t->nroot; i++)
		if (strlen(t->root[i].name) == len && memcmp(t->root[i].name, name, len) == 0) {
			*ret = node_of(t, i);
			return 0;
		}
	return -ENOENT;
}

static int list(const struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
                void *arg)
{
	(void)dir;
	if (t->run)
		return sf_tree_run_list(t, cookie, each, arg);
	for (uint64_t i = cookie; i < t->nroot; i++) {
		const struct sf_root_entry *e = &t->root[i];
		int r = each(arg, e->name, strlen(e->name), node_of(t, (uint32_t)i), type_of(e),
		             i + 1);
		if (r)
			return r < 0 ? r : 0;
	}
	return 0;
}

const struct sf_kind sf_kind_root = {
	.dir = true, .valid = is_root, .lookup = lookup, .readdir = list
};

/* ---- its files and links ---- */

static const struct sf_root_entry *entry_of(const struct sf_tree *t, sf_node n)
{
	return &t->root[sf_node_index(n)];
}

static bool is_root_file(const struct sf_tree *t, sf_node n)
{
	return sf_node_index(n) < t->nroot && entry_of(t, n)->what != SF_ROOT_DIR;
}

const char *sf_root_link(const struct sf_tree *t, sf_node n)
{
	return sf_node_kind(n) == SF_T_ROOT_FILE && is_root_file(t, n) ? entry_of(t, n)->target
	                                                               : NULL;
}

static uint64_t mix_name(const struct sf_tree *t, sf_node n, uint64_t h)
{
	return sf_fnv1a(h, entry_of(t, n)->name, strlen(entry_of(t, n)->name));
}

static void add_link(const struct sf_tree *t, sf_node n, struct sf_attr *ret)
{
	const struct sf_root_entry *e = entry_of(t, n);

	if (e->what != SF_ROOT_LINK)
		return;
	ret->type = SF_NODE_LINK;
	ret->mode = 0777;
	ret->size = strlen(e->target);
}

static struct sf_selection group_selection(const struct sf_tree *t, uint32_t group)
{
	const struct sf_cat_group *g = &t->c->group[group];

	return (struct sf_selection){ .entry = t->c->by_group + g->first,
		                      .n = g->n,
		                      .strip = g->of->strip,
		                      .cast = g->of->role == SF_ROLE_MODEL };
}

struct sf_selection sf_root_selection(const struct sf_tree *t, const struct sf_root_entry *e)
{
	switch ((enum sf_root_what)e->what) {
	case SF_ROOT_CHECKPOINT_PT:
	case SF_ROOT_CHECKPOINT_ST:
		return (struct sf_selection){ .entry = t->all, .n = t->c->nmain, .stored = true };
	case SF_ROOT_GROUP_PT:
	case SF_ROOT_GROUP_ST:
		return group_selection(t, e->group);
	default:
		return (struct sf_selection){ .n = 0 };
	}
}

static int make_file(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	const struct sf_root_entry *e = entry_of(t, n);
	const struct sf_selection sel = sf_root_selection(t, e);

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

static _Atomic uint64_t *kept_size(struct sf_tree *t, sf_node n)
{
	return &t->root[sf_node_index(n)].size;
}

static uint32_t nlink_of(const struct sf_tree *t, sf_node n)
{
	uint32_t i = sf_node_index(n), links = t->hf_same == i;

	for (uint32_t k = 0; k < t->nroot; k++)
		links += t->root[k].same == i;
	return SF_MAX(links, 1u);
}

const struct sf_kind sf_kind_root_file = {
	.valid = is_root_file,
	.path = mix_name,
	.attr = add_link,
	.make = make_file,
	.kept_size = kept_size,
	.nlink = nlink_of,
};
