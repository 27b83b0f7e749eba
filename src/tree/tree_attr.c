#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "tree/tree_priv.h"
#include "view/entry_json_part.h"
#include "view/view_size.h"

/* FNV-1a: the same in every process, which sf_hash is not. */
static uint64_t mix(uint64_t h, const void *p, size_t len)
{
	const uint8_t *b = p;

	for (size_t i = 0; i < len; i++)
		h = (h ^ b[i]) * UINT64_C(0x100000001b3);
	return h;
}

/* The names that lead to a node, or others that tell it from all nodes of its kind: not its number,
 * which depends on the options. */
static uint64_t mix_path(const struct sf_tree *t, sf_node n, uint64_t h)
{
	uint32_t i = sf_node_index(n), lo, hi,
		 entry = sf_node_kind(n) == SF_T_STATE ? SF_NONE : sf_tree_entry(t, n);
	const struct sf_ckpt *k = t->c->ckpt;
	size_t prefix;

	if (entry != SF_NONE)
		return mix(h, t->c->entry[entry].name, t->c->entry[entry].len);
	switch (sf_node_kind(n)) {
	case SF_T_ROOT_FILE:
		return mix(h, t->root[i].name, strlen(t->root[i].name));
	case SF_T_HF_FILE:
	case SF_T_HF_INDEX:
	case SF_T_HF_COMPANION:
		return mix(h, sf_hf_node_name(t, n), strlen(sf_hf_node_name(t, n)));
	case SF_T_STATE:
		if (sf_node_depth(n) == 0)
			return h;
		sf_state_range(t, n, &lo, &hi, &prefix);
		const struct sf_entry *e = &t->c->entry[t->c->by_path[lo]];
		h = mix(h, e->name, prefix - 1);
		h = mix(h, &(uint8_t){ (uint8_t)sf_node_depth(n) }, 1);
		return sf_state_is_cut(t, n) ? mix(h, e->name + prefix - 1, e->len - (prefix - 1))
		                             : h;
	case SF_T_SHARDS:
		prefix = sf_shards_prefix(t, n);
		return prefix ? mix(h, k->listing[t->shown[i]].name, prefix) : h;
	case SF_T_SHARDS_FILE:
		return mix(h, k->listing[i].name, k->listing[i].name_len);
	case SF_T_CONTROL_FILE:
		return mix(h, sf_control_names[i], strlen(sf_control_names[i]));
	default:
		return h;
	}
}

static uint64_t ino_of(const struct sf_tree *t, sf_node n)
{
	const uint8_t kind = (uint8_t)sf_node_kind(n);
	uint64_t h = mix(UINT64_C(0xcbf29ce484222325), t->c->ckpt->version_hash,
	                 sizeof(t->c->ckpt->version_hash));

	h = mix_path(t, n, mix(h, &kind, 1));
	h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
	h ^= h >> 31;
	return h > 1 ? h : h + 2;
}

uint64_t sf_tree_ino(const struct sf_tree *t, sf_node n)
{
	return sf_tree_valid(t, n) ? ino_of(t, n) : 0;
}

/* Where a size that cost something is kept, plus one; NULL: it costs nothing. */
static _Atomic uint64_t *size_slot(struct sf_tree *t, sf_node n)
{
	uint32_t i = sf_node_index(n);

	switch (sf_node_kind(n)) {
	case SF_T_ROOT_FILE:
		return &t->root[i].size;
	case SF_T_HF_FILE:
	case SF_T_HF_COMPANION:
		return &t->hf_size[sf_hf_number(t, n)];
	case SF_T_LEAF_INFO:
	case SF_T_LEAF_VALUE_JSON:
		return &t->entry_size[2 * (size_t)i];
	case SF_T_LEAF_VALUE_PT:
	case SF_T_PT_FILE:
		return &t->entry_size[2 * (size_t)i + 1];
	default:
		return NULL;
	}
}

static int size_of_file(struct sf_tree *t, sf_node n, struct sf_vfile *f, uint64_t *ret)
{
	_Atomic uint64_t *slot = size_slot(t, n);
	int r = sf_vfile_size(f, ret);

	if (r >= 0 && slot)
		atomic_store_explicit(slot, *ret + 1, memory_order_relaxed);
	return r;
}

