/* Does what is about to be written lie in what is read, or the other way round? */
#ifndef SF_TOOL_APART_H
#define SF_TOOL_APART_H

#include "lib/session.h"

/*
 * sf_apart_check - @target, a directory that will be made or replaced, and what the session reads are not
 * within each other, also by way of symbolic links; nor has the target, or what a save that was killed
 * left of it (NAME-tmp), a file of the session's checkpoint.
 *
 * Of a source that is no local path there is nothing to check.
 * Errors: -EINVAL with both names; -ENOENT the directory that the target is to be in is not there, -ENOTDIR
 * …; -ENOMEM. Cost: a look at each file of the target.
 */
int sf_apart_check(const struct sf_session *s, const char *target, struct sf_error *err);

#endif
