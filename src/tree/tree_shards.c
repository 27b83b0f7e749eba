#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "base/mem.h"
#include "base/path.h"
#include "tree/tree_priv.h"

static const struct sf_file *at(const struct sf_tree *t, uint32_t pos)
{
	return &t->c->ckpt->listing[t->shown[pos]];
}

/* A stored file `latest` stands behind ours; names that could lead out of the tree are not shown at
 * all. */
static bool shows(const struct sf_file *f)
{
	return f->info.size <= INT64_MAX &&
	       !(f->name_len == 6 && memcmp(f->name, "latest", 6) == 0) &&
	       sf_path_check(f->name, f->name_len, NULL) == 0;
}

int sf_shards_make(struct sf_tree *t, struct sf_error *err)
{
	const struct sf_ckpt *k = t->c->ckpt;
	uint32_t *shown = sf_arena_calloc(&t->arena, (size_t)k->nlisting + 1, sizeof(*shown));

	if (!shown)
		return sf_fail(err, -ENOMEM, "no memory for %" PRIu32 " stored files", k->nlisting);
	for (uint32_t i = 0; i < k->nlisting; i++)
		if (shows(&k->listing[i]))
			shown[t->nshown++] = i;
	t->shown = shown;
	return 0;
}

/* Bytes of the names below @dir that are its path, with the slash behind. */
static size_t prefix_of(const struct sf_tree *t, sf_node dir)
{
	unsigned depth = sf_node_depth(dir);
	size_t n = 0;

	if (depth == 0)
		return 0;
	const struct sf_file *f = at(t, sf_node_index(dir));
	for (; depth && n < f->name_len; n++)
		depth -= f->name[n] == '/';
	return n;
}

static bool is_dir(const struct sf_tree *t, sf_node dir)
{
	unsigned depth = sf_node_depth(dir);

	if (depth == 0)
		return sf_node_index(dir) == 0;
	if (sf_node_index(dir) >= t->nshown || depth > SF_T_DEPTH_MAX)
		return false;
	const struct sf_file *f = at(t, sf_node_index(dir));
	for (uint32_t i = 0; i < f->name_len && depth; i++)
		depth -= f->name[i] == '/';
	return depth == 0;
}

/* Is @f's name before @name, a prefix counting as before what is longer? */
static int compare(const struct sf_file *f, const char *name, size_t len)
{
	int d = memcmp(f->name, name, SF_MIN((size_t)f->name_len, len));

	return d ? d : f->name_len < len ? -1 : f->name_len > len;
}

