#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/atomic_file.h"
#include "base/clock.h"
#include "base/mem.h"
#include "base/path.h"
#include "save/save_target_priv.h"

enum { HOST_DIGITS = 16, TOKEN_DIGITS = 32 };

static struct sf_target_dir *dir_of(struct sf_save_target *t)
{
	return (struct sf_target_dir *)t;
}

static void close_fd(int *fd)
{
	if (*fd >= 0)
		close(*fd);
	*fd = -1;
}

static void dir_free(struct sf_save_target *base)
{
	struct sf_target_dir *t = dir_of(base);

	sf_target_unlock(&t->marker);
	close_fd(&t->dir);
	close_fd(&t->parent);
	free(t->path);
	free(t->name);
	free(t->tmp);
	free(t->old);
	free(t);
}

/* What is made stands on disk before anything is in it. */
static int make_dirs(char *path, struct sf_error *err)
{
	for (char *c = path + 1; *path; c++) {
		char was = *c;
		if (was && was != '/')
			continue;
		*c = 0;
		if (mkdir(path, 0777) == 0) {
			int r = sf_sync_dir_of(path, err);
			if (r < 0)
				return r;
		} else if (errno != EEXIST && errno != EISDIR) {
			struct stat st;
			int r = -errno; /* EROFS, EACCES: also of one that is there */
			if (stat(path, &st) < 0)
				return sf_fail(err, r, "'%s': making it: %s", path, strerror(-r));
		}
		*c = was;
		if (!was)
			break;
	}
	return 0;
}

static int open_parent(struct sf_target_dir *t, bool make, struct sf_error *err)
{
	SF_FREE char *dir = sf_dir_of(t->path);

	if (!dir)
		return sf_fail(err, -ENOMEM, "'%s'", t->path);
	if (make) {
		int r = make_dirs(dir, err);
		if (r < 0)
			return r;
	}
	close_fd(&t->parent);
	t->parent = open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	return t->parent < 0 ? sf_fail_errno(err, "'%s'", dir) : 0;
}

