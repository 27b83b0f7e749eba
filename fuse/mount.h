/* The mount verb, and the verbs that act on live mounts: what main.c adds to the table of verbs. */
#ifndef SF_FUSE_MOUNT_H
#define SF_FUSE_MOUNT_H

#include "cli/cli.h"

/* mount_none.c stands in for all of these where libfuse is missing. */
extern const struct sf_cmd sf_cmd_mount, sf_cmd_umount, sf_cmd_status;
/* Called as mount.shardfuse SOURCE MOUNTPOINT [-sfnv] [-o …]: mount(8)'s conventions and exit
 * codes. */
int sf_mount_helper(int argc, char **argv);

#endif
