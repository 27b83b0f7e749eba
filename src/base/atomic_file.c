#include "config.h"
#include <ctype.h>
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>
#include "base/atomic_file.h"
#include "base/mem.h"
#include "base/path.h"

#define PREFIX ".shardfuse-"
enum { BOOT_DIGITS = 8, RANDOM_DIGITS = 16 };

/* Temporary names that are there now. A signal (sf_atomic_file_drop_names) waits for m and keeps
 * it, so that it sees every name, and finds each file either with its temporary name or its last.
 */
static struct {
	pthread_mutex_t m;
	struct sf_atomic_file *first;
} names = { .m = PTHREAD_MUTEX_INITIALIZER };

char *sf_dir_of(const char *path)
{
	const char *slash = strrchr(path, '/');

	while (slash > path && slash[-1] == '/')
		slash--;
	return !slash ? strdup(".") : strndup(path, slash == path ? 1 : (size_t)(slash - path));
}

char *sf_dir_there(const char *path)
{
	char *dir = sf_dir_of(path);
	struct stat st;

	while (dir && stat(dir, &st) < 0 && errno == ENOENT && strcmp(dir, ".") != 0 &&
	       strcmp(dir, "/") != 0) {
		char *up = sf_dir_of(dir);
		free(dir);
		dir = up;
	}
	return dir;
}

/*
 * Names of this boot of this machine. Whoever sweeps cannot see whether a writer on another machine
 * lives: locks do not travel on every network file system.
 */
static uint32_t boot(void)
{
	char id[64];
	FILE *f = fopen("/proc/sys/kernel/random/boot_id", "re");
	size_t n = f ? fread(id, 1, sizeof(id), f) : 0;

	if (f)
		fclose(f);
	if (n == 0 && gethostname(id, sizeof(id)) == 0)
		n = strnlen(id, sizeof(id));
	uint8_t digest[SF_SHA256_BYTES] = { 0 };
	sf_sha256(id, n, digest);
	return sf_le32(digest);
}

/* PATH's own name may have all of its 255 bytes: ours is short, and beside it. */
static char *make_name(const char *dir)
{
	uint64_t random;
	char *name;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random)) {
		struct timespec now;
		clock_gettime(CLOCK_REALTIME, &now);
		random = (uint64_t)now.tv_sec << 32 ^ (uint64_t)now.tv_nsec ^
		         (uint64_t)getpid() << 40;
	}
	return asprintf(&name, "%s/" PREFIX "%08x-%016llx", dir, boot(),
	                (unsigned long long)random) < 0
	               ? NULL
	               : name;
}

static bool is_ours(const char *name, uint32_t of_boot)
{
	size_t n = strlen(PREFIX);
	char want[BOOT_DIGITS + 2];

	snprintf(want, sizeof(want), "%08x-", of_boot);
	if (strncmp(name, PREFIX, n) != 0 || strncmp(name + n, want, sizeof(want) - 1) != 0)
		return false;
	name += n + sizeof(want) - 1;
	return strlen(name) == RANDOM_DIGITS && strspn(name, "0123456789abcdef") == RANDOM_DIGITS;
}

static void remember_locked(struct sf_atomic_file *f, char *name)
{
	f->name = name;
	f->prev = NULL;
	f->next = names.first;
	if (f->next)
		f->next->prev = f;
	names.first = f;
}

static void forget_locked(struct sf_atomic_file *f)
{
	if (!f->name)
		return;
	if (f->prev)
		f->prev->next = f->next;
	else
		names.first = f->next;
	if (f->next)
		f->next->prev = f->prev;
	free(f->name);
	f->name = NULL;
}

/* A lock that the next process could not take while we live. False: a sweeper has its eye on it. */
static bool lock_alive(int fd)
{
	struct stat st;

	if (flock(fd, LOCK_EX | LOCK_NB) < 0 && errno == EWOULDBLOCK)
		return false;
	return fstat(fd, &st) == 0 && st.st_nlink > 0;
}

