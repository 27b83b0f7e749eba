/* The catalog: which keys are shown, under which names, in which group; made once from a checkpoint
 * and the options. */
#ifndef SF_CATALOG_CATALOG_H
#define SF_CATALOG_CATALOG_H

#include "base/arena.h"
#include "base/error.h"
#include "base/map.h"
#include "catalog/view_options.h"
#include "ckpt/ckpt.h"

/* A shown key. The order of options: key, ignore (stored names), map, dtype,
 * view. */
struct sf_entry {
	uint32_t key;            /* ckpt->key[] */
	uint32_t group;          /* catalog group */
	uint32_t tensor, object; /* as in the key; SF_NONE */
	uint8_t dtype;    /* as shown (after the cast) in the views that cast; the tensor's own
	                     elsewhere */
	const char *name; /* shown full name, NUL behind, may hold NULs */
	uint32_t len;
	uint32_t npath;
	const struct sf_path_elem *path; /* shown path in the nested state dict */
	bool moved; /* its shown name is outside its group: path has none of the group's elements */
};
/* Groups that still have keys; names are distinct as file stems: a group "checkpoint" has stem
 * "checkpoint_". */
struct sf_cat_group {
	const struct sf_group *of;
	const char *stem;  /* file name without .pt: encoded; NULL: no root file (unnamed without a
	                      role, past 64) */
	const char *link;  /* for role groups under another stored name: "model" / "optim" is the
	                      file, stem a symlink to it */
	uint32_t first, n; /* entries: by_group[first .. first+n), stored order */
};
struct sf_slices;
struct sf_catalog {
	struct sf_arena arena;
	const struct sf_ckpt *ckpt;
	const struct sf_view_options *opt;
	const struct sf_entry *entry; /* stored order */
	uint32_t n, ntensors, nobjects;
	uint32_t nmain; /* the first of them are the checkpoint itself: what checkpoint.* holds */
	const uint32_t *by_path;  /* entries sorted by name split at dots, component by component,
	                             bytes: the state/ tree */
	const uint32_t *by_group; /* entries grouped, each group in stored order */
	const struct sf_cat_group *group;
	uint32_t ngroups;
	int32_t model_group, optim_group; /* index or -1 */
	const struct sf_slices *slices;   /* catalog_slice.h; NULL: none are asked for */
	struct sf_map names;              /* shown name -> entry */
	struct sf_map long_names;         /* the 16 digits that end a name which was cut -> entry:
	                                     sf_catalog_find_cut */
};

/* Errors: -EINVAL a pattern that matches nothing, two keys mapped to one name (both named), or a tensor
 * that cannot be sliced as asked.
 * Cost: O(n log n). */
int sf_catalog_new(const struct sf_ckpt *ckpt, const struct sf_view_options *opt,
                   struct sf_catalog **ret, struct sf_error *err);
void sf_catalog_free(struct sf_catalog *c);
/* The tensor subclass that an object is an instance of, NULL: it is none. */
static inline const struct sf_subclass *sf_entry_subclass(const struct sf_catalog *c,
                                                          uint32_t entry)
{
	uint32_t object = c->entry[entry].object;

	return object == SF_NONE ? NULL : c->ckpt->object[object].subclass;
}
uint32_t sf_catalog_find(const struct sf_catalog *c, const char *name, size_t len); /* SF_NONE */
/*
 * The entry whose full name has the hash that ends the cut name @name ("…~0123456789abcdef"): a
 * flat name, or a component of state/. The rest of @name is the caller's to compare. -ENOENT,
 * -ENOMEM.
 */
int sf_catalog_find_cut(const struct sf_catalog *c, const char *name, size_t len, uint32_t *ret);

/* Does KEY (component prefix, or fnmatch with * ? [; '.' and '/' both separate)
 * match this name? One of separators alone is that name and nothing else. */
bool sf_key_match(const char *pattern, const char *name, size_t len);

#endif
