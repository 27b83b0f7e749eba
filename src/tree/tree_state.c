#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "catalog/entry_name.h"
#include "tree/tree_priv.h"

/* Files of a key's own directory; cookies below FIRST_CHILD are theirs. */
static const struct leaf_file {
	const char *name;
	enum sf_tree_kind kind;
	bool object;
} leaf_files[] = {
	{ "tensor.npy", SF_T_NPY_FILE, false }, /* the flat directories' nodes */
	{ "tensor.safetensors", SF_T_SAFETENSORS_FILE, false },
	{ "tensor.pt", SF_T_PT_FILE, false },
	{ "tensor.raw", SF_T_LEAF_RAW, false },
	{ "info.json", SF_T_LEAF_INFO, false },
	{ "value.json", SF_T_LEAF_VALUE_JSON, true },
	{ "value.pt", SF_T_LEAF_VALUE_PT, true },
};
#define FIRST_CHILD 8
_Static_assert(SF_ARRAY_LEN(leaf_files) <= FIRST_CHILD,
               "cookies of files and of directories overlap");

static const struct sf_entry *at(const struct sf_tree *t, uint32_t pos)
{
	return &t->c->entry[t->c->by_path[pos]];
}

/* Component @d of a name with more than @d components: where it begins, *ret_len. */
static const char *component(const struct sf_entry *e, size_t prefix, size_t *ret_len)
{
	const char *s = e->name + prefix, *dot = memchr(s, '.', e->len - prefix);

	*ret_len = dot ? (size_t)(dot - s) : e->len - prefix;
	return s;
}

/* Is a component before @prefix cut as a file name? Then the directory is this key's alone: the
 * name has the key's hash. */
static bool cut_before(const struct sf_entry *e, size_t prefix)
{
	for (size_t from = 0, len; from < prefix; from += len + 1) {
		const char *s = component(e, from, &len);
		if (sf_name_is_long(s, len, 0))
			return true;
	}
	return false;
}

/* The first position in (pos, hi] that is not below the first @prefix bytes of @pos's name:
 * doubling steps, then halving. */
static uint32_t end_of(const struct sf_tree *t, uint32_t pos, uint32_t hi, size_t prefix)
{
	const char *of = at(t, pos)->name;
	uint32_t lo = pos, step = 1; /* lo is below */

	while (hi - lo > step) {
		const struct sf_entry *e = at(t, lo + step);
		if (!sf_name_below(e->name, e->len, of, prefix)) {
			hi = lo + step;
			break;
		}
		lo += step;
		step *= 2;
	}
	return lo + 1 +
	       SF_LAST_THAT(i, hi - lo,
	                    sf_name_below(at(t, lo + i)->name, at(t, lo + i)->len, of, prefix));
}

/* The keys below a directory: by_path[lo … hi). *ret_prefix: bytes of the name that the directory
 * stands for, with the dot behind. */
static void range_of(const struct sf_tree *t, sf_node dir, uint32_t *ret_lo, uint32_t *ret_hi,
                     size_t *ret_prefix)
{
	uint32_t lo = sf_node_index(dir);

	*ret_lo = lo;
	*ret_hi = t->c->n;
	*ret_prefix = 0;
	if (sf_node_depth(dir) == 0)
		return;
	const struct sf_entry *e = at(t, lo);
	*ret_prefix = sf_name_prefix(e->name, e->len, sf_node_depth(dir));
	*ret_hi = cut_before(e, *ret_prefix) ? lo + 1 : end_of(t, lo, t->c->n, *ret_prefix);
}

/* Does its key have that many parts? */
static bool is_dir(const struct sf_tree *t, sf_node dir)
{
	unsigned depth = sf_node_depth(dir), parts = 1;

	if (depth == 0)
		return sf_node_index(dir) == 0;
	if (sf_node_index(dir) >= t->c->n || depth > SF_T_DEPTH_MAX)
		return false;
	const struct sf_entry *e = at(t, sf_node_index(dir));
	for (uint32_t i = 0; i < e->len && parts < depth; i++)
		parts += e->name[i] == '.';
	return depth <= parts;
}

