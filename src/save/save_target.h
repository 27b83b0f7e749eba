/* The directory that a save makes: NAME-tmp, which becomes NAME when all of it is there. */
#ifndef SF_SAVE_SAVE_TARGET_H
#define SF_SAVE_SAVE_TARGET_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"

/*
 * Life of a target; each call by the ranks that it names, in this order:
 *   claim    rank 0: is NAME free, or a checkpoint that may be replaced? Makes NAME-tmp anew (what a
 *            save before left goes) and a marker in it; tells a token.
 *   join     the others: is NAME-tmp with that token to be seen? On a shared file system it is, soon;
 *            where it is not within @visible_ms, or cannot be (another host's disk), the lowest rank of
 *            each host makes NAME-tmp of its own, the others of the host wait for that one.
 *   open     any: a file in it, to write. Directories above it are made.
 *   publish  rank 0, and the lowest rank of each host with a directory of its own: NAME-tmp becomes NAME
 *            and what was there NAME-tmp, in one step where the file system can; durable. Can be undone.
 *            What makes it a checkpoint is rank 0's, so rank 0 comes last, when all others have.
 *   settle   the same ranks, when all have published: what was replaced goes.
 *   drop     the same ranks, after a failure, published or not: NAME is what it was, NAME-tmp goes.
 *
 * A killed save leaves NAME-tmp, which nothing discovers and the next claim removes: it removes no
 * directory but one that has the marker of a save of NAME, or that such a save has replaced. The marker,
 * .shardfuse-save, is locked while its save lives; killed between publish and settle it stays in
 * NAME, which is whole.
 */
struct sf_save_target;
int sf_save_target_new(const char *path, struct sf_save_target **ret, struct sf_error *err);
void sf_save_target_free(struct sf_save_target *t); /* what is open is closed, nothing removed */

/*
 * Errors: -EEXIST there is something, and @replace is false or it is no checkpoint; -EINVAL a path that
 * nobody would clear ("/", "/home", "."), a mount point; -EBUSY another save of it is under way; those of
 * the file system. Nothing is left after one.
 */
int sf_save_target_claim(struct sf_save_target *t, bool replace, char token[33],
                         struct sf_error *err);
/* @lowest_of_host: this rank is. Sets whether it has to publish, settle and drop. @replace as of claim.
 * Errors: those of claim; -ETIMEDOUT nobody of this host made it. */
int sf_save_target_join(struct sf_save_target *t, const char *token, bool replace,
                        bool lowest_of_host, unsigned visible_ms, struct sf_error *err);
bool sf_save_target_owns(const struct sf_save_target *t); /* publish and drop are this rank's */
/* A descriptor to write to, and to read; O_EXCL; closed by the caller. @size: what it will have, 0: not
 * known; -ENOSPC at once where that much is not there. @name is relative. */
int sf_save_target_open(struct sf_save_target *t, const char *name, uint64_t size, int *ret_fd,
                        struct sf_error *err);
/* A small file, whole: temporary name, fdatasync, rename. */
int sf_save_target_put(struct sf_save_target *t, const char *name, const void *at, size_t len,
                       bool sync, struct sf_error *err);
/* A file of it gets the name it is looked for by; the directory is synced by publish. */
int sf_save_target_rename(struct sf_save_target *t, const char *from, const char *to,
                          struct sf_error *err);
int sf_save_target_publish(struct sf_save_target *t, bool sync, struct sf_error *err);
void sf_save_target_settle(struct sf_save_target *t);
void sf_save_target_drop(struct sf_save_target *t);
/* What names this machine, for who is the lowest of its host: of boot id and host name. */
uint64_t sf_save_target_host(void);

#endif
