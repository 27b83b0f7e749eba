/* Directories that are no checkpoint, but have files that are one each, or parts of one: what to give
 * instead. */
#ifndef SF_FORMAT_FORMAT_UNREAD_H
#define SF_FORMAT_FORMAT_UNREAD_H

#include <stdbool.h>
#include "ckpt/ckpt_builder.h"
#include "store/store.h"

/* What stands in a directory. */
struct sf_unread {
	const char *format; /* --source-format's word for it; NULL: nothing that is known */
	char what[160];     /* "directory of several .pt files" */
	const char *file;   /* one of the files it was told by; the listing's */
	const char *hint;   /* what to do instead */
};

/* Is this the listing of such a directory? By names alone. */
void sf_unread_find(const struct sf_objinfo *files, size_t n, struct sf_unread *ret);
/* Is it a word of --source-format for what several formats read? */
bool sf_unread_format(const char *name);
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
