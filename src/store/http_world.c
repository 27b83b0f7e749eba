#include "config.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/mem.h"
#include "store/http_world.h"
#include "store/url.h"

static const char *env(const char *name)
{
	const char *v = getenv(name);

	return v && *v ? v : NULL;
}

const char *sf_http_ca_bundle(const char **ret_name)
{
	static const char *const names[] = { "CURL_CA_BUNDLE", "SSL_CERT_FILE",
		                             "REQUESTS_CA_BUNDLE" };

	for (size_t i = 0; i < SF_ARRAY_LEN(names); i++) {
		const char *v = env(names[i]);

		if (!v)
			continue;
		if (ret_name)
			*ret_name = names[i];
		return v;
	}
	return NULL;
}

/* HTTP_PROXY is not one of them: a CGI's client could set it. */
const char *sf_http_proxy(const char *url, char **ret_proxy)
{
	static const char *const of_http[] = { "http_proxy", "all_proxy", "ALL_PROXY", NULL };
	static const char *const of_https[] = { "https_proxy", "HTTPS_PROXY", "all_proxy",
		                                "ALL_PROXY", NULL };
	const char *const *name = strncasecmp(url, "https:", 6) == 0 ? of_https : of_http;

	for (; *name; name++) {
		const char *v = env(*name), *at;

		if (!v)
			continue;
		at = strrchr(v, '@');
		*ret_proxy = at ? strdup(at + 1) : strdup(v);
		return *name;
	}
	return NULL;
}

bool sf_http_is_of_proxy(const char *proxy, const char *msg)
{
	const char *host = proxy ? strstr(proxy, "://") : NULL, *at;
	size_t len;

	host = host ? host + 3 : proxy ? proxy : "";
	len = strcspn(host, ":/");
	at = strstr(msg, ": "); /* what is in front is the URL's own host */
	at = at ? at : msg;
	if (strstr(at, "CONNECT ") || strstr(at, "proxy"))
		return true;
	for (; len && *at; at++)
		if (strncmp(at, host, len) == 0)
			return true;
	return false;
}

void sf_http_hint(const char *url, bool no_proxy, int r, struct sf_error *err)
{
	SF_FREE char *proxy = NULL;
	const char *variable = no_proxy ? NULL : sf_http_proxy(url, &proxy);
	size_t len = strlen(err->msg);

	if (variable && sf_http_is_of_proxy(proxy, err->msg))
		snprintf(err->msg + len, sizeof(err->msg) - len, " (the proxy of %s)", variable);
	else if (r == -EKEYREJECTED)
		snprintf(err->msg + len, sizeof(err->msg) - len,
		         " (--ca-bundle FILE names whom to trust)");
}
