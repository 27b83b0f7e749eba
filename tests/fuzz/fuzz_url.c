#include "config.h"

#include <stdlib.h>

#include "base/mem.h"
#include "store/http_range.h"
#include "store/http_retry.h"
#include "store/url.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static bool is_sent(const char *s)
{
	for (; s && *s; s++)
		if ((unsigned char)*s <= ' ' || (unsigned char)*s >= 0x7f)
			return false;
	return true;
}

/* What stands between "://" and the "@" that ends it, of a URL that is good, is not shown. */
static void look_at(const struct sf_url *u)
{
	const char *at = strstr(u->shown, "://");

	if (!u->host || !*u->host || !u->path || !at || strchr(u->host, '/'))
		abort();
	if (strncmp(u->scheme, "http", 4) != 0) {
		if (u->user || u->port || u->query)
			abort();
		return;
	}
	at += 3;
	if (memchr(at, '@', strcspn(at, "/")) || strchr(at, '?'))
		abort();
	if (!is_sent(u->path) || (*u->path && *u->path != '/'))
		abort();
	if (u->port && (atoi(u->port) > 65535 || strspn(u->port, "0123456789") != strlen(u->port)))
		abort();
}

/* Any text as a SOURCE, and as what a server says in its headers. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct sf_error err = SF_ERROR_INIT;
	SF_FREE char *text = strndup((const char *)data, size);
	SF_FREE char *shown = NULL;
	struct sf_url u = { 0 };
	uint64_t first, last, total;
	int r;

	if (!text)
		return 0;
	r = sf_url_parse(text, &u, &err);
	if ((r < 0) != (err.msg[0] != '\0'))
		abort();
	if (r == 0)
		look_at(&u);
	else if (u.scheme || u.shown)
		abort();
	sf_url_release(&u);
	shown = sf_url_shown(text);
	if (!shown)
		abort();
	if (sf_content_range((const char *)data, size, &first, &last, &total) == 0 && first > last)
		abort();
	if (sf_http_retry_after_ms((const char *)data, size, 1000000000) < -1)
		abort();
	return 0;
}
