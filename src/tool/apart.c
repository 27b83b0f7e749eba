#include "config.h"

#include <errno.h>
#include <fts.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/atomic_file.h"
#include "base/mem.h"
#include "store/url.h"
#include "tool/apart.h"

/* What its path will be, without symbolic links. */
static int real_target(const char *target, char **ret, struct sf_error *err)
{
	SF_FREE char *plain = strdup(target);
	char *real = realpath(target, NULL);
	size_t len = plain ? strlen(plain) : 0;

	if (!real && plain && errno == ENOENT) {
		while (len > 1 && plain[len - 1] == '/')
			plain[--len] = '\0';
		SF_FREE char *dir = sf_dir_of(plain);
		SF_FREE char *above = dir ? realpath(dir, NULL) : NULL;
		const char *name = strrchr(plain, '/');
		if (dir && !above)
			return sf_fail_errno(err, "directory '%s'", dir);
		if (above && asprintf(&real, "%s/%s", strcmp(above, "/") == 0 ? "" : above,
		                      name ? name + 1 : plain) < 0)
			real = NULL;
	} else if (!real && plain) {
		return sf_fail_errno(err, "'%s'", target);
	}
	*ret = real;
	return real ? 0 : sf_fail(err, -ENOMEM, "'%s'", target);
}

/* @path is @dir, or lies in it; @dir_len of "/" is 0. */
static bool is_within(const char *path, const char *dir, size_t dir_len)
{
	return strncmp(path, dir, dir_len) == 0 && (path[dir_len] == '/' || !path[dir_len]);
}

static size_t length(const char *dir)
{
	return strcmp(dir, "/") == 0 ? 0 : strlen(dir);
}

struct inode {
	uint64_t dev, ino;
};

static int by_inode(const void *a, const void *b)
{
	const struct inode *x = a, *y = b;

	return x->dev != y->dev ? (x->dev > y->dev) - (x->dev < y->dev)
	                        : (x->ino > y->ino) - (x->ino < y->ino);
}

/* A file below @dir that is one of the @n. */
static int check_files(char *dir, const struct inode *at, size_t n, struct sf_error *err)
{
	char *dirs[2] = { dir, NULL };
	FTS *walk = fts_open(dirs, FTS_PHYSICAL | FTS_NOCHDIR | FTS_XDEV, NULL);
	FTSENT *e;
	int r = 0;

	if (!walk)
		return sf_fail_errno(err, "'%s'", dir);
	while (r >= 0 && (e = fts_read(walk)) != NULL) {
		if (e->fts_info != FTS_F)
			continue;
		const struct inode there = { e->fts_statp->st_dev, e->fts_statp->st_ino };
		if (bsearch(&there, at, n, sizeof(*at), by_inode))
			r = sf_fail(err, -EINVAL,
			            "'%s' is a file of the checkpoint that is read: not replaced",
			            e->fts_path);
	}
	fts_close(walk);
	return r;
}

static int check_listing(const struct sf_ckpt *k, char *dir, struct sf_error *err)
{
	SF_FREE struct inode *at = sf_alloc_array(k->nlisting, sizeof(*at));
	size_t n = 0;

	if (!at)
		return sf_fail(err, -ENOMEM, "no memory for %u names", k->nlisting);
	for (uint32_t i = 0; i < k->nlisting; i++)
		if (k->listing[i].info.version.ino)
			at[n++] = (struct inode){ k->listing[i].info.version.dev,
				                  k->listing[i].info.version.ino };
	if (n)
		qsort(at, n, sizeof(*at), by_inode);
	return n ? check_files(dir, at, n, err) : 0;
}

/* What a save of the target removes, besides what is there. */
static int check_aside(const struct sf_session *s, const char *to, const char *suffix,
                       const char *target, struct sf_error *err)
{
	const char *from = s->store->source;
	SF_FREE char *aside = NULL;

	if (asprintf(&aside, "%s%s", to, suffix) < 0)
		return sf_fail(err, -ENOMEM, "'%s'", target);
	if (is_within(from, aside, strlen(aside)))
		return sf_fail(err, -EINVAL, "'%s', which is read, is within '%s%s', which goes",
		               from, target, suffix);
	return check_listing(s->ckpt, aside, err);
}

static int check_names(const char *from, const char *to, const char *target, struct sf_error *err)
{
	if (strcmp(from, to) == 0)
		return sf_fail(err, -EINVAL, "'%s' is what is read: name another target", target);
	if (is_within(to, from, length(from)))
		return sf_fail(err, -EINVAL, "'%s' is within '%s', which is read", target, from);
	if (is_within(from, to, length(to)))
		return sf_fail(err, -EINVAL, "'%s', which is read, is within '%s'", from, target);
	return 0;
}

/* As stores show themselves, without a '/' at the end. */
static int check_urls(const char *from, const char *target, struct sf_error *err)
{
	SF_FREE char *to = sf_url_shown(target);
	SF_FREE char *plain = strdup(from);

	if (!to || !plain)
		return sf_fail(err, -ENOMEM, "no memory for the target's name");
	for (char *s = to;; s = plain) {
		for (size_t n = strlen(s); n && s[n - 1] == '/';)
			s[--n] = '\0';
		if (s == plain)
			break;
	}
	return check_names(plain, to, to, err);
}

int sf_apart_check(const struct sf_session *s, const char *target, struct sf_error *err)
{
	SF_FREE char *to = NULL;
	const char *from = s->store->source;
	int r;

	if (sf_url_scheme(target))
		return sf_url_scheme(from) ? check_urls(from, target, err) : 0;
	r = real_target(target, &to, err);
	if (r < 0 || sf_url_scheme(from))
		return r;
	r = check_names(from, to, target, err);
	if (r >= 0)
		r = check_listing(s->ckpt, to, err);
	if (r >= 0)
		r = check_aside(s, to, "-tmp", target, err);
	return r < 0 ? r : check_aside(s, to, "-old", target, err);
}
