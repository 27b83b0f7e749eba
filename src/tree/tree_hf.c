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

sf_node sf_hf_node(const struct sf_tree *t, uint32_t i)
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

uint32_t sf_hf_number(const struct sf_tree *t, sf_node n)
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

const char *sf_hf_node_name(const struct sf_tree *t, sf_node n)
{
	return name_at(t, sf_hf_number(t, n));
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

int sf_hf_lookup(const struct sf_tree *t, const char *name, size_t len, sf_node *ret)
{
	uint32_t i = sf_map_get(&t->hf_names, name, len, same_file, (void *)t);

	if (i == SF_MAP_NONE)
		return -ENOENT;
	*ret = sf_hf_node(t, i);
	return 0;
}

int sf_hf_readdir(struct sf_tree *t, uint64_t cookie, sf_tree_each *each, void *arg)
{
	uint32_t n = sf_hf_nfiles(t);

	for (uint64_t i = cookie; i < n; i++) {
		sf_node node = sf_hf_node(t, (uint32_t)i);
		const char *s = name_at(t, (uint32_t)i);
		int r = each(arg, s, strlen(s), node, SF_NODE_FILE, i + 1);
		if (r)
			return r < 0 ? r : 0;
	}
	return 0;
}
