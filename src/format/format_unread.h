/* Formats that are known by their files, but not read by this version: their names for messages. */
#ifndef SF_FORMAT_FORMAT_UNREAD_H
#define SF_FORMAT_FORMAT_UNREAD_H

#include <stdbool.h>
#include "ckpt/ckpt_builder.h"
#include "store/store.h"

/* What stands in a directory. */
struct sf_unread {
	const char *format; /* --source-format's word for it; NULL: nothing that is known */
	char what[160];     /* "DeepSpeed ZeRO-3 checkpoint" */
	const char *file;   /* one of the files it was told by; the listing's */
	/* what could be done instead, to be put behind a message; NULL: nothing */
	const char *hint;
};

/*
 * sf_unread_find - is this the listing of a checkpoint in a format that is not read?
 *
 * By names, and for a few formats by what one small file says. What cannot be read for it is not an
 * error: the name is then less exact. Source: docs/formats/unread.md has the files of each.
 */
void sf_unread_find(struct sf_store *store, const struct sf_objinfo *files, size_t n,
                    struct sf_unread *ret);
/*
 * Words of --source-format beside those of formats that are read. 0: none; 1: never read; 2: read
 * where its checkpoints are plain DCP.
 */
int sf_unread_format(const char *name);
/* They in one line, for a message. */
extern const char sf_unread_names[];

/* SOURCE is one file: -ENOTSUP where it is part of a checkpoint by its name, with what to give instead;
 * else 0. */
int sf_unread_source(const char *source, struct sf_error *err);

/*
 * sf_unread_warn - the files beside a checkpoint that look like parts of it, but that nothing in @b
 * is read from: one warning "unread-files" that names them, or none. Call before finish.
 */
int sf_unread_warn(struct sf_ckpt_builder *b, const struct sf_objinfo *files, size_t n);

#endif
