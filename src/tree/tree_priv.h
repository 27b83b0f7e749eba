/* Inside of the virtual tree: node numbers, and what each kind of node can do. Only tree/ includes
 * it. A new kind is a number, its struct sf_kind in a file of its own, and a line in tree_kinds.c;
 * a directory that the root shows is a line in tree_root.c too. */
#ifndef SF_TREE_TREE_PRIV_H
#define SF_TREE_TREE_PRIV_H

#include <pthread.h>
#include <stdatomic.h>
#include "base/lru.h"
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
	/* index: first of its files in shown[], depth: slashes of the directory's path */
	SF_T_SHARDS,
	SF_T_SHARDS_FILE, /* ckpt->listing[] */
	SF_T_CONTROL,
	SF_T_CONTROL_FILE,
	SF_T_RUN_FILE, /* of a run directory's root */
	SF_T_RUN_STEP, /* a directory there, as its parent shows it */
	SF_T_RUN_LATEST, /* the link to that step: a node each, for the kernel keeps what a link says */
	SF_T_SLICES,     /* depth: 0 slices/, 1 tpN/, 2 rankR/, whose index is R */
	SF_T_SLICES_FILE, /* index: the rank */
	SF_T_NKINDS
};
/* directories below state/ or shards/: what lies deeper has no path that the kernel would take */
#define SF_T_DEPTH_MAX 1000

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
	struct sf_run *run;     /* the root is that of a run, and nothing else is there */
	struct sf_hf *hf;       /* NULL: there is no hf/ */
	struct sf_map hf_names; /* its files' names -> which of them: tree_hf.c */
	struct sf_root_entry *root;
	uint32_t nroot;
	uint32_t *all;         /* all[i] is i: selections of one entry, and of all */
	const uint32_t *shown; /* listing[] entries that shards/ shows, in its order */
	uint32_t nshown;
	uint32_t hf_same; /* root entry whose node hf/'s only weights are, SF_NONE: none */
	bool shows_state, shows_npy, shows_pt, shows_safetensors; /* views= */
	uint64_t bytes;                                           /* of all tensors */
	/* Sizes that cost something, plus one, once known; 0 before. Two per entry: info.json or
	 * value.json, .pt. */
	_Atomic uint64_t *entry_size, *hf_size;
	_Atomic uint64_t slice_size; /* of a rank's file */
	_Atomic uint64_t nfiles;     /* sf_tree_totals, plus one; 0: not counted yet */
	struct {
		pthread_mutex_t m;
		struct sf_cached **bucket; /* files made, by node */
		struct sf_lru lru;
		uint32_t n;
	} locked;
};

typedef int sf_tree_each(void *arg, const char *name, size_t len, sf_node node,
                         enum sf_node_type type, uint64_t next_cookie);

/*
 * A kind of node. Every function is asked about valid nodes of its kind alone (but for valid
 * itself) and never waits; NULL is what the comment says.
 */
struct sf_kind {
	bool dir;
	bool (*valid)(const struct sf_tree *t, sf_node n); /* did we give this number out? */
	/* the entry it shows; NULL: none */
	uint32_t (*entry)(const struct sf_tree *t, sf_node n);
	/* Adds to the hash @h what tells it from all nodes of its kind in every mount, whatever the
	 * options: names. NULL: its entry's name, or nothing. */
	uint64_t (*path)(const struct sf_tree *t, sf_node n, uint64_t h);
	/* What else sf_tree_attr says of it; NULL: nothing. */
	void (*attr)(const struct sf_tree *t, sf_node n, struct sf_attr *ret);

	/* directories */
	int (*lookup)(const struct sf_tree *t, sf_node dir, const char *name, size_t len,
	              sf_node *ret);
	int (*readdir)(const struct sf_tree *t, sf_node dir, uint64_t cookie, sf_tree_each *each,
	               void *arg);

