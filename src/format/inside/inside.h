/* SOURCE: a directory, or one file, a template of files, what is inside them: a store in any case. */
#ifndef SF_FORMAT_INSIDE_INSIDE_H
#define SF_FORMAT_INSIDE_INSIDE_H

#include "store/store.h"

/*
 * sf_inside_open - what sf_store_open() opens, and beyond that:
 *
 *   one file          of this machine, or of a server by a name that files have (…/model.safetensors)
 *   a template        …/ep0-ba2-rank{rank}.tar, also {local_rank} and {node_rank}: the files whose
 *                     names have numbers there
 *   a tar             by its content: its members, in place; those of a template's are one listing, the
 *                     first rank's where two have the same name
 *   a packed file     by its content (parse/unpack.h): unpacked once, into the cache's directory, which
 *                     the log says, and read from there
 *   NAME.symlink      a text of a bucket that says which object is meant, as Composer writes it; tried
 *                     too where NAME is not there
 *
 * Errors:  as sf_store_open(); -ENOTSUP a file that is part of a checkpoint, with advice; -ENOENT a
 *          template that matches nothing, or lacks a rank between others, which is named; -EBADMSG a
 *          damaged tar or packed file, by name; -EFBIG one that has more inside than the cache may
 *          have, with both numbers. Each with SOURCE, or the file's path, in the message.
 * Waits:   for the files' first bytes and the tars' headers, which are asked for side by side.
 */
int sf_inside_open(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                   struct sf_store **ret, struct sf_error *err);

/*
 * The URL of the directory that a file's URL, or a template's, is in: *ret is malloc'ed. NULL: @source is
 * a path, or a URL that is first taken for a directory's. -ENOMEM; -EINVAL.
 */
int sf_inside_dir(const char *source, char **ret, struct sf_error *err);

#endif
