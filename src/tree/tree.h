/* The virtual tree: paths and directories over the catalog, computed, never stored. */
#ifndef SF_TREE_TREE_H
#define SF_TREE_TREE_H

#include "store/cache.h"
#include "view/view.h"

/*
 * A node is a number: kind, key index, depth packed into 48 bits, so any holder (a kernel inode, a
 * path walk) costs nothing here. The mount adds the checkpoint's slot above bit 48. Node 1 is the
 * root. Numbers are the same in every mount of the same checkpoint with the same options.
 */
typedef uint64_t sf_node;
#define SF_NODE_ROOT ((sf_node)1)
#define SF_NODE_BITS 48

enum sf_node_type { SF_NODE_DIR, SF_NODE_FILE, SF_NODE_LINK };
struct sf_attr {
	enum sf_node_type type;
	uint32_t mode; /* permission bits: 0555, 0444 */
	uint64_t size;
	uint64_t ino; /* hash of version and path: the same in every mount */
	int64_t mtime_ns;
	uint32_t nlink;
	bool live;       /* read afresh at each open, direct I/O; .shardfuse/: of size 0 */
	uint32_t listed; /* shards/: ckpt->listing[] index, for passthrough; else SF_NONE */
};

struct sf_tree;
int sf_tree_new(const struct sf_catalog *c, struct sf_reader *r, struct sf_tree **ret,
                struct sf_error *err);
void sf_tree_free(struct sf_tree *t);

/*
 * sf_tree_new_run - the root of a run directory: README, info.json, latest, .shardfuse/ and a
 * directory for each complete step.
 *
 * @c: of an empty checkpoint. What is in a step is another tree's: sf_tree_step tells which.
 * Names and texts are those of the moment.
 */
struct sf_run;
int sf_tree_new_run(const struct sf_catalog *c, struct sf_reader *r, struct sf_run *run,
                    struct sf_tree **ret, struct sf_error *err);
/* Is @n a step of a run, from outside? Then *ret is its number there. */
bool sf_tree_step(sf_node n, uint32_t *ret);
sf_node sf_tree_step_node(uint32_t step);

/* 0 or -ENOENT, -ENOTDIR. Never waits. Threads: all functions here, any number of calls at once. */
int sf_tree_lookup(struct sf_tree *t, sf_node dir, const char *name, size_t len, sf_node *ret);
/* "a/b/c" from the root; symlinks inside are followed when @follow. */
int sf_tree_walk(struct sf_tree *t, const char *path, bool follow, sf_node *ret,
                 struct sf_error *err);
/* Never waits: -EAGAIN when the size needs objects read first; then sf_tree_prepare on a thread
 * that may wait. All but size is set then too. */
int sf_tree_attr(struct sf_tree *t, sf_node n, struct sf_attr *ret);
int sf_tree_prepare(struct sf_tree *t, sf_node n, struct sf_error *err);
/* attr's ino alone, 0 for no node of this tree: for directory entries */
uint64_t sf_tree_ino(const struct sf_tree *t, sf_node n);
/* Entries from @cookie on (0 the first; "." and ".." are the caller's): @each gets the cookie of
 * the next entry; nonzero ends it. O(entries). */
int sf_tree_readdir(struct sf_tree *t, sf_node dir, uint64_t cookie,
                    int (*each)(void *arg, const char *name, size_t len, sf_node node,
                                enum sf_node_type type, uint64_t next_cookie),
                    void *arg);
int sf_tree_readlink(struct sf_tree *t, sf_node n, char *buf, size_t size); /* length */
/* A file's vfile: a reference. The same object while anybody holds it; a bounded number are kept
 * after. May make it (no I/O). -EISDIR. */
int sf_tree_open(struct sf_tree *t, sf_node n, struct sf_vfile **ret, struct sf_error *err);
/* user.shardfuse.{fqn,dtype,shape,shards,source,etag}: value length, or -ENODATA; list: names with
 * NULs. Never waits. */
int sf_tree_getxattr(struct sf_tree *t, sf_node n, const char *name, char *buf, size_t size);
int sf_tree_listxattr(struct sf_tree *t, sf_node n, char *buf, size_t size);
/* Totals for statfs: bytes of all tensors; files and symlinks that are shown, each once however many
 * paths lead to it. */
void sf_tree_totals(struct sf_tree *t, uint64_t *ret_bytes, uint64_t *ret_files);

/* A live file's content as of now: malloc'ed. -ENOENT when it is none. */
int sf_tree_live_text(struct sf_tree *t, sf_node n, const struct sf_counters *c, char **ret,
                      size_t *ret_len, struct sf_error *err);
bool sf_tree_is_listed(sf_node n); /* a file of shards/, told from the number alone */

/* Text of the live files of .shardfuse/; what the mount adds (memory, parked reads) comes through
 * the counters. @cache NULL: there is none. malloc'ed. */
int sf_counters_json(const struct sf_counters *c, const struct sf_budget_stat *memory,
                     const struct sf_cache_state *cache, char **ret);
int sf_counters_prometheus(const struct sf_counters *c, const struct sf_budget_stat *memory,
                           const struct sf_cache_state *cache, char **ret);

#endif