	/* files: a new one, one reference; no I/O. NULL: there is none, it is live. */
	int (*make)(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err);
	/* NULL: the size of what make made. */
	int (*size)(const struct sf_tree *t, sf_node n, uint64_t *ret);
	/* Where a size that was found by making is kept, plus one; NULL: nowhere. */
	_Atomic uint64_t *(*kept_size)(struct sf_tree *t, sf_node n);
	uint32_t (*nlink)(const struct sf_tree *t, sf_node n); /* NULL: 1 */
	bool in_memory; /* what make made holds all its text: it is not kept when nobody has it */
	bool stored;    /* it shows what is stored, never cast */
};
extern const struct sf_kind sf_kind_root, sf_kind_root_file; /* tree_root.c */
extern const struct sf_kind sf_kind_hf, sf_kind_hf_file, sf_kind_hf_index, sf_kind_hf_companion;
extern const struct sf_kind sf_kind_state; /* tree_state.c */
extern const struct sf_kind sf_kind_raw, sf_kind_info, sf_kind_value_json, sf_kind_value_pt;
extern const struct sf_kind sf_kind_npy, sf_kind_pt, sf_kind_safetensors; /* tree_flat.c */
extern const struct sf_kind sf_kind_npy_file, sf_kind_pt_file, sf_kind_safetensors_file;
extern const struct sf_kind sf_kind_shards, sf_kind_shards_file;   /* tree_shards.c */
extern const struct sf_kind sf_kind_control, sf_kind_control_file; /* tree_live.c */
extern const struct sf_kind sf_kind_run_file, sf_kind_run_step, sf_kind_run_latest; /* tree_run.c */
extern const struct sf_kind sf_kind_slices, sf_kind_slices_file; /* tree_slices.c */
/* tree_kinds.c: of a number whatever it is; what is none of ours has a kind that is never valid. */
const struct sf_kind *sf_kind_of(sf_node n);

/* tree_root.c */
int sf_root_make(struct sf_tree *t, struct sf_error *err);
struct sf_selection sf_root_selection(const struct sf_tree *t, const struct sf_root_entry *e);
const char *sf_root_link(const struct sf_tree *t, sf_node n); /* its target, NULL: it is no link */

/* tree_links.c: paths that show the same bytes */
int sf_links_make(struct sf_tree *t, struct sf_error *err); /* once root and hf/ are there */
/* Links of a file of one entry: state/ shows it, and with @flat a directory of its own. */
uint32_t sf_links_of_entry(const struct sf_tree *t, bool flat, uint32_t entry);
bool sf_links_in_state(const struct sf_tree *t, uint32_t entry); /* does state/ show it? */

/* tree_hf.c */
int sf_hf_make(struct sf_tree *t, struct sf_error *err); /* once t->hf is there */
uint32_t sf_hf_nfiles(const struct sf_tree *t);          /* weights, index, companions */

/* tree_leaf.c: the files of one key. tree_flat.c: those that have a directory each, too. */
uint32_t sf_leaf_entry(const struct sf_tree *t, sf_node n); /* the entry is the node's index */
bool sf_leaf_of_tensor(const struct sf_tree *t, sf_node n);
struct sf_selection sf_leaf_selection(const struct sf_tree *t, uint32_t entry);
_Atomic uint64_t *sf_leaf_pt_size(struct sf_tree *t, sf_node n);
int sf_leaf_make_pt(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err);
/* Is there such a file of a tensor's entry? */
bool sf_flat_shows(const struct sf_tree *t, enum sf_tree_kind file, uint32_t entry);

/* tree_shards.c */
int sf_shards_make(struct sf_tree *t, struct sf_error *err);

/* tree_run.c: of a tree whose run is set */
int sf_tree_run_lookup(const struct sf_tree *t, const char *name, size_t len, sf_node *ret);
int sf_tree_run_list(const struct sf_tree *t, uint64_t cookie, sf_tree_each *each, void *arg);
int sf_tree_run_readlink(const struct sf_tree *t, sf_node n, char *buf, size_t size);
int sf_tree_run_text(const struct sf_tree *t, sf_node n, char **ret, size_t *ret_len,
                     struct sf_error *err);

/* tree_live.c: .shardfuse/ */
#define SF_NCONTROL 2

/* tree_cache.c */
int sf_tree_cache_make(struct sf_tree *t, struct sf_error *err);
void sf_tree_cache_free(struct sf_tree *t);
struct sf_vfile *sf_tree_cache_get(struct sf_tree *t, sf_node n); /* a reference, or NULL */

/* tree.c: is this a number that we gave out? */
bool sf_tree_valid(const struct sf_tree *t, sf_node n);
/* The entry a node shows, SF_NONE. */
uint32_t sf_tree_entry(const struct sf_tree *t, sf_node n);

#endif
