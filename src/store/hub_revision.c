#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "store/hub_revision.h"

/* Git's: of SHA-1, or of SHA-256. */
static bool is_commit(const char *s, size_t len)
{
	return (len == 40 || len == 64) && strspn(s, "0123456789abcdef") >= len;
}

bool sf_hub_revision(const char *url, size_t *ret_at, size_t *ret_len)
{
	static const char resolve[] = "/resolve/";
	const char *host = strstr(url, "://"), *at;
	size_t len;

	at = host ? strchr(host + 3, '/') : NULL;
	at = at ? strstr(at, resolve) : NULL;
	if (!at)
		return false;
	at += strlen(resolve);
	len = strcspn(at, "/?");
	if (!len || is_commit(at, len))
		return false;
	*ret_at = (size_t)(at - url);
	*ret_len = len;
	return true;
}

char *sf_hub_at_commit(const char *url, const char *commit)
{
	size_t at, len;
	char *ret;

	if (!is_commit(commit, strlen(commit)) || !sf_hub_revision(url, &at, &len) ||
	    asprintf(&ret, "%.*s%s%s", (int)at, url, commit, url + at + len) < 0)
		return NULL;
	return ret;
}
