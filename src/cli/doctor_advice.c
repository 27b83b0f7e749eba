#include "config.h"

#include <dirent.h>
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <sys/statvfs.h>

#include "base/mem.h"
#include "base/near.h"
#include "base/buf.h"
#include "cli/doctor_advice.h"
#include "store/store.h"
#include "store/url.h"

#define NEAR_MOST 5       /* names that are shown of those near */
#define LOOKED_AT 100000u /* entries of a directory */

static char *text(const char *s)
{
	return strdup(s);
}

static char *made(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
static char *made(const char *fmt, ...)
{
	char *s = NULL;
	va_list ap;

	va_start(ap, fmt);
	if (vasprintf(&s, fmt, ap) < 0)
		s = NULL;
	va_end(ap);
	return s;
}

/* ---- URLs ---- */

static char *of_scheme(const char *source, size_t len)
{
	const char *near = sf_store_near_scheme(source, len);
	SF_FREE char *shown = sf_url_shown(source);

	if (!near)
		return text("a path, or a URL that begins with http://, https://, s3://, gs:// or "
		            "file://; what lies elsewhere has to be copied or mounted first");
	return made("is %s%.300s meant?", near, shown && strlen(shown) > len ? shown + len : "://");
}

/* A path "s3:/b" or "https//h" that is not there: it was to be a URL. */
static char *of_slashes(const char *source)
{
	const char *scheme;

	for (size_t i = 0; (scheme = sf_store_scheme(i)); i++) {
		size_t n = strlen(scheme);
		const char *at = source + n;

		if (strncasecmp(source, scheme, n) != 0 ||
		    (*at != ':' && strncmp(at, "//", 2) != 0))
			continue;
		SF_FREE char *meant = made("%s://%s", scheme, at + strspn(at, ":/"));
		SF_FREE char *shown = meant ? sf_url_shown(meant) : NULL;
		return made("is a URL meant? %.300s", shown ? shown : "");
	}
	return NULL;
}

/* ---- paths ---- */

/* Of a mount that is dead the kernel may still know what its root is, not how full it is. */
static bool fails_with(const char *path, int code)
{
	struct statvfs fs;
	struct stat st;

	return (code == ENOENT ? stat(path, &st) : statvfs(path, &fs)) < 0 && errno == code;
}

/* The first part of @path that fails with @code; the whole where none does. */
static char *first_with(const char *path, int code)
{
	SF_FREE char *at = strdup(path);

	for (char *slash = at; slash && (slash = strchr(slash + 1, '/'));) {
		*slash = '\0';
		if (fails_with(at, code))
			return SF_STEAL(at);
		*slash = '/';
	}
	return SF_STEAL(at);
}

/* Names in directory @dir that are near @name, for a message. */
static void put_near(struct sf_buf *to, const char *dir, const char *name)
{
	DIR *d = opendir(dir);
	struct dirent *e;
	unsigned n = 0, looked = 0;

	while (d && n < NEAR_MOST && looked++ < LOOKED_AT && (e = readdir(d)))
		if (*e->d_name != '.' &&
		    sf_is_near(name, strlen(name), e->d_name, strlen(e->d_name)))
			sf_buf_printf(to, "%s%s", n++ ? ", " : "", e->d_name);
	if (d)
		closedir(d);
}

/* Nothing has that name: what of it is there, and what is called nearly so. */
static char *of_missing(const char *path)
{
	SF_CLEANUP(sf_buf_release) struct sf_buf near = { .limit = 4096 };
	SF_FREE char *missing = first_with(path, ENOENT);
	struct stat st;

	if (!missing)
		return NULL;
	if (lstat(missing, &st) == 0)
		return made("it is a link to what is not there: readlink %s", missing);
	char *slash = strrchr(missing, '/'), *name = slash ? slash + 1 : missing;
	const char *dir = !slash ? "." : slash == missing ? "/" : missing;
	if (slash && slash != missing)
		*slash = '\0';
	put_near(&near, dir, name);
	if (near.len)
		return made("near in %s: %s", dir, sf_buf_cstr(&near));
	SF_FREE char *shown = sf_url_shown(name);
	return made("nothing is called '%s' in %s: ls %s shows what is there", shown ? shown : "",
	            dir, dir);
}

static char *of_path(const char *path, int r)
{
	SF_FREE char *at = NULL;
	char *advice;

	switch (-r) {
	case ENOENT:
		advice = of_slashes(path);
		return advice ? advice : of_missing(path);
	case ENOTCONN:
	case ECONNABORTED:
		at = first_with(path, -r);
		return made("whatever served the mount at %s has ended: shardfuse umount %s (or "
		            "fusermount3 -uz), then mount it again",
		            at ? at : path, at ? at : path);
	case EACCES:
	case EPERM:
		return made("this user may not go there: namei -l %s shows where", path);
	case ELOOP:
		return made("links go in a circle: namei %s shows where", path);
	case ESTALE:
		return text("the file server has it no longer: unmount it and mount it again");
	case EIO:
	case EHOSTDOWN:
	case ETIMEDOUT:
	case EHOSTUNREACH:
		return text("the disk or the file server does not answer: dmesg says more");
	case EMFILE:
	case ENFILE:
		return text("too many files are open: ulimit -n");
	default:
		return NULL;
	}
}

/* ---- what lies there ---- */

/* @source without its last part. */
static char *above(const char *source)
{
	SF_FREE char *shown = sf_url_shown(source);
	size_t scheme = sf_url_scheme(source), n = shown ? strlen(shown) : 0;
	size_t least = scheme ? scheme + 3 : 0;

	while (n > least + 1 && shown[n - 1] == '/')
		n--;
	while (n > least && shown[n - 1] != '/')
		n--;
	while (n > least + 1 && shown[n - 1] == '/')
		n--;
	return n > least ? strndup(shown, n) : NULL;
}

static char *of_checkpoint(const char *source, int r, const char *msg)
{
	SF_FREE char *dir = above(source);

	if (strstr(msg, "give its directory"))
		return dir ? made("SOURCE is the directory: %s", dir)
		           : text("SOURCE is the directory: .");
	if (strstr(msg, "not committed"))
		return text("its save has not ended, or never will: wait for it, or take the step "
		            "before");
	if (strstr(msg, ": name "))
		return text("SOURCE is the one that is named");
	if (strstr(msg, "not a regular file"))
		return text("SOURCE is a directory with a checkpoint's files, or one of those files");
	switch (-r) {
	case ENOENT:
		return text("SOURCE is the directory with the checkpoint's own files: one level up "
		            "or down?");
	case ENOTDIR:
		return text("SOURCE is a directory with a checkpoint's files, or one of those files");
	case EBADMSG:
		return text("it is damaged, or the copy of it was cut: compare the files' sizes "
		            "with those where it comes from");
	case ENOTSUP:
		return text("man shardfuse has what is read");
	case EACCES:
	case EPERM:
		return text("this user may not read its files: ls -l shows who may");
	case ESTALE:
		return text("somebody writes there just now: run it again");
	case ENOMEM:
	case E2BIG:
		return text("--memory SIZE allows more; man shardfuse has the limits");
	default:
		return text("the message names what was read: look at that by hand");
	}
}

/* Of file://, a path as paths are written; NULL: it is none. */
static char *path_of(const char *source)
{
	SF_FREE char *path = strdup(source + strlen("file://"));

	return path && *path == '/' && sf_url_decode(path) ? SF_STEAL(path) : NULL;
}

char *sf_doctor_advice(const char *source, bool opened, int r, const char *msg)
{
	size_t scheme = sf_url_scheme(source);
	bool file = scheme == 4 && strncasecmp(source, "file", 4) == 0;
	SF_FREE char *path = file ? path_of(source) : scheme ? NULL : strdup(source);
	char *advice = NULL;

	if (scheme && !file && r == -ENOTSUP && !opened)
		return of_scheme(source, scheme);
	if (path && (!opened || r == -ENOTCONN || r == -ECONNABORTED))
		advice = of_path(path, r);
	return advice ? advice : of_checkpoint(source, r, msg);
}
