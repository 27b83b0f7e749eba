#include "config.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "base/wipe.h"
#include "store/url.h"

size_t sf_url_scheme(const char *s)
{
	size_t n = 0;

	while (isalnum((unsigned char)s[n]) || s[n] == '+' || s[n] == '-' || s[n] == '.')
		n++;
	return n && strncmp(s + n, "://", 3) == 0 ? n : 0;
}

static int hex(char c)
{
	return c >= '0' && c <= '9'   ? c - '0'
	       : c >= 'a' && c <= 'f' ? c - 'a' + 10
	       : c >= 'A' && c <= 'F' ? c - 'A' + 10
	                              : -1;
}

bool sf_url_decode_bytes(uint8_t *at, size_t *len, bool plus)
{
	size_t to = 0;

	for (size_t i = 0; i < *len; i++) {
		if (at[i] != '%') {
			at[to++] = plus && at[i] == '+' ? ' ' : at[i];
			continue;
		}
		int hi = i + 2 < *len ? hex((char)at[i + 1]) : -1;
		int lo = hi < 0 ? -1 : hex((char)at[i + 2]);
		if (lo < 0)
			return false;
		at[to++] = (uint8_t)(hi << 4 | lo);
		i += 2;
	}
	*len = to;
	return true;
}

bool sf_url_decode(char *s)
{
	size_t len = strlen(s);

	if (!sf_url_decode_bytes((uint8_t *)s, &len, false) || memchr(s, '\0', len))
		return false;
	s[len] = '\0';
	return true;
}

void sf_url_encode(struct sf_buf *out, const char *s, size_t len, bool slash)
{
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)s[i];
		if ((c < 0x80 && isalnum(c)) || (c && strchr("-._~", c)) || (c == '/' && slash))
			sf_buf_byte(out, c);
		else
			sf_buf_printf(out, "%%%02X", c);
	}
}

/* The authority of a URL and what is behind it. */
struct parts {
	const char *authority, *at; /* @at: behind the userinfo, if any */
	size_t authority_len, host_len;
	const char *rest;
};

static struct parts split(const char *source, size_t scheme)
{
	struct parts p = { .authority = source + scheme + 3 };

	p.authority_len = strcspn(p.authority, "/?#");
	p.rest = p.authority + p.authority_len;
	p.at = p.authority;
	for (const char *c = p.authority; c < p.rest; c++)
		if (*c == '@')
			p.at = c + 1;
	p.host_len = (size_t)(p.rest - p.at);
	return p;
}

/* Digits behind the ":" of a host, or none: else it may be a password with a "/" in it. */
static bool good_port(const char *host, size_t len)
{
	const char *colon = memchr(host, ':', len);

	if (len && host[0] == '[') {
		const char *close = memchr(host, ']', len);
		colon = close && close + 1 < host + len ? close + 1 : NULL;
		if (!close || (colon && *colon != ':'))
			return false;
	}
	for (size_t i = colon ? (size_t)(colon - host) + 1 : len; i < len; i++)
		if (!isdigit((unsigned char)host[i]) || i - (size_t)(colon - host) > 5)
			return false;
	return true;
}

/* Is a bucket and a key what stands behind a scheme of @len bytes? */
static bool has_buckets(const char *scheme, size_t len)
{
	return len == 2 && (strncasecmp(scheme, "s3", 2) == 0 || strncasecmp(scheme, "gs", 2) == 0);
}

/* "word:" or "word//" before the first "/", and an "@" behind it: a URL that lacks a slash or a colon
 * is taken for a path. Where its userinfo begins; NULL: it is a path. */
static const char *lost_userinfo(const char *source)
{
	size_t n = strcspn(source, "/:");
	const char *at = source + n;

	if (!n || strcspn(source, "/@") < strcspn(source, ":/") || !strchr(at, '@'))
		return NULL;
	if (*at != ':' && strncmp(at, "//", 2) != 0)
		return NULL;
	return at + strspn(at, ":/\\");
}

static char *path_shown(const char *source)
{
	const char *from = lost_userinfo(source), *to = strrchr(source, '@');
	struct sf_buf b = { 0 };

	if (!from || to < from)
		return strdup(source);
	sf_buf_add(&b, source, (size_t)(from - source));
	sf_buf_str(&b, "…");
	sf_buf_str(&b, to);
	sf_buf_cstr(&b);
	if (sf_buf_check(&b) < 0) {
		sf_buf_release(&b);
		return NULL;
	}
	return (char *)b.at;
}

