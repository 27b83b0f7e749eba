#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "save/save_target_priv.h"

#define DEPTH_MAX 32 /* of directories in a checkpoint; a descriptor each */
#define PASSES \
	8 /* of readdir over a directory that is emptied: some file systems skip entries then */

static bool is_dots(const char *name)
{
	return name[0] == '.' && (!name[1] || (name[1] == '.' && !name[2]));
}

/* A stream of its own over @dir, which stays open. */
static DIR *entries(int dir)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);

	if (!d && fd >= 0)
		close(fd);
	return d;
}

static int remove_tree(int parent, const char *name, dev_t dev, unsigned depth,
                       struct sf_error *err);

/* A directory, or not: by what is there, as d_type is not known everywhere. */
static int remove_entry(int dir, const char *name, dev_t dev, unsigned depth, struct sf_error *err)
{
	if (unlinkat(dir, name, 0) == 0 || errno == ENOENT)
		return 0;
	if (errno != EISDIR && errno != EPERM)
		return sf_fail_errno(err, "'%s': removing it", name);
	return remove_tree(dir, name, dev, depth + 1, err);
}

/* All but the marker: as long as there is anything, it tells whose it is. */
static int remove_entries(int dir, dev_t dev, unsigned depth, bool *ret_any, struct sf_error *err)
{
	DIR *d = entries(dir);
	struct dirent *e;
	int r = 0;

	*ret_any = false;
	if (!d)
		return sf_fail_errno(err, "listing it");
	while (r == 0 && (errno = 0, e = readdir(d))) {
		if (is_dots(e->d_name) || (depth == 0 && strcmp(e->d_name, SF_TARGET_MARKER) == 0))
			continue;
		*ret_any = true;
		r = remove_entry(dir, e->d_name, dev, depth, err);
	}
	if (r == 0 && errno)
		r = sf_fail_errno(err, "listing it");
	closedir(d);
	return r;
}

static int empty_dir(int dir, dev_t dev, unsigned depth, struct sf_error *err)
{
	bool any = true;
	int r = 0;

	for (int i = 0; r == 0 && any && i < PASSES; i++)
		r = remove_entries(dir, dev, depth, &any, err);
	if (r == 0 && depth == 0 && unlinkat(dir, SF_TARGET_MARKER, 0) < 0 && errno != ENOENT)
		r = sf_fail_errno(err, "'%s': removing it", SF_TARGET_MARKER);
	return r;
}

/* A bind mount may be of the same file system. */
static bool is_mount_root(int dir)
{
	struct statx sx;

	return statx(dir, "", AT_EMPTY_PATH | AT_NO_AUTOMOUNT, 0, &sx) == 0 &&
	       sx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT &&
	       sx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
}

static int remove_tree(int parent, const char *name, dev_t dev, unsigned depth,
                       struct sf_error *err)
{
	struct stat st;
	int fd, r;

	if (depth > DEPTH_MAX)
		return sf_fail(err, -ELOOP, "'%s': more than %d directories deep", name, DEPTH_MAX);
	fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (fd < 0)
		return errno == ENOENT ? 0 : sf_fail_errno(err, "'%s'", name);
	if (fstat(fd, &st) < 0)
		r = sf_fail_errno(err, "'%s'", name);
	else if ((depth && st.st_dev != dev) || is_mount_root(fd))
		r = sf_fail(err, -EXDEV, "'%s': something is mounted there", name);
	else
		r = empty_dir(fd, st.st_dev, depth, err);
	close(fd);
	if (r < 0)
		return depth ? sf_fail_ctx(err, r, "'%s'", name) : r;
	if (unlinkat(parent, name, AT_REMOVEDIR) < 0 && errno != ENOENT)
		return sf_fail_errno(err, "'%s': removing it", name);
	return 0;
}

/* Removed half, a checkpoint must not look whole. */
static void remove_what_tells(int parent, const char *name)
{
	static const char *const tells[] = { ".metadata", "metadata.json", ".metadata.json",
		                             "model.safetensors.index.json" };
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; fd >= 0 && i < SF_ARRAY_LEN(tells); i++)
		(void)unlinkat(fd, tells[i], 0); /* with all else, else */
	if (fd >= 0)
		close(fd);
}

int sf_target_remove(int parent, const char *name, struct sf_error *err)
{
	remove_what_tells(parent, name);
	return remove_tree(parent, name, 0, 0, err);
}

/* File systems that cannot say EINVAL. */
static int sync_fd(int fd, struct sf_error *err)
{
	if (fsync(fd) < 0 && errno != EINVAL)
		return sf_fail_errno(err, "fsync of a directory");
	return 0;
}

static int sync_tree(int dir, unsigned depth, struct sf_error *err)
{
	DIR *d = depth > DEPTH_MAX ? NULL : entries(dir);
	struct dirent *e;
	int r = 0;

	if (depth > DEPTH_MAX)
		return sf_fail(err, -ELOOP, "more than %d directories deep", DEPTH_MAX);
	if (!d)
		return sf_fail_errno(err, "listing it");
	while (r == 0 && (errno = 0, e = readdir(d))) {
		if (is_dots(e->d_name) || (e->d_type != DT_DIR && e->d_type != DT_UNKNOWN))
			continue;
		int fd = openat(dir, e->d_name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (fd < 0) {
			if (errno != ENOTDIR && errno != ELOOP && errno != ENOENT)
				r = sf_fail_errno(err, "'%s'", e->d_name);
			continue; /* no directory */
		}
		r = sync_tree(fd, depth + 1, err);
		if (r < 0)
			sf_fail_ctx(err, r, "'%s'", e->d_name);
		close(fd);
		errno = 0;
	}
	if (r == 0 && !e && errno)
		r = sf_fail_errno(err, "listing it");
	closedir(d);
	return r < 0 ? r : sync_fd(dir, err);
}

int sf_target_sync(int dir, struct sf_error *err)
{
	return sync_tree(dir, 0, err);
}

int sf_target_is_empty(int dir, bool *ret, struct sf_error *err)
{
	DIR *d = entries(dir);
	bool any = false;
	struct dirent *e;

	if (!d)
		return sf_fail_errno(err, "listing it");
	while (!any && (errno = 0, e = readdir(d)))
		any = !is_dots(e->d_name) && strcmp(e->d_name, SF_TARGET_MARKER) != 0;
	int r = !any && errno ? sf_fail_errno(err, "listing it") : 0;
	closedir(d);
	if (r == 0)
		*ret = !any;
	return r;
}
