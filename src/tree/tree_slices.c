#include "config.h"

#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "catalog/catalog_slice.h"
#include "tree/tree_priv.h"

/* slices/tpN/rankR/model.safetensors. Directories by depth; the index of the last one is the rank. */
enum { SLICES, SLICES_TP, SLICES_RANK };
#define FILE_NAME "model.safetensors"

static sf_node child_of(unsigned depth, uint32_t i)
{
	return depth == SLICES_RANK ? sf_node_make(SF_T_SLICES_FILE, 0, i)
	                            : sf_node_make(SF_T_SLICES, depth + 1, i);
}

static uint32_t children(const struct sf_tree *t, unsigned depth)
{
	return depth == SLICES_TP ? t->c->slices->ranks : 1;
}

static void name_child(const struct sf_tree *t, unsigned depth, uint32_t i, char name[32])
{
	if (depth == SLICES)
		snprintf(name, 32, "tp%" PRIu32, t->c->slices->ranks);
	else if (depth == SLICES_TP)
		snprintf(name, 32, "rank%" PRIu32, i);
	else
		snprintf(name, 32, FILE_NAME);
}

static bool is_dir(const struct sf_tree *t, sf_node n)
{
	const unsigned depth = sf_node_depth(n);

	return t->c->slices && depth <= SLICES_RANK &&
	       sf_node_index(n) < (depth == SLICES_RANK ? t->c->slices->ranks : 1);
}

/* The child's index: of the directory of a rank's that of the directory itself. */
static uint32_t index_of(sf_node dir, uint32_t i)
{
	return sf_node_depth(dir) == SLICES_RANK ? sf_node_index(dir) : i;
}

static int lookup(const struct sf_tree *t, sf_node dir, const char *name, size_t len, sf_node *ret)
{
	const unsigned depth = sf_node_depth(dir);
	char child[32];
	uint32_t i = 0;

	if (depth == SLICES_TP)
		for (size_t k = 4; k < len && k < 8 && name[k] >= '0' && name[k] <= '9'; k++)
			i = i * 10 + (uint32_t)(name[k] - '0');
	name_child(t, depth, i, child);
	if (i >= children(t, depth) || strlen(child) != len || memcmp(child, name, len) != 0)
		return -ENOENT;
	*ret = child_of(depth, index_of(dir, i));
	return 0;
}

static int list(const struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
                void *arg)
{
	const unsigned depth = sf_node_depth(dir);
	char name[32];
	int r = 0;

	for (uint64_t i = cookie; i < children(t, depth) && !r; i++) {
		name_child(t, depth, (uint32_t)i, name);
		r = each(arg, name, strlen(name), child_of(depth, index_of(dir, (uint32_t)i)),
		         depth == SLICES_RANK ? SF_NODE_FILE : SF_NODE_DIR, i + 1);
	}
	return r < 0 ? r : 0;
}

static uint64_t mix_number(const struct sf_tree *t, sf_node n, uint64_t h)
{
	char path[64];

	snprintf(path, sizeof(path), "%u/tp%" PRIu32 "/%" PRIu32, sf_node_depth(n),
	         t->c->slices->ranks, sf_node_index(n));
	return sf_fnv1a(h, path, strlen(path));
}

const struct sf_kind sf_kind_slices = {
	.dir = true, .valid = is_dir, .path = mix_number, .lookup = lookup, .readdir = list
};

/* ---- the file of a rank ---- */

static bool is_file(const struct sf_tree *t, sf_node n)
{
	return t->c->slices && sf_node_index(n) < t->c->slices->ranks;
}

static int make(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	const struct sf_slices *s = t->c->slices;
	const struct sf_selection sel = { .entry = t->c->by_group + s->group.first,
		                          .n = s->group.n,
		                          .strip = s->group.of->strip,
		                          .cast = true,
		                          .cut = s->cut,
		                          .rank = sf_node_index(n),
		                          .ranks = s->ranks };

	return sf_view_safetensors(t->c, t->r, &sel, ret, err);
}

/* That of all ranks: what they have differs in values alone. */
static _Atomic uint64_t *kept_size(struct sf_tree *t, sf_node n)
{
	(void)n;
	return &t->slice_size;
}

const struct sf_kind sf_kind_slices_file = {
	.valid = is_file, .path = mix_number, .make = make, .kept_size = kept_size
};
