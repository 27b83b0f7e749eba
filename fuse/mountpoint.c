#include "config.h"
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/wait.h>
#include <unistd.h>
#include "base/buf.h"
#include "base/denied.h"
#include "base/mem.h"
#include "base/mountinfo.h"
#include "base/quote.h"
#include "tool/ask.h"
#include "fuse/mountpoint.h"

#define ANSWER_MS 10000 /* of a path: an automounter may have work to do first */

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

/* What a path answers. A child finds it out and sends it part by part, so that what it knew before
 * it hung is known here. */
struct look {
	struct look_where {
		int code; /* errno */
		char abs[PATH_MAX];
	} where;
	char real[PATH_MAX]; /* abs with its links followed */
	struct look_answer {
		int statfs, stat, access; /* errno each */
		bool is_dir;
	} answer;
};

struct question {
	const char *path;
	bool names_only;
};

static void send_look(const void *arg, int to)
{
	const struct question *q = arg;
	struct look l = { 0 };
	struct statfs fs;
	struct stat st;
	SF_FREE char *abs = sf_mountpoint_absolute(q->path);
	bool sent;

	if (abs && strlen(abs) < PATH_MAX)
		strcpy(l.where.abs, abs);
	else
		l.where.code = abs ? ENAMETOOLONG : errno;
	sent = write(to, &l.where, sizeof(l.where)) == (ssize_t)sizeof(l.where);
	if (!sent || l.where.code)
		return;
	if (!realpath(q->path, l.real))
		memcpy(l.real, l.where.abs, sizeof(l.real));
	if (write(to, l.real, sizeof(l.real)) != (ssize_t)sizeof(l.real) || q->names_only)
		return;
	/* stat() may still answer from the kernel's cache; statfs() asks the daemon */
	l.answer.statfs = statfs(l.real, &fs) < 0 ? errno : 0;
	l.answer.stat = stat(l.real, &st) < 0 ? errno : 0;
	l.answer.is_dir = !l.answer.stat && S_ISDIR(st.st_mode);
	l.answer.access = access(l.real, W_OK) < 0 ? errno : 0;
	if (write(to, &l.answer, sizeof(l.answer)) < 0)
		return;
}

/* 0; -ETIMEDOUT: it hangs, where and real are filled as far as they came, else ""; -errno: there is
 * no such path. */
static int look_at(const char *path, bool names_only, struct look *l)
{
	const struct question q = { path, names_only };
	size_t want = names_only ? offsetof(struct look, answer) : sizeof(*l);
	bool all;

	*l = (struct look){ 0 };
	ssize_t n = sf_ask(send_look, &q, ANSWER_MS, l, want, &all);
	if (n < 0)
		return (int)n;
	if ((size_t)n >= sizeof(l->where) && l->where.code)
		return -l->where.code;
	return (size_t)n == want ? 0 : -ETIMEDOUT;
}

char *sf_mountpoint_resolve(const char *path)
{
	struct look *l = malloc(sizeof(*l));
	char *out = NULL;

	if (!l)
		return NULL;
	int r = look_at(path, true, l);
	if (r == 0 || l->where.abs[0])
		out = strdup(l->real[0] ? l->real : l->where.abs);
	free(l);
	if (r < 0 && !out)
		errno = -r;
	return out;
}

bool sf_mountpoint_is_ours(const char *abs)
{
	return sf_mounts_each(same_target, (void *)(uintptr_t)abs, NULL) > 0;
}

/* "mountpoint 'PATH': WHAT: COMMAND PATH", to be copied. */
static int fail_busy(struct sf_error *err, const char *path, const char *what, const char *command)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf word = { 0 };

	sf_quote_shell_message(&word, path, "MOUNTPOINT");
	return sf_fail(err, -EBUSY, "mountpoint '%.300s': %s: %s %s", path, what, command,
	               sf_buf_cstr(&word));
}

/* Somewhere on the way to the mountpoint a system call does not return. */
static int does_not_answer(const char *path, const struct look *l, struct sf_error *err)
{
	if (sf_mountpoint_is_ours(l->real[0] ? l->real : l->where.abs))
		return fail_busy(err, path,
		                 "the shardfuse mounted there does not answer: its process is "
		                 "stopped or hangs; to take the mount away",
		                 "shardfuse umount -z");
	return sf_fail(err, -ETIMEDOUT,
	               "mountpoint '%s': a filesystem on the way to it does not answer within %d s",
	               path, ANSWER_MS / 1000);
}

