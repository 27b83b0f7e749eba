#include "config.h"

#include <inttypes.h>
#include <string.h>

#include "format/run.h"
#include "tree/tree_priv.h"

/* The names that lead to a node, or others that tell it from all nodes of its kind: not its number,
 * which depends on the options. */
static uint64_t mix_path(const struct sf_tree *t, sf_node n, uint64_t h)
{
	const struct sf_kind *kind = sf_kind_of(n);
	uint32_t entry;

	if (kind->path)
		return kind->path(t, n, h);
	entry = sf_tree_entry(t, n);
	return entry == SF_NONE ? h : sf_fnv1a(h, t->c->entry[entry].name, t->c->entry[entry].len);
}

static uint64_t ino_of(const struct sf_tree *t, sf_node n)
{
	const uint8_t kind = (uint8_t)sf_node_kind(n);
	uint64_t h = sf_fnv1a(SF_FNV1A, t->c->ckpt->version_hash, sizeof(t->c->ckpt->version_hash));

	h = mix_path(t, n, sf_fnv1a(h, &kind, 1));
	h = (h ^ h >> 30) * UINT64_C(0xbf58476d1ce4e5b9);
	h = (h ^ h >> 27) * UINT64_C(0x94d049bb133111eb);
	h ^= h >> 31;
	return h > 1 ? h : h + 2;
}

uint64_t sf_tree_ino(const struct sf_tree *t, sf_node n)
{
	return sf_tree_valid(t, n) ? ino_of(t, n) : 0;
}

static int size_of_file(struct sf_tree *t, sf_node n, struct sf_vfile *f, uint64_t *ret)
{
	const struct sf_kind *kind = sf_kind_of(n);
	int r = sf_vfile_size(f, ret);

	if (r >= 0 && kind->kept_size)
		atomic_store_explicit(kind->kept_size(t, n), *ret + 1, memory_order_relaxed);
	return r;
}

/* A file that is made only to be asked its size. */
static int size_by_making(struct sf_tree *t, sf_node n, uint64_t *ret)
{
	struct sf_vfile *f = sf_tree_cache_get(t, n);
	int r = f ? 0 : sf_kind_of(n)->make(t, n, &f, NULL);

	if (r >= 0)
		r = size_of_file(t, n, f, ret);
	sf_vfile_unref(f);
	return r;
}

static int size_of(struct sf_tree *t, sf_node n, uint64_t *ret)
{
	const struct sf_kind *kind = sf_kind_of(n);

	if (kind->size)
		return kind->size(t, n, ret);
	if (kind->kept_size) {
		uint64_t known = atomic_load_explicit(kind->kept_size(t, n), memory_order_relaxed);
		if (known) {
			*ret = known - 1;
			return 0;
		}
	}
	return size_by_making(t, n, ret);
}

/* All but the size. */
static void describe(const struct sf_tree *t, sf_node n, struct sf_attr *ret)
{
	const struct sf_kind *kind = sf_kind_of(n);

	*ret = (struct sf_attr){ .type = kind->dir ? SF_NODE_DIR : SF_NODE_FILE,
		                 .mode = kind->dir ? 0555 : 0444,
		                 .ino = ino_of(t, n),
		                 .mtime_ns = t->run ? sf_run_mtime(t->run) : t->c->ckpt->mtime_ns,
		                 .nlink = kind->dir     ? 2
		                          : kind->nlink ? kind->nlink(t, n)
		                                        : 1,
		                 .listed = SF_NONE };
	if (kind->attr)
		kind->attr(t, n, ret);
}

int sf_tree_attr(struct sf_tree *t, sf_node n, struct sf_attr *ret)
{
	if (!sf_tree_valid(t, n))
		return -ENOENT;
	describe(t, n, ret);
	return ret->type == SF_NODE_FILE && !ret->live ? size_of(t, n, &ret->size) : 0;
}

int sf_tree_prepare(struct sf_tree *t, sf_node n, struct sf_error *err)
{
	struct sf_vfile *f = NULL;
	struct sf_attr attr;
	uint64_t size;
	int r;

	if (sf_tree_valid(t, n)) {
		describe(t, n, &attr);
		if (attr.type != SF_NODE_FILE || attr.live)
			return 0;
	}
	r = sf_tree_open(t, n, &f, err);
	if (r >= 0)
		r = sf_vfile_prepare(f, err);
	if (r >= 0)
		r = size_of_file(t, n, f, &size);
	sf_vfile_unref(f);
	return r;
}