char *sf_url_shown(const char *source)
{
	size_t scheme = sf_url_scheme(source), path;
	struct sf_buf b = { 0 };
	struct parts p;
	bool object, file;

	if (!scheme)
		return path_shown(source);
	p = split(source, scheme);
	object = has_buckets(source, scheme);
	file = scheme == 4 && strncasecmp(source, "file", 4) == 0;
	sf_buf_add(&b, source, scheme + 3);
	if (!good_port(p.at, p.host_len) || (p.at == p.authority && strchr(p.rest, '@') &&
	                                     memchr(p.authority, ':', p.authority_len))) {
		sf_buf_str(&b, "…");
	} else {
		/* of keys and files "?" and "#" are characters as others */
		path = file || (object && *p.rest == '/') ? strlen(p.rest) : strcspn(p.rest, "?#");
		sf_buf_add(&b, p.at, p.host_len);
		sf_buf_add(&b, p.rest, path);
	}
	sf_buf_cstr(&b);
	if (sf_buf_check(&b) < 0) {
		sf_buf_release(&b);
		return NULL;
	}
	return (char *)b.at;
}

char *sf_url_scrub(const char *text)
{
	struct sf_buf b = { 0 };

	while (*text) {
		size_t n = strcspn(text, " '\"\n\t"), gap = strspn(text + n, " '\"\n\t");
		SF_FREE char *word = strndup(text, n);
		/* what stands in a sentence, "name:", is none: there is an "@" in those that hide */
		SF_FREE char *shown = word && strchr(word, '@') ? sf_url_shown(word) : NULL;

		sf_buf_str(&b, shown ? shown : word ? word : "…");
		sf_buf_add(&b, text + n, gap);
		text += n + gap;
	}
	sf_buf_extend(&b, 0); /* there, if empty */
	sf_buf_cstr(&b);
	if (sf_buf_check(&b) < 0) {
		sf_buf_release(&b);
		return NULL;
	}
	return (char *)b.at;
}

static void stars(char *from, size_t len)
{
	explicit_bzero(from, len);
	memset(from, '*', len);
}

void sf_url_hide(char *source)
{
	size_t scheme = sf_url_scheme(source);
	struct parts p;
	char *rest, *at;

	if ((scheme != 4 && scheme != 5) || strncasecmp(source, "https", scheme) != 0)
		return;
	p = split(source, scheme);
	rest = source + (p.rest - source);
	at = strrchr(source, '@'); /* a password may have a "/" in it */
	if (at && (p.at != p.authority || memchr(p.authority, ':', p.authority_len)))
		stars(source + scheme + 3, (size_t)(at - source) - scheme - 3);
	else if (p.at != p.authority)
		stars(source + scheme + 3, (size_t)(p.at - p.authority) - 1);
	rest += strcspn(rest, "?#");
	if (*rest)
		stars(rest + 1, strlen(rest + 1));
}

void sf_url_hide_inside(char *word)
{
	for (char *at = word; (at = strstr(at, "://")); at++) {
		char *from = at + 3;
		char *end = from + strcspn(from, "/,?#");
		char *userinfo = memrchr(from, '@', (size_t)(end - from));
		if (at > word && userinfo)
			stars(from, (size_t)(userinfo - from));
	}
}

void sf_url_release(struct sf_url *u)
{
	free(u->scheme);
	sf_wipe_free(u->user);
	sf_wipe_free(u->password);
	free(u->host);
	free(u->port);
	free(u->path);
	free(u->query);
	free(u->shown);
	*u = (struct sf_url){ 0 };
}

static char *lower(const char *s, size_t len)
{
	char *copy = strndup(s, len);

	for (char *c = copy; c && *c; c++)
		*c = (char)tolower((unsigned char)*c);
	return copy;
}

/* -ENOMEM without a message: the caller has one. */
static int take_userinfo(const struct parts *p, struct sf_url *u, struct sf_error *err)
{
	size_t len = (size_t)(p->at - p->authority);
	char *colon;

	if (!len)
		return 0;
	u->user = strndup(p->authority, len - 1);
	if (!u->user)
		return -ENOMEM;
	colon = strchr(u->user, ':');
	u->password = strdup(colon ? colon + 1 : "");
	if (!u->password)
		return -ENOMEM;
	if (colon) /* all of it: what is freed later ends here */
		explicit_bzero(colon, strlen(colon));
	if (!sf_url_decode(u->user) || !sf_url_decode(u->password))
		return sf_fail(err, -EINVAL,
		               "'%s': a %% of its user or password is not followed by two hex "
		               "digits",
		               u->shown);
	return 0;
}

static int take_host(const struct parts *p, struct sf_url *u, struct sf_error *err)
{
	const char *end = p->at + p->host_len, *colon = end;

	if (!good_port(p->at, p->host_len))
		return sf_fail(err, -EINVAL, "'%s': its port is not a number up to 65535",
		               u->shown);
	while (colon > p->at && isdigit((unsigned char)colon[-1]))
		colon--;
	if (colon > p->at && colon[-1] == ':') {
		u->port = strndup(colon, (size_t)(end - colon));
		if (!u->port)
			return -ENOMEM;
		if (*u->port && atol(u->port) > 65535)
			return sf_fail(err, -EINVAL, "'%s': its port is not a number up to 65535",
			               u->shown);
		if (!*u->port) { /* "host:" */
			free(u->port);
			u->port = NULL;
		}
		end = colon - 1;
	}
	if (end == p->at)
		return sf_fail(err, -EINVAL, "'%s': it has no host", u->shown);
	u->host = lower(p->at, (size_t)(end - p->at));
	if (!u->host)
		return -ENOMEM;
	if (u->host[strcspn(u->host, " \"'<>\\^`{|}%")])
		return sf_fail(err, -EINVAL, "'%s': its host has a character that no host name has",
		               u->shown);
	return 0;
}