static int open_named(struct sf_atomic_file *f, const char *dir, const char *path,
                      struct sf_error *err)
{
	int r = -EEXIST;

	while (r == -EEXIST) {
		char *name = make_name(dir);
		if (!name)
			return sf_fail(err, -ENOMEM, "'%s'", path);
		pthread_mutex_lock(&names.m);
		f->fd = open(name, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0666);
		r = f->fd < 0 ? -errno : 0;
		if (r == 0 && !lock_alive(f->fd)) {
			close(f->fd); /* swept in the moment before it was locked */
			f->fd = -1;
			r = -EEXIST;
		}
		if (r == 0)
			remember_locked(f, SF_STEAL(name));
		pthread_mutex_unlock(&names.m);
		free(name);
	}
	return r < 0 ? sf_fail(err, r, "'%s': a file in '%s': %s", path, dir, strerror(-r)) : 0;
}

/* How a file without a name is called for linkat(). */
static void proc_name(int fd, char text[40])
{
	snprintf(text, 40, "/proc/self/fd/%d", fd);
}

/* Without /proc it could never be linked. */
static bool can_be_linked(int fd)
{
	static _Atomic bool there;
	char proc[40];

	if (!atomic_load_explicit(&there, memory_order_relaxed)) {
		proc_name(fd, proc);
		atomic_store(&there, access(proc, F_OK) == 0);
	}
	return there;
}

int sf_atomic_file_open(struct sf_atomic_file *f, const char *path, struct sf_error *err)
{
	SF_FREE char *dir = sf_dir_there(path);

	*f = (struct sf_atomic_file)SF_ATOMIC_FILE_INIT;
	if (!dir)
		return sf_fail(err, -ENOMEM, "'%s'", path);
	f->fd = open(dir, O_TMPFILE | O_RDWR | O_CLOEXEC, 0666);
	if (f->fd >= 0) {
		if (can_be_linked(f->fd))
			return 0;
		close(f->fd);
	} else if (errno != EOPNOTSUPP && errno != EISDIR && errno != EINVAL) {
		return sf_fail(err, -errno, "'%s': a file in '%s': %s", path, dir, strerror(errno));
	}
	f->fd = -1;
	return open_named(f, dir, path, err);
}

/* File systems that cannot say EINVAL. */
static int sync_fd(int fd, const char *name, struct sf_error *err)
{
	if (fsync(fd) < 0 && errno != EINVAL && errno != EROFS)
		return sf_fail_errno(err, "'%s'", name);
	return 0;
}

int sf_atomic_file_sync(struct sf_atomic_file *f, const char *path, struct sf_error *err)
{
	return sync_fd(f->fd, path, err);
}

