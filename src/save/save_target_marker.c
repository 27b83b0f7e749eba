#include "config.h"

#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/file.h>
#include <unistd.h>

#include "base/iov.h"
#include "base/mem.h"
#include "save/save_target_priv.h"

/* "shardfuse save 2\nTOKEN\nDEV INO BORN\nNAME": the name last, it may hold anything. */
#define FORM "shardfuse save 2\n%s\n%llu %llu %llu\n%s"

void sf_target_unlock(int *fd)
{
	if (*fd < 0)
		return;
	(void)flock(*fd,
	            LOCK_UN); /* for all who have it open: a forked child must not hold it on */
	close(*fd);
	*fd = -1;
}

/* Where locks are not to be had, nobody's save is known to live. */
static bool lock(int fd)
{
	return flock(fd, LOCK_EX | LOCK_NB) == 0 || errno != EWOULDBLOCK;
}

int sf_target_mark(struct sf_target_dir *t, struct sf_error *err)
{
	char text[SF_TARGET_MARKER_MAX];
	int n = snprintf(text, sizeof(text), FORM, t->token, (unsigned long long)t->old_dev,
	                 (unsigned long long)t->old_ino, (unsigned long long)t->old_born, t->name);
	int fd = openat(t->dir, SF_TARGET_MARKER,
	                O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0666);

	if (fd < 0)
		return sf_fail_errno(err, "'%s-tmp/%s'", t->path, SF_TARGET_MARKER);
	struct iovec iov = { text, (size_t)n };
	int r = lock(fd) ? sf_pwritev_all(fd, &iov, 1, 0) : -EBUSY;
	/* so that others see it on a network file system, which writes back on its own time */
	if (r == 0 && fsync(fd) < 0 && errno != EINVAL)
		r = -errno;
	if (r < 0) {
		sf_target_unlock(&fd);
		return sf_fail(err, r, "'%s-tmp/%s': %s", t->path, SF_TARGET_MARKER, strerror(-r));
	}
	t->marker = fd;
	return 0;
}

/* False: it was written by half, or is another's. */
static bool parse(const struct sf_target_dir *t, char *text, struct sf_target_marker *m)
{
	int at = 0;

	if (sscanf(text, "shardfuse save 2\n%32[0-9a-f]\n%llu %llu %llu%n", m->token, &m->dev,
	           &m->ino, &m->born, &at) != 4)
		return false;
	return strlen(m->token) == 32 && text[at] == '\n' && strcmp(text + at + 1, t->name) == 0;
}

int sf_target_marker_read(const struct sf_target_dir *t, int dir, bool take_lock,
                          struct sf_target_marker *ret, struct sf_error *err)
{
	char text[SF_TARGET_MARKER_MAX];
	struct sf_target_marker m = { .fd = -1 };
	int fd = openat(dir, SF_TARGET_MARKER, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);

	if (fd < 0 && errno != ENOENT)
		return sf_fail_errno(err, "'%s': its %s", t->path, SF_TARGET_MARKER);
	if (fd >= 0) {
		ssize_t n = pread(fd, text, sizeof(text) - 1, 0);
		m.there = true;
		if (n < 0) {
			int r = sf_fail_errno(err, "'%s': its %s", t->path, SF_TARGET_MARKER);
			close(fd);
			return r;
		}
		text[n] = 0;
		m.ours = strlen(text) == (size_t)n && parse(t, text, &m);
		m.live = take_lock && !lock(fd);
		if (take_lock && !m.live)
			m.fd = fd;
		else
			close(fd);
	}
	*ret = m;
	return 0;
}
