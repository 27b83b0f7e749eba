#include "config.h"

#include <dirent.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/mem.h"
#include "store/cache_dir.h"
#include "store/cache_drop.h"
#include "store/cache_priv.h"
#include "store/cache_sweep.h"

static void count(void *arg, const char *name)
{
	struct sf_cache_dropped *d = arg;

	(void)name;
	d->objects++;
}

/* All of it is a sweep that nothing is left of. */
static int drop_all(int dir, struct sf_cache_dropped *d, struct sf_error *err)
{
	struct sf_cache_sweep s = { .limit = 0, .removed = count, .arg = d };
	int r = sf_cache_sweep(dir, &s, err);

	d->bytes = s.freed;
	return r;
}

static bool is_below(const char *url, const char *source)
{
	size_t n = strlen(source);

	while (n && source[n - 1] == '/')
		n--;
	return n && strncmp(url, source, n) == 0 && (url[n] == '/' || !url[n]);
}

/* An object's words are "SOURCE/NAME", or "AT SOURCE/NAME". */
static bool is_of(const char *url, const char *source)
{
	const char *space = strchr(url, ' ');

	if (!strstr(source, "://"))
		return false; /* it might be what follows a space in a name */
	return is_below(url, source) || (space && is_below(space + 1, source));
}

static bool map_is_of(int dir, const char *file, const char *source)
{
	SF_FREE uint8_t *head = malloc(SF_CACHE_HEAD);
	int fd = openat(dir, file, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	struct sf_cache_id id;
	bool is = false;

	if (fd < 0)
		return false;
	if (head && pread(fd, head, SF_CACHE_HEAD, 0) == SF_CACHE_HEAD)
		is = sf_cache_head_get(head, &id) >= 0 && is_of(id.url, source);
	close(fd);
	return is;
}

static uint64_t bytes_of(int dir, const char *name, const char *suffix)
{
	char file[80];
	struct stat st;

	snprintf(file, sizeof(file), "%s%s", name, suffix);
	return fstatat(dir, file, &st, AT_SYMLINK_NOFOLLOW) == 0 ? (uint64_t)st.st_blocks * 512 : 0;
}

/* @c: whose process lets go of them; NULL: nobody's. */
static int drop_of(int dir, const char *source, struct sf_cache *c, struct sf_cache_dropped *d,
                   struct sf_error *err)
{
	int fd = openat(dir, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC), r = 0;
	DIR *all = fd >= 0 ? fdopendir(fd) : NULL;
	struct dirent *e;

	if (!all) {
		r = sf_fail_errno(err, "cache directory");
		if (fd >= 0)
			close(fd);
		return r;
	}
	while (errno = 0, (e = readdir(all))) {
		char name[SF_CACHE_NAME + 1];
		if (strlen(e->d_name) != SF_CACHE_NAME + strlen(SF_CACHE_MAP) ||
		    strcmp(e->d_name + SF_CACHE_NAME, SF_CACHE_MAP) != 0 ||
		    !map_is_of(dir, e->d_name, source))
			continue;
		memcpy(name, e->d_name, SF_CACHE_NAME);
		name[SF_CACHE_NAME] = '\0';
		d->bytes += bytes_of(dir, name, SF_CACHE_DATA) + bytes_of(dir, name, SF_CACHE_MAP);
		d->objects++;
		sf_cache_file_remove(dir, name);
		if (c)
			sf_cache_forget(c, name);
	}
	if (errno)
		r = sf_fail_errno(err, "cache directory");
	closedir(all);
	return r;
}

int sf_cache_drop_store(struct sf_cache *c, const struct sf_store *s, struct sf_cache_dropped *ret,
                        struct sf_error *err)
{
	struct sf_cache_dropped d = { 0 };
	SF_FREE char *words = sf_cache_words(s);
	int r;

	if (!words)
		return sf_fail(err, -ENOMEM, "'%s': no memory", s->source);
	r = drop_of(c->dir, words, c, &d, err);
	if (r >= 0)
		*ret = d;
	sf_cache_recount(c);
	return r;
}

/* 1: *ret_dir is open; 0: it is not there. *own: the path's memory, where it is the user's own. */
static int open_path(const char **path, char **own, int *ret_dir, struct sf_error *err)
{
	int r = 0;

	if (!*path) {
		r = sf_cache_dir_default(own, err);
		*path = *own;
	}
	if (r < 0)
		return r;
	if (access(*path, F_OK) != 0)
		return errno == ENOENT ? 0 : sf_fail_errno(err, "cache directory '%s'", *path);
	r = sf_cache_dir_open(*path, ret_dir, err);
	return r < 0 ? r : 1;
}

int sf_cache_drop_look(const char *path, struct sf_cache_dropped *ret, char **ret_path,
                       struct sf_error *err)
{
	struct sf_cache_sweep s = { .limit = UINT64_MAX };
	SF_FREE char *own = NULL;
	int dir, r = open_path(&path, &own, &dir, err);

	if (r > 0) {
		r = sf_cache_sweep(dir, &s, err);
		close(dir);
	}
	if (r >= 0 && ret_path && !(*ret_path = strdup(path)))
		r = sf_fail(err, -ENOMEM, "cache directory: no memory");
	if (r >= 0)
		*ret = (struct sf_cache_dropped){ s.objects, s.kept };
	return r;
}

int sf_cache_drop(const char *path, const char *source, struct sf_cache_dropped *ret,
                  struct sf_error *err)
{
	struct sf_cache_dropped d = { 0 };
	SF_FREE char *own = NULL;
	int dir, r;

	if (source && strstr(source, "://…"))
		return sf_fail(err, -EINVAL,
		               "'%s': what of this URL may be a password is not kept, so what is "
		               "of it cannot be told from what is of others",
		               source);
	r = open_path(&path, &own, &dir, err);
	if (r > 0) {
		r = source ? drop_of(dir, source, NULL, &d, err) : drop_all(dir, &d, err);
		close(dir);
	}
	if (r >= 0)
		*ret = d;
	return SF_MIN(r, 0);
}
