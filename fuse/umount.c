#include "config.h"
#include <stddef.h>
#include <string.h>
#include <unistd.h>
#include "base/mem.h"
#include "base/mountinfo.h"
#include "fuse/mount.h"
#include "fuse/mountpoint.h"

struct umount_options {
	bool lazy;
};

static const struct sf_opt options[] = {
	{ "lazy", 'z', SF_OPT_FLAG, offsetof(struct umount_options, lazy), NULL, NULL,
	  "detach it now, end it when it is no longer in use" },
	{ 0 },
};

struct owner {
	const char *at;
	unsigned uid; /* of the mount on top: the last in the table */
};

static int find_owner(void *arg, const struct sf_mountinfo *m)
{
	struct owner *o = arg;

	if (strcmp(m->target, o->at) == 0)
		o->uid = m->uid;
	return 0;
}

/* fusermount3 says "mount not found" or "not permitted" there, and not who may. */
static int check_owner(const char *path, const char *at, struct sf_error *err)
{
	struct owner o = { at, geteuid() };

	if (geteuid() == 0 || sf_mounts_each(find_owner, &o, NULL) < 0 || o.uid == geteuid())
		return 0;
	if (o.uid == 0)
		return sf_fail(err, -EPERM, "'%s': root mounted it; only root can unmount it",
		               path);
	return sf_fail(err, -EPERM,
	               "'%s': user %u mounted it; only that user and root can unmount it", path,
	               o.uid);
}

/* Only what is ours: as root the system call would take any filesystem away. */
static int unmount(const char *path, bool lazy, struct sf_error *err)
{
	SF_FREE char *at = sf_mountpoint_resolve(path);

	if (!at)
		return sf_fail_errno(err, "'%s'", path);
	if (!sf_mountpoint_is_ours(at))
		return sf_fail(err, -EINVAL, "'%s': no shardfuse mount there", path);
	int r = check_owner(path, at, err);
	if (r < 0)
		return r;
	r = sf_mountpoint_unmount(at, lazy, err);
	/* its own line is on stderr, and says nothing of a remedy */
	if (r < 0 && geteuid() != 0 && access("/etc/mtab", R_OK) < 0)
		return sf_fail(err, r,
		               "%s: it reads /etc/mtab, which is not there (shardfuse doctor says "
		               "how to make it)",
		               err->msg);
	return r;
}

static int run(const void *opt, const struct sf_common *common, int argc, char **argv)
{
	const struct umount_options *o = opt;
	int code = SF_EXIT_OK;
	(void)common;

	for (int i = 0; i < argc; i++) {
		struct sf_error err = SF_ERROR_INIT;
		if (unmount(argv[i], o->lazy, &err) < 0)
			code = sf_cli_error(SF_EXIT_FAILED, &err);
	}
	return code;
}

const struct sf_cmd sf_cmd_umount = {
	.name = "umount",
	.usage = "[-z] MOUNTPOINT…",
	.about = "unmount",
	.example = "shardfuse umount /mnt/c",
	.options = options,
	.min_args = 1,
	.max_args = -1,
	.opt_size = sizeof(struct umount_options),
	.run = run,
};
