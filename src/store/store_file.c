#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/vfs.h>
#include <sys/xattr.h>
#include <unistd.h>

#include "base/denied.h"
#include "base/mem.h"
#include "base/path.h"
#include "store/store_file.h"

/* of one list(): a directory that links to itself ends somewhere */
#define LIST_ENTRIES_MAX 100000000
#define LIST_DEPTH_MAX 32
#define FUSE_SUPER_MAGIC 0x65735546 /* linux/magic.h of some systems lacks it */

struct file_store {
	struct sf_store s;
	int dir; /* held, so that mounting over the directory later is fine */
};

static const char *kind_of(mode_t mode)
{
	return S_ISDIR(mode)                    ? "a directory"
	       : S_ISFIFO(mode)                 ? "a fifo"
	       : S_ISCHR(mode) || S_ISBLK(mode) ? "a device"
	       : S_ISSOCK(mode)                 ? "a socket"
	                                        : "something else";
}

static void info_from_stat(const struct stat *st, const char *name, struct sf_objinfo *ret)
{
	*ret = (struct sf_objinfo){
		.name = name,
		.size = (uint64_t)st->st_size,
		.version = { .dev = st->st_dev,
		             .ino = st->st_ino,
		             .mtime_ns = (int64_t)st->st_mtim.tv_sec * 1000000000 +
		                         st->st_mtim.tv_nsec },
	};
}

/* A descriptor of the plain file @name as it is now, the same version as @want. Never waits for a
 * fifo's other end. */
static int open_plain(struct file_store *f, const char *name, const struct sf_objinfo *want,
                      struct sf_objinfo *ret, struct sf_error *err)
{
	struct stat st;
	int fd, r = sf_path_check(name, strlen(name), err);

	if (r < 0)
		return r;
	do
		fd = openat(f->dir, name, O_RDONLY | O_NONBLOCK | O_CLOEXEC | O_NOCTTY);
	while (fd < 0 && errno == EINTR);
	if (fd < 0 && (errno == ENXIO || errno == ENODEV))
		return sf_fail(err, -EBADMSG, "'%s' is a socket or a device, not a regular file",
		               name);
	if (fd < 0 && errno == ELOOP)
		return sf_fail(
			err, -EBADMSG,
			"'%s' is a symbolic link that leads back to itself, not a regular file",
			name);
	if (fd < 0)
		return sf_fail_errno(err, "'%s'", name);
	if (fstat(fd, &st) != 0) {
		r = sf_fail_errno(err, "'%s': fstat", name);
	} else if (!S_ISREG(st.st_mode)) {
		r = sf_fail(err, -EBADMSG, "'%s' is %s, not a regular file", name,
		            kind_of(st.st_mode));
	} else {
		info_from_stat(&st, name, ret);
		r = want ? sf_version_check(name, want->size, &want->version, ret->size,
		                            &ret->version, err)
		         : 0;
	}
	if (r < 0) {
		close(fd);
		return r;
	}
	return fd;
}

static int file_open(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                     struct sf_source **ret, struct sf_error *err)
{
	struct file_store *f = (struct file_store *)s;
	struct sf_objinfo info;
	int fd = open_plain(f, name, want, &info, err);

	return fd < 0 ? fd : sf_source_file(s->io, fd, name, info.size, &info.version, ret, err);
}

static int file_fd(struct sf_store *s, const char *name, const struct sf_objinfo *want,
                   struct sf_error *err)
{
	struct sf_objinfo info;

	return open_plain((struct file_store *)s, name, want, &info, err);
}

struct listing {
	int (*each)(void *arg, const struct sf_objinfo *info);
	void *arg;
	uint64_t entries;
	struct sf_buf name; /* of the directory being read, relative to the store, with a final '/'
	                       unless it is the root */
	struct {
		dev_t dev;
		ino_t ino;
	} above[LIST_DEPTH_MAX +
	        1]; /* the directories we are in: a link to one of them is not followed */
	struct sf_error *err;
};