static int fail_denied(const char *path, struct sf_error *err)
{
	char by[PATH_MAX];

	sf_denied_by(path, by, sizeof(by));
	return sf_fail(err, -EACCES, "mountpoint '%.400s': permission denied by directory '%.400s'",
	               path, by);
}

static int check_usable(const char *path, const struct look *l, struct sf_error *err)
{
	const struct look_answer *a = &l->answer;

	if (a->stat == EACCES)
		return fail_denied(path, err);
	if (a->stat)
		return sf_fail(err, -a->stat, "mountpoint '%s': %s%s", path, strerror(a->stat),
		               a->stat == ENOENT ? " (make it first: mkdir -p)"
		               : is_dead(a->stat)
		                       ? " (a dead mount of another filesystem: fusermount3 -u)"
		                       : "");
	if (!a->is_dir)
		return sf_fail(err, -ENOTDIR, "mountpoint '%s' is not a directory", path);
	if (geteuid() != 0 && a->access)
		return sf_fail(err, -EACCES,
		               "mountpoint '%s': fusermount3 needs it to be writable by you", path);
	return 0;
}

int sf_mountpoint_prepare(const char *path, char **ret, struct sf_error *err)
{
	SF_FREE struct look *l = malloc(sizeof(*l));
	int r;

	if (!l)
		return sf_fail(err, -ENOMEM, "mountpoint '%s'", path);
	/* several may lie on top of each other */
	while ((r = look_at(path, false, l)) == 0 && sf_mountpoint_is_ours(l->real)) {
		if (!is_dead(l->answer.statfs))
			return fail_busy(err, path, "a shardfuse mount is there already; to end it",
			                 "shardfuse umount");
		r = sf_mountpoint_unmount(l->real, true, err);
		if (r < 0)
			return sf_fail_ctx(err, r,
			                   "mountpoint '%s' belongs to a daemon that died and "
			                   "cannot be cleaned",
			                   path);
	}
	if (r == -ETIMEDOUT)
		return does_not_answer(path, l, err);
	if (r == -EACCES)
		return fail_denied(path, err);
	if (r < 0)
		return sf_fail(err, r, "mountpoint '%s': %s", path, strerror(-r));
	r = check_usable(path, l, err);
	if (r < 0)
		return r;
	*ret = strdup(l->real);
	return *ret ? 0 : sf_fail(err, -ENOMEM, "mountpoint '%s'", path);
}

bool sf_mountpoint_has_files(const char *abs)
{
	DIR *d = opendir(abs);
	struct dirent *e;
	bool found = false;

	while (d && !found && (e = readdir(d)))
		found = strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0;
	if (d)
		closedir(d);
	return found;
}

int sf_mountpoint_check_source(const char *abs, const char *source, struct sf_error *err)
{
	SF_FREE char *real = realpath(source, NULL);
	size_t n = strcmp(abs, "/") == 0 ? 0 : strlen(abs);

	if (!real || strncmp(real, abs, n) != 0 || (real[n] && real[n] != '/'))
		return 0;
	return sf_fail(err, -EBUSY,
	               "mountpoint '%.300s' %s: the mount would hide the stored files; mount on "
	               "another directory, or add -o nonempty",
	               abs, real[n] ? "is a directory above SOURCE" : "is SOURCE itself");
}

int sf_mountpoint_lock(const char *real, int *ret_fd, struct sf_error *err)
{
	int fd = open(real, O_RDONLY | O_DIRECTORY | O_NONBLOCK | O_CLOEXEC);

	*ret_fd = -1;
	if (fd < 0)
		return 0;
	if (flock(fd, LOCK_EX | LOCK_NB) < 0) {
		bool others = errno == EWOULDBLOCK;
		close(fd);
		return !others ? 0
		               : sf_fail(err, -EBUSY,
		                         "mountpoint '%s': another shardfuse is being mounted "
		                         "there",
		                         real);
	}
	if (sf_mountpoint_is_ours(real)) {
		close(fd);
		return fail_busy(err, real, "a shardfuse mount is there already; to end it",
		                 "shardfuse umount");
	}
	*ret_fd = fd;
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
