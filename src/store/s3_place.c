#include "config.h"

#include <string.h>

#include "base/mem.h"
#include "store/aws_setup.h"
#include "store/s3_place.h"
#include "store/url.h"

void sf_s3_place_release(struct sf_s3_place *p)
{
	free(p->bucket);
	free(p->host);
	free(p->path);
	*p = (struct sf_s3_place){ .bucket = NULL };
}

static bool is_name(const char *bucket)
{
	size_t n = strlen(bucket);

	if (!n || n > 255 || strspn(bucket, ".") == n)
		return false;
	return strspn(bucket,
	              "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789._-") == n;
}

/* May it be the first part of a host's name? A dot in it is more than a wildcard certificate is for. */
static bool is_host_part(const char *bucket)
{
	size_t n = strlen(bucket);

	return n >= 3 && n <= 63 && *bucket != '-' && bucket[n - 1] != '-' &&
	       strspn(bucket, "abcdefghijklmnopqrstuvwxyz0123456789-") == n;
}

static int take_endpoint(struct sf_s3_place *p, const char *endpoint, struct sf_error *err)
{
	const char *host, *path;
	size_t n;

	p->https = strncasecmp(endpoint, "https://", 8) == 0;
	if (!p->https && strncasecmp(endpoint, "http://", 7) != 0)
		return sf_fail(err, -EINVAL,
		               "the endpoint URL begins with neither http:// nor https://");
	host = endpoint + (p->https ? 8 : 7);
	n = strcspn(host, "/");
	path = host + n;
	if (!n || strcspn(host, "@?# \t\r\n\\%") != strlen(host))
		return sf_fail(err, -EINVAL,
		               "the endpoint URL has no host, or userinfo, query or blanks");
	/* the transport does not send the scheme's own port, and what it sends is signed */
	const char *own = p->https ? ":443" : ":80";
	size_t m = strlen(own);
	if (n > m && memcmp(host + n - m, own, m) == 0)
		n -= m;
	p->host = strndup(host, n);
	m = strlen(path);
	while (m && path[m - 1] == '/')
		m--;
	p->path = strndup(path, m);
	return p->host && p->path ? 0 : sf_fail(err, -ENOMEM, "no memory for an endpoint");
}

int sf_s3_place_init(struct sf_s3_place *p, const char *bucket, const char *endpoint,
                     const char *addressing, struct sf_error *err)
{
	struct sf_s3_place to = { .https = true };
	size_t n = strlen(bucket);
	int r = 0;

	if (strchr(bucket, ':'))
		return sf_fail(err, -ENOTSUP,
		               "'%.100s': access points (ARNs) are not supported, only "
		               "the names of buckets",
		               bucket);
	if (!is_name(bucket))
		return sf_fail(err, -EINVAL, "'%.100s' is not the name of a bucket", bucket);
	if (n > 6 && strcmp(bucket + n - 6, "--x-s3") == 0)
		return sf_fail(err, -ENOTSUP,
		               "'%.100s': directory buckets (S3 Express) are not supported",
		               bucket);
	if (addressing && strcmp(addressing, "auto") != 0 && strcmp(addressing, "path") != 0 &&
	    strcmp(addressing, "virtual") != 0)
		return sf_fail(err, -EINVAL, "addressing '%.40s' is neither path, virtual nor auto",
		               addressing);
	if (*endpoint)
		r = take_endpoint(&to, endpoint, err);
	if (addressing && strcmp(addressing, "auto") != 0)
		to.by_path = strcmp(addressing, "path") == 0;
	else
		to.by_path = *endpoint || !is_host_part(bucket);
	to.bucket = strdup(bucket);
	if (r == 0 && !to.bucket)
		r = sf_fail(err, -ENOMEM, "no memory for a bucket");
	if (r < 0)
		sf_s3_place_release(&to);
	else
		*p = to;
	return r;
}

void sf_s3_place_request(const struct sf_s3_place *p, const char *region, const char *key,
                         const char *query, struct sf_buf *host, struct sf_buf *path,
                         struct sf_buf *url)
{
	if (!p->by_path)
		sf_buf_printf(host, "%s.", p->bucket);
	if (p->host)
		sf_buf_str(host, p->host);
	else
		sf_buf_printf(host, "s3.%s.%s", region, sf_aws_domain(region));
	if (p->path)
		sf_buf_str(path, p->path);
	if (p->by_path)
		sf_buf_printf(path, "/%s", p->bucket);
	if (key || !p->by_path)
		sf_buf_byte(path, '/');
	if (key)
		sf_url_encode(path, key, strlen(key), true);
	sf_buf_printf(url, "http%s://%s%s%s%s", p->https ? "s" : "", sf_buf_cstr(host),
	              sf_buf_cstr(path), *query ? "?" : "", query);
	sf_buf_fail(url, sf_buf_check(host));
	sf_buf_fail(url, sf_buf_check(path));
}