int sf_sync_dir_of(const char *path, struct sf_error *err)
{
	SF_FREE char *dir = sf_dir_of(path);
	int fd = dir ? open(dir, O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1;

	if (!dir)
		return sf_fail(err, -ENOMEM, "'%s'", path);
	if (fd < 0)
		return sf_fail_errno(err, "'%s'", dir);
	int r = sync_fd(fd, dir, err);
	close(fd);
	return r;
}

/* What is made stands on disk before anything is in it. */
static int make_parents(const char *path, struct sf_error *err)
{
	SF_FREE char *copy = strdup(path);

	if (!copy)
		return sf_fail(err, -ENOMEM, "'%s'", path);
	for (char *c = copy + 1; *copy && *c; c++) {
		if (*c != '/')
			continue;
		*c = 0;
		int r = mkdir(copy, 0777) < 0 ? -errno : sf_sync_dir_of(copy, err);
		if (r < 0 && r != -EEXIST)
			return sf_fail(err, r, "'%s': %s", copy, strerror(-r));
		*c = '/';
	}
	return 0;
}

/* rename() that refuses what is there; link() does the same where the system call or the file
 * system lacks it. */
static int rename_new(const char *from, const char *to)
{
	if (renameat2(AT_FDCWD, from, AT_FDCWD, to, RENAME_NOREPLACE) == 0)
		return 0;
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	if (link(from, to) == 0) {
		unlink(from);
		return 0;
	}
	if (errno != EPERM && errno != EOPNOTSUPP && errno != ENOSYS)
		return -errno;
	/* a file system without hard links either */
	if (access(to, F_OK) == 0)
		return -EEXIST;
	return rename(from, to) < 0 ? -errno : 0;
}

/* A temporary name for a moment: linkat() cannot replace, rename() needs a name. */
static int name_it_locked(struct sf_atomic_file *f, const char *path, const char *proc)
{
	SF_FREE char *dir = sf_dir_of(path);
	int r = -EEXIST;

	while (r == -EEXIST) {
		char *name = dir ? make_name(dir) : NULL;
		if (!name)
			return -ENOMEM;
		(void)flock(f->fd, LOCK_EX | LOCK_NB); /* nobody else has it open */
		r = linkat(AT_FDCWD, proc, AT_FDCWD, name, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
		if (r == 0)
			remember_locked(f, SF_STEAL(name));
		free(name);
	}
	return r;
}

static int publish_locked(struct sf_atomic_file *f, const char *path, bool force)
{
	char proc[40];
	int r;

	if (!f->name) {
		proc_name(f->fd, proc);
		r = linkat(AT_FDCWD, proc, AT_FDCWD, path, AT_SYMLINK_FOLLOW) < 0 ? -errno : 0;
		if (r != -EEXIST || !force)
			return r;
		r = name_it_locked(f, path, proc);
		if (r < 0)
			return r;
	}
	r = force ? (rename(f->name, path) < 0 ? -errno : 0) : rename_new(f->name, path);
	if (r < 0)
		unlink(f->name);
	forget_locked(f);
	return r;
}

int sf_atomic_file_publish(struct sf_atomic_file *f, const char *path, bool force,
                           struct sf_error *err)
{
	int r = make_parents(path, err);

	if (r >= 0) {
		pthread_mutex_lock(&names.m);
		r = publish_locked(f, path, force);
		pthread_mutex_unlock(&names.m);
		if (r < 0)
			sf_fail(err, r, "'%s': %s", path, strerror(-r));
	}
	/* the lock goes with the descriptor; what it wrote was synced, so close has no news */
	sf_atomic_file_drop(f);
	return r;
}

void sf_atomic_file_drop(struct sf_atomic_file *f)
{
	pthread_mutex_lock(&names.m);
	if (f->name)
		unlink(f->name);
	forget_locked(f);
	pthread_mutex_unlock(&names.m);
	if (f->fd >= 0)
		close(f->fd);
	f->fd = -1;
}

void sf_atomic_file_drop_names(void)
{
	pthread_mutex_lock(&names.m);
	for (struct sf_atomic_file *f = names.first; f; f = f->next)
		unlink(f->name);
	/* m stays locked: nobody goes on from here */
}

/* The lock is taken, so the writer is dead, or was never one of ours. */
static void sweep_one(int dir, const char *name)
{
	struct stat st, there;
	int fd = openat(dir, name, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0)
		return;
	if (fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_uid == geteuid() &&
	    st.st_nlink == 1 && flock(fd, LOCK_EX | LOCK_NB) == 0 &&
	    fstatat(dir, name, &there, AT_SYMLINK_NOFOLLOW) == 0 && there.st_ino == st.st_ino &&
	    there.st_dev == st.st_dev)
		unlinkat(dir, name, 0);
	close(fd);
}

void sf_atomic_file_sweep(const char *path)
{
	SF_FREE char *name = sf_dir_there(path);
	DIR *dir = name ? opendir(name) : NULL;
	uint32_t now = boot();
	struct dirent *e;

	while (dir && (e = readdir(dir)))
		if (is_ours(e->d_name, now))
			sweep_one(dirfd(dir), e->d_name);
	if (dir)
		closedir(dir);
}
