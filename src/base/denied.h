/* Which directory is it that says "Permission denied"? */
#ifndef SF_BASE_DENIED_H
#define SF_BASE_DENIED_H

#include <stddef.h>

/*
 * sf_denied_by - the first directory on the way to @path that this process may not enter, or, where
 * it may enter all, @path itself.
 *
 * For a message: what is there may change. Links are followed; @dir is cut at @size.
 */
void sf_denied_by(const char *path, char *dir, size_t size);

#endif
