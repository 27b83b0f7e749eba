/* The table of checkpoint formats: a format is one entry, probe and load. */
#ifndef SF_FORMAT_FORMAT_H
#define SF_FORMAT_FORMAT_H

#include "base/error.h"
#include "ckpt/ckpt.h"
#include "store/store.h"

struct sf_load_options {
	const char *source_format; /* --source-format, NULL detects */
	bool complete;             /* -o complete: damage is an error */
	/* Set where SOURCE is no checkpoint, but holds those of a run (run.h): the load fails
	 * without a look at them. NULL: it fails with what to type instead. */
	bool *ret_run;
	/* --join-rules: the text of rules for tensor-parallel pieces, which were checked
	 * (ckpt/join_rules.h); NULL: those that are built in */
	const char *join_rules;
};

struct sf_format {
	const char *name, *about;
	/* Other words of --source-format that mean it; ends in NULL. NULL: none. */
	const char *const *also;
	/* What makes a directory one, for messages: ".metadata". */
	const char *marker;
	/* The same of a store that cannot list: what of @names alone makes one. */
	const char *sought;
	/* A file of this name in a directory of a run makes that a checkpoint; NULL: no name
	 * does. */
	const char *marker_file;
	/* What may make a directory one, or something that is not read: what is looked for in a
	 * store that cannot list. Ends with NULL. */
	const char *const *names;
	/* How sure are we, 0..100? From names and at most the first bytes of one file. @files: the
	 * listing, sorted by name. */
	int (*probe)(struct sf_store *store, const struct sf_objinfo *files, size_t n,
	             struct sf_error *err);
	/* Nothing knew the listing: are these the files of a save that did not finish? Then why
	 * not, for a message, into @why, and 1. NULL: it cannot tell. */
	int (*unfinished)(const struct sf_objinfo *files, size_t n, char *why, size_t size);
	/* It knows the listing; are files missing by their names, as of a save under way? As
	 * unfinished. Such a step of a run is not shown, named alone it is, with warnings. NULL: no. */
	int (*missing)(const struct sf_objinfo *files, size_t n, char *why, size_t size);
	/* All of it; *ret is finished. The only I/O is metadata. */
	int (*load)(struct sf_store *store, const struct sf_objinfo *files, size_t n,
	            const struct sf_load_options *opt, struct sf_ckpt **ret, struct sf_error *err);
};
/* The table, one after the other; NULL: no more. */
const struct sf_format *sf_format_at(size_t i);

extern const struct sf_format sf_format_dcp;
extern const struct sf_format sf_format_megatron;
/* safetensors written by DCP's HuggingFace writer, sharded or consolidated; and plain HF
 * directories */
extern const struct sf_format sf_format_safetensors;
/* ZeRO's partitions, universal checkpoints */
extern const struct sf_format sf_format_deepspeed;
/* a file of torch.save for each rank */
extern const struct sf_format sf_format_rankfiles;
/* OLMo-core's step directories, and those of OLMo 0.x */
extern const struct sf_format sf_format_olmo;
extern const struct sf_format sf_format_torch;

/*
 * sf_format_check - can a checkpoint be loaded from @store, as far as names tell? 0, or why not.
 *
 * @files: its listing, one directory deep, sorted by name. @name: of --source-format, or NULL.
 * Errors: -ENOENT nothing that is known, or a save that did not finish; -ENOTSUP what is not read.
 */
int sf_format_check(struct sf_store *store, const char *name, const struct sf_objinfo *files,
                    size_t n, struct sf_error *err);

/* Does a directory of a run hold a checkpoint by its names alone? @files as above, but that their
 * names begin with @dir and a slash. */
bool sf_format_has_marker(const struct sf_objinfo *files, size_t n, const char *dir);

/*
 * sf_ckpt_load - list the store as far as that is needed, ask every format, load with the surest.
 * Errors: -ENOENT nothing here looks like a checkpoint (says what was looked for and what was
 * found, e.g. ".metadata.tmp only: the save was not committed"); what load says.
 */
int sf_ckpt_load(struct sf_store *store, const struct sf_load_options *opt, struct sf_ckpt **ret,
                 struct sf_error *err);

#endif