static int open_dir(const struct sf_target_dir *t, const char *name)
{
	return openat(t->parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
}

/* The marker in NAME, of a save that was killed before it settled: what it has replaced is a leftover. */
static bool was_replaced(const struct sf_target_dir *t, const char *marked, const char *name)
{
	struct sf_target_marker m = { .fd = -1 };
	struct stat st;
	int dir = open_dir(t, marked);
	bool is = dir >= 0 && sf_target_marker_read(t, dir, false, &m, NULL) == 0 && m.ours &&
	          m.ino && fstatat(t->parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 &&
	          m.ino == st.st_ino && m.dev == st.st_dev &&
	          m.born == sf_target_born(t->parent, name);

	if (dir >= 0)
		close(dir);
	return is;
}

/* Killed between the two renames that stand for an exchange: NAME is back again, or done with. */
static int mend_old(const struct sf_target_dir *t, struct sf_error *err)
{
	struct stat st;

	if (fstatat(t->parent, t->name, &st, AT_SYMLINK_NOFOLLOW) < 0 && errno == ENOENT &&
	    was_replaced(t, t->tmp, t->old) &&
	    renameat(t->parent, t->old, t->parent, t->name) < 0 && errno != ENOENT)
		return sf_fail_errno(err, "'%s-old': renaming it back", t->path);
	if (was_replaced(t, t->name, t->old)) {
		int r = sf_target_remove(t->parent, t->old, err);
		return r < 0 ? sf_fail_ctx(err, r, "'%s-old'", t->path) : 0;
	}
	return 0;
}

/* NAME-tmp of a save before goes. 1: it is that of the save with our token (others of this host were faster, or
 * the file system is shared after all). */
static int clear_tmp(struct sf_target_dir *t, struct sf_error *err)
{
	struct sf_target_marker m = { .fd = -1 };
	bool empty = false;
	int dir = open_dir(t, t->tmp), r;

	if (dir < 0)
		return errno == ENOENT ? 0
		                       : sf_fail(err, -EEXIST, "'%s-tmp' is in the way: %s",
		                                 t->path, strerror(errno));
	r = sf_target_marker_read(t, dir, true, &m, err);
	if (r == 0 && !m.ours)
		r = sf_target_is_empty(dir, &empty, err);
	if (r == 0 && m.ours && strcmp(m.token, t->token) == 0)
		r = 1;
	else if (r == 0 && m.live)
		r = sf_fail(err, -EBUSY, "'%s': another save of it is under way", t->path);
	else if (r == 0 && !m.ours && !empty && !was_replaced(t, t->name, t->tmp))
		r = sf_fail(err, -EEXIST,
		            "'%s-tmp' is in the way, and is not what a save of '%s' left: move it",
		            t->path, t->name);
	close(dir);
	if (r == 0) {
		r = sf_target_remove(t->parent, t->tmp, err);
		if (r < 0)
			sf_fail_ctx(err, r, "'%s-tmp': what a save before left", t->path);
	}
	sf_target_unlock(&m.fd);
	return r;
}

/* NAME-tmp, new, with a locked marker. */
static int make_tmp(struct sf_target_dir *t, struct sf_error *err)
{
	int r;

	if (mkdirat(t->parent, t->tmp, 0777) < 0)
		return errno == EEXIST
		               ? sf_fail(err, -EBUSY, "'%s': another save of it begins", t->path)
		               : sf_fail_errno(err, "'%s-tmp': making it", t->path);
	t->dir = open_dir(t, t->tmp);
	r = t->dir < 0 ? sf_fail_errno(err, "'%s-tmp'", t->path) : sf_target_mark(t, err);
	if (r < 0) { /* nothing but the marker is in it */
		(void)sf_target_remove(t->parent, t->tmp, NULL);
		sf_target_unlock(&t->marker);
		close_fd(&t->dir);
		return r;
	}
	t->base.owns = true;
	return 0;
}

/* 1: it is there already, by t->token. */
static int claim(struct sf_target_dir *t, bool replace, struct sf_error *err)
{
	struct stat st;
	int r = open_parent(t, true, err);

	if (r >= 0)
		r = mend_old(t, err);
	if (r >= 0)
		r = sf_target_check(t, replace, &st, err);
	if (r < 0)
		return r;
	t->replace = r == 1;
	t->old_dev = t->replace ? st.st_dev : 0;
	t->old_ino = t->replace ? st.st_ino : 0;
	t->old_born = t->replace ? sf_target_born(t->parent, t->name) : 0;
	r = clear_tmp(t, err);
	return r != 0 ? r : make_tmp(t, err);
}

static int dir_claim(struct sf_save_target *base, const struct sf_target_files *files, bool replace,
                     char token[33], struct sf_error *err)
{
	struct sf_target_dir *t = dir_of(base);

	(void)files; /* NAME-tmp has nothing else */
	sf_save_target_token(t->token);
	int r = claim(t, replace, err);
	if (r < 0)
		return r;
	memcpy(token, t->token, sizeof(t->token));
	return 0;
}

/* ---- join ---- */

/* Not there, or no more: a network file system tells of both so. */
static bool is_not_there(int code)
{
	return code == -ENOENT || code == -ESTALE;
}

/* 1: NAME-tmp with the token is to be seen, and open. What is not there, or is another's, is 0. */
static int look(struct sf_target_dir *t, struct sf_error *err)
{
	struct sf_target_marker m = { .fd = -1 };
	/* anew each time: a network file system looks again when a directory is opened */
	int r = open_parent(t, false, err), dir;

	if (r < 0)
		return is_not_there(r) ? 0 : r;
	dir = open_dir(t, t->tmp);
	if (dir < 0) {
		r = sf_fail_errno(err, "'%s-tmp'", t->path);
		return is_not_there(r) ? 0 : r;
	}
	r = sf_target_marker_read(t, dir, false, &m, err);
	if (r == 0 && m.ours && strcmp(m.token, t->token) == 0) {
		t->dir = dir;
		return 1;
	}
	close(dir);
	return is_not_there(r) ? 0 : r;
}

/* A disk of this machine alone, and a token of another: it will never be seen. */
static bool is_elsewhere(const struct sf_target_dir *t)
{
	static const unsigned local[] = { 0x01021994 /* tmpfs */, 0x858458f6 /* ramfs */,
		                          0xef53 /* ext */,       0x58465342 /* xfs */,
		                          0x9123683e /* btrfs */, 0xf2f52010 /* f2fs */,
		                          0x2fc12fc1 /* zfs */,   0x794c7630 /* overlay */ };
	char mine[HOST_DIGITS + 1];
	SF_FREE char *dir = sf_dir_there(t->path);
	struct statfs fs;

	snprintf(mine, sizeof(mine), "%016llx", (unsigned long long)sf_save_target_host());
	if (strncmp(mine, t->token, HOST_DIGITS) == 0 || !dir || statfs(dir, &fs) < 0)
		return false;
	for (size_t i = 0; i < SF_ARRAY_LEN(local); i++)
		if ((unsigned)fs.f_type == local[i])
			return true;
	return false;
}

/* Looks until it is seen (1) or @ms are over (0). */
static int wait_seen(struct sf_target_dir *t, uint64_t ms, struct sf_error *err)
{
	const int64_t end = sf_now_ms() + (int64_t)ms;
	long pause_ns = 500000;
	int r;

	while ((r = look(t, err)) == 0 && sf_now_ms() < end) {
		nanosleep(&(struct timespec){ .tv_nsec = pause_ns }, NULL);
		pause_ns = SF_MIN(2 * pause_ns, 100000000L);
	}
	return r;
}

static int dir_join(struct sf_save_target *base, const char *token, bool replace,
                    bool lowest_of_host, unsigned visible_ms, struct sf_error *err)
{
	struct sf_target_dir *t = dir_of(base);

	if (strlen(token) != TOKEN_DIGITS)
		return sf_fail(err, -EBADMSG, "'%s': a token of %zu digits", t->path,
		               strlen(token));
	memcpy(t->token, token, sizeof(t->token));
	/* one that makes it may have waited as long before */
	uint64_t ms =
		lowest_of_host ? (is_elsewhere(t) ? 0 : visible_ms) : 2ull * visible_ms + 1000;
	int r = wait_seen(t, ms, err);
	if (r != 0)
		return r < 0 ? r : 0;
	if (!lowest_of_host)
		return sf_fail(err, -ETIMEDOUT,
		               "'%s-tmp' did not appear within %llu ms, nor did a rank of this "
		               "host make it",
		               t->path, (unsigned long long)ms);
	r = claim(t, replace, err);
	if (r == 1) {
		r = look(t, err);
		if (r == 0)
			return sf_fail(err, -ESTALE, "'%s-tmp' was there and is not", t->path);
	}
	return r < 0 ? r : 0;
}

/* ---- the end ---- */

/* One step where the file system can; else NAME is not there for a moment, and a claim mends what is left. */
static int swap(const struct sf_target_dir *t)
{
	if (renameat2(t->parent, t->tmp, t->parent, t->name, RENAME_EXCHANGE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (renameat(t->parent, t->name, t->parent, t->old) < 0)
		return -errno;
	if (renameat(t->parent, t->tmp, t->parent, t->name) == 0)
		return 0;
	int r = -errno;
	(void)renameat(t->parent, t->old, t->parent, t->name);
	return r;
}

static bool is_still(const struct sf_target_dir *t, const char *name, dev_t dev, ino_t ino)
{
	struct stat st;

	return fstatat(t->parent, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && st.st_dev == dev &&
	       st.st_ino == ino;
}

/* The names change hands. */
static int rename_in(struct sf_target_dir *t, struct sf_error *err)
{
	struct stat st;
	int r = 0;

	if (fstat(t->dir, &st) < 0 || !is_still(t, t->tmp, st.st_dev, st.st_ino))
		return sf_fail(err, -ESTALE, "'%s-tmp' was taken away", t->path);
	t->replaced = t->replace && is_still(t, t->name, t->old_dev, t->old_ino);
	if (t->replaced)
		r = swap(t);
	else if (renameat(t->parent, t->tmp, t->parent, t->name) < 0) /* over an empty one, too */
		r = -errno;
	if (r == -ENOTEMPTY || r == -EEXIST || r == -ENOTDIR)
		return sf_fail(err, -EEXIST, "'%s' has appeared during the save", t->path);
	if (r < 0)
		return sf_fail(err, r, "'%s-tmp': renaming it: %s", t->path, strerror(-r));
	t->published = true;
	return 0;
}

static int dir_publish(struct sf_save_target *base, bool sync, struct sf_error *err)
{
	struct sf_target_dir *t = dir_of(base);
	int r = 0;

	if (!t->base.owns)
		return 0;
	if (sync) {
		r = sf_target_sync(t->dir, err);
		if (r < 0)
			return sf_fail_ctx(err, r, "'%s-tmp'", t->path);
	}
	r = rename_in(t, err);
	if (r >= 0 && sync && fsync(t->parent) < 0 && errno != EINVAL)
		r = sf_fail_errno(err, "'%s': its directory", t->path);
	return r;
}

/* Where what was replaced lies now. */
static const char *replaced_name(const struct sf_target_dir *t)
{
	return is_still(t, t->tmp, t->old_dev, t->old_ino) ? t->tmp : t->old;
}

/* Nothing of this can make the checkpoint less whole: what cannot be removed, the next claim removes. */
static void dir_settle(struct sf_save_target *base)
{
	struct sf_target_dir *t = dir_of(base);
	int r = 0;

	if (!t->base.owns || !t->published)
		return;
	if (t->replaced && is_still(t, replaced_name(t), t->old_dev, t->old_ino))
		r = sf_target_remove(t->parent, replaced_name(t), NULL);
	if (r == 0)
		(void)unlinkat(t->dir, SF_TARGET_MARKER, 0);
	sf_target_unlock(&t->marker);
	t->base.owns = false;
}

static void unpublish(struct sf_target_dir *t)
{
	struct stat st;

	if (fstat(t->dir, &st) < 0 || !is_still(t, t->name, st.st_dev, st.st_ino))
		return;
	if (!t->replaced) {
		(void)renameat(t->parent, t->name, t->parent, t->tmp);
	} else if (is_still(t, t->tmp, t->old_dev, t->old_ino)) {
		(void)swap(t);
	} else {
		(void)renameat(t->parent, t->name, t->parent, t->tmp);
		(void)renameat(t->parent, t->old, t->parent, t->name);
	}
	t->published = false;
}

static void dir_drop(struct sf_save_target *base)
{
	struct sf_target_dir *t = dir_of(base);
	struct stat st;

	if (!t->base.owns)
		return;
	if (t->published)
		unpublish(t);
	if (!t->published && fstat(t->dir, &st) == 0 && is_still(t, t->tmp, st.st_dev, st.st_ino))
		(void)sf_target_remove(t->parent, t->tmp, NULL);
	sf_target_unlock(&t->marker);
	t->base.owns = false;
}

static const struct sf_save_target_ops ops = {
	.claim = dir_claim,
	.join = dir_join,
	.open = sf_target_dir_open,
	.put = sf_target_dir_put,
	.publish = dir_publish,
	.settle = dir_settle,
	.drop = dir_drop,
	.free = dir_free,
};

int sf_save_target_dir(const char *path, struct sf_save_target **ret, struct sf_error *err)
{
	struct sf_target_dir *t = calloc(1, sizeof(*t));
	size_t n = strlen(path);

	while (n > 1 && path[n - 1] == '/')
		n--;
	if (t)
		*t = (struct sf_target_dir){
			.base.ops = &ops, .parent = -1, .dir = -1, .marker = -1
		};
	if (t && (t->path = strndup(path, n))) {
		const char *slash = strrchr(t->path, '/');
		t->name = strdup(slash ? slash + 1 : t->path);
		if (t->name && (asprintf(&t->tmp, "%s-tmp", t->name) < 0))
			t->tmp = NULL;
		if (t->name && (asprintf(&t->old, "%s-old", t->name) < 0))
			t->old = NULL;
	}
	if (!t || !t->name || !t->tmp || !t->old) {
		if (t)
			dir_free(&t->base);
		return sf_fail(err, -ENOMEM, "the target '%s'", path);
	}
	if (!t->name[0] || strcmp(t->name, ".") == 0 || strcmp(t->name, "..") == 0) {
		dir_free(&t->base);
		return sf_fail(err, -EINVAL,
		               "'%s' does not name a directory that a save could make", path);
	}
	*ret = &t->base;
	return 0;
}
