#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/mem.h"
#include "base/path.h"
#include "format/format_unread.h"
#include "format/inside/inside_priv.h"
#include "store/url.h"

#define LINK_MAX 4096 /* bytes of a NAME.symlink */
#define LINKS_MAX 8   /* that lead to another */

/* A SOURCE as the directory that it is in and the name it has there. */
struct split {
	char *dir, *name;
};

static void split_release(struct split *s)
{
	free(s->dir);
	free(s->name);
}

/* Where the name begins, of a path or a URL without its query; 0: it has none. */
static size_t name_at(const char *source, size_t len)
{
	size_t scheme = sf_url_scheme(source), from = scheme ? scheme + 3 : 0, i = len;

	while (i > from && source[i - 1] != '/')
		i--;
	return scheme && i <= from ? 0 : i; /* a host alone */
}

static bool is_web(const char *source)
{
	return strncasecmp(source, "http://", 7) == 0 || strncasecmp(source, "https://", 8) == 0;
}

/* @at: where the name begins, or the template; 0 and a name: "." */
static int split_at(const char *source, size_t at, size_t end, struct split *ret,
                    struct sf_error *err)
{
	const char *query = source + end; /* goes with the directory: it is asked of each file */
	size_t scheme = sf_url_scheme(source), root = scheme ? scheme + 4 : 1, dir = at;
	int r;

	/* as others name it: objects of one directory have one name in the cache */
	while (dir > root && source[dir - 1] == '/')
		dir--;
	r = dir ? asprintf(&ret->dir, "%.*s%s", (int)dir, source, query) : asprintf(&ret->dir, ".");

	if (r < 0)
		ret->dir = NULL;
	ret->name = strndup(source + at, end - at);
	if (!ret->dir || !ret->name)
		return sf_fail(err, -ENOMEM, "no memory");
	/* the store encodes names of a web server's files, and of file:// is a path */
	if ((is_web(source) || strncasecmp(source, "file:", 5) == 0) && !sf_url_decode(ret->name))
		return sf_fail(err, -EINVAL, "a %% is not followed by two hex digits");
	return 0;
}

static size_t end_of(const char *source)
{
	return is_web(source) ? strcspn(source, "?") : strlen(source);
}

/* What a server is asked for as a file, before it is taken for a directory. */
static bool is_called_a_file(const char *name)
{
	static const char *const ends[] = { ".pt",  ".pth",  ".bin",    ".ckpt", ".safetensors",
		                            ".tar", ".tgz",  ".tbz",    ".tbz2", ".txz",
		                            ".gz",  ".bz2",  ".xz",     ".lzma", ".zst",
		                            ".lz4", ".nemo", ".symlink" };

	for (size_t i = 0; i < SF_ARRAY_LEN(ends); i++)
		if (strlen(name) > strlen(ends[i]) && sf_has_suffix(name, ends[i]))
			return true;
	return false;
}

struct opening {
	struct sf_io *io;
	const struct sf_store_options *opt;
	struct sf_error *err;
	unsigned links; /* followed so far */
};

static int open_source(struct opening *o, const char *source, struct sf_store **ret);

/* What @inner has of @files is the store, called by @name below that. *inner is taken over. */
static int open_files(struct opening *o, struct sf_store **inner, const struct sf_objinfo *files,
                      size_t n, const char *name, struct sf_store **ret)
{
	struct inside_build b = { .inner = SF_STEAL(*inner), .opt = o->opt, .err = o->err };
	const char *dir = b.inner->source;
	SF_FREE char *shown = NULL;
	int r = 0;

	if (asprintf(&shown, "%s%s%s", dir, sf_has_suffix(dir, "/") ? "" : "/", name) < 0) {
		shown = NULL;
		r = inside_no_memory(&b);
	}
	if (r >= 0)
		r = inside_add_files(&b, files, n);
	if (r >= 0)
		r = inside_store_new(&b, shown, ret);
	inside_build_release(&b);
	return r;
}

/* ---- Composer's links in buckets ---- */

/* The text of a link as a SOURCE: in a bucket a key, else a name beside it. */
static char *link_target(const char *source, const char *dir, const char *text)
{
	const char *slash = strrchr(text, '/');
	char *to = NULL;
	size_t scheme = sf_url_scheme(source);
	int r;

	if (scheme && !is_web(source) && strncasecmp(source, "file", 4) != 0)
		r = asprintf(&to, "%.*s/%s", (int)(scheme + 3 + strcspn(source + scheme + 3, "/")),
		             source, text + strspn(text, "/"));
	else
		r = asprintf(&to, "%s/%s", dir, slash ? slash + 1 : text);
	return r < 0 ? NULL : to;
}

static int follow(struct opening *o, const char *source, const char *dir, struct sf_source *link,
                  struct sf_store **ret)
{
	SF_FREE uint8_t *text = NULL;
	SF_FREE char *to = NULL;
	uint64_t len;
	int r = sf_source_read_all(link, LINK_MAX, SF_FETCH_METADATA, &text, &len, o->err);

	if (r < 0)
		return r;
	while (len && strchr(" \n\r\t", text[len - 1]))
		text[--len] = '\0';
	if (!len || memchr(text, '\0', len) || memchr(text, '\n', len))
		return sf_fail(o->err, -EBADMSG, "'%s' is no link: it holds no name", link->name);
	if (++o->links > LINKS_MAX)
		return sf_fail(o->err, -ELOOP, "'%s': more than %d links lead to each other",
		               link->name, LINKS_MAX);
	to = link_target(source, dir, (const char *)text);
	return to ? open_source(o, to, ret) : sf_fail(o->err, -ENOMEM, "no memory");
}

