/* Built without libfuse: every verb that works without a mount is there, these three say why they
 * are not. */
#include "config.h"
#include "fuse/mount.h"

static int refuse(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_error err = SF_ERROR_INIT;
	(void)opt, (void)common, (void)argc, (void)argv;
	sf_fail(&err, -ENOTSUP,
	        "this shardfuse was built without libfuse3 (Debian: libfuse3-dev, Fedora: "
	        "fuse3-devel); 'shardfuse --help' lists what works");
	return sf_cli_error(SF_EXIT_FAILED, &err);
}

const struct sf_cmd sf_cmd_mount = { .name = "mount",
	                             .usage = "SOURCE MOUNTPOINT",
	                             .about = "not in this build",
	                             .max_args = -1,
	                             .run = refuse };
const struct sf_cmd sf_cmd_umount = { .name = "umount",
	                              .usage = "MOUNTPOINT",
	                              .about = "not in this build",
	                              .max_args = -1,
	                              .run = refuse };
const struct sf_cmd sf_cmd_status = { .name = "status",
	                              .usage = "[MOUNTPOINT]",
	                              .about = "not in this build",
	                              .max_args = -1,
	                              .run = refuse };

int sf_mount_helper(int argc, char **argv)
{
	(void)argc, (void)argv;
	refuse(NULL, NULL, 0, NULL);
	return 32;
}