static uint32_t lower_bound(const struct sf_tree *t, uint32_t lo, uint32_t hi, const char *name,
                            size_t len)
{
	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (compare(at(t, mid), name, len) < 0)
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static bool starts(const struct sf_file *f, const char *prefix, size_t len)
{
	return f->name_len >= len && memcmp(f->name, prefix, len) == 0;
}

/* Behind the last file whose name begins so; @prefix ends in '/', and all such names are side by
 * side. */
static uint32_t end_of(const struct sf_tree *t, uint32_t lo, const char *prefix, size_t len)
{
	uint32_t hi = t->nshown;

	while (lo < hi) {
		uint32_t mid = lo + (hi - lo) / 2;
		if (starts(at(t, mid), prefix, len))
			lo = mid + 1;
		else
			hi = mid;
	}
	return lo;
}

static int lookup(const struct sf_tree *t, sf_node dir, const char *name, size_t len, sf_node *ret)
{
	size_t prefix = prefix_of(t, dir);
	struct sf_buf path = { 0 };
	uint32_t pos;
	int r = -ENOENT;

	if (memchr(name, '/', len) || t->nshown == 0 || len == 0)
		return -ENOENT;
	if (prefix)
		sf_buf_add(&path, at(t, sf_node_index(dir))->name, prefix);
	sf_buf_add(&path, name, len);
	sf_buf_byte(&path, '/');
	if (sf_buf_check(&path) < 0) {
		r = -ENOMEM;
	} else {
		const char *s = (const char *)path.at;
		pos = lower_bound(t, 0, t->nshown, s, path.len - 1);
		if (pos < t->nshown && compare(at(t, pos), s, path.len - 1) == 0) {
			*ret = sf_node_make(SF_T_SHARDS_FILE, 0, t->shown[pos]);
			r = 0;
		} else if (sf_node_depth(dir) < SF_T_DEPTH_MAX) {
			pos = lower_bound(t, pos, t->nshown, s, path.len);
			if (pos < t->nshown && starts(at(t, pos), s, path.len)) {
				*ret = sf_node_make(SF_T_SHARDS, sf_node_depth(dir) + 1, pos);
				r = 0;
			}
		}
	}
	sf_buf_release(&path);
	return r;
}

/* Cookies are positions from the directory's first file on. */
static int list(const struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
                void *arg)
{
	size_t prefix = prefix_of(t, dir);
	uint32_t lo = prefix ? sf_node_index(dir) : 0, hi = t->nshown;
	int r = 0;

	if (prefix)
		hi = end_of(t, lo, at(t, lo)->name, prefix);
	uint32_t pos = cookie < hi - lo ? lo + (uint32_t)cookie : hi;
	while (pos < hi && !r) {
		const struct sf_file *f = at(t, pos);
		const char *s = f->name + prefix, *slash = memchr(s, '/', f->name_len - prefix);
		sf_node same;
		if (!slash) {
			r = each(arg, s, f->name_len - prefix,
			         sf_node_make(SF_T_SHARDS_FILE, 0, t->shown[pos]), SF_NODE_FILE,
			         pos - lo + 1);
			pos++;
			continue;
		}
		uint32_t end = end_of(t, pos, f->name, (size_t)(slash - f->name) + 1);
		/* object stores may have a file and "directory" of one name: the file it is */
		int found = lookup(t, dir, s, (size_t)(slash - s), &same);
		if (found < 0 && found != -ENOENT)
			return found;
		if (found == 0 && sf_node_kind(same) == SF_T_SHARDS)
			r = each(arg, s, (size_t)(slash - s), same, SF_NODE_DIR, end - lo);
		pos = end;
	}
	return r < 0 ? r : 0;
}

static uint64_t mix_dir(const struct sf_tree *t, sf_node n, uint64_t h)
{
	size_t prefix = prefix_of(t, n);

	return prefix ? sf_fnv1a(h, at(t, sf_node_index(n))->name, prefix) : h;
}

const struct sf_kind sf_kind_shards = {
	.dir = true, .valid = is_dir, .path = mix_dir, .lookup = lookup, .readdir = list
};

/* ---- stored files ---- */

static const struct sf_file *file_of(const struct sf_tree *t, sf_node n)
{
	return &t->c->ckpt->listing[sf_node_index(n)];
}

static bool is_file(const struct sf_tree *t, sf_node n)
{
	return sf_node_index(n) < t->c->ckpt->nlisting;
}

static uint64_t mix_file(const struct sf_tree *t, sf_node n, uint64_t h)
{
	return sf_fnv1a(h, file_of(t, n)->name, file_of(t, n)->name_len);
}

static void add_listed(const struct sf_tree *t, sf_node n, struct sf_attr *ret)
{
	ret->listed = sf_node_index(n);
	if (file_of(t, n)->info.version.mtime_ns)
		ret->mtime_ns = file_of(t, n)->info.version.mtime_ns;
}

static int make_file(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	return sf_view_listed(t->c, t->r, sf_node_index(n), ret, err);
}

static int size_of_file(const struct sf_tree *t, sf_node n, uint64_t *ret)
{
	*ret = file_of(t, n)->info.size;
	return 0;
}

const struct sf_kind sf_kind_shards_file = {
	.valid = is_file,
	.path = mix_file,
	.attr = add_listed,
	.make = make_file,
	.size = size_of_file,
};
