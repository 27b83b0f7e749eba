/* What a user's variables say of talking to servers: whom to trust, and through whom to go. */
#ifndef SF_STORE_HTTP_WORLD_H
#define SF_STORE_HTTP_WORLD_H

#include <stddef.h>

/* A file of certificates that curl, OpenSSL or Python's requests are told of: CURL_CA_BUNDLE,
 * SSL_CERT_FILE, REQUESTS_CA_BUNDLE, the first that is set and not empty. The environment's; NULL:
 * none, the system's hold. *ret_name (may be NULL): which it was. */
const char *sf_http_ca_bundle(const char **ret_name);

/* The variable that names a proxy for this URL, as libcurl looks for it; NULL: none. *ret_proxy is
 * malloc'ed, without userinfo; NULL: no memory. What no_proxy excepts is not looked at. */
const char *sf_http_proxy(const char *url, char **ret_proxy);

#endif
