/* Where Google Cloud Storage is asked for a bucket. Pure. */
#ifndef SF_STORE_GS_PLACE_H
#define SF_STORE_GS_PLACE_H

#include <stdbool.h>
#include "base/buf.h"
#include "base/error.h"

#define SF_GS_HOST "storage.googleapis.com"

struct sf_gs_place {
	char *base;  /* "https://storage.googleapis.com" */
	char *shown; /* its host, for messages */
	char *bucket;
	bool safe; /* https, or this machine: a token may be sent there */
};

/*
 * sf_gs_place_init - for a bucket; @endpoint "" is Google's own, else a URL; without a scheme it is
 * http, as STORAGE_EMULATOR_HOST has it.
 *
 * -EINVAL: no such bucket or endpoint (a host, no userinfo, query); -ENOMEM.
 */
int sf_gs_place_init(struct sf_gs_place *p, const char *bucket, const char *endpoint,
                     struct sf_error *err);
void sf_gs_place_release(struct sf_gs_place *p);

/* Appends the URL of object @key (NULL: the bucket's list of objects) with @query behind it, which is
 * coded. Failures stick there. */
void sf_gs_place_url(const struct sf_gs_place *p, const char *key, const char *query,
                     struct sf_buf *url);

/* The same of what is done to it (@verb "/compose"; "": nothing more), or, with @upload and without a key, of
 * objects that are uploaded. */
void sf_gs_place_url_for(const struct sf_gs_place *p, bool upload, const char *key,
                         const char *verb, const char *query, struct sf_buf *url);

/* https, or http to this machine itself. */
bool sf_gs_url_is_safe(const char *url);

#endif
