/* Inside of the virtual tree: node numbers, and one set of functions per kind of directory. Only
 * view/ includes it. */
#ifndef SF_TREE_TREE_PRIV_H
#define SF_TREE_TREE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include "tree/tree.h"

/* Numbers are part of st_ino: new ones go to the end. */
enum sf_tree_kind {
	SF_T_ROOT,
	SF_T_ROOT_FILE, /* index: root[] */
	SF_T_HF,
	SF_T_HF_FILE, /* hf->file[] */
	SF_T_HF_INDEX,
	SF_T_HF_COMPANION,
	SF_T_STATE,    /* index: first of its keys in by_path, depth: components of the directory's
	                  path */
	SF_T_LEAF_RAW, /* these and the flat files, which state/ shows too: entry */
	SF_T_LEAF_INFO,
	SF_T_LEAF_VALUE_JSON,
	SF_T_LEAF_VALUE_PT,
	SF_T_NPY,
	SF_T_NPY_FILE,
	SF_T_PT,
	SF_T_PT_FILE,
	SF_T_SAFETENSORS,
	SF_T_SAFETENSORS_FILE,
	SF_T_SHARDS, /* index: first of its files in shown[], depth: slashes of the directory's path
	              */
	SF_T_SHARDS_FILE, /* ckpt->listing[] */
	SF_T_CONTROL,
	SF_T_CONTROL_FILE,
	SF_T_NKINDS
};
#define SF_T_DEPTH_MAX                                                                            \
	1000 /* directories below state/ or shards/: what lies deeper has no path that the kernel \
	        would take */

static inline sf_node sf_node_make(enum sf_tree_kind kind, unsigned depth, uint32_t index)
{
	return (sf_node)kind << 42 | (sf_node)depth << 32 | index;
}
static inline enum sf_tree_kind sf_node_kind(sf_node n)
{
	return n >> 42 < SF_T_NKINDS ? (enum sf_tree_kind)(n >> 42) : SF_T_NKINDS;
}
static inline unsigned sf_node_depth(sf_node n)
{
	return (unsigned)(n >> 32) & 1023;
}
static inline uint32_t sf_node_index(sf_node n)
{
	return (uint32_t)n;
}

/* Names at the root. */
enum sf_root_what {
	SF_ROOT_README,
	SF_ROOT_INFO,
	SF_ROOT_TENSORS,
	SF_ROOT_CHECKPOINT_PT,
	SF_ROOT_CHECKPOINT_ST,
	SF_ROOT_GROUP_PT,
	SF_ROOT_GROUP_ST,
	SF_ROOT_LINK,
	SF_ROOT_DIR
};
struct sf_root_entry {
	const char *name;
	uint8_t what;
	uint32_t group;
	const char *target;    /* LINK */
	sf_node dir;           /* DIR */
	uint32_t same;         /* the first entry that shows these bytes: its node is this one's */
	_Atomic uint64_t size; /* plus one; 0: not known yet */
};

struct sf_cached;
struct sf_tree {
	struct sf_arena arena;
	const struct sf_catalog *c;
	struct sf_reader *r;
	struct sf_hf *hf;       /* NULL: there is no hf/ */
	struct sf_map hf_names; /* its files' names -> sf_hf_number */
	struct sf_root_entry *root;
	uint32_t nroot;
	uint32_t *all;         /* all[i] is i: selections of one entry, and of all */
	const uint32_t *shown; /* listing[] entries that shards/ shows, in its order */
	uint32_t nshown;
	uint32_t hf_same; /* root entry whose node hf/'s only weights are, SF_NONE: none */
	bool shows_state, shows_npy, shows_pt, shows_safetensors; /* views= */
	uint64_t bytes; /* of all tensors */
	/* Sizes that cost something, plus one, once known; 0 before. Two per entry: info.json or
	 * value.json, .pt. */
	_Atomic uint64_t *entry_size, *hf_size;
	struct {
		pthread_mutex_t m;
		struct sf_cached **bucket; /* files made, by node */
		struct sf_cached *newest, *oldest;
		uint32_t n;
	} locked;
};

typedef int sf_tree_each(void *arg, const char *name, size_t len, sf_node node,
                         enum sf_node_type type, uint64_t next_cookie);

