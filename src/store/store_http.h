/* A store that is a directory of a web server. */
#ifndef SF_STORE_STORE_HTTP_H
#define SF_STORE_STORE_HTTP_H

#include "store/store.h"

/*
 * sf_store_http - @source is http:// or https://; its objects are the URLs below.
 *
 * A web server does not list: names come from elsewhere (look). What was seen of an object first,
 * its size and ETag or Last-Modified, is its version for as long as the store lives.
 */
int sf_store_http(struct sf_io *io, const char *source, const struct sf_store_options *opt,
                  struct sf_store **ret, struct sf_error *err);

#endif