static int list_dir(struct listing *l, int fd, unsigned level, unsigned depth);

/* Beside a checkpoint may lie what we cannot look into: another user's, a mount whose daemon died. */
static bool is_away(int code)
{
	return code == EACCES || code == EPERM || code == ENOTDIR || code == ENOTCONN ||
	       code == ECONNABORTED || code == EHOSTDOWN;
}

static int list_entry(struct listing *l, int dir, const char *name, unsigned level, unsigned depth)
{
	size_t before = l->name.len;
	struct sf_objinfo info = { .size = UINT64_MAX };
	struct stat st;
	bool found;
	int r = 0;

	if (++l->entries > LIST_ENTRIES_MAX)
		return sf_fail(l->err, -E2BIG, "listing: more than %d entries", LIST_ENTRIES_MAX);
	found = fstatat(dir, name, &st, 0) == 0;
	if (!found && !is_away(errno) && errno != ENOENT && errno != ELOOP)
		return sf_fail_errno(l->err, "listing '%.*s%s'", (int)before,
		                     (const char *)l->name.at, name);
	sf_buf_str(&l->name, name);
	info.name = sf_buf_cstr(&l->name);
	if (sf_buf_check(&l->name) < 0)
		return sf_fail(l->err, sf_buf_check(&l->name),
		               "listing: a path is longer than %zu bytes or memory is out",
		               l->name.limit);
	if (found && S_ISREG(st.st_mode))
		info_from_stat(&st, info.name, &info);
	if (info.size != UINT64_MAX ||
	    level == 0) /* what is no plain file, or is a dangling link, keeps UINT64_MAX */
		r = l->each(l->arg, &info);
	if (r == SF_LIST_SKIP)
		r = 0;
	else if (r >= 0 && found && S_ISDIR(st.st_mode) && level < depth) {
		int fd = openat(dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
		if (fd < 0 && !is_away(errno) && errno != ENOENT)
			return sf_fail_errno(l->err, "listing '%s'", info.name);
		if (fd >= 0) {
			sf_buf_byte(&l->name, '/');
			r = list_dir(l, fd, level + 1, depth);
		}
	}
	l->name.len = before;
	return r;
}

/* Owns @fd. */
static int list_dir(struct listing *l, int fd, unsigned level, unsigned depth)
{
	struct dirent *e;
	struct stat st;
	DIR *d;
	int r = 0;

	if (fstat(fd, &st) != 0) {
		r = sf_fail_errno(l->err, "listing '%s'", sf_buf_cstr(&l->name));
		close(fd);
		return r;
	}
	for (unsigned i = 0; i < level; i++) {
		if (l->above[i].dev == st.st_dev && l->above[i].ino == st.st_ino) {
			close(fd);
			return 0;
		}
	}
	l->above[level].dev = st.st_dev;
	l->above[level].ino = st.st_ino;
	d = fdopendir(fd);
	if (!d) {
		r = sf_fail_errno(l->err, "listing '%s'", sf_buf_cstr(&l->name));
		close(fd);
		return r;
	}
	while (r >= 0) {
		errno = 0;
		e = readdir(d);
		if (!e) {
			if (errno && (level == 0 || !is_away(errno)))
				r = sf_fail_errno(l->err, "listing '%s'", sf_buf_cstr(&l->name));
			break;
		}
		if (strcmp(e->d_name, ".") != 0 && strcmp(e->d_name, "..") != 0)
			r = list_entry(l, dirfd(d), e->d_name, level, depth);
	}
	closedir(d);
	return r;
}

static int file_list(struct sf_store *s, const char *dir, unsigned depth,
                     int (*each)(void *arg, const struct sf_objinfo *info), void *arg,
                     struct sf_error *err)
{
	struct file_store *f = (struct file_store *)s;
	struct listing l = { .each = each, .arg = arg, .name = { .limit = 65536 }, .err = err };
	int fd, r = *dir ? sf_path_check(dir, strlen(dir), err) : 0;

	if (r < 0)
		return r;
	fd = openat(f->dir, *dir ? dir : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	if (fd < 0)
		return sf_fail_errno(err, "listing '%s'", *dir ? dir : s->source);
	if (*dir) {
		sf_buf_str(&l.name, dir);
		sf_buf_byte(&l.name, '/');
	}
	r = list_dir(&l, fd, 0, SF_MIN(depth, LIST_DEPTH_MAX));
	sf_buf_release(&l.name);
	return r;
}

static void file_free(struct sf_store *s)
{
	struct file_store *f = (struct file_store *)s;

	close(f->dir);
	free(s->source);
	free(f);
}

static int file_below(struct sf_store *s, const char *dir, struct sf_store **ret,
                      struct sf_error *err);

static const struct sf_store_ops file_ops = {
	.open = file_open,
	.list = file_list,
	.fd = file_fd,
	.below = file_below,
	.free = file_free,
};

/* Owns @dir and takes @source, malloc'ed. */
static int make_store(struct sf_io *io, int dir, char *source, struct sf_store **ret)
{
	struct file_store *f = source ? calloc(1, sizeof(*f)) : NULL;

	if (!f) {
		free(source);
		close(dir);
		return -ENOMEM;
	}
	f->s.ops = &file_ops;
	f->s.io = io;
	f->s.source = source;
	f->dir = dir;
	*ret = &f->s;
	return 0;
}

static int file_below(struct sf_store *s, const char *name, struct sf_store **ret,
                      struct sf_error *err)
{
	struct file_store *f = (struct file_store *)s;
	int dir = openat(f->dir, name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char *source;
	int r;

	if (dir < 0)
		return sf_fail_errno(err, "'%s/%s'", s->source, name);
	if (asprintf(&source, "%s/%s", strcmp(s->source, "/") ? s->source : "", name) < 0)
		source = NULL;
	r = make_store(s->io, dir, source, ret);
	if (r < 0)
		return sf_fail(err, r, "'%s/%s': no memory", s->source, name);
	(*ret)->opt = s->opt;
	return 0;
}

/* The root of a mount holds every tensor several times, as .safetensors files: a checkpoint to look
 * at, and the wrong one. */
static bool is_our_mount(int dir, char *source, size_t size)
{
	struct stat st, above;
	struct statfs fs;

	if (fstatfs(dir, &fs) < 0 || fs.f_type != FUSE_SUPER_MAGIC)
		return false;
	/* below it there are directories that are checkpoints: shards/ */
	if (fstat(dir, &st) < 0 || fstatat(dir, "..", &above, 0) < 0 || st.st_dev == above.st_dev)
		return false;
	ssize_t n = fgetxattr(dir, "user.shardfuse.source", source, size - 1);
	source[n > 0 ? n : 0] = '\0';
	return n > 0;
}

int sf_store_file(struct sf_io *io, const char *path, const char *shown, struct sf_store **ret,
                  struct sf_error *err)
{
	char by[PATH_MAX];
	int dir = open(*path ? path : ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);

	if (dir < 0 && errno == ENOTDIR)
		return sf_fail(err, -ENOTDIR, "'%s' is not a directory", shown);
	if (dir < 0 && errno == EACCES) {
		sf_denied_by(*path ? path : ".", by, sizeof(by));
		return sf_fail(err, -EACCES, "'%.400s': permission denied by directory '%.400s'",
		               shown, by);
	}
	if (dir < 0)
		return sf_fail_errno(err, "'%s'", shown);
	if (is_our_mount(dir, by, sizeof(by))) {
		close(dir);
		return sf_fail(err, -EINVAL, "'%.400s' is a shardfuse mount of '%.400s': give that",
		               shown, by);
	}
	/* links followed, no ".": what names it tomorrow too */
	char *source = realpath(*path ? path : ".", NULL);
	if (make_store(io, dir, source ? source : strdup(shown), ret) < 0)
		return sf_fail(err, -ENOMEM, "'%s': no memory", shown);
	return 0;
}
