#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "save/save_target_priv.h"

/* Does a file begin so, or hold it in its first KiB? A name alone is not enough to clear a directory. */
static bool file_has(int dir, const char *name, const char *what, size_t len)
{
	char text[1024];
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	ssize_t n = fd < 0 ? -1 : pread(fd, text, sizeof(text), 0);

	if (fd >= 0)
		close(fd);
	return n > 0 && memmem(text, (size_t)n, what, len);
}

uint64_t sf_target_born(int parent, const char *name)
{
	struct statx sx;

	if (statx(parent, name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, STATX_BTIME, &sx) < 0 ||
	    !(sx.stx_mask & STATX_BTIME))
		return 0;
	return (uint64_t)sx.stx_btime.tv_sec * 1000000000u + sx.stx_btime.tv_nsec;
}

static bool is_dir(int dir, const char *name)
{
	struct stat st;

	return fstatat(dir, name, &st, AT_SYMLINK_NOFOLLOW) == 0 && S_ISDIR(st.st_mode);
}

/* An index and the shards that it is of. */
static bool has_safetensors(int dir)
{
	bool index = false, shard = false;
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	DIR *d = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *e;

	if (!d && fd >= 0)
		close(fd);
	while (d && !(index && shard) && (e = readdir(d))) {
		index |= sf_has_suffix(e->d_name, ".safetensors.index.json") &&
		         file_has(dir, e->d_name, "\"weight_map\"", strlen("\"weight_map\""));
		shard |= sf_has_suffix(e->d_name, ".safetensors");
	}
	if (d)
		closedir(d);
	return index && shard;
}

/* Of protocol 2 or more. */
static bool begins_pickle(int dir)
{
	unsigned char head[2] = { 0 };
	int fd = openat(dir, ".metadata", O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	bool is = fd >= 0 && pread(fd, head, 2, 0) == 2 && head[0] == 0x80 && head[1] >= 2 &&
	          head[1] <= 5;

	if (fd >= 0)
		close(fd);
	return is;
}

/* DCP, Megatron-Core, OLMo-core, safetensors: by what a save of each writes last. */
static bool is_checkpoint(int dir)
{
	if (begins_pickle(dir) && file_has(dir, ".metadata", "torch", 5))
		return true;
	if (file_has(dir, "metadata.json", "\"sharded_backend\"", strlen("\"sharded_backend\"")))
		return true;
	if (file_has(dir, ".metadata.json", "{", 1) && is_dir(dir, "model_and_optim"))
		return true;
	return has_safetensors(dir);
}

/* Is it where we are, or above? */
static bool is_above_us(const struct stat *st)
{
	int at = open(".", O_PATH | O_DIRECTORY | O_CLOEXEC);
	struct stat here, last = { 0 };
	bool found = false;

	while (at >= 0 && !found && fstat(at, &here) == 0 &&
	       !(here.st_ino == last.st_ino && here.st_dev == last.st_dev)) {
		found = here.st_ino == st->st_ino && here.st_dev == st->st_dev;
		last = here;
		int up = openat(at, "..", O_PATH | O_DIRECTORY | O_CLOEXEC);
		close(at);
		at = up;
	}
	if (at >= 0)
		close(at);
	return found;
}

static bool is_mounted(const struct sf_target_dir *t, const struct stat *st)
{
	struct stat above;
	struct statx sx;

	if (statx(t->parent, t->name, AT_SYMLINK_NOFOLLOW | AT_NO_AUTOMOUNT, 0, &sx) == 0 &&
	    sx.stx_attributes_mask & STATX_ATTR_MOUNT_ROOT)
		return sx.stx_attributes & STATX_ATTR_MOUNT_ROOT;
	return fstat(t->parent, &above) == 0 &&
	       (above.st_dev != st->st_dev || above.st_ino == st->st_ino);
}

/* "/ckpt", "/home/me": nobody means to clear those, whatever lies in them. */
static bool is_short(const struct sf_target_dir *t)
{
	char proc[40], at[4096];
	const char *home = getenv("HOME");
	unsigned parts = 0;
	struct stat a, b;

	if (home && stat(home, &a) == 0 && fstatat(t->parent, t->name, &b, 0) == 0 &&
	    a.st_dev == b.st_dev && a.st_ino == b.st_ino)
		return true;
	snprintf(proc, sizeof(proc), "/proc/self/fd/%d", t->parent);
	ssize_t n = readlink(proc, at, sizeof(at));
	if (n < 0)
		return true;
	for (ssize_t i = 0; i < n; i++)
		parts += at[i] != '/' && (i == 0 || at[i - 1] == '/');
	return parts < 1;
}

static int check_clear(const struct sf_target_dir *t, int dir, struct sf_error *err)
{
	if (is_short(t))
		return sf_fail(err, -EINVAL, "'%s': too near the root to be cleared for a save",
		               t->path);
	if (!is_checkpoint(dir))
		return sf_fail(err, -EEXIST, "'%s' is there and is no checkpoint: not replaced",
		               t->path);
	return 1;
}

int sf_target_check(const struct sf_target_dir *t, bool replace, struct stat *st,
                    struct sf_error *err)
{
	bool empty;
	int dir, r;

	if (fstatat(t->parent, t->name, st, AT_SYMLINK_NOFOLLOW) < 0)
		return errno == ENOENT ? 0 : sf_fail_errno(err, "'%s'", t->path);
	if (!S_ISDIR(st->st_mode))
		return sf_fail(err, -EEXIST, "'%s' is there and is %s: not replaced", t->path,
		               S_ISLNK(st->st_mode) ? "a symbolic link" : "no directory");
	if (is_above_us(st))
		return sf_fail(err, -EINVAL, "'%s' is the current directory, or above it", t->path);
	if (is_mounted(t, st))
		return sf_fail(err, -EINVAL, "'%s' is a mount point: name a directory in it",
		               t->path);
	dir = openat(t->parent, t->name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (dir < 0)
		return sf_fail_errno(err, "'%s'", t->path);
	r = fstat(dir, st) < 0 ? sf_fail_errno(err, "'%s'", t->path)
	                       : sf_target_is_empty(dir, &empty, err);
	if (r >= 0 && !empty)
		r = replace ? check_clear(t, dir, err)
		            : sf_fail(err, -EEXIST,
		                      "'%s' is there and not empty (a checkpoint is replaced when "
		                      "that is asked for: SHARDFUSE_REPLACE, --force)",
		                      t->path);
	close(dir);
	return r;
}
