#include "config.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "store/gs_place.h"
#include "store/url.h"

void sf_gs_place_release(struct sf_gs_place *p)
{
	free(p->base);
	free(p->shown);
	free(p->bucket);
	*p = (struct sf_gs_place){ .base = NULL };
}

/* Google's rules, and what old buckets and those of a domain's name have. */
static bool is_name(const char *bucket)
{
	size_t n = strlen(bucket);

	return n >= 3 && n <= 222 && strspn(bucket, ".") < n &&
	       strspn(bucket,
	              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

bool sf_gs_url_is_safe(const char *url)
{
	static const char *const hosts[] = { "localhost", "127.0.0.1", "[::1]" };
	const char *host = url + 7;

	if (strncasecmp(url, "https://", 8) == 0)
		return true;
	if (strncasecmp(url, "http://", 7) != 0)
		return false;
	for (size_t i = 0; i < SF_ARRAY_LEN(hosts); i++) {
		size_t n = strlen(hosts[i]);
		if (strncasecmp(host, hosts[i], n) != 0)
			continue;
		if (host[n] == ':') /* digits alone: no "localhost:x@elsewhere" */
			n += 1 + strspn(host + n + 1, "0123456789");
		if (!host[n] || strchr("/?#", host[n]))
			return true;
	}
	return false;
}

static int take_endpoint(struct sf_gs_place *p, const char *endpoint, struct sf_error *err)
{
	const char *scheme = strstr(endpoint, "://") ? "" : "http://";
	const char *host = *scheme ? endpoint : strstr(endpoint, "://") + 3;
	size_t n = strlen(endpoint), hostlen = strcspn(host, "/");

	while (n && endpoint[n - 1] == '/')
		n--;
	if (!*scheme && strncasecmp(endpoint, "http://", 7) != 0 &&
	    strncasecmp(endpoint, "https://", 8) != 0)
		return sf_fail(err, -EINVAL,
		               "the endpoint URL begins with neither http:// nor https://");
	if (!hostlen || strcspn(host, "@?# \t\r\n\\%\"<>") != strlen(host))
		return sf_fail(err, -EINVAL,
		               "the endpoint URL has no host, or userinfo, query or blanks");
	if (asprintf(&p->base, "%s%.*s", scheme, (int)SF_MIN(n, (size_t)4096), endpoint) < 0)
		p->base = NULL;
	p->shown = strndup(host, SF_MIN(hostlen, (size_t)200));
	return 0;
}

int sf_gs_place_init(struct sf_gs_place *p, const char *bucket, const char *endpoint,
                     struct sf_error *err)
{
	struct sf_gs_place to = { .base = NULL };
	int r = 0;

	if (!is_name(bucket))
		return sf_fail(err, -EINVAL, "'%.100s' is not the name of a bucket", bucket);
	if (*endpoint) {
		r = take_endpoint(&to, endpoint, err);
	} else {
		to.base = strdup("https://" SF_GS_HOST);
		to.shown = strdup("Google Cloud Storage");
	}
	to.bucket = strdup(bucket);
	if (r == 0 && (!to.base || !to.shown || !to.bucket))
		r = sf_fail(err, -ENOMEM, "no memory for a bucket");
	if (r < 0) {
		sf_gs_place_release(&to);
		return r;
	}
	to.safe = sf_gs_url_is_safe(to.base);
	*p = to;
	return 0;
}

void sf_gs_place_url_for(const struct sf_gs_place *p, bool upload, const char *key,
                         const char *verb, const char *query, struct sf_buf *url)
{
	sf_buf_printf(url, "%s%s/storage/v1/b/", p->base, upload ? "/upload" : "");
	sf_url_encode(url, p->bucket, strlen(p->bucket), false);
	sf_buf_str(url, "/o");
	if (key) {
		sf_buf_byte(url, '/');
		sf_url_encode(url, key, strlen(key), false);
	}
	sf_buf_printf(url, "%s%s%s", verb, *query ? "?" : "", query);
}

void sf_gs_place_url(const struct sf_gs_place *p, const char *key, const char *query,
                     struct sf_buf *url)
{
	sf_gs_place_url_for(p, false, key, "", query, url);
}
