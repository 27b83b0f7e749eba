/* A directory as a save's target: NAME-tmp, which becomes NAME when all of it is there. */
#ifndef SF_SAVE_SAVE_TARGET_DIR_H
#define SF_SAVE_SAVE_TARGET_DIR_H

#include "save/save_target.h"

/*
 *   claim    is NAME free, or a checkpoint that may be replaced? Makes NAME-tmp anew (what a save before
 *            left goes) and a marker in it.
 *   join     is NAME-tmp with that token to be seen? On a shared file system it is, soon; where it is not
 *            within @visible_ms, or cannot be (another host's disk), the lowest rank of each host makes
 *            NAME-tmp of its own and owns that, the others of the host wait for that one.
 *   publish  rank 0, and the lowest rank of each host with a directory of its own: NAME-tmp becomes NAME
 *            and what was there NAME-tmp, in one step where the file system can. What makes it a
 *            checkpoint is rank 0's, so rank 0 comes last, when all others have.
 *   settle   what was replaced goes.
 *   drop     NAME is what it was, NAME-tmp goes.
 *
 * A killed save leaves NAME-tmp, which nothing discovers and the next claim removes: it removes no
 * directory but one that has the marker of a save of NAME, or that such a save has replaced. The marker,
 * .shardfuse-save, is locked while its save lives; killed between publish and settle it stays in
 * NAME, which is whole.
 * Errors, besides: -EINVAL a path that nobody would clear ("/", "/home", "."), a mount point.
 */
int sf_save_target_dir(const char *path, struct sf_save_target **ret, struct sf_error *err);

#endif
