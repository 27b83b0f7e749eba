/* The table of checkpoint formats: a format is one entry, probe and load. */
#ifndef SF_FORMAT_FORMAT_H
#define SF_FORMAT_FORMAT_H

#include "base/error.h"
#include "ckpt/ckpt.h"
#include "store/store.h"

struct sf_load_options {
	const char *source_format; /* --source-format, NULL detects */
	bool complete;             /* -o complete: damage is an error */
};

struct sf_format {
	const char *name, *about;
	/* How sure are we, 0..100? From names and at most the first bytes of one file. @files: the listing, sorted by name. */
	int (*probe)(struct sf_store *store, const struct sf_objinfo *files, size_t n, struct sf_error *err);
	/* All of it; *ret is finished. The only I/O is metadata. */
	int (*load)(struct sf_store *store, const struct sf_objinfo *files, size_t n, const struct sf_load_options *opt,
		    struct sf_ckpt **ret, struct sf_error *err);
};
extern const struct sf_format sf_format_dcp;
extern const struct sf_format sf_format_safetensors; /* safetensors written by DCP's HuggingFace writer, sharded or consolidated; and plain HF directories */

/*
 * sf_ckpt_load - list the store once, ask every format, load with the surest.
 * Errors: -ENOENT nothing here looks like a checkpoint (says what was looked for and what was found, e.g. ".metadata.tmp only: the save was not
 * committed"); what load says.
 */
int sf_ckpt_load(struct sf_store *store, const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err);

#endif
