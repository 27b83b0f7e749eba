/* Which live mount a path lies in. */
#ifndef SF_CLI_LIVE_MOUNT_H
#define SF_CLI_LIVE_MOUNT_H

#include <stdbool.h>
#include "base/error.h"

struct sf_live_mount {
	char *path;   /* what was asked, resolved */
	char *target; /* where it is mounted */
	char *source; /* of what, as shown */
};
/* 1: @path is one of our mounts, or below one, as *ret says (release it); 0: it is not, or cannot be
 * resolved. -ENOMEM, or the table of mounts cannot be read. */
int sf_live_mount_find(const char *path, struct sf_live_mount *ret, struct sf_error *err);
void sf_live_mount_release(struct sf_live_mount *m);

#endif
