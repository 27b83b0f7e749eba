#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/near.h"
#include "base/path.h"
#include "store/hedge.h"
#include "store/cache.h"
#include "store/probe.h"
#include "store/source.h"
#include "store/store_file.h"
#include "store/store_gs.h"
#include "store/store_http.h"
#include "store/store_s3.h"
#include "store/url.h"

/* A directory, by file://. */
static int open_file_url(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                         struct sf_store **ret, struct sf_error *err)
{
	const char *at = source + 7;
	SF_FREE char *path = NULL;

	(void)opt;
	if (strncasecmp(at, "localhost/", 10) == 0)
		at += 9;
	if (*at != '/')
		return sf_fail(
			err, -EINVAL,
			"'%s': a file:// URL names an absolute path of this machine, file:///...",
			source);
	path = strdup(at);
	if (!path)
		return sf_fail(err, -ENOMEM, "'%s': no memory", source);
	if (!sf_url_decode(path))
		return sf_fail(err, -EINVAL, "'%s': a %% is not followed by two hex digits",
		               source);
	return sf_store_file(io, path, path, ret, err);
}

/* What stands before "://", and who opens it. */
static const struct {
	const char *scheme;
	int (*open)(struct sf_io *io, const char *source, const struct sf_store_options *opt,
	            struct sf_store **ret, struct sf_error *err);
} schemes[] = {
	{ "file", open_file_url },  { "gs", sf_store_gs }, { "http", sf_store_http },
	{ "https", sf_store_http }, { "s3", sf_store_s3 },
};

/* That of @source's scheme; their number: none. */
static size_t scheme_of(const char *source, size_t len)
{
	size_t i = 0;

	while (i < SF_ARRAY_LEN(schemes) && (strlen(schemes[i].scheme) != len ||
	                                     strncasecmp(schemes[i].scheme, source, len) != 0))
		i++;
	return i;
}

const char *sf_store_scheme(size_t i)
{
	return i < SF_ARRAY_LEN(schemes) ? schemes[i].scheme : NULL;
}

const char *sf_store_near_scheme(const char *source, size_t len)
{
	unsigned best = sf_edits_allowed(len) + 1;
	const char *near = NULL;

	for (size_t i = 0; i < SF_ARRAY_LEN(schemes); i++) {
		const char *s = schemes[i].scheme;
		unsigned n = sf_edits(source, len, s, strlen(s), best - 1);
		if (n < best) {
			best = n;
			near = s;
		}
	}
	return near;
}

int sf_store_open(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                  struct sf_store **ret, struct sf_error *err)
{
	size_t len = sf_url_scheme(source), i = len ? scheme_of(source, len) : 0;
	struct sf_store *s;
	int r;

	if (!len) {
		SF_FREE char *shown = sf_url_shown(source);
		r = sf_store_file(io, source, shown ? shown : "…", &s, err);
	} else if (i == SF_ARRAY_LEN(schemes))
		r = sf_fail(err, -ENOTSUP,
		            "%.*s:// sources are not supported by this version, only local "
		            "directories, http://, https://, s3:// and gs://",
		            (int)SF_MIN(len, (size_t)40), source);
	else
		r = schemes[i].open(io, source, opt, &s, err);
	if (r < 0)
		return r;
	s->opt = opt;
	if (s->far)
		r = sf_store_hedge(s, &s, err);
	if (r >= 0 && s->far)
		r = sf_store_keep(&s, opt, err);
	if (r < 0) {
		sf_store_free(s);
		return r;
	}
	*ret = s;
	return 0;
}

int sf_store_below(struct sf_store *s, const char *dir, struct sf_store **ret, struct sf_error *err)
{
	SF_FREE char *source = NULL;
	int r = sf_path_check(dir, strlen(dir), err);

	if (r < 0)
		return r;
	if (s->ops->below)
		return s->ops->below(s, dir, ret, err);
	const char *slash = *s->source && s->source[strlen(s->source) - 1] == '/' ? "" : "/";
	if (asprintf(&source, "%s%s%s", s->source, slash, dir) < 0)
		return sf_fail(err, -ENOMEM, "'%s': no memory", dir);
	return sf_store_open(s->io, source, s->opt, ret, err);
}

bool sf_store_probe(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                    const struct sf_probe *p)
{
	size_t len = sf_url_scheme(source), i = len ? scheme_of(source, len) : 0;
	struct sf_error err = SF_ERROR_INIT;
	struct sf_store *s;
	bool fine;

	/* what opens these says what is wrong */
	if (!len || i == SF_ARRAY_LEN(schemes) || schemes[i].open == open_file_url)
		return true;
	if (schemes[i].open(io, source, opt, &s, &err) < 0) {
		sf_probe_say(p, SF_PROBE_BAD, "source",
		             "man shardfuse has the forms of a SOURCE, and the options", "%s",
		             err.msg);
		return false;
	}
	s->opt = opt;
	fine = !s->ops->probe || s->ops->probe(s, p);
	sf_store_free(s);
	return fine;
}
