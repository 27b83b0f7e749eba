/* Bytes as text in headers and tokens. */
#ifndef SF_STORE_HTTP_BASIC_H
#define SF_STORE_HTTP_BASIC_H

#include <stdbool.h>
#include "base/buf.h"

/* Appends in base 64: with the letters for URLs and without padding, or as MIME has it. */
void sf_base64(struct sf_buf *to, const void *at, size_t len, bool url);
/* "Authorization: Basic …", malloc'ed, to be wiped; no part of it stays in other memory. NULL: no
 * memory. */
char *sf_http_basic(const char *user, const char *password);

#endif
