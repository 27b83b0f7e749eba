/* mount's own options: flags, and the words of -o. */
#ifndef SF_FUSE_MOUNT_OPTIONS_H
#define SF_FUSE_MOUNT_OPTIONS_H

#include "fuse/prefetch.h"
#include "fuse/serve.h"
#include "tool/common.h"

struct sf_mount_options {
	struct sf_strs words; /* every -o as given */
	bool foreground, debug, single;
	bool sloppy, fake; /* mount(8)'s -s -f when called as mount.shardfuse */
	bool allow_other, allow_root, auto_unmount, nonempty;
	enum sf_prefetch_mode prefetch;
	unsigned refresh_s;
	bool refresh_given;
	const char *uid, *gid, *umask;
	uint64_t readahead; /* bytes; 0: not given */
	char **kept;        /* copies of words that the options point into */
	size_t nkept;
};
extern const struct sf_opt sf_mount_option_table[], sf_mount_word_table[];

/*
 * sf_mount_options_apply - take apart every -o into @o, @common and the view options.
 * Words are split at ',' ("\," is a literal one). x-*, comment=, dev, suid, exec and their no-,
 * atime words, ro, rw, _netdev, nofail … are accepted and ignored. Others that nobody knows:
 * -EINVAL, unless @o->sloppy. Memory: the options point into copies that sf_mount_options_release
 * frees, also after a failure.
 */
int sf_mount_options_apply(struct sf_mount_options *o, struct sf_common *common,
                           struct sf_error *err);
void sf_mount_options_release(struct sf_mount_options *o);
/* The command line of this process but for its program, its verb, @source and @mountpoint, for
 * status: malloc'ed; NULL when it cannot be told. */
char *sf_mount_options_given(const char *source, const char *mountpoint);
/* The rest of struct sf_serve_options from them: users and groups by name or number, umask
 * octal. */
int sf_mount_options_serve(const struct sf_mount_options *o, const char *source,
                           struct sf_serve_options *ret, char **ret_fuse_options,
                           struct sf_error *err);

#endif
