#include "config.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "tree/tree_priv.h"

static uint32_t index_files(const struct sf_tree *t)
{
	return t->hf->index_json ? 1 : 0;
}

uint32_t sf_hf_nfiles(const struct sf_tree *t)
{
	return t->hf ? t->hf->nfiles + index_files(t) + t->hf->ncompanions : 0;
}

/* File @i of hf/: weights, then the index, then the companions. */
static sf_node node_of(const struct sf_tree *t, uint32_t i)
{
	if (i == 0 && t->hf_same != SF_NONE)
		return sf_node_make(SF_T_ROOT_FILE, 0, t->hf_same);
	if (i < t->hf->nfiles)
		return sf_node_make(SF_T_HF_FILE, 0, i);
	i -= t->hf->nfiles;
	if (i < index_files(t))
		return sf_node_make(SF_T_HF_INDEX, 0, 0);
	return sf_node_make(SF_T_HF_COMPANION, 0, i - index_files(t));
}

/* The inverse, for nodes of hf/ alone. */
static uint32_t number_of(const struct sf_tree *t, sf_node n)
{
	switch (sf_node_kind(n)) {
	case SF_T_HF_FILE:
		return sf_node_index(n);
	case SF_T_HF_INDEX:
		return t->hf->nfiles;
	default:
		return t->hf->nfiles + index_files(t) + sf_node_index(n);
	}
}

static const char *name_at(const struct sf_tree *t, uint32_t i)
{
	if (i < t->hf->nfiles)
		return t->hf->file[i].name;
	i -= t->hf->nfiles;
	return i < index_files(t) ? t->hf->index_name : t->hf->companion[i - index_files(t)].name;
}

static int same_file(void *arg, uint32_t value, const char *name, size_t len)
{
	const struct sf_tree *t = arg;
	const char *s = name_at(t, value);

	return strlen(s) == len && memcmp(s, name, len) == 0;
}

int sf_hf_make(struct sf_tree *t, struct sf_error *err)
{
	uint32_t n = sf_hf_nfiles(t);
	int failed = sf_map_reserve(&t->hf_names, n);

	for (uint32_t i = 0; i < n && !failed; i++) {
		const char *s = name_at(t, i);
		sf_map_add(&t->hf_names, s, strlen(s), i, same_file, t, &failed);
	}
	t->hf_size = failed ? NULL : calloc((size_t)n + 1, sizeof(*t->hf_size));
	return t->hf_size ? 0 : sf_fail(err, -ENOMEM, "no memory for hf/");
}

static bool is_dir(const struct sf_tree *t, sf_node n)
{
	(void)n;
	return t->hf != NULL;
}

static int lookup(const struct sf_tree *t, sf_node dir, const char *name, size_t len, sf_node *ret)
{
	uint32_t i = sf_map_get(&t->hf_names, name, len, same_file, (void *)(uintptr_t)t);

	(void)dir;
	if (i == SF_MAP_NONE)
		return -ENOENT;
	*ret = node_of(t, i);
	return 0;
}

static int list(const struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
                void *arg)
{
	uint32_t n = sf_hf_nfiles(t);

	(void)dir;
	for (uint64_t i = cookie; i < n; i++) {
		const char *s = name_at(t, (uint32_t)i);
		int r = each(arg, s, strlen(s), node_of(t, (uint32_t)i), SF_NODE_FILE, i + 1);
		if (r)
			return r < 0 ? r : 0;
	}
	return 0;
}

const struct sf_kind sf_kind_hf = {
	.dir = true, .valid = is_dir, .lookup = lookup, .readdir = list
};

/* ---- its files ---- */

static uint64_t mix_name(const struct sf_tree *t, sf_node n, uint64_t h)
{
	const char *s = name_at(t, number_of(t, n));

	return sf_fnv1a(h, s, strlen(s));
}

static _Atomic uint64_t *kept_size(struct sf_tree *t, sf_node n)
{
	return &t->hf_size[number_of(t, n)];
}

static bool is_weights(const struct sf_tree *t, sf_node n)
{
	return t->hf && sf_node_index(n) < t->hf->nfiles;
}

static int make_weights(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	return sf_view_safetensors(t->c, t->r, &t->hf->file[sf_node_index(n)].sel, ret, err);
}

const struct sf_kind sf_kind_hf_file = {
	.valid = is_weights, .path = mix_name, .make = make_weights, .kept_size = kept_size
};

static bool is_index(const struct sf_tree *t, sf_node n)
{
	return t->hf && t->hf->index_json && sf_node_index(n) == 0;
}

static int make_index(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	(void)n;
	return sf_view_bytes(t->r, t->hf->index_json, t->hf->index_len, ret, err);
}

static int size_of_index(const struct sf_tree *t, sf_node n, uint64_t *ret)
{
	(void)n;
	*ret = t->hf->index_len;
	return 0;
}

const struct sf_kind sf_kind_hf_index = {
	.valid = is_index, .path = mix_name, .make = make_index, .size = size_of_index
};

static bool is_companion(const struct sf_tree *t, sf_node n)
{
	return t->hf && sf_node_index(n) < t->hf->ncompanions;
}

static int make_companion(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err)
{
	return sf_view_hf_companion(t->hf, t->r, sf_node_index(n), ret, err);
}

const struct sf_kind sf_kind_hf_companion = {
	.valid = is_companion,
	.path = mix_name,
	.make = make_companion,
	.kept_size = kept_size,
	.in_memory = true,
};
