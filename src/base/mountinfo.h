/* Our mounts, by the kernel's table of them. */
#ifndef SF_BASE_MOUNTINFO_H
#define SF_BASE_MOUNTINFO_H

#include <stdio.h>
#include "base/error.h"

struct sf_mountinfo {
	char *source, *target; /* unescaped */
	unsigned major, minor; /* of st_dev */
	unsigned uid;          /* who mounted it */
};

/*
 * sf_mounts_each - calls @each for every mount of type fuse.shardfuse in /proc/self/mountinfo.
 *
 * Nonzero from @each ends it and is returned. Errors: opening the table. Memory: *m is valid during
 * the call.
 */
int sf_mounts_each(int (*each)(void *arg, const struct sf_mountinfo *m), void *arg,
                   struct sf_error *err);
/* The same over a text in that form. */
int sf_mounts_each_of(FILE *f, int (*each)(void *arg, const struct sf_mountinfo *m), void *arg);

#endif
