#include "config.h"

#include <string.h>

#include "base/path.h"
#include "catalog/entry_name.h"
#include "tree/tree_priv.h"
#include "view/view_size.h"

static const char *suffix_of(enum sf_tree_kind file)
{
	return file == SF_T_NPY_FILE ? ".npy" : file == SF_T_PT_FILE ? ".pt" : ".safetensors";
}

bool sf_flat_shows(const struct sf_tree *t, enum sf_tree_kind file, uint32_t entry)
{
	if (t->c->entry[entry].tensor == SF_NONE)
		return false;
	if (file == SF_T_NPY_FILE)
		return !sf_view_npy_refuses(t->c, entry);
	return file == SF_T_PT_FILE || !sf_view_safetensors_refuses(t->c, entry, true);
}

static void put_name(const struct sf_entry *e, struct sf_buf *out)
{
	sf_name_encode(out, e->name, e->len, e->name, e->len, strlen(SF_FLAT_SUFFIX));
}

static int lookup(const struct sf_tree *t, enum sf_tree_kind file, const char *name, size_t len,
                  sf_node *ret)
{
	const char *suffix = suffix_of(file);
	size_t suffix_len = strlen(suffix);
	struct sf_buf b = { 0 };
	uint32_t entry = SF_NONE;
	int r;

	if (len <= suffix_len || memcmp(name + len - suffix_len, suffix, suffix_len) != 0)
		return -ENOENT;
	len -= suffix_len;
	r = sf_catalog_find_cut(t->c, name, len, &entry);
	if (r == -ENOENT && sf_name_decode(&b, name, len) && sf_buf_check(&b) == 0)
		entry = sf_catalog_find(t->c, (const char *)b.at, b.len);
	if (r == -ENOENT)
		r = sf_buf_check(&b);
	if (r >= 0 && entry != SF_NONE) {
		/* a whole name where it is shown cut, or the other way round, is no file */
		sf_buf_reset(&b);
		put_name(&t->c->entry[entry], &b);
		r = sf_buf_check(&b);
	}
	if (r >= 0 && (entry == SF_NONE || b.len != len || memcmp(b.at, name, len) != 0 ||
	               !sf_flat_shows(t, file, entry)))
		r = -ENOENT;
	sf_buf_release(&b);
	if (r >= 0)
		*ret = sf_node_make(file, 0, entry);
	return r;
}

static int list(const struct sf_tree *t, enum sf_tree_kind file, uint64_t cookie,
                sf_tree_each *each, void *arg)
{
	const char *suffix = suffix_of(file);
	struct sf_buf name = { 0 };
	int r = 0;

	for (uint64_t i = cookie; i < t->c->n && !r; i++) {
		if (!sf_flat_shows(t, file, (uint32_t)i))
			continue;
		sf_buf_reset(&name);
		put_name(&t->c->entry[i], &name);
		sf_buf_str(&name, suffix);
		r = sf_buf_check(&name);
		if (!r)
			r = each(arg, (const char *)name.at, name.len,
			         sf_node_make(file, 0, (uint32_t)i), SF_NODE_FILE, i + 1);
	}
	sf_buf_release(&name);
	return r < 0 ? r : 0;
}

static bool is_dir(const struct sf_tree *t, sf_node n)
{
	(void)t;
	return sf_node_index(n) == 0;
}

/* ---- npy/ ---- */

static int lookup_npy(const struct sf_tree *t, sf_node dir, const char *name, size_t len,
                      sf_node *ret)
{
	(void)dir;
	return lookup(t, SF_T_NPY_FILE, name, len, ret);
}

static int list_npy(const struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
                    void *arg)
{
	(void)dir;
	return list(t, SF_T_NPY_FILE, cookie, each, arg);
}

static int make_npy(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	return sf_view_npy(t->c, t->r, sf_node_index(n), ret, err);
}

static int size_of_npy(const struct sf_tree *t, sf_node n, uint64_t *ret)
{
	return sf_view_npy_size(t->c, sf_node_index(n), ret);
}

static uint32_t links_of_npy(const struct sf_tree *t, sf_node n)
{
	return sf_links_of_entry(t, t->shows_npy, sf_node_index(n));
}

const struct sf_kind sf_kind_npy = {
	.dir = true, .valid = is_dir, .lookup = lookup_npy, .readdir = list_npy
};
const struct sf_kind sf_kind_npy_file = {
	.valid = sf_leaf_of_tensor,
	.entry = sf_leaf_entry,
	.make = make_npy,
	.size = size_of_npy,
	.nlink = links_of_npy,
};

/* ---- pt/ ---- */

static int lookup_pt(const struct sf_tree *t, sf_node dir, const char *name, size_t len,
                     sf_node *ret)
{
	(void)dir;
	return lookup(t, SF_T_PT_FILE, name, len, ret);
}

static int list_pt(const struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
                   void *arg)
{
	(void)dir;
	return list(t, SF_T_PT_FILE, cookie, each, arg);
}

static uint32_t links_of_pt(const struct sf_tree *t, sf_node n)
{
	return sf_links_of_entry(t, t->shows_pt, sf_node_index(n));
}

const struct sf_kind sf_kind_pt = {
	.dir = true, .valid = is_dir, .lookup = lookup_pt, .readdir = list_pt
};
const struct sf_kind sf_kind_pt_file = {
	.valid = sf_leaf_of_tensor,
	.entry = sf_leaf_entry,
	.make = sf_leaf_make_pt,
	.kept_size = sf_leaf_pt_size,
	.nlink = links_of_pt,
};

/* ---- safetensors/ ---- */

static int lookup_safetensors(const struct sf_tree *t, sf_node dir, const char *name, size_t len,
                              sf_node *ret)
{
	(void)dir;
	return lookup(t, SF_T_SAFETENSORS_FILE, name, len, ret);
}

static int list_safetensors(const struct sf_tree *t, sf_node dir, uint64_t cookie,
                            sf_tree_each *each, void *arg)
{
	(void)dir;
	return list(t, SF_T_SAFETENSORS_FILE, cookie, each, arg);
}

static int make_safetensors(struct sf_tree *t, sf_node n, struct sf_vfile **ret,
                            struct sf_error *err)
{
	const struct sf_selection sel = sf_leaf_selection(t, sf_node_index(n));

	return sf_view_safetensors(t->c, t->r, &sel, ret, err);
}

static int size_of_safetensors(const struct sf_tree *t, sf_node n, uint64_t *ret)
{
	return sf_view_safetensors_size(t->c, sf_node_index(n), ret);
}

static uint32_t links_of_safetensors(const struct sf_tree *t, sf_node n)
{
	return sf_links_of_entry(t, t->shows_safetensors, sf_node_index(n));
}

const struct sf_kind sf_kind_safetensors = {
	.dir = true, .valid = is_dir, .lookup = lookup_safetensors, .readdir = list_safetensors
};
const struct sf_kind sf_kind_safetensors_file = {
	.valid = sf_leaf_of_tensor,
	.entry = sf_leaf_entry,
	.make = make_safetensors,
	.size = size_of_safetensors,
	.nlink = links_of_safetensors,
};
