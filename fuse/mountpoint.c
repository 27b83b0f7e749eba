#include "config.h"
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/mem.h"
#include "fuse/mountpoint.h"

/* mountinfo writes blank, tab, newline and backslash as \ooo. In place. */
static void unescape(char *s)
{
	char *to = s;
	for (; *s; s++) {
		if (s[0] == '\\' && s[1] >= '0' && s[1] <= '3' && s[2] >= '0' && s[2] <= '7' &&
		    s[3] >= '0' && s[3] <= '7') {
			*to++ = (char)((s[1] - '0') * 64 + (s[2] - '0') * 8 + (s[3] - '0'));
			s += 3;
		} else {
			*to++ = *s;
		}
	}
	*to = 0;
}

/* Source: proc(5): "36 35 98:0 /root /target opts optional… - type source superopts". 1 ours, 0
 * another's. */
static int parse_line(char *line, struct sf_mountinfo *m)
{
	char *save = NULL, *field;
	int i = 0;

	for (field = strtok_r(line, " \n", &save); field && strcmp(field, "-") != 0;
	     field = strtok_r(NULL, " \n", &save), i++) {
		if (i == 2 && sscanf(field, "%u:%u", &m->major, &m->minor) != 2)
			return 0;
		if (i == 4)
			m->target = field;
	}
	char *type = field ? strtok_r(NULL, " \n", &save) : NULL;
	m->source = type ? strtok_r(NULL, " \n", &save) : NULL;
	if (!m->source || !m->target || strcmp(type, "fuse.shardfuse") != 0)
		return 0;
	unescape(m->source);
	unescape(m->target);
	return 1;
}

int sf_mounts_each_of(FILE *f, int (*each)(void *arg, const struct sf_mountinfo *m), void *arg)
{
	char *line = NULL;
	size_t cap = 0;
	int r = 0;

	while (r == 0 && getline(&line, &cap, f) > 0) {
		struct sf_mountinfo m = { 0 };
		if (parse_line(line, &m))
			r = each(arg, &m);
	}
	free(line);
	return r;
}

int sf_mounts_each(int (*each)(void *arg, const struct sf_mountinfo *m), void *arg,
                   struct sf_error *err)
{
	FILE *f = fopen("/proc/self/mountinfo", "re");

	if (!f)
		return sf_fail_errno(err, "/proc/self/mountinfo");
	int r = sf_mounts_each_of(f, each, arg);
	fclose(f);
	return r;
}

static bool is_dead(int code)
{
	return code == ENOTCONN || code == ECONNABORTED;
}

/* stat() may still answer from the kernel's cache; statfs() asks the daemon. */
bool sf_mountpoint_is_dead(const char *abs)
{
	struct statfs fs;
	return statfs(abs, &fs) < 0 && is_dead(errno);
}

static int same_target(void *arg, const struct sf_mountinfo *m)
{
	return strcmp(arg, m->target) == 0;
}

char *sf_mountpoint_absolute(const char *path)
{
	SF_FREE char *copy = strdup(path);
	char *out = NULL, *real;

	if (!copy)
		return NULL;
	for (size_t n = strlen(copy); n > 1 && copy[n - 1] == '/'; n--)
		copy[n - 1] = 0;
	char *slash = strrchr(copy, '/');
	const char *name = slash ? slash + 1 : copy;
	if (strcmp(name, ".") == 0 || strcmp(name, "..") == 0 || strcmp(copy, "/") == 0)
		return realpath(copy, NULL);
	if (slash && slash != copy)
		*slash = 0;
	real = realpath(!slash ? "." : slash == copy ? "/" : copy, NULL);
	if (!real)
		return NULL;
	if (asprintf(&out, "%s/%s", strcmp(real, "/") == 0 ? "" : real, name) < 0)
		out = NULL;
	free(real);
	return out;
}

char *sf_mountpoint_resolve(const char *path)
{
	char *real = realpath(path, NULL);
	return real ? real : sf_mountpoint_absolute(path);
}

bool sf_mountpoint_is_ours(const char *abs)
{
	return sf_mounts_each(same_target, (void *)(uintptr_t)abs, NULL) > 0;
}

int sf_mountpoint_prepare(const char *path, char **ret, struct sf_error *err)
{
	SF_FREE char *abs = sf_mountpoint_resolve(path);
	struct stat st;

	if (!abs)
		return sf_fail_errno(err, "mountpoint '%s'", path);
	/* several may lie on top of each other */
	while (sf_mountpoint_is_ours(abs)) {
		if (!sf_mountpoint_is_dead(abs))
			return sf_fail(err, -EBUSY,
			               "mountpoint '%s': shardfuse is mounted there already "
			               "(shardfuse umount %s)",
			               path, path);
		int r = sf_mountpoint_unmount(abs, true, err);
		if (r < 0)
			return sf_fail_ctx(err, r,
			                   "mountpoint '%s' belongs to a daemon that died and "
			                   "cannot be cleaned",
			                   path);
	}
	if (stat(abs, &st) < 0) {
		int code = -errno;
		return sf_fail(err, code, "mountpoint '%s': %s%s", path, strerror(-code),
		               code == -ENOENT ? " (make it first: mkdir -p)"
		               : is_dead(-code)
		                       ? " (a dead mount of another filesystem: fusermount3 -u)"
		                       : "");
	}
	if (!S_ISDIR(st.st_mode))
		return sf_fail(err, -ENOTDIR, "mountpoint '%s' is not a directory", path);
	if (geteuid() != 0 && access(abs, W_OK) < 0)
		return sf_fail(err, -EACCES,
		               "mountpoint '%s': fusermount3 wants it writable by you", path);
	*ret = SF_STEAL(abs);
	return 0;
}

extern char **environ;

int sf_mountpoint_unmount(const char *path, bool lazy, struct sf_error *err)
{
	if (geteuid() == 0) {
		if (umount2(path, (lazy ? MNT_DETACH : 0) | UMOUNT_NOFOLLOW) < 0) {
			int code = -errno;
			return sf_fail(err, code, "'%s': %s", path,
			               code == -EBUSY ? "in use: close the files and shells in it, "
			                                "or use -z (lazy)"
			               : code == -EINVAL ? "nothing is mounted there"
			                                 : strerror(-code));
		}
		return 0;
	}
	const char *argv[] = { "fusermount3", lazy ? "-uz" : "-u", "--", path, NULL };
	pid_t pid;
	int status = 0,
	    r = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)(uintptr_t)argv, environ);
	if (r != 0)
		return sf_fail(err, -r, "fusermount3: %s (package fuse3)", strerror(r));
	while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
		;
	if (status != 0)
		return sf_fail(err, -EBUSY, "fusermount3 could not unmount '%s'", path);
	return 0;
}

struct readahead {
	const char *path;
	unsigned kib;
};

static int set_readahead(void *arg, const struct sf_mountinfo *m)
{
	const struct readahead *want = arg;
	char file[64], text[16];

	if (strcmp(want->path, m->target) != 0)
		return 0;
	snprintf(file, sizeof(file), "/sys/class/bdi/%u:%u/read_ahead_kb", m->major, m->minor);
	int fd = open(file, O_WRONLY | O_CLOEXEC);
	if (fd >= 0) {
		ssize_t n = write(fd, text, (size_t)snprintf(text, sizeof(text), "%u", want->kib));
		(void)n;
		close(fd);
	}
	return 1;
}

void sf_mountpoint_readahead(const char *path, unsigned kib)
{
	struct readahead want = { path, kib };
	sf_mounts_each(set_readahead, &want, NULL);
}
