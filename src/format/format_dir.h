/* A directory of a checkpoint as formats are given it: what the store listed, what its name
 * says. */
#ifndef SF_FORMAT_FORMAT_DIR_H
#define SF_FORMAT_FORMAT_DIR_H

#include <stddef.h>
#include <stdint.h>
#include "base/arena.h"
#include "store/objinfo.h"

#define SF_FORMAT_NAME_MAX (1u << 28) /* bytes of a key's name, with its prefix */

struct sf_format_dir {
	struct sf_store *store;
	const struct sf_objinfo *files; /* sorted by name */
	size_t nfiles;
	const char *dir;    /* where the metadata's file names are relative to: "" or "model/" */
	const char *prefix; /* a container around all keys, NULL none */
};

/* The listed file of this name, or NULL. */
const struct sf_objinfo *sf_format_listed(const struct sf_objinfo *files, size_t n,
                                          const char *name);
/* The same of a name relative to @dir: needs no memory to put them together, so that want of it is
 * never taken for a missing file. */
const struct sf_objinfo *sf_format_file(const struct sf_format_dir *dir, const char *name,
                                        size_t len);

struct sf_ckpt_builder;
/* What sf_format_find found, and what was listed before. { 0 } at first. */
struct sf_format_found {
	struct sf_arena arena;
	struct sf_objinfos files;
};
void sf_format_found_release(struct sf_format_found *f);
/*
 * sf_format_find - the files that a checkpoint's metadata names, of a store that cannot list.
 *
 * Looks for @names, which are relative to @dir->dir; @dir->files becomes @found's, with those that
 * are there, and the builder gets them as listed; again and again with the same @dir and @found. Of
 * a store that lists nothing is done. Names that
 * are none of a file below are passed over, and told of by whoever uses them.
 */
int sf_format_find(struct sf_format_dir *dir, const char *const *names, size_t n,
                   struct sf_ckpt_builder *b, struct sf_format_found *found, struct sf_error *err);

/* The step in a name like step-100, in the last two components of @source; -1: none. */
int64_t sf_format_step(const char *source);

#endif