/* Below a component that is cut: the directory is of one key alone, others may have the same
 * components. */
static bool is_cut(const struct sf_tree *t, sf_node dir)
{
	const struct sf_entry *e = at(t, sf_node_index(dir));

	return cut_before(e, sf_name_prefix(e->name, e->len, sf_node_depth(dir)));
}

/* The entry whose own directory this is, SF_NONE. */
static uint32_t leaf_of(const struct sf_tree *t, sf_node dir)
{
	unsigned depth = sf_node_depth(dir);

	if (depth == 0)
		return SF_NONE;
	const struct sf_entry *e = at(t, sf_node_index(dir));
	return sf_name_prefix(e->name, e->len, depth) == (size_t)e->len + 1
	               ? t->c->by_path[sf_node_index(dir)]
	               : SF_NONE;
}

static bool shows_leaf_file(const struct sf_tree *t, uint32_t entry, const struct leaf_file *f)
{
	if (f->object != (t->c->entry[entry].tensor == SF_NONE))
		return false;
	return (f->kind != SF_T_NPY_FILE && f->kind != SF_T_SAFETENSORS_FILE) ||
	       sf_flat_shows(t, f->kind, entry);
}

static int lookup_file(const struct sf_tree *t, sf_node dir, const char *name, size_t len,
                       sf_node *ret)
{
	uint32_t leaf = leaf_of(t, dir);

	for (size_t i = 0; leaf != SF_NONE && i < SF_ARRAY_LEN(leaf_files); i++) {
		const struct leaf_file *f = &leaf_files[i];
		if (strlen(f->name) == len && memcmp(f->name, name, len) == 0 &&
		    shows_leaf_file(t, leaf, f)) {
			*ret = sf_node_make(f->kind, 0, leaf);
			return 0;
		}
	}
	return -ENOENT;
}

