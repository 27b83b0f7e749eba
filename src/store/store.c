#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "base/mem.h"
#include "store/source.h"
#include "store/store_file.h"

/* %XX of a file:// URL, in place; false when it is malformed or hides a NUL. */
static bool percent_decode(char *s)
{
	char *to = s;

	for (; *s; s++) {
		if (*s != '%') {
			*to++ = *s;
			continue;
		}
		if (!isxdigit((unsigned char)s[1]) || !isxdigit((unsigned char)s[2]))
			return false;
		char hex[3] = { s[1], s[2], 0 };
		*to = (char)strtol(hex, NULL, 16);
		if (!*to++)
			return false;
		s += 2;
	}
	*to = '\0';
	return true;
}

/* "scheme" of scheme://, as a length; 0 without one. */
static size_t scheme_len(const char *s)
{
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || s[n] == '+' || s[n] == '-' || s[n] == '.')
		n++;
	return n && strncmp(s + n, "://", 3) == 0 ? n : 0;
}

int sf_store_open(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                  struct sf_store **ret, struct sf_error *err)
{
	size_t scheme = scheme_len(source);
	SF_FREE char *path = NULL;
	int r;

	if (!scheme) {
		r = sf_store_file(io, source, source, ret, err);
		if (r >= 0)
			(*ret)->opt = opt;
		return r;
	}
	if (scheme != 4 || strncasecmp(source, "file", 4) != 0)
		return sf_fail(
			err, -ENOTSUP,
			"%.*s:// sources are not supported by this version, only local directories",
			(int)scheme, source);
	const char *at = source + 7;
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
	if (!percent_decode(path))
		return sf_fail(err, -EINVAL, "'%s': a %% is not followed by two hex digits",
		               source);
	r = sf_store_file(io, path, path, ret, err);
	if (r >= 0)
		(*ret)->opt = opt;
	return r;
}

void sf_store_free(struct sf_store *s)
{
	if (s)
		s->ops->free(s);
}

int sf_store_exists(struct sf_store *s, const char *name, struct sf_error *err)
{
	struct sf_source *src;
	struct sf_error why = SF_ERROR_INIT;
	int r = s->ops->open(s, name, NULL, &src, &why);

	if (r >= 0) {
		sf_source_unref(src);
		return 1;
	}
	if (r == -ENOENT || r == -ENOTDIR || r == -EBADMSG)
		return 0; /* missing, or there as something that is no plain file */
	return sf_fail(err, r, "%s", why.msg);
}
