/* Built without libfuse: every verb that works without a mount is there, these three say why they
 * are not. */
#include "config.h"
#include <stdlib.h>
#include "fuse/mount.h"
#include "fuse/mount_options.h"

static int refuse(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	struct sf_error err = SF_ERROR_INIT;
	(void)opt, (void)common, (void)argc, (void)argv;
	sf_fail(&err, -ENOTSUP,
	        "this shardfuse was built without libfuse3 (Debian: libfuse3-dev, Fedora: "
	        "fuse3-devel); 'shardfuse --help' lists what works");
	return sf_cli_error(SF_EXIT_FAILED, &err);
}

static int refuse_mount(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct sf_mount_options *o = opt;
	free(o->words.at);
	return refuse(opt, common, argc, argv);
}

/* Its options are known, so that a line that is right elsewhere is told what is missing here. */
const struct sf_cmd sf_cmd_mount = { .name = "mount",
	                             .usage = "SOURCE MOUNTPOINT [-o NAME[=VALUE],…]",
	                             .about = "not in this build, made without libfuse",
	                             .options = sf_mount_option_table,
	                             .words = sf_mount_word_table,
	                             .common = true,
	                             .view = true,
	                             .max_args = -1,
	                             .opt_size = sizeof(struct sf_mount_options),
	                             .run = refuse_mount };
const struct sf_cmd sf_cmd_umount = { .name = "umount",
	                              .usage = "MOUNTPOINT",
	                              .about = "not in this build, made without libfuse",
	                              .max_args = -1,
	                              .run = refuse };
const struct sf_cmd sf_cmd_status = { .name = "status",
	                              .usage = "[MOUNTPOINT]",
	                              .about = "not in this build, made without libfuse",
	                              .max_args = -1,
	                              .run = refuse };

int sf_mount_helper(int argc, char **argv)
{
	(void)argc, (void)argv;
	refuse(NULL, NULL, 0, NULL);
	return 32;
}