/* A file that is made only to be asked its size. */
static int size_by_making(struct sf_tree *t, sf_node n, uint64_t *ret)
{
	struct sf_vfile *f = sf_tree_cache_get(t, n);
	int r = f ? 0 : sf_tree_make_file(t, n, &f, NULL);

	if (r >= 0)
		r = size_of_file(t, n, f, ret);
	sf_vfile_unref(f);
	return r;
}

static int size_of(struct sf_tree *t, sf_node n, uint64_t *ret)
{
	_Atomic uint64_t *slot = size_slot(t, n);
	uint32_t i = sf_node_index(n);

	if (slot) {
		uint64_t known = atomic_load_explicit(slot, memory_order_relaxed);
		if (known) {
			*ret = known - 1;
			return 0;
		}
		return size_by_making(t, n, ret);
	}
	switch (sf_node_kind(n)) {
	case SF_T_NPY_FILE:
		return sf_view_npy_size(t->c, i, ret);
	case SF_T_SAFETENSORS_FILE:
		return sf_view_safetensors_size(t->c, i, ret);
	case SF_T_LEAF_RAW:
		*ret = t->c->ckpt->tensor[t->c->entry[i].tensor].bytes;
		return 0;
	case SF_T_HF_INDEX:
		*ret = t->hf->index_len;
		return 0;
	case SF_T_SHARDS_FILE:
		*ret = t->c->ckpt->listing[i].info.size;
		return 0;
	default:
		*ret = 0; /* live */
		return 0;
	}
}

static enum sf_node_type type_of(const struct sf_tree *t, sf_node n)
{
	switch (sf_node_kind(n)) {
	case SF_T_ROOT:
	case SF_T_HF:
	case SF_T_STATE:
	case SF_T_NPY:
	case SF_T_PT:
	case SF_T_SAFETENSORS:
	case SF_T_SHARDS:
	case SF_T_CONTROL:
		return SF_NODE_DIR;
	case SF_T_ROOT_FILE:
		return sf_root_type(&t->root[sf_node_index(n)]);
	default:
		return SF_NODE_FILE;
	}
}

int sf_tree_attr(struct sf_tree *t, sf_node n, struct sf_attr *ret)
{
	const struct sf_ckpt *k = t->c->ckpt;
	enum sf_node_type type;

	if (!sf_tree_valid(t, n))
		return -ENOENT;
	type = type_of(t, n);
	*ret = (struct sf_attr){ .type = type,
		                 .mode = type == SF_NODE_DIR ? 0555 : 0444,
		                 .ino = ino_of(t, n),
		                 .mtime_ns = k->mtime_ns,
		                 .nlink = type == SF_NODE_DIR ? 2 : sf_tree_nlink(t, n),
		                 .listed = SF_NONE };
	if (sf_node_kind(n) == SF_T_SHARDS_FILE) {
		ret->listed = sf_node_index(n);
		if (k->listing[ret->listed].info.version.mtime_ns)
			ret->mtime_ns = k->listing[ret->listed].info.version.mtime_ns;
	}
	ret->live = sf_node_kind(n) == SF_T_CONTROL_FILE;
	if (type == SF_NODE_LINK) {
		ret->mode = 0777;
		ret->size = strlen(t->root[sf_node_index(n)].target);
	}
	return type == SF_NODE_FILE ? size_of(t, n, &ret->size) : 0;
}

int sf_tree_prepare(struct sf_tree *t, sf_node n, struct sf_error *err)
{
	struct sf_vfile *f = NULL;
	uint64_t size;
	int r;

	if (sf_tree_valid(t, n) &&
	    (type_of(t, n) != SF_NODE_FILE || sf_node_kind(n) == SF_T_CONTROL_FILE))
		return 0;
	r = sf_tree_open(t, n, &f, err);
	if (r >= 0)
		r = sf_vfile_prepare(f, err);
	if (r >= 0)
		r = size_of_file(t, n, f, &size);
	sf_vfile_unref(f);
	return r;
}