/* ---- one file ---- */

/* The file NAME of *inner, or what NAME.symlink says. 1: neither is there. *inner may be taken. */
static int try_file(struct opening *o, const char *source, const struct split *s,
                    struct sf_store **inner, struct sf_store **ret)
{
	const struct sf_objinfo file = { .name = s->name, .size = UINT64_MAX };
	SF_CLEANUP(sf_source_unrefp) struct sf_source *src = NULL;
	struct sf_store *store = *inner;
	SF_FREE char *link = NULL;
	int r = store->ops->open(store, s->name, NULL, &src, o->err);

	if (r >= 0 && sf_has_suffix(s->name, ".symlink"))
		return follow(o, source, s->dir, src, ret);
	if (r >= 0)
		return open_files(o, inner, &file, 1, s->name, ret);
	if (r != -ENOENT)
		return r;
	if (asprintf(&link, "%s.symlink", s->name) < 0) {
		link = NULL;
		return sf_fail(o->err, -ENOMEM, "no memory");
	}
	r = store->ops->open(store, link, NULL, &src, NULL);
	return r == -ENOENT ? 1 : r < 0 ? r : follow(o, source, s->dir, src, ret);
}

static int open_file(struct opening *o, const char *source, size_t at, size_t end,
                     struct sf_store **ret)
{
	SF_CLEANUP(split_release) struct split s = { 0 };
	struct sf_store *inner = NULL;
	int r = split_at(source, at, end, &s, o->err);

	if (r >= 0)
		r = sf_store_open(o->io, s.dir, o->opt, &inner, o->err);
	if (r >= 0)
		r = try_file(o, source, &s, &inner, ret);
	sf_store_free(inner);
	return r;
}

static int open_template(struct opening *o, const char *source, size_t dir, struct sf_store **ret)
{
	SF_CLEANUP(split_release) struct split s = { 0 };
	SF_CLEANUP(sf_objinfos_release) struct sf_objinfos files = { 0 };
	SF_CLEANUP(sf_arena_release) struct sf_arena arena = { 0 };
	struct sf_store *inner = NULL;
	int r = split_at(source, dir ? dir + 1 : source[0] == '/', end_of(source), &s, o->err);

	if (r >= 0)
		r = sf_store_open(o->io, s.dir, o->opt, &inner, o->err);
	if (r >= 0)
		r = inside_match(inner, s.name, &arena, &files, o->err);
	if (r >= 0)
		r = open_files(o, &inner, files.at, files.n, s.name, ret);
	sf_store_free(inner);
	return r;
}

/* It is no directory of this machine, as o->err says with @code. */
static int open_local_file(struct opening *o, const char *source, size_t at, size_t end, int code,
                           struct sf_store **ret)
{
	struct sf_error why = SF_ERROR_INIT, *said = o->err;
	int r = code == -ENOTDIR ? sf_unread_source(source, o->err) : 0;

	if (r < 0)
		return r;
	o->err = &why;
	r = open_file(o, source, at, end, ret);
	o->err = said;
	if (r > 0 || (r < 0 && code == -ENOENT))
		return code; /* there is nothing: it was said */
	return r < 0 ? sf_fail(o->err, r, "%s", why.msg) : 0;
}

/* ---- any SOURCE ---- */

static int open_source(struct opening *o, const char *source, struct sf_store **ret)
{
	const bool local = !sf_url_scheme(source) || strncasecmp(source, "file:", 5) == 0;
	const size_t end = end_of(source), at = name_at(source, end);
	size_t dir;
	int r;

	if (inside_is_template(source, &dir) && !(local && access(source, F_OK) == 0))
		return open_template(o, source, dir, ret);
	if (!local && at && at < end) {
		SF_FREE char *name = strndup(source + at, end - at);
		r = name && is_called_a_file(name) ? open_file(o, source, at, end, ret) : 1;
		if (r <= 0)
			return r;
	}
	r = sf_store_open(o->io, source, o->opt, ret, o->err);
	if (!local || at == end || (r != -ENOTDIR && r != -ENOENT))
		return r;
	return open_local_file(o, source, at, end, r, ret);
}

int sf_inside_dir(const char *source, char **ret, struct sf_error *err)
{
	SF_CLEANUP(split_release) struct split s = { 0 };
	const size_t end = end_of(source), at = name_at(source, end);
	size_t dir;
	int r = 0;

	*ret = NULL;
	if (!sf_url_scheme(source) || strncasecmp(source, "file:", 5) == 0)
		return 0;
	if (inside_is_template(source, &dir))
		r = split_at(source, dir + 1, end, &s, err);
	else if (at && at < end) {
		r = split_at(source, at, end, &s, err);
		if (r >= 0 && !is_called_a_file(s.name))
			return 0;
	}
	*ret = r >= 0 ? SF_STEAL(s.dir) : NULL;
	return r;
}

int sf_inside_open(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                   struct sf_store **ret, struct sf_error *err)
{
	struct sf_error own = SF_ERROR_INIT;
	struct opening o = { .io = io, .opt = opt, .err = &own };
	SF_FREE char *shown = sf_url_shown(source);
	int r = open_source(&o, source, ret);

	if (r >= 0)
		return 0;
	/* who fails below knows only its name there */
	if (shown && own.msg[0] && strstr(own.msg, shown))
		return sf_fail(err, r, "%s", own.msg);
	return sf_fail(err, r, "'%s': %s", shown ? shown : "…", own.msg);
}
