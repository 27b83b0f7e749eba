#include "config.h"

#include <string.h>

#include "base/path.h"
#include "catalog/entry_name.h"
#include "tree/tree_priv.h"

static const char *suffix_of(enum sf_tree_kind dir, enum sf_tree_kind *ret_file)
{
	switch (dir) {
	case SF_T_NPY:
		*ret_file = SF_T_NPY_FILE;
		return ".npy";
	case SF_T_PT:
		*ret_file = SF_T_PT_FILE;
		return ".pt";
	default:
		*ret_file = SF_T_SAFETENSORS_FILE;
		return ".safetensors";
	}
}

bool sf_flat_shows(const struct sf_tree *t, enum sf_tree_kind dir, uint32_t entry)
{
	if (t->c->entry[entry].tensor == SF_NONE)
		return false;
	if (dir == SF_T_NPY)
		return !sf_view_npy_refuses(t->c, entry);
	return dir == SF_T_PT || !sf_view_safetensors_refuses(t->c, entry, true);
}

static void put_name(const struct sf_entry *e, struct sf_buf *out)
{
	sf_name_encode(out, e->name, e->len, e->name, e->len, strlen(SF_FLAT_SUFFIX));
}

int sf_flat_lookup(const struct sf_tree *t, enum sf_tree_kind dir, const char *name, size_t len,
                   sf_node *ret)
{
	enum sf_tree_kind file;
	const char *suffix = suffix_of(dir, &file);
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
	               !sf_flat_shows(t, dir, entry)))
		r = -ENOENT;
	sf_buf_release(&b);
	if (r >= 0)
		*ret = sf_node_make(file, 0, entry);
	return r;
}

int sf_flat_readdir(struct sf_tree *t, enum sf_tree_kind dir, uint64_t cookie, sf_tree_each *each,
                    void *arg)
{
	enum sf_tree_kind file;
	const char *suffix = suffix_of(dir, &file);
	struct sf_buf name = { 0 };
	int r = 0;

	for (uint64_t i = cookie; i < t->c->n && !r; i++) {
		if (!sf_flat_shows(t, dir, (uint32_t)i))
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
