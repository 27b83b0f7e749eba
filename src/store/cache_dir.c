#include "config.h"

#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/cache_dir.h"

#define LINKS_MAX 40 /* as the kernel's */
#define FOR_OTHERS (S_IWGRP | S_IWOTH)
#define TAG "CACHEDIR.TAG"

int sf_cache_dir_default(char **ret, struct sf_error *err)
{
	const char *xdg = getenv("XDG_CACHE_HOME"), *home = getenv("HOME");
	int n;

	*ret = NULL;
	if (geteuid() == 0)
		n = asprintf(ret, "/var/cache/shardfuse");
	else if (xdg && *xdg == '/')
		n = asprintf(ret, "%s/shardfuse", xdg);
	else if (home && *home == '/')
		n = asprintf(ret, "%s/.cache/shardfuse", home);
	else
		return sf_fail(err, -ENOENT,
		               "no place for the cache: neither XDG_CACHE_HOME nor HOME is set");
	if (n >= 0)
		return 0;
	*ret = NULL;
	return sf_fail(err, -ENOMEM, "cache directory: no memory");
}

/* A walk down a path, one component after the other. */
struct walk {
	const char *path; /* as given, for messages */
	int dir;          /* where it is: -1 nowhere */
	unsigned links;
	char left[PATH_MAX]; /* components that are to come */
};

static int refused(const struct walk *w, const char *name, struct sf_error *err)
{
	return sf_fail_errno(err, "cache directory '%s': '%s'", w->path, name);
}

static int go_to(struct walk *w, int dir, const char *name, struct sf_error *err)
{
	if (dir < 0)
		return refused(w, name, err);
	if (w->dir >= 0)
		close(w->dir);
	w->dir = dir;
	return 0;
}

static int from_root(struct walk *w, struct sf_error *err)
{
	return go_to(w, open("/", O_PATH | O_DIRECTORY | O_CLOEXEC), "/", err);
}

/* The link's words stand in for its name. */
static int follow(struct walk *w, const char *name, struct sf_error *err)
{
	char to[PATH_MAX], rest[PATH_MAX];
	struct stat in;
	ssize_t n;

	if (fstat(w->dir, &in) != 0)
		return refused(w, name, err);
	if (in.st_mode & FOR_OTHERS)
		return sf_fail(err, -EACCES,
		               "cache directory '%s': '%s' is a symbolic link in a directory that "
		               "others can write to (mode %04o): they may have put it there",
		               w->path, name, in.st_mode & 07777);
	if (in.st_uid != 0 && in.st_uid != geteuid())
		return sf_fail(err, -EACCES,
		               "cache directory '%s': '%s' is a symbolic link in a directory of "
		               "another user (%u): it may lead anywhere",
		               w->path, name, (unsigned)in.st_uid);
	if (++w->links > LINKS_MAX)
		return sf_fail(err, -ELOOP, "cache directory '%s': more than %d symbolic links",
		               w->path, LINKS_MAX);
	n = readlinkat(w->dir, name, to, sizeof(to) - 1);
	if (n < 0)
		return refused(w, name, err);
	to[n] = '\0';
	memcpy(rest, w->left, strlen(w->left) + 1);
	if (snprintf(w->left, sizeof(w->left), "%s/%s", to, rest) >= (int)sizeof(w->left))
		return sf_fail(err, -ENAMETOOLONG, "cache directory '%s': its path is too long",
		               w->path);
	return to[0] == '/' ? from_root(w, err) : 0;
}

static int step(struct walk *w, const char *name, struct sf_error *err)
{
	int made = mkdirat(w->dir, name, 0700) == 0 ? 0 : errno;
	struct stat st;

	/* what is there need not be makeable: a read-only file system, a directory of root's */
	if (fstatat(w->dir, name, &st, AT_SYMLINK_NOFOLLOW) != 0) {
		errno = made ? made : errno;
		return refused(w, name, err);
	}
	if (S_ISLNK(st.st_mode))
		return follow(w, name, err);
	return go_to(w, openat(w->dir, name, O_PATH | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC), name,
	             err);
}

static int walk(struct walk *w, struct sf_error *err)
{
	int r = w->path[0] == '/' ? from_root(w, err)
	                          : go_to(w, open(".", O_PATH | O_DIRECTORY | O_CLOEXEC), ".", err);

	while (r >= 0) {
		char *from = w->left + strspn(w->left, "/"), name[NAME_MAX + 1];
		size_t n = strcspn(from, "/");
		if (!n)
			break;
		if (n > NAME_MAX)
			return sf_fail(err, -ENAMETOOLONG,
			               "cache directory '%s': a name of %zu bytes", w->path, n);
		memcpy(name, from, n);
		name[n] = '\0';
		memmove(w->left, from + n, strlen(from + n) + 1);
		if (strcmp(name, ".") != 0)
			r = step(w, name, err);
	}
	return r;
}

/* Ours alone? */
static int check(const char *path, int fd, struct sf_error *err)
{
	struct stat st;

	if (fstat(fd, &st) != 0)
		return sf_fail_errno(err, "cache directory '%s'", path);
	if (st.st_uid != geteuid())
		return sf_fail(err, -EACCES,
		               "cache directory '%s' belongs to user %u, not to user %u", path,
		               (unsigned)st.st_uid, (unsigned)geteuid());
	if (st.st_mode & FOR_OTHERS)
		return sf_fail(
			err, -EACCES,
			"cache directory '%s': others can write to it (mode %04o): chmod go-w",
			path, st.st_mode & 07777);
	return 0;
}

/* https://bford.info/cachedir/ */
static void tag(int dir)
{
	static const char text[] = "Signature: 8a477f597d28d172789f06886806bc55\n"
				   "# Fetched parts of remote checkpoints, kept by shardfuse.\n";
	int fd = openat(dir, TAG, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);

	if (fd < 0)
		return; /* it is there, or a courtesy less */
	if (write(fd, text, sizeof(text) - 1) < 0)
		(void)unlinkat(dir, TAG, 0);
	close(fd);
}

int sf_cache_dir_open(const char *path, int *ret_fd, struct sf_error *err)
{
	struct walk w = { .path = path, .dir = -1 };
	int fd = -1, r;

	if (!*path || strlen(path) >= sizeof(w.left))
		return sf_fail(err, *path ? -ENAMETOOLONG : -EINVAL,
		               "cache directory '%.200s': a path has 1 to %zu bytes", path,
		               sizeof(w.left) - 1);
	memcpy(w.left, path, strlen(path) + 1);
	r = walk(&w, err);
	if (r >= 0) {
		fd = openat(w.dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		r = fd < 0 ? sf_fail_errno(err, "cache directory '%s'", path)
		           : check(path, fd, err);
	}
	if (w.dir >= 0)
		close(w.dir);
	if (r < 0) {
		if (fd >= 0)
			close(fd);
		return r;
	}
	tag(fd);
	*ret_fd = fd;
	return 0;
}
