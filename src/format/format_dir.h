/* A directory of a checkpoint as formats are given it: what the store listed, what its name
 * says. */
#ifndef SF_FORMAT_FORMAT_DIR_H
#define SF_FORMAT_FORMAT_DIR_H

#include <stddef.h>
#include <stdint.h>
#include "store/store.h"

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

/* The step in a name like step-100, in the last two components of @source; -1: none. */
int64_t sf_format_step(const char *source);

#endif
