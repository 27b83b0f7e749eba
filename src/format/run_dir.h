/* A run directory: checkpoints of several steps beside each other, as trainers leave them. */
#ifndef SF_FORMAT_RUN_DIR_H
#define SF_FORMAT_RUN_DIR_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include "base/error.h"
#include "store/store.h"

#define SF_RUN_DIR_LOOKED 64 /* directories of a run that are asked what they are */

/* step100 step-100 checkpoint-100 iter_0000100 global_step100 global_step_100 ep1-ba100 release */
bool sf_run_dir_is_step(const char *name);
/* One of several checkpoints that make up a step: actor, critic. */
bool sf_run_dir_is_part(const char *name);
/* A link to one of the steps that trainers leave beside them: latest. */
bool sf_run_dir_is_alias(const char *name);
/* Which step such a name says, with fewer digits too (iter_500); -1: none, or over 18 digits. */
int64_t sf_run_dir_step(const char *name, size_t len);
/* Is @a the earlier one of two such names? qsort's kind of answer, of pointers to them. */
int sf_run_dir_compare(const void *a, const void *b);

/*
 * sf_run_dir_refuse - SOURCE holds directories that are, or may be, checkpoints: says what to type
 * instead.
 *
 * @probe tells of one directory whether a checkpoint can be loaded from it: 0, or why not. The
 * newest SF_RUN_DIR_LOOKED of @name are asked. @n is not 0. Always fails: -ENOENT with those that are checkpoints,
 * the path of the newest, and why a newer one is none; -ENOTSUP where all there is is another
 * format's.
 */
int sf_run_dir_refuse(const char *source, const char *const *name, size_t n,
                      int (*probe)(void *arg, const char *path, struct sf_error *err), void *arg,
                      struct sf_error *err);

#endif
