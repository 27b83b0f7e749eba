#include "config.h"

#include <fcntl.h>
#include <linux/magic.h>
#include <stdio.h>
#include <string.h>
#include <sys/random.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/iov.h"
#include "base/mem.h"
#include "base/path.h"
#include "save/save_target_priv.h"

/* Opens the directory of @name below NAME-tmp, making what is missing; *ret_last is its last component. No
 * symbolic link is followed: nothing of ours is one. */
static int open_above(struct sf_save_target *t, const char *name, const char **ret_last,
                      struct sf_error *err)
{
	int r = sf_path_check(name, strlen(name), err);
	const char *slash;

	if (r < 0 || strcmp(name, SF_TARGET_MARKER) == 0)
		return r < 0 ? sf_fail_ctx(err, -EINVAL, "'%s'", t->path)
		             : sf_fail(err, -EINVAL, "'%s/%s': the save's own name", t->path, name);
	int dir = fcntl(t->dir, F_DUPFD_CLOEXEC, 0);
	while (dir >= 0 && (slash = strchr(name, '/'))) {
		char part[256];
		if ((size_t)(slash - name) >= sizeof(part)) {
			close(dir);
			return sf_fail(err, -ENAMETOOLONG, "'%s-tmp/…/%s'", t->path, name);
		}
		memcpy(part, name, (size_t)(slash - name));
		part[slash - name] = 0;
		int below = -1;
		if (mkdirat(dir, part, 0777) == 0 || errno == EEXIST)
			below = openat(dir, part, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		r = errno;
		close(dir);
		errno = r;
		dir = below;
		name = slash + 1;
	}
	if (dir < 0)
		return sf_fail_errno(err, "'%s-tmp/…/%s': its directory", t->path, name);
	*ret_last = name;
	return dir;
}

/*
 * All its room at once: want of it is known before anything is written, and what several threads write lies in
 * one piece. On ext4 writing then costs the processor a sixth less (measured, 0.5 GB); in memory (tmpfs) a tenth
 * more, as each page is touched twice. File systems that cannot are none the worse.
 */
static int reserve(int fd, uint64_t size)
{
	struct statfs fs;

	if (size == 0 || size > INT64_MAX || (fstatfs(fd, &fs) == 0 && fs.f_type == TMPFS_MAGIC))
		return 0;
	if (fallocate(fd, 0, 0, (off_t)size) == 0)
		return 0;
	return errno == ENOSPC || errno == EDQUOT || errno == EFBIG || errno == EIO ? -errno : 0;
}

int sf_save_target_open(struct sf_save_target *t, const char *name, uint64_t size, int *ret_fd,
                        struct sf_error *err)
{
	const char *last;
	int dir = open_above(t, name, &last, err), r = 0;

	if (dir < 0)
		return dir;
	int fd = openat(dir, last, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);
	if (fd < 0)
		r = sf_fail_errno(err, "'%s-tmp/%s'", t->path, name);
	close(dir);
	if (r < 0)
		return r;
	r = reserve(fd, size);
	if (r < 0) {
		close(fd);
		return sf_fail(err, r, "'%s-tmp/%s': room for %llu bytes: %s", t->path, name,
		               (unsigned long long)size, strerror(-r));
	}
	*ret_fd = fd;
	return 0;
}

/* Written, on disk, closed. */
static int fill(int dir, const char *tmp, const void *at, size_t len, bool sync)
{
	struct iovec iov = { (void *)(uintptr_t)at, len };
	int fd = openat(dir, tmp, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);

	if (fd < 0)
		return -errno;
	int r = len ? sf_pwritev_all(fd, &iov, 1, 0) : 0;
	if (r == 0 && sync && fdatasync(fd) < 0 && errno != EINVAL)
		r = -errno;
	if (close(fd) < 0 && r == 0)
		r = -errno; /* a network file system may tell only now */
	return r;
}

int sf_save_target_put(struct sf_save_target *t, const char *name, const void *at, size_t len,
                       bool sync, struct sf_error *err)
{
	const char *last;
	char tmp[64];
	uint64_t random = (uintptr_t)&last ^ (uint64_t)getpid() << 32;
	int dir = open_above(t, name, &last, err);

	if (dir < 0)
		return dir;
	(void)!getrandom(&random, sizeof(random), GRND_NONBLOCK);
	snprintf(tmp, sizeof(tmp), ".shardfuse-put-%016llx", (unsigned long long)random);
	int r = fill(dir, tmp, at, len, sync);
	if (r == 0 && renameat(dir, tmp, dir, last) < 0)
		r = -errno;
	if (r < 0)
		(void)unlinkat(dir, tmp, 0);
	close(dir);
	return r < 0 ? sf_fail(err, r, "'%s-tmp/%s': %s", t->path, name, strerror(-r)) : 0;
}

int sf_save_target_rename(struct sf_save_target *t, const char *from, const char *to,
                          struct sf_error *err)
{
	const char *last_from, *last_to;
	int a = open_above(t, from, &last_from, err), b, r = 0;

	if (a < 0)
		return a;
	b = open_above(t, to, &last_to, err);
	if (b >= 0 && renameat(a, last_from, b, last_to) < 0)
		r = sf_fail_errno(err, "'%s-tmp/%s' to '%s'", t->path, from, to);
	close(a);
	if (b >= 0)
		close(b);
	return b < 0 ? b : r;
}
