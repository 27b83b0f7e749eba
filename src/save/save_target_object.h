/* A prefix in a bucket as a save's target. */
#ifndef SF_SAVE_SAVE_TARGET_OBJECT_H
#define SF_SAVE_SAVE_TARGET_OBJECT_H

#include "save/save_target.h"

struct sf_uploads;

/*
 * Nothing can be renamed there. Objects get the names that they keep, and .metadata comes last:
 *
 *   claim    rank 0: below the prefix is nothing, or what a killed save has left. Puts the marker,
 *            .shardfuse-save, with its token and what it will write.
 *   join     the others take the token; nothing is waited for.
 *   open     a shard has the token in its name, so that two saves never mix. It is there when it is closed.
 *   put      an object is created, never replaced.
 *   .metadata (SF_TARGET_CLOSED): when it is closed the marker is read once more: a save that has begun
 *            since has put its own, and this one fails, -ESTALE. Then it is created: of several saves one
 *            can, whatever they know of each other. So that one has the target.
 *            What the format has behind it is put without a condition.
 *   publish  it is there still.
 *   settle   rank 0: the shards of other tokens, unfinished uploads, the marker go. Not before: a save
 *            that is thought dead may live, as long as nobody has created .metadata.
 *   drop     rank 0: .metadata goes first, then all that any rank of this save has made, the marker last.
 *            Where it cannot be told whether .metadata is there, all stays: what is left is whole, or
 *            nothing that can be found. Other ranks remove nothing: they do not know whether rank 0 has
 *            created .metadata.
 *
 * Of two saves at once one has the target, where the server keeps conditions. Of one that ignores them (some
 * gateways) a .metadata that lands late, behind a look that found none, replaces the other's.
 *
 * Killed at any point: no .metadata, or a checkpoint that is whole (the marker is still there). Of formats
 * that write a file behind .metadata, killed between the two: a save before that is not the format's
 * checkpoint, and which the next claim undoes.
 * Errors, besides: -EEXIST there is an object that no save left, which is named; -ENOTSUP @replace,
 * manifest; -ESTALE; those of upload.h.
 */
int sf_save_target_object(const char *url, const struct sf_target_options *o,
                          struct sf_save_target **ret, struct sf_error *err);
/* By uploads of the caller's, which outlive it: for tests. */
int sf_save_target_object_in(struct sf_uploads *up, struct sf_save_target **ret,
                             struct sf_error *err);

#endif
