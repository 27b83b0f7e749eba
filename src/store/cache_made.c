#include "config.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/cache.h"
#include "store/cache_dir.h"
#include "store/cache_file.h"
#include "store/cache_made.h"
#include "store/cache_space.h"
#include "store/cache_sweep.h"

#define LOOK_EVERY (UINT64_C(64) << 20) /* bytes between two looks at how much is free */
#define YOUNG_S 60

static void file_name(char buf[80], const char *name, const char *suffix)
{
	snprintf(buf, 80, "%s%s", name, suffix);
}

static int say(const struct sf_cache_made *m, struct sf_error *err)
{
	return sf_fail_errno(err, "cache directory '%s'", m->path);
}

/* One that is there is used now. */
static bool open_ready(struct sf_cache_made *m)
{
	char file[80];
	struct stat st;
	int fd;

	file_name(file, m->name, SF_CACHE_DATA);
	fd = openat(m->dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return false;
	if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode) || st.st_uid != geteuid()) {
		close(fd);
		return false;
	}
	(void)futimens(fd, NULL);
	m->bytes = (uint64_t)st.st_size;
	m->fd = fd;
	return true;
}

/* Without a name where the file system can, else with one that a sweep knows for its own. */
static int open_new(struct sf_cache_made *m, struct sf_error *err)
{
	uint8_t random[SF_CACHE_NAME / 2];

	m->fd = openat(m->dir, ".", O_TMPFILE | O_RDWR | O_CLOEXEC, 0600);
	if (m->fd >= 0)
		return 0;
	if (getrandom(random, sizeof(random), 0) != sizeof(random))
		return say(m, err);
	for (size_t i = 0; i < sizeof(random); i++)
		snprintf(m->temp + 2 * i, 3, "%02x", random[i]);
	strcpy(m->temp + SF_CACHE_NAME, SF_CACHE_DATA);
	m->fd = openat(m->dir, m->temp, O_RDWR | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC, 0600);
	if (m->fd >= 0)
		return 0;
	m->temp[0] = '\0';
	return say(m, err);
}

static int where(struct sf_cache_made *m, const struct sf_store_options *opt, struct sf_error *err)
{
	int r = 0;

	m->limit = opt && opt->cache_size_given ? opt->cache_size : SF_CACHE_SIZE_DEFAULT;
	if (!m->limit)
		return sf_fail(err, -ENOSPC,
		               "it is packed, and what is inside goes into the cache directory, "
		               "where --cache-size=0 leaves nothing");
	if (!opt || !opt->cache_dir)
		r = sf_cache_dir_default(&m->path, err);
	else if (!(m->path = strdup(opt->cache_dir)))
		r = sf_fail(err, -ENOMEM, "cache directory: no memory");
	return r < 0 ? r : sf_cache_dir_open(m->path, &m->dir, err);
}

int sf_cache_made_open(struct sf_cache_made *m, const struct sf_store_options *opt,
                       const struct sf_cache_id *id, struct sf_error *err)
{
	int r;

	*m = (struct sf_cache_made){ .dir = -1, .fd = -1 };
	r = where(m, opt, err);
	if (r >= 0 && id && sf_cache_head_put(id, m->head) >= 0) {
		r = sf_cache_name(id, m->name);
		if (r < 0)
			sf_fail(err, r, "cache directory '%s': no memory", m->path);
		m->named = r >= 0;
	}
	if (r >= 0 && m->named && open_ready(m))
		return 1;
	if (r >= 0)
		r = open_new(m, err);
	if (r < 0)
		sf_cache_made_drop(m);
	return r;
}

/* What others have there goes, the oldest first, as far as it must. */
static int make_room(struct sf_cache_made *m, struct sf_error *err)
{
	struct sf_cache_space space;
	struct sf_cache_sweep sweep = { .limit = m->limit - m->bytes, .young_s = YOUNG_S };
	char why[SF_CACHE_WHY_MAX];
	int r = sf_cache_space(m->dir, &space);

	if (r < 0)
		return sf_fail(err, r, "cache directory '%s': %s", m->path, strerror(-r));
	sweep.floor = space.floor;
	r = sf_cache_sweep(m->dir, &sweep, err);
	if (r < 0)
		return r;
	if (sf_cache_space(m->dir, &space) >= 0 && sf_cache_space_lack(&space, why, sizeof(why)))
		return sf_fail(err, -ENOSPC, "cache directory '%s': %s", m->path, why);
	m->looked = m->bytes;
	return 0;
}

int sf_cache_made_write(struct sf_cache_made *m, const void *at, size_t len, struct sf_error *err)
{
	const char *p = at;
	int r = 0;

	if (len > m->limit - m->bytes)
		return sf_fail(err, -EFBIG,
		               "it has more than %" PRIu64
		               " bytes inside, all that the cache may have (--cache-size)",
		               m->limit);
	if (!m->bytes || m->bytes - m->looked >= LOOK_EVERY)
		r = make_room(m, err);
	while (r >= 0 && len) {
		ssize_t n = write(m->fd, p, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return say(m, err);
		p += n;
		len -= (size_t)n;
		m->bytes += (uint64_t)n;
	}
	return r;
}

/* Its name, @file. Another process may have been first: then that one is as good. */
static int publish(struct sf_cache_made *m, const char *file, struct sf_error *err)
{
	char self[64];

	if (m->temp[0]) {
		if (renameat(m->dir, m->temp, m->dir, file) != 0)
			return say(m, err);
		m->temp[0] = '\0';
		return 0;
	}
	snprintf(self, sizeof(self), "/proc/self/fd/%d", m->fd);
	if (linkat(AT_FDCWD, self, m->dir, file, AT_SYMLINK_FOLLOW) != 0 && errno != EEXIST)
		return say(m, err);
	return 0;
}

static void put_map(const struct sf_cache_made *m)
{
	char file[80];
	int fd;

	file_name(file, m->name, SF_CACHE_MAP);
	fd = openat(m->dir, file,
	            O_WRONLY | O_CREAT | O_TRUNC | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC, 0600);
	if (fd < 0)
		return; /* then only what drops all drops it */
	if (write(fd, m->head, sizeof(m->head)) != (ssize_t)sizeof(m->head))
		(void)unlinkat(m->dir, file, 0);
	close(fd);
}

int sf_cache_made_end(struct sf_cache_made *m, struct sf_error *err)
{
	char file[80];

	if (!m->named) {
		if (m->temp[0] && unlinkat(m->dir, m->temp, 0) != 0)
			return say(m, err);
		m->temp[0] = '\0';
		return 0;
	}
	/* a name that outlives a power cut must not stand for bytes that did not */
	if (fdatasync(m->fd) != 0 && errno != EINVAL && errno != EROFS)
		return say(m, err);
	file_name(file, m->name, SF_CACHE_DATA);
	put_map(m);
	return publish(m, file, err);
}

void sf_cache_made_drop(struct sf_cache_made *m)
{
	if (m->temp[0])
		(void)unlinkat(m->dir, m->temp, 0);
	if (m->fd >= 0)
		close(m->fd);
	if (m->dir >= 0)
		close(m->dir);
	free(m->path);
	*m = (struct sf_cache_made){ .dir = -1, .fd = -1 };
}