/* The first position in [lo, hi) whose name is not before @name. */
static uint32_t lower_bound(const struct sf_tree *t, uint32_t lo, uint32_t hi, const char *name,
                            size_t len)
{
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (sf_name_compare(at(t, mid)->name, at(t, mid)->len, name, len) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int compare_component(const struct sf_entry *e, size_t prefix, const char *want,
                             size_t want_len)
{
	size_t len;
	const char *s = component(e, prefix, &len);
	int d = memcmp(s, want, SF_MIN(len, want_len));

	return d ? d : len < want_len ? -1 : len > want_len;
}

static int lookup_cut(const struct sf_tree *t, sf_node dir, uint32_t lo, uint32_t hi, size_t prefix,
                      const char *name, size_t len, sf_node *ret)
{
	uint32_t entry, pos;
	struct sf_buf b = { 0 };
	size_t part_len;
	int r = sf_catalog_find_cut(t->c, name, len, &entry);

	if (r < 0)
		return r;
	const struct sf_entry *e = &t->c->entry[entry];
	pos = lower_bound(t, lo, hi, e->name, e->len);
	if (pos >= hi || t->c->by_path[pos] != entry || e->len < prefix)
		return -ENOENT;
	const char *part = component(e, prefix, &part_len);
	if (!sf_name_is_long(part, part_len, 0))
		return -ENOENT;
	sf_name_encode(&b, part, part_len, e->name, e->len, 0);
	r = sf_buf_check(&b);
	if (r >= 0 && (b.len != len || memcmp(b.at, name, len) != 0))
		r = -ENOENT;
	sf_buf_release(&b);
	if (r >= 0)
		*ret = sf_node_make(SF_T_STATE, sf_node_depth(dir) + 1, pos);
	return r;
}

static int lookup(const struct sf_tree *t, sf_node dir, const char *name, size_t len, sf_node *ret)
{
	struct sf_buf want = { 0 };
	uint32_t lo, hi, end;
	size_t prefix;
	int r;

	if (t->c->n == 0)
		return -ENOENT;
	if (memchr(name, '.', len))
		return lookup_file(t, dir, name, len, ret); /* a directory's name never has a dot */
	if (sf_node_depth(dir) >= SF_T_DEPTH_MAX)
		return -ENOENT;
	range_of(t, dir, &lo, &hi, &prefix);
	if (leaf_of(t, dir) != SF_NONE)
		lo++;
	end = hi;
	r = lookup_cut(t, dir, lo, hi, prefix, name, len, ret);
	if (r != -ENOENT)
		return r;
	if (!sf_name_decode(&want, name, len) || sf_buf_check(&want) < 0 ||
	    sf_name_is_long((const char *)want.at, want.len, 0)) {
		r = sf_buf_check(&want) < 0 ? -ENOMEM : -ENOENT;
		sf_buf_release(&want);
		return r;
	}
	const char *part = want.len ? (const char *)want.at : "";
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (compare_component(at(t, mid), prefix, part, want.len) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (lo < end && compare_component(at(t, lo), prefix, part, want.len) == 0) {
		*ret = sf_node_make(SF_T_STATE, sf_node_depth(dir) + 1, lo);
		r = 0;
	}
	sf_buf_release(&want);
	return r;
}

static int list(const struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
                void *arg)
{
	uint32_t lo, hi, leaf = SF_NONE;
	struct sf_buf name = { 0 };
	size_t prefix;
	int r = 0;

	if (t->c->n == 0)
		return 0;
	range_of(t, dir, &lo, &hi, &prefix);
	leaf = leaf_of(t, dir);
	for (; leaf != SF_NONE && cookie < SF_ARRAY_LEN(leaf_files) && !r; cookie++)
		if (shows_leaf_file(t, leaf, &leaf_files[cookie]))
			r = each(arg, leaf_files[cookie].name, strlen(leaf_files[cookie].name),
			         sf_node_make(leaf_files[cookie].kind, 0, leaf), SF_NODE_FILE,
			         cookie + 1);
	if (sf_node_depth(dir) >= SF_T_DEPTH_MAX)
		return r < 0 ? r : 0;
	uint32_t pos = lo + (leaf != SF_NONE);
	/* a cookie is whatever lseek() was given: never back to the directory's own key */
	if (cookie > FIRST_CHILD && !r)
		pos = cookie - FIRST_CHILD < hi - lo
		              ? SF_MAX(pos, lo + (uint32_t)(cookie - FIRST_CHILD))
		              : hi;
	while (pos < hi && !r) {
		const struct sf_entry *e = at(t, pos);
		size_t len;
		const char *part = component(e, prefix, &len);
		uint32_t end = sf_name_is_long(part, len, 0) ? pos + 1
		                                             : end_of(t, pos, hi, prefix + len + 1);
		sf_buf_reset(&name);
		sf_name_encode(&name, part, len, e->name, e->len, 0);
		r = sf_buf_check(&name);
		if (!r)
			r = each(arg, (const char *)name.at, name.len,
			         sf_node_make(SF_T_STATE, sf_node_depth(dir) + 1, pos), SF_NODE_DIR,
			         FIRST_CHILD + (end - lo));
		pos = end;
	}
	sf_buf_release(&name);
	return r < 0 ? r : 0;
}

static uint64_t mix_path(const struct sf_tree *t, sf_node n, uint64_t h)
{
	const uint8_t depth = (uint8_t)sf_node_depth(n);
	uint32_t lo, hi;
	size_t prefix;

	if (sf_node_depth(n) == 0)
		return h;
	range_of(t, n, &lo, &hi, &prefix);
	const struct sf_entry *e = at(t, lo);
	h = sf_fnv1a(h, e->name, prefix - 1);
	h = sf_fnv1a(h, &depth, 1);
	return is_cut(t, n) ? sf_fnv1a(h, e->name + prefix - 1, e->len - (prefix - 1)) : h;
}

const struct sf_kind sf_kind_state = {
	.dir = true,
	.valid = is_dir,
	.entry = leaf_of,
	.path = mix_path,
	.lookup = lookup,
	.readdir = list,
};
