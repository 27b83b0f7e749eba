/* What a user's variables say of talking to servers: whom to trust, and through whom to go. */
#ifndef SF_STORE_HTTP_WORLD_H
#define SF_STORE_HTTP_WORLD_H

#include <stdbool.h>
#include <stddef.h>
#include "base/error.h"

/* A file of certificates that curl, OpenSSL or Python's requests are told of: CURL_CA_BUNDLE,
 * SSL_CERT_FILE, REQUESTS_CA_BUNDLE, the first that is set and not empty. The environment's; NULL:
 * none, the system's hold. *ret_name (may be NULL): which it was. */
const char *sf_http_ca_bundle(const char **ret_name);

/* The variable that names a proxy for this URL, as libcurl looks for it; NULL: none. *ret_proxy is
 * malloc'ed, without userinfo; NULL: no memory. What no_proxy excepts is not looked at. */
const char *sf_http_proxy(const char *url, char **ret_proxy);
/* Does a message "URL: what libcurl says" tell of that proxy: does it name it, or the tunnel through
 * it? */
bool sf_http_is_of_proxy(const char *proxy, const char *msg);
/* Puts behind such a message, of failure @r, what a user may look at first. */
void sf_http_hint(const char *url, bool no_proxy, int r, struct sf_error *err);

#endif
