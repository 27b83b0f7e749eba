/* A SOURCE that is a URL: its parts, and how it may be shown. */
#ifndef SF_STORE_URL_H
#define SF_STORE_URL_H

#include <stdbool.h>
#include <stddef.h>
#include "base/buf.h"
#include "base/error.h"

#define SF_URL_MAX 8192 /* bytes of a SOURCE that is a URL */

/* Bytes of "scheme" in front of "://"; 0: a path. */
size_t sf_url_scheme(const char *source);

struct sf_url {
	char *scheme; /* in lower case */
	char *user;   /* decoded; NULL: there is no userinfo */
	char *password;
	char *host; /* in lower case, a number of IPv6 in its []; of s3 and gs the bucket */
	char *port; /* digits; NULL */
	/*
	 * http, https: "" or "/a/b", percent-encoded, without a "/" at its end. s3, gs: the keys'
	 * beginning as it stands, byte for byte, without "/" at either end: a "%" is one.
	 */
	char *path;
	char *query; /* without its "?"; NULL: none */
	char *shown; /* without userinfo and query: the only thing to be told of it */
};
/*
 * sf_url_parse - takes a URL of http, https, s3 or gs apart.
 *
 * -EINVAL: no host, a port that is none, a "%" without two hex digits or that hides a NUL, a
 * fragment, a control character, userinfo, port or query of s3 and gs; -ENOTSUP another scheme;
 * -E2BIG. Messages show as much of it as may be shown. *ret is then empty.
 */
int sf_url_parse(const char *source, struct sf_url *ret, struct sf_error *err);
void sf_url_release(struct sf_url *u);

/* How any SOURCE may be shown, also one that is no good URL: paths as they are, but for those that were
 * meant as one ("http:/user:password@host"). NULL: no memory. */
char *sf_url_shown(const char *source);
/* A text in which URLs may stand, in quotes or between blanks, with each as it may be shown, but for
 * its query. As above. */
char *sf_url_scrub(const char *text);

/* Overwrites what may not be shown of a web server's URL, its userinfo and query, with '*', in place; of
 * any other text nothing. */
void sf_url_hide(char *source);
/* The userinfo of URLs that stand in a word behind something else (endpoint_url=http://u:p@h). */
void sf_url_hide_inside(char *word);

/* Appends @s as a part of a URL: what is neither letter, digit nor one of "-._~" as %XX, "/" too
 * unless @slash. It is what AWS signs, too. */
void sf_url_encode(struct sf_buf *out, const char *s, size_t len, bool slash);
/* %XX to bytes, in place; false: malformed, or it hides a NUL. */
bool sf_url_decode(char *s);
/* The same of *len bytes, which may hide NULs; with @plus, '+' is a blank, as forms have it. */
bool sf_url_decode_bytes(uint8_t *at, size_t *len, bool plus);

#endif