/* tree_root.c */
int sf_root_make(struct sf_tree *t, struct sf_error *err);
int sf_root_lookup(const struct sf_tree *t, const char *name, size_t len, sf_node *ret);
int sf_root_readdir(struct sf_tree *t, uint64_t cookie, sf_tree_each *each, void *arg);
enum sf_node_type sf_root_type(const struct sf_root_entry *e);

/* tree_links.c: paths that show the same bytes */
int sf_links_make(struct sf_tree *t, struct sf_error *err); /* once root and hf/ are there */
uint32_t sf_tree_nlink(const struct sf_tree *t, sf_node n); /* of a file */

/* tree_hf.c: also .shardfuse/, whose four files are fixed */
int sf_hf_make(struct sf_tree *t, struct sf_error *err); /* once t->hf is there */
int sf_hf_lookup(const struct sf_tree *t, const char *name, size_t len, sf_node *ret);
int sf_hf_readdir(struct sf_tree *t, uint64_t cookie, sf_tree_each *each, void *arg);
const char *sf_hf_node_name(const struct sf_tree *t, sf_node n);
uint32_t sf_hf_nfiles(const struct sf_tree *t);            /* weights, index, companions */
sf_node sf_hf_node(const struct sf_tree *t, uint32_t i);   /* i < nfiles */
uint32_t sf_hf_number(const struct sf_tree *t, sf_node n); /* the inverse, for nodes of hf/ alone */

/* tree_state.c */
int sf_state_lookup(const struct sf_tree *t, sf_node dir, const char *name, size_t len,
                    sf_node *ret);
int sf_state_readdir(struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
                     void *arg);
/* The keys below a directory: by_path[lo … hi). *ret_prefix: bytes of the name that the directory
 * stands for, with the dot behind. */
void sf_state_range(const struct sf_tree *t, sf_node dir, uint32_t *ret_lo, uint32_t *ret_hi,
                    size_t *ret_prefix);
/* Below a component that is cut: the directory is of one key alone, other directories may have the
 * same components. */
bool sf_state_is_cut(const struct sf_tree *t, sf_node dir);
/* The entry whose own directory this is, SF_NONE. */
uint32_t sf_state_leaf(const struct sf_tree *t, sf_node dir);

bool sf_state_valid(const struct sf_tree *t, sf_node dir); /* does its key have that many parts? */

/* tree_flat.c: npy/ pt/ safetensors/ */
int sf_flat_lookup(const struct sf_tree *t, enum sf_tree_kind dir, const char *name, size_t len,
                   sf_node *ret);
int sf_flat_readdir(struct sf_tree *t, enum sf_tree_kind dir, uint64_t cookie, sf_tree_each *each,
                    void *arg);
bool sf_flat_shows(const struct sf_tree *t, enum sf_tree_kind dir, uint32_t entry);

/* tree_shards.c */
int sf_shards_make(struct sf_tree *t, struct sf_error *err);
int sf_shards_lookup(const struct sf_tree *t, sf_node dir, const char *name, size_t len,
                     sf_node *ret);
int sf_shards_readdir(struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
                      void *arg);
bool sf_shards_valid(const struct sf_tree *t, sf_node dir);
size_t sf_shards_prefix(const struct sf_tree *t, sf_node dir);

/* tree_live.c: .shardfuse/ */
#define SF_NCONTROL 2
extern const char *const sf_control_names[SF_NCONTROL];

/* tree_file.c: a new file of a node, one reference. */
struct sf_selection sf_tree_root_selection(const struct sf_tree *t, const struct sf_root_entry *e);
int sf_tree_make_file(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err);
/* tree_cache.c */
int sf_tree_cache_make(struct sf_tree *t, struct sf_error *err);
void sf_tree_cache_free(struct sf_tree *t);
struct sf_vfile *sf_tree_cache_get(struct sf_tree *t, sf_node n); /* a reference, or NULL */

/* tree.c: is this a number that we gave out? */
bool sf_tree_valid(const struct sf_tree *t, sf_node n);
/* The entry a node shows, SF_NONE. */
uint32_t sf_tree_entry(const struct sf_tree *t, sf_node n);

#endif