/* As it is sent: what no URL has becomes %XX. */
static int take_path(const char *at, struct sf_url *u, struct sf_error *err)
{
	size_t len = strcspn(at, "?#");
	struct sf_buf b = { .limit = 3 * SF_URL_MAX };
	SF_FREE char *copy = strndup(at, len);

	if (!copy)
		return -ENOMEM;
	if (!sf_url_decode(copy))
		return sf_fail(err, -EINVAL,
		               "'%s': a %% is not followed by two hex digits, or is %%00",
		               u->shown);
	if (strchr(at, '#'))
		return sf_fail(err, -EINVAL, "'%s': write a # in a URL as %%23", u->shown);
	while (len && at[len - 1] == '/')
		len--;
	for (size_t i = 0; i < len; i++) {
		unsigned char c = (unsigned char)at[i];
		if (c <= ' ' || c >= 0x7f || strchr("\"<>\\^`{|}", c))
			sf_buf_printf(&b, "%%%02X", c);
		else
			sf_buf_byte(&b, c);
	}
	sf_buf_extend(&b, 0); /* there, if empty */
	sf_buf_cstr(&b);
	if (sf_buf_check(&b) < 0) {
		sf_buf_release(&b);
		return -ENOMEM;
	}
	u->path = (char *)b.at;
	at += strcspn(at, "?");
	if (*at == '?') {
		u->query = strdup(at + 1);
		if (!u->query)
			return -ENOMEM;
		if (strchr(u->query, ' '))
			return sf_fail(err, -EINVAL, "'%s': write a blank in its query as %%20",
			               u->shown);
	}
	return 0;
}

/* Buckets and keys: nothing is decoded, as the providers' own programs do not either. */
static int take_bucket(const struct parts *p, struct sf_url *u, struct sf_error *err)
{
	const char *at = p->rest;
	size_t len;

	if (p->at != p->authority)
		return sf_fail(err, -EINVAL,
		               "'%s': credentials do not go into a %s:// URL; put them into the "
		               "environment or a profile",
		               u->shown, u->scheme);
	len = strcspn(p->at, "/");
	if (!len)
		return sf_fail(err, -EINVAL, "'%s': it names no bucket", u->shown);
	if (p->at[strcspn(p->at, ":?#%/")] != '/' && p->at[strcspn(p->at, ":?#%/")])
		return sf_fail(err, -EINVAL, "'%s': the name of a bucket cannot contain '%c'",
		               u->shown, p->at[strcspn(p->at, ":?#%/")]);
	u->host = strndup(p->at, len);
	at = p->at + len;
	while (*at == '/')
		at++;
	for (len = strlen(at); len && at[len - 1] == '/'; len--)
		;
	u->path = strndup(at, len);
	return u->host && u->path ? 0 : -ENOMEM;
}

static int parse(const char *source, size_t scheme, struct sf_url *u, struct sf_error *err)
{
	const struct parts p = split(source, scheme);
	int r;

	for (const char *c = source; *c; c++)
		if ((unsigned char)*c < ' ' || *c == 0x7f)
			return sf_fail(err, -EINVAL, "'%s': it has a control character, 0x%02x",
			               u->shown, *c);
	if (has_buckets(u->scheme, strlen(u->scheme)))
		return take_bucket(&p, u, err);
	if (strcmp(u->scheme, "http") != 0 && strcmp(u->scheme, "https") != 0)
		return sf_fail(err, -ENOTSUP, "'%s': %s:// is not supported", u->shown, u->scheme);
	r = take_userinfo(&p, u, err);
	if (r >= 0)
		r = take_host(&p, u, err);
	if (r >= 0)
		r = take_path(p.rest, u, err);
	return r;
}

int sf_url_parse(const char *source, struct sf_url *ret, struct sf_error *err)
{
	size_t scheme = sf_url_scheme(source);
	struct sf_url u = { 0 };
	struct sf_error why = SF_ERROR_INIT;
	int r;

	if (strlen(source) > SF_URL_MAX)
		return sf_fail(err, -E2BIG, "a URL of %zu bytes, the limit is %d", strlen(source),
		               SF_URL_MAX);
	u.shown = sf_url_shown(source);
	u.scheme = lower(source, scheme);
	if (!u.shown || !u.scheme)
		r = -ENOMEM;
	else if (!scheme)
		r = sf_fail(&why, -EINVAL, "'%s' is not a URL", u.shown);
	else
		r = parse(source, scheme, &u, &why);
	if (r < 0) {
		sf_fail(err, r, "%s", why.msg[0] ? why.msg : "no memory for a URL");
		sf_url_release(&u);
		return r;
	}
	*ret = u;
	return 0;
}
